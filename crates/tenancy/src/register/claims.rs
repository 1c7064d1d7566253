//! Whose an e-mail address is.
//!
//! An address is claimed by making a ConfigMap that is named for its digest: of two who claim at once, the cluster lets
//! one. A claim counts while its account has the address, and for a minute after it was made, in which the account
//! is being made or changed; then it is left over from a crash, and the next may take it.

use domain::fields::Email;
use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, User, marks};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::directory::Account;
use crate::secrets::{is_code, writing};
use crate::tokens::hex;

/// How long a claim counts by itself.
pub(crate) const ALONE: SignedDuration = SignedDuration::from_mins(1);
pub(crate) const PREFIX: &str = "email-";
/// How often an address may be given up and claimed while one claims it.
const RACES: usize = 10;

/// Who claims an address, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    /// The name of the User object.
    pub account: String,
    pub user: UserId,
    pub at: Timestamp,
}

/// The name of the ConfigMap that claims an address.
pub(crate) fn name(email: &Email) -> String {
    format!("{PREFIX}{}", &hex(&Sha256::digest(email.as_str().as_bytes()))[..40])
}

impl Claim {
    /// `None` where it does not say what it must: then it holds nothing.
    pub fn of(map: &ConfigMap) -> Option<Self> {
        let field = |key: &str| map.data.as_ref()?.get(key);
        Some(Self {
            account: field("account")?.clone(),
            user: field("user")?.parse().ok()?,
            at: field("at")?.parse().ok()?,
        })
    }

    pub fn to_map(&self, email: &Email, version: Option<String>) -> ConfigMap {
        let labels = [(marks::USER, self.user.as_str()), (marks::MANAGED_BY, FIELD_MANAGER)];
        let data =
            [("account", self.account.clone()), ("user", self.user.to_string()), ("at", self.at.to_string())];
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(name(email)),
                namespace: Some(SYSTEM_NAMESPACE.to_owned()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ConfigMap::default()
        }
    }

    /// Whether the claim, made by the ConfigMap `name`, still counts; `holder` is the User object that it names, if any.
    pub fn counts(&self, name: &str, holder: Option<&User>, now: Timestamp) -> bool {
        let has_it = |user: &User| {
            Account::of(user).is_some_and(|account| account.id == self.user)
                && Email::parse(&user.spec.email).is_ok_and(|email| self::name(&email) == name)
        };
        holder.is_some_and(has_it) || now.duration_since(self.at) < ALONE
    }
}

/// The ConfigMaps of the system's namespace.
pub(crate) fn maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

/// Claims an address, or takes over a claim that no longer counts. Returns what was written, to be given back by [`release`].
pub(crate) async fn claim(client: kube::Client, email: &Email, claim: &Claim) -> Result<ConfigMap, Error> {
    let maps = maps(client.clone());
    let users: Api<User> = Api::all(client);
    for _ in 0..RACES {
        match maps.create(&writing(), &claim.to_map(email, None)).await {
            Err(taken) if is_code(&taken, 409) => {}
            made => return Ok(made?),
        }
        let Some(before) = maps.get_opt(&name(email)).await? else { continue };
        if let Some(other) = Claim::of(&before)
            && other.user != claim.user
            && other.counts(&name(email), users.get_opt(&other.account).await?.as_ref(), claim.at)
        {
            return Err(Error::AccountExists);
        }
        let taken_over = claim.to_map(email, before.resource_version());
        return match maps.replace(&name(email), &writing(), &taken_over).await {
            Err(lost) if is_code(&lost, 409) => Err(Error::AccountExists),
            Err(gone) if is_code(&gone, 404) => continue,
            written => Ok(written?),
        };
    }
    Err(Error::Changed("who has this e-mail address".to_owned()))
}

/// Gives a claim back, if it is still as it was written.
pub(crate) async fn release(client: kube::Client, claimed: &ConfigMap) -> Result<(), kube::Error> {
    match maps(client).delete(&claimed.name_any(), &only(&claimed.metadata)).await {
        Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

/// To delete exactly this object, in whichever version.
pub(crate) fn only_uid(seen: &ObjectMeta) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid: seen.uid.clone(), resource_version: None })
}

/// To delete exactly this object, as it was seen.
pub(crate) fn only(seen: &ObjectMeta) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
        }),
        ..DeleteParams::default()
    }
}
