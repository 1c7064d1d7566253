//! The first administrator account, and password reset for operators who have cluster access but no password.
//!
//! On an empty store [`Tenancy::bootstrap_administrator`] creates an account that signs in as `admin`: the User first, then its
//! credentials, annotated as not yet disclosed (`well_known::CREDENTIALS_UNDISCLOSED`). After the caller has printed the password it calls
//! [`Tenancy::mark_administrator_disclosed`], which removes the annotation. After a crash between the two steps the next start
//! generates and prints a new password, so the last printed password is the valid one. Once the annotation is removed, or the
//! credentials have been changed, no second password is ever generated.
//!
//! Only the leader calls this: two concurrent callers would create two administrators.

use domain::fields::Password;
use domain::roles::PlatformRole;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use kube_types::{FIELD_MANAGER, User, UserSpec, well_known};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::credential_store::{
    self, Credentials, is_code, new_user_id, post_params, random_bytes, update_credentials,
};
use crate::passwords::Hasher;
use crate::revocation::revoke_credentials;
use crate::{Account, Error, Tenancy, paging};

/// The login name of the first administrator.
pub const ADMIN_LOGIN: &str = "admin";

/// Alphabet of generated passwords: 32 unambiguous letters and digits, so each carries five bits.
pub(crate) const PASSWORD_ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const PASSWORD_LEN: usize = 24;

/// Login and password of the first administrator, shown once.
pub struct FirstAdministrator {
    /// The login name.
    pub login: &'static str,
    pub password: Password,
}

fn new_password() -> Password {
    let letters =
        random_bytes::<PASSWORD_LEN>().map(|byte| char::from(PASSWORD_ALPHABET[usize::from(byte & 31)]));
    Password::parse_new(&letters.iter().collect::<String>()).expect("it is long enough")
}

/// The decision about the first administrator.
#[derive(Debug, PartialEq, Eq)]
enum BootstrapDecision {
    /// An administrator has disclosed credentials, or the administrators were set up by other means.
    Skip,
    Create,
    /// The account exists, and its password has never been disclosed.
    ResetPassword(Box<Account>),
}

/// `admins` are the accounts with the platform role `Admin`, each with its credentials.
fn decide(admins: Vec<(Account, Option<Secret>)>) -> BootstrapDecision {
    let is_disclosed = |secret: &Option<Secret>| {
        secret
            .as_ref()
            .is_some_and(|secret| !secret.annotations().contains_key(well_known::CREDENTIALS_UNDISCLOSED))
    };
    if admins.iter().any(|(_, credentials)| is_disclosed(credentials)) {
        return BootstrapDecision::Skip;
    }
    if admins.is_empty() {
        return BootstrapDecision::Create;
    }
    let first = admins.into_iter().find(|(account, _)| account.login.as_deref() == Some(ADMIN_LOGIN));
    first.map_or(BootstrapDecision::Skip, |(account, _)| BootstrapDecision::ResetPassword(Box::new(account)))
}

/// A password whose hash is computed in the background.
pub struct PreparedPassword(JoinHandle<Result<(Password, String), Error>>);

impl PreparedPassword {
    /// Starts hashing immediately. The result is discarded if it is not needed.
    pub fn start() -> Self {
        Self(tokio::spawn(generate_password()))
    }

    async fn finish(self) -> Result<(Password, String), Error> {
        self.0.await.map_err(|failed| Error::Internal(Box::new(failed)))?
    }
}

/// Generates a password and its hash.
async fn generate_password() -> Result<(Password, String), Error> {
    let password = new_password();
    let kept = Hasher::new().hash(&password).await?;
    Ok((password, kept))
}

impl Tenancy {
    /// Creates the first administrator if there is none, or a new password if the last one was never disclosed. Reads the cluster,
    /// not the cache.
    pub async fn bootstrap_administrator(
        &self,
        prepared: Option<PreparedPassword>,
    ) -> Result<Option<FirstAdministrator>, Error> {
        let client = self.0.clients.platform();
        let account = match decide(admins(&client).await?) {
            BootstrapDecision::Skip => return Ok(None),
            BootstrapDecision::Create => create_administrator(&client, self.0.settings.max_nodes).await?,
            BootstrapDecision::ResetPassword(account) => *account,
        };
        let (password, kept) = match prepared {
            Some(prepared) => prepared.finish().await?,
            None => generate_password().await?,
        };
        let now = self.0.clock.now();
        write_credentials(&client, &account, kept, now).await?;
        self.0
            .directory
            .wait_for_own_write(|directory| {
                directory.credential_epoch(&account.id).is_some()
                    && directory.find_by_login(ADMIN_LOGIN).is_some()
            })
            .await;
        Ok(Some(FirstAdministrator { login: ADMIN_LOGIN, password }))
    }

    /// Records that the password of [`Tenancy::bootstrap_administrator`] has been printed.
    pub async fn mark_administrator_disclosed(&self) -> Result<(), Error> {
        let secrets = credential_store::api(self.0.clients.platform());
        let Some(account) = self.0.directory.find_by_login(ADMIN_LOGIN) else { return Ok(()) };
        let change =
            Patch::Merge(json!({"metadata": {"annotations": {well_known::CREDENTIALS_UNDISCLOSED: null}}}));
        secrets.patch_metadata(&Credentials::secret_name(&account.id), &patch_params(), &change).await?;
        Ok(())
    }
}

fn patch_params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

async fn accounts(client: &kube::Client) -> Result<Vec<Account>, Error> {
    let users: Api<User> = Api::all(client.clone());
    Ok(paging::list_all(&users, &ListParams::default(), |user| Account::from_user(&user)).await?)
}

/// Lists the accounts with the platform role `Admin` that are not being deleted, each with its credentials.
async fn admins(client: &kube::Client) -> Result<Vec<(Account, Option<Secret>)>, Error> {
    let secrets = credential_store::api(client.clone());
    let mut admins = Vec::new();
    for account in accounts(client).await? {
        if account.platform_roles.contains(&PlatformRole::Admin) && !account.is_deleting {
            let credentials = secrets.get_opt(&Credentials::secret_name(&account.id)).await?;
            admins.push((account, credentials));
        }
    }
    Ok(admins)
}

/// Creates the User of the first administrator.
async fn create_administrator(client: &kube::Client, max_nodes: i64) -> Result<Account, Error> {
    let id = new_user_id();
    let spec = UserSpec {
        max_node_num: max_nodes,
        platform_roles: vec![PlatformRole::Admin.to_string()],
        ..UserSpec::default()
    };
    let mut user = User::new(&format!("user-{id}"), spec);
    user.annotations_mut().insert(well_known::TENANT_ID.to_owned(), id.to_string());
    user.labels_mut().insert(well_known::LOGIN.to_owned(), ADMIN_LOGIN.to_owned());
    let made = Api::all(client.clone()).create(&post_params(), &user).await?;
    Account::from_user(&made).ok_or_else(|| Error::Internal("the created account has no id".into()))
}

/// Writes the credentials of the account, annotated as not yet disclosed.
async fn write_credentials(
    client: &kube::Client,
    account: &Account,
    password_hash: String,
    now: Timestamp,
) -> Result<(), Error> {
    let secrets = credential_store::api(client.clone());
    let mut secret = Credentials::new(Some(password_hash.clone()), now).to_secret(&account.id);
    secret.annotations_mut().insert(well_known::CREDENTIALS_UNDISCLOSED.to_owned(), "true".to_owned());
    match secrets.create(&post_params(), &secret).await {
        // Left by a start that was interrupted: that password was never disclosed.
        Err(error) if is_code(&error, 409) => {
            let before = secrets.get(&Credentials::secret_name(&account.id)).await?;
            let mut credentials =
                Credentials::from_secret(&before).unwrap_or_else(|| Credentials::new(None, now));
            credentials.password_hash = Some(password_hash);
            credentials.raise_epoch(now);
            let after = Secret { data: credentials.to_secret(&account.id).data, ..before };
            secrets.replace(&Credentials::secret_name(&account.id), &post_params(), &after).await?;
            Ok(())
        }
        other => Ok(other.map(drop)?),
    }
}

/// Sets a new password for the account that `login` names, revokes all its credentials and enables it if it was disabled.
/// For operators with cluster access: `client` carries their rights, and there is no `Actor` to authorise.
pub async fn reset_password(client: &kube::Client, login: &str, now: Timestamp) -> Result<Password, Error> {
    let accounts = accounts(client).await?;
    let account = Account::find_by_login(&accounts, login)
        .ok_or_else(|| Error::NotFound { kind: "user", name: login.chars().take(64).collect() })?;
    let (password, kept) = generate_password().await?;
    update_credentials(client.clone(), &account.id, now, |credentials| {
        credentials.password_hash = Some(kept.clone());
        credentials.raise_epoch(now);
    })
    .await?;
    revoke_credentials(client.clone(), &account.id, None, now).await?;
    if account.is_disabled {
        let users: Api<User> = Api::all(client.clone());
        let change = Patch::Merge(json!({"spec": {"disabled": null}}));
        users.patch(&account.name, &patch_params(), &change).await?;
    }
    Ok(password)
}

#[cfg(test)]
mod tests;
