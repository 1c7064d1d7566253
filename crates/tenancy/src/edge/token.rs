//! Join tokens: Kubernetes bootstrap tokens that belong to an account.
//!
//! A token is stored only in its own Secret and expires within a day and with the account. It is not one of kubeadm's: its holder may
//! request a certificate, and the platform decides on approval ([`super::ruling`]).

use std::collections::BTreeMap;
use std::fmt;

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::ObjectMeta;
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, marks};

use crate::secrets::{random, text};

/// The namespace in which Kubernetes looks for bootstrap tokens.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of all clients with such a token. It may request certificates and read the cluster information for joining.
pub(crate) const JOINERS: &str = "system:bootstrappers:openyurt:tenants";
/// The prefix of the user name that Kubernetes gives a token.
const USER: &str = "system:bootstrap:";
/// The annotation with the pool that machines join by this token.
const POOL: &str = "longshore.dev/pool";
/// The annotation with the names of the nodes that this token has admitted.
const LET_IN: &str = "longshore.dev/let-in";

/// The longest lifetime of a token.
const LONGEST: SignedDuration = SignedDuration::from_hours(24);
/// A token with less time left is not issued again, unless the account ends sooner.
const NEARLY: SignedDuration = SignedDuration::from_hours(1);

/// A join token of an account.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct JoinToken {
    pub id: String,
    secret: String,
    pub owner: UserId,
    pub expires: Timestamp,
    pub pool: Option<String>,
    /// The admitted node names. Each name is admitted once.
    pub let_in: Vec<String>,
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("id", &self.id).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The group of the account's join tokens.
pub(crate) fn group(owner: &UserId) -> String {
    format!("system:bootstrappers:openyurt:tenant:{owner}")
}

/// The id of the token that a Kubernetes user authenticated with.
pub(crate) fn id_of(user: &str) -> Option<&str> {
    user.strip_prefix(USER).filter(|id| is_word(id, 6))
}

pub(crate) fn api(client: kube::Client) -> Api<Secret> {
    Api::namespaced(client, NAMESPACE)
}

impl JoinToken {
    /// Generates a token. It expires with the account, and within a day.
    pub fn mint(owner: &UserId, end: Option<Timestamp>, pool: Option<&str>, now: Timestamp) -> Self {
        let longest = now + LONGEST;
        Self {
            id: word::<6>(),
            secret: word::<16>(),
            owner: owner.clone(),
            expires: end.map_or(longest, |end| end.min(longest)),
            pool: pool.map(str::to_owned),
            let_in: Vec::new(),
        }
    }

    /// The text of the token.
    pub fn words(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The user name that Kubernetes gives the token.
    pub fn user(&self) -> String {
        format!("{USER}{}", self.id)
    }

    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.id)
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    /// Whether the token has admitted this node name.
    pub fn has_let_in(&self, node: &str) -> bool {
        self.let_in.iter().any(|name| name == node)
    }

    /// Whether the token can be issued (again): for this pool, with enough time left, and with fewer than `most` nodes admitted.
    pub fn serves(&self, pool: Option<&str>, end: Option<Timestamp>, most: i64, now: Timestamp) -> bool {
        let longest = end.map_or(now + LONGEST, |end| end.min(now + LONGEST));
        let lasts = self.expires >= now + NEARLY || self.expires >= longest;
        let used = i64::try_from(self.let_in.len()).unwrap_or(i64::MAX);
        self.pool.as_deref() == pool && !self.is_expired(now) && lasts && used < most.max(1)
    }

    pub fn to_secret(&self) -> Secret {
        let labels = [(marks::TENANT, self.owner.as_str()), (marks::MANAGED_BY, FIELD_MANAGER)];
        let data = [
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.clone()),
            ("expiration", self.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("usage-bootstrap-signing", "true".to_owned()),
            ("auth-extra-groups", format!("{JOINERS},{}", group(&self.owner))),
            ("description", format!("Lets machines join as nodes of {}.", self.owner)),
        ];
        let mut annotations = BTreeMap::new();
        annotations.extend(self.pool.clone().map(|pool| (POOL.to_owned(), pool)));
        if !self.let_in.is_empty() {
            annotations.insert(LET_IN.to_owned(), self.let_in.join(" "));
        }
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Secret {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: Some(NAMESPACE.to_owned()),
                labels: Some(labels.map(owned).into()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            type_: Some(TYPE.to_owned()),
            string_data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
            ..Secret::default()
        }
    }

    /// Parses a Secret. `None` for other bootstrap tokens and incomplete Secrets.
    pub fn of(secret: &Secret) -> Option<Self> {
        let name = secret.metadata.name.as_deref()?;
        let (id, value) = (text(secret, "token-id")?, text(secret, "token-secret")?);
        let owner: UserId = secret.labels().get(marks::TENANT)?.parse().ok()?;
        let groups = format!("{JOINERS},{}", group(&owner));
        let ours = secret.type_.as_deref() == Some(TYPE)
            && name.strip_prefix(PREFIX) == Some(id)
            && text(secret, "auth-extra-groups") == Some(&groups);
        let annotation = |key: &str| secret.annotations().get(key);
        (ours && is_word(id, 6) && is_word(value, 16)).then_some(())?;
        Some(Self {
            id: id.to_owned(),
            secret: value.to_owned(),
            owner,
            expires: text(secret, "expiration")?.parse().ok()?,
            pool: annotation(POOL).cloned(),
            let_in: annotation(LET_IN)
                .into_iter()
                .flat_map(|names| names.split(' '))
                .map(str::to_owned)
                .collect(),
        })
    }
}

fn is_word(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A random word of `N` characters from the 36 that Kubernetes allows, uniformly distributed.
fn word<const N: usize>() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut word = String::with_capacity(N);
    while word.len() < N {
        // 252 is the largest multiple of 36 in a byte; larger bytes would favour the first letters.
        let fair = random::<32>().into_iter().filter(|byte| *byte < 252);
        word.extend(fair.take(N - word.len()).map(|byte| char::from(LETTERS[usize::from(byte % 36)])));
    }
    word
}
