//! Join tokens: Kubernetes bootstrap tokens that belong to an account.
//!
//! A token is stored only in its own Secret and expires within a day and with the account. It is not one of kubeadm's: its holder may
//! request a certificate, and the platform decides on approval ([`super::csr_decision`]).

use std::collections::BTreeMap;
use std::fmt;

use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, ObjectMeta};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, well_known};

use crate::credential_store::{is_code, random_bytes, secret_text};
use crate::register::email_claims::delete_if_uid;

/// The namespace in which Kubernetes looks for bootstrap tokens.
pub(crate) const NAMESPACE: &str = "kube-system";
pub(crate) const PREFIX: &str = "bootstrap-token-";
const SECRET_TYPE: &str = "bootstrap.kubernetes.io/token";
/// The group of all clients with such a token. It may request certificates and read the cluster information for joining.
pub(crate) const JOIN_TOKENS_GROUP: &str = "system:bootstrappers:openyurt:tenants";
/// The prefix of the user name that Kubernetes gives a token.
const USER_NAME_PREFIX: &str = "system:bootstrap:";
/// The annotation with the pool that machines join by this token.
const POOL_ANNOTATION: &str = "longshore.dev/pool";
/// The annotation with the names of the nodes that this token has admitted.
const ADMITTED_NODES_ANNOTATION: &str = "longshore.dev/let-in";

/// The longest lifetime of a token.
const MAX_TOKEN_LIFETIME: SignedDuration = SignedDuration::from_hours(24);
/// A token with less time left is not issued again, unless the account ends sooner.
const MIN_REMAINING_LIFETIME: SignedDuration = SignedDuration::from_hours(1);

/// A join token of an account.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct JoinToken {
    pub id: String,
    secret: String,
    pub owner: UserId,
    pub expires: Timestamp,
    pub pool: Option<String>,
    /// The admitted node names. Each name is admitted once.
    pub admitted_nodes: Vec<String>,
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("id", &self.id).field("owner", &self.owner).finish_non_exhaustive()
    }
}

/// The group of the account's join tokens.
pub(crate) fn token_group(owner: &UserId) -> String {
    format!("system:bootstrappers:openyurt:tenant:{owner}")
}

/// The id of the token that a Kubernetes user authenticated with.
pub(crate) fn token_id_of_user(user: &str) -> Option<&str> {
    user.strip_prefix(USER_NAME_PREFIX).filter(|id| is_lowercase_alphanumeric(id, 6))
}

/// Deletes the join tokens of an account.
pub(crate) async fn delete_tokens_of(client: kube::Client, owner: &UserId) -> Result<(), kube::Error> {
    let tokens = api(client);
    let theirs = ListParams::default().labels(&format!("{}={owner}", well_known::TENANT));
    for secret in tokens.list(&theirs).await?.items {
        if JoinToken::from_secret(&secret).is_none_or(|token| token.owner != *owner) {
            continue;
        }
        match tokens.delete(&secret.name_any(), &delete_if_uid(&secret.metadata)).await {
            Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(crate) fn api(client: kube::Client) -> Api<Secret> {
    Api::namespaced(client, NAMESPACE)
}

impl JoinToken {
    /// Generates a token. It expires with the account, and within a day.
    pub fn mint(owner: &UserId, end: Option<Timestamp>, pool: Option<&str>, now: Timestamp) -> Self {
        let longest = now + MAX_TOKEN_LIFETIME;
        Self {
            id: random_text::<6>(),
            secret: random_text::<16>(),
            owner: owner.clone(),
            expires: end.map_or(longest, |end| end.min(longest)),
            pool: pool.map(str::to_owned),
            admitted_nodes: Vec::new(),
        }
    }

    /// The text of the token.
    pub fn expose(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }

    /// The user name that Kubernetes gives the token.
    pub fn user_name(&self) -> String {
        format!("{USER_NAME_PREFIX}{}", self.id)
    }

    pub fn secret_name(&self) -> String {
        format!("{PREFIX}{}", self.id)
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires <= now
    }

    /// Whether the token has admitted this node name.
    pub fn has_admitted(&self, node: &str) -> bool {
        self.admitted_nodes.iter().any(|name| name == node)
    }

    /// Whether the token can be issued (again): for this pool, with enough time left, and with fewer than `most` nodes admitted.
    pub fn is_usable_for(
        &self,
        pool: Option<&str>,
        end: Option<Timestamp>,
        most: i64,
        now: Timestamp,
    ) -> bool {
        let longest = end.map_or(now + MAX_TOKEN_LIFETIME, |end| end.min(now + MAX_TOKEN_LIFETIME));
        let lasts = self.expires >= now + MIN_REMAINING_LIFETIME || self.expires >= longest;
        let used = i64::try_from(self.admitted_nodes.len()).unwrap_or(i64::MAX);
        self.pool.as_deref() == pool && !self.is_expired(now) && lasts && used < most.max(1)
    }

    pub fn to_secret(&self) -> Secret {
        let labels = [(well_known::TENANT, self.owner.as_str()), (well_known::MANAGED_BY, FIELD_MANAGER)];
        let data = [
            ("token-id", self.id.clone()),
            ("token-secret", self.secret.clone()),
            ("expiration", self.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            ("usage-bootstrap-authentication", "true".to_owned()),
            ("usage-bootstrap-signing", "true".to_owned()),
            ("auth-extra-groups", format!("{JOIN_TOKENS_GROUP},{}", token_group(&self.owner))),
            ("description", format!("Lets machines join as nodes of {}.", self.owner)),
        ];
        let mut annotations = BTreeMap::new();
        annotations.extend(self.pool.clone().map(|pool| (POOL_ANNOTATION.to_owned(), pool)));
        if !self.admitted_nodes.is_empty() {
            annotations.insert(ADMITTED_NODES_ANNOTATION.to_owned(), self.admitted_nodes.join(" "));
        }
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Secret {
            metadata: ObjectMeta {
                name: Some(self.secret_name()),
                namespace: Some(NAMESPACE.to_owned()),
                labels: Some(labels.map(owned).into()),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            },
            type_: Some(SECRET_TYPE.to_owned()),
            string_data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
            ..Secret::default()
        }
    }

    /// Parses a Secret. `None` for other bootstrap tokens and incomplete Secrets.
    pub fn from_secret(secret: &Secret) -> Option<Self> {
        let name = secret.metadata.name.as_deref()?;
        let (id, value) = (secret_text(secret, "token-id")?, secret_text(secret, "token-secret")?);
        let owner: UserId = secret.labels().get(well_known::TENANT)?.parse().ok()?;
        let groups = format!("{JOIN_TOKENS_GROUP},{}", token_group(&owner));
        let ours = secret.type_.as_deref() == Some(SECRET_TYPE)
            && name.strip_prefix(PREFIX) == Some(id)
            && secret_text(secret, "auth-extra-groups") == Some(&groups);
        let annotation = |key: &str| secret.annotations().get(key);
        (ours && is_lowercase_alphanumeric(id, 6) && is_lowercase_alphanumeric(value, 16)).then_some(())?;
        Some(Self {
            id: id.to_owned(),
            secret: value.to_owned(),
            owner,
            expires: secret_text(secret, "expiration")?.parse().ok()?,
            pool: annotation(POOL_ANNOTATION).cloned(),
            admitted_nodes: annotation(ADMITTED_NODES_ANNOTATION)
                .into_iter()
                .flat_map(|names| names.split(' '))
                .map(str::to_owned)
                .collect(),
        })
    }
}

fn is_lowercase_alphanumeric(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

/// A random word of `N` characters from the 36 that Kubernetes allows, uniformly distributed.
fn random_text<const N: usize>() -> String {
    const LETTERS: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let mut word = String::with_capacity(N);
    while word.len() < N {
        // 252 is the largest multiple of 36 in a byte; larger bytes would favour the first letters.
        let fair = random_bytes::<32>().into_iter().filter(|byte| *byte < 252);
        word.extend(fair.take(N - word.len()).map(|byte| char::from(LETTERS[usize::from(byte % 36)])));
    }
    word
}
