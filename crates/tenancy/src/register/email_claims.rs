//! Claims of e-mail addresses: each address belongs to at most one account.
//!
//! A claim is a ConfigMap named by the digest of the address: of two concurrent claims the API server accepts one. A claim is valid while
//! its account has the address, and for a minute after its creation, while the account is being written. After that it is the remnant
//! of a crash and can be taken over.

use domain::fields::Email;
use domain::ids::UserId;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, ObjectMeta, Preconditions};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, SYSTEM_NAMESPACE, User, well_known};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::credential_store::{is_code, post_params};
use crate::directory::Account;
use crate::tokens::hex;

/// How long a claim is valid without its account.
pub(crate) const UNCONFIRMED_CLAIM_TTL: SignedDuration = SignedDuration::from_mins(1);
pub(crate) const PREFIX: &str = "email-";
/// The limit of attempts when an address is released and claimed concurrently.
const MAX_CONFLICT_RETRIES: usize = 10;

/// The claim of an account to an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EmailClaim {
    /// The name of the User object.
    pub account: String,
    pub user: UserId,
    pub created: Timestamp,
}

/// The name of the ConfigMap that claims an address.
pub(crate) fn claim_name(email: &Email) -> String {
    format!("{PREFIX}{}", &hex(&Sha256::digest(email.as_str().as_bytes()))[..40])
}

impl EmailClaim {
    /// `None` if a field is missing or invalid: then the claim is void.
    pub fn from_config_map(map: &ConfigMap) -> Option<Self> {
        let field = |key: &str| map.data.as_ref()?.get(key);
        Some(Self {
            account: field("account")?.clone(),
            user: field("user")?.parse().ok()?,
            created: field("at")?.parse().ok()?,
        })
    }

    pub fn to_config_map(&self, email: &Email, version: Option<String>) -> ConfigMap {
        let labels = [(well_known::USER, self.user.as_str()), (well_known::MANAGED_BY, FIELD_MANAGER)];
        let data = [
            ("account", self.account.clone()),
            ("user", self.user.to_string()),
            ("at", self.created.to_string()),
        ];
        ConfigMap {
            metadata: ObjectMeta {
                name: Some(claim_name(email)),
                namespace: Some(SYSTEM_NAMESPACE.to_owned()),
                labels: Some(labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into()),
                resource_version: version,
                ..ObjectMeta::default()
            },
            data: Some(data.map(|(key, value)| (key.to_owned(), value)).into()),
            ..ConfigMap::default()
        }
    }

    /// Whether the claim in the ConfigMap `name` is valid; `holder` is the User object that it names, if it exists.
    pub fn is_valid(&self, name: &str, holder: Option<&User>, now: Timestamp) -> bool {
        let has_it = |user: &User| {
            Account::from_user(user).is_some_and(|account| account.id == self.user)
                && Email::parse(&user.spec.email).is_ok_and(|email| self::claim_name(&email) == name)
        };
        holder.is_some_and(has_it) || now.duration_since(self.created) < UNCONFIRMED_CLAIM_TTL
    }
}

/// The ConfigMaps of the system's namespace.
pub(crate) fn config_maps(client: kube::Client) -> Api<ConfigMap> {
    Api::namespaced(client, SYSTEM_NAMESPACE)
}

/// Claims an address, or takes over an invalid claim. Returns the ConfigMap for [`release_claim`].
pub(crate) async fn claim_email(
    client: kube::Client,
    email: &Email,
    claim: &EmailClaim,
) -> Result<ConfigMap, Error> {
    let maps = config_maps(client.clone());
    let users: Api<User> = Api::all(client);
    for _ in 0..MAX_CONFLICT_RETRIES {
        match maps.create(&post_params(), &claim.to_config_map(email, None)).await {
            Err(taken) if is_code(&taken, 409) => {}
            made => return Ok(made?),
        }
        let Some(before) = maps.get_opt(&claim_name(email)).await? else { continue };
        if let Some(other) = EmailClaim::from_config_map(&before)
            && other.user != claim.user
            && other.is_valid(
                &claim_name(email),
                users.get_opt(&other.account).await?.as_ref(),
                claim.created,
            )
        {
            return Err(Error::AccountExists);
        }
        let taken_over = claim.to_config_map(email, before.resource_version());
        return match maps.replace(&claim_name(email), &post_params(), &taken_over).await {
            Err(lost) if is_code(&lost, 409) => Err(Error::AccountExists),
            Err(gone) if is_code(&gone, 404) => continue,
            written => Ok(written?),
        };
    }
    Err(Error::ConcurrentUpdate("the owner of this e-mail address".to_owned()))
}

/// Deletes a claim unless it was changed since it was written.
pub(crate) async fn release_claim(client: kube::Client, claimed: &ConfigMap) -> Result<(), kube::Error> {
    match config_maps(client).delete(&claimed.name_any(), &delete_if_unchanged(&claimed.metadata)).await {
        Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => Err(error),
        _ => Ok(()),
    }
}

/// Restricts a deletion to this object by UID, at any `resourceVersion`.
pub(crate) fn delete_if_uid(seen: &ObjectMeta) -> DeleteParams {
    DeleteParams::default().preconditions(Preconditions { uid: seen.uid.clone(), resource_version: None })
}

/// Restricts a deletion to this object at its `resourceVersion`.
pub(crate) fn delete_if_unchanged(seen: &ObjectMeta) -> DeleteParams {
    DeleteParams {
        preconditions: Some(Preconditions {
            uid: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
        }),
        ..DeleteParams::default()
    }
}
