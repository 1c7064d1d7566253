//! The cached parts of User objects.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Arc;

use domain::fields::{Email, Phone};
use domain::ids::UserId;
use domain::roles::PlatformRole;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube_types::conditions::is_condition_true;
use kube_types::user::{JoinedNode, conditions};
use kube_types::{User, well_known};

/// The cached part of a User: its account, if it has an id.
pub(crate) struct UserEntry {
    /// The name of the object.
    pub name: Box<str>,
    pub account: Option<Arc<Account>>,
}

impl UserEntry {
    pub fn from_user(user: &User) -> Self {
        Self { name: user.name_any().into(), account: Account::from_user(user).map(Arc::new) }
    }

    /// Whether the User has this id, or is about to get it.
    pub fn has_id(&self, id: &UserId) -> bool {
        self.account.as_ref().is_some_and(|account| account.id == *id)
    }
}

/// The account of a user: the User object without unused fields.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself, as the object has it")]
pub struct Account {
    pub id: UserId,
    /// The name of the User object.
    pub name: String,
    pub uid: String,
    /// The `resourceVersion`.
    pub version: String,
    pub email: String,
    pub phone: String,
    pub organization: String,
    /// A login name. Only the first administrator has one.
    pub login: Option<String>,
    pub namespace: String,
    pub platform_roles: BTreeSet<PlatformRole>,
    pub is_disabled: bool,
    /// The object is being deleted.
    pub is_deleting: bool,
    pub is_ready: bool,
    /// The value in the status. Call [`Account::is_expired`] instead of reading it.
    pub is_expired_in_status: bool,
    pub expires: Option<Timestamp>,
    pub effective_since: Option<Timestamp>,
    pub valid_days: i64,
    pub max_nodes: i64,
    pub nodes: i64,
    /// Nodes that were granted to the account, including nodes that have not reported yet.
    pub joined: Vec<JoinedNode>,
    pub created: Timestamp,
    /// Whether the id is in the status, or only in the annotation of a new account.
    pub(super) has_assigned_id: bool,
}

impl Account {
    /// `None` if the object has no id yet.
    pub fn from_user(user: &User) -> Option<Self> {
        let status = user.status.as_ref();
        let settled = status.and_then(|status| status.tenant_id.parse::<UserId>().ok());
        let announced = || user.annotations().get(well_known::TENANT_ID).and_then(|id| id.parse().ok());
        let time = |time: &Option<Time>| time.as_ref().map(|time| time.0);
        Some(Self {
            has_assigned_id: settled.is_some(),
            id: settled.or_else(announced)?,
            name: user.name_any(),
            uid: user.uid().unwrap_or_default(),
            version: user.resource_version().unwrap_or_default(),
            email: user.spec.email.clone(),
            phone: user.spec.mobilephone.clone(),
            organization: user.spec.organization.clone(),
            login: user.labels().get(well_known::LOGIN).cloned(),
            namespace: user.spec.namespace.clone(),
            // Unknown roles are ignored.
            platform_roles: user
                .spec
                .platform_roles
                .iter()
                .filter_map(|role| PlatformRole::from_str(role).ok())
                .collect(),
            is_disabled: user.spec.disabled,
            is_deleting: user.metadata.deletion_timestamp.is_some(),
            is_ready: status.is_some_and(|status| is_condition_true(&status.conditions, conditions::READY)),
            is_expired_in_status: status.is_some_and(|status| status.expired),
            expires: status.and_then(|status| time(&status.expire_time)),
            effective_since: status.and_then(|status| time(&status.effective_time)),
            valid_days: user.spec.valid_period,
            max_nodes: user.spec.max_node_num,
            nodes: status.map_or(0, |status| status.node_num),
            joined: status.map_or_else(Vec::new, |status| status.joined.clone()),
            created: time(&user.metadata.creation_timestamp).unwrap_or(Timestamp::UNIX_EPOCH),
        })
    }

    /// Whether the account has expired, by its status or by the clock.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.is_expired_in_status || self.expires.is_some_and(|expires| expires <= now)
    }

    /// Whether the account can be used.
    pub fn is_open(&self, now: Timestamp) -> bool {
        !self.is_disabled && !self.is_deleting && !self.is_expired(now)
    }

    /// All names that this account can sign in with.
    fn login_names(&self) -> impl Iterator<Item = String> {
        [self.id.to_string(), self.name.clone()].into_iter().chain(self.custom_login_names())
    }

    /// The login names other than id and object name.
    pub(super) fn custom_login_names(&self) -> impl Iterator<Item = String> {
        let chosen = [self.login.clone(), normalize_contact(&self.email), normalize_contact(&self.phone)];
        chosen.into_iter().flatten().collect::<BTreeSet<_>>().into_iter()
    }

    /// The account in `accounts` that `login` names.
    pub(crate) fn find_by_login<'a>(accounts: &'a [Self], login: &str) -> Option<&'a Self> {
        let wanted = normalize_login(login);
        accounts
            .iter()
            .filter(|account| account.login_names().any(|own| own == wanted))
            .min_by_key(|account| account.precedence())
    }

    /// The precedence of accounts that claim the same name: assigned ids first, then the older object.
    pub(super) fn precedence(&self) -> (bool, Timestamp, &str) {
        (!self.has_assigned_id, self.created, &self.name)
    }
}

/// Normalises a contact address. `None` if it is empty.
fn normalize_contact(text: &str) -> Option<String> {
    if text.is_empty() { None } else { Some(normalize_login(text)) }
}

/// Normalises an e-mail address or phone number. Trims anything else.
pub(crate) fn normalize_login(login: &str) -> String {
    match (Email::parse(login), Phone::parse(login)) {
        (Ok(email), _) => email.as_str().to_owned(),
        (_, Ok(phone)) => phone.as_str().to_owned(),
        _ => login.trim().to_owned(),
    }
}
