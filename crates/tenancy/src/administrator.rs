//! The first administrator account, and password reset for operators who have cluster access but no password.
//!
//! On an empty store [`Tenancy::first_administrator`] creates an account that signs in as `admin`: the User first, then its
//! credentials, annotated as not yet disclosed (`marks::UNTOLD`). After the caller has printed the password it calls
//! [`Tenancy::administrator_was_told`], which removes the annotation. After a crash between the two steps the next start
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
use kube_types::{FIELD_MANAGER, User, UserSpec, marks};
use serde_json::json;
use tokio::task::JoinHandle;

use crate::credentials::revoke_credentials;
use crate::passwords::Hasher;
use crate::secrets::{self, Credentials, change_credentials, is_code, new_user_id, random, writing};
use crate::{Account, Error, Tenancy, pages};

/// The login name of the first administrator.
pub const LOGIN: &str = "admin";

/// Alphabet of generated passwords: 32 unambiguous letters and digits, so each carries five bits.
pub(crate) const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const LENGTH: usize = 24;

/// Login and password of the first administrator, shown once.
pub struct FirstAdministrator {
    /// The login name.
    pub login: &'static str,
    pub password: Password,
}

fn new_password() -> Password {
    let letters = random::<LENGTH>().map(|byte| char::from(LETTERS[usize::from(byte & 31)]));
    Password::chosen(&letters.iter().collect::<String>()).expect("it is long enough")
}

/// The decision about the first administrator.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// An administrator has disclosed credentials, or the administrators were set up by other means.
    Rest,
    Make,
    /// The account exists, and its password has never been disclosed.
    Tell(Box<Account>),
}

/// `admins` are the accounts with the platform role `Admin`, each with its credentials.
fn decide(admins: Vec<(Account, Option<Secret>)>) -> Step {
    let told = |secret: &Option<Secret>| {
        secret.as_ref().is_some_and(|secret| !secret.annotations().contains_key(marks::UNTOLD))
    };
    if admins.iter().any(|(_, credentials)| told(credentials)) {
        return Step::Rest;
    }
    if admins.is_empty() {
        return Step::Make;
    }
    let first = admins.into_iter().find(|(account, _)| account.login.as_deref() == Some(LOGIN));
    first.map_or(Step::Rest, |(account, _)| Step::Tell(Box::new(account)))
}

/// A password whose hash is computed in the background.
pub struct Prepared(JoinHandle<Result<(Password, String), Error>>);

impl Prepared {
    /// Starts hashing immediately. The result is discarded if it is not needed.
    pub fn begin() -> Self {
        Self(tokio::spawn(hashed()))
    }

    async fn finished(self) -> Result<(Password, String), Error> {
        self.0.await.map_err(|failed| Error::Internal(Box::new(failed)))?
    }
}

/// Generates a password and its hash.
async fn hashed() -> Result<(Password, String), Error> {
    let password = new_password();
    let kept = Hasher::new().hash(&password).await?;
    Ok((password, kept))
}

impl Tenancy {
    /// Creates the first administrator if there is none, or a new password if the last one was never disclosed. Reads the cluster,
    /// not the cache.
    pub async fn first_administrator(
        &self,
        prepared: Option<Prepared>,
    ) -> Result<Option<FirstAdministrator>, Error> {
        let client = self.0.clients.own();
        let account = match decide(admins(&client).await?) {
            Step::Rest => return Ok(None),
            Step::Make => make(&client, self.0.settings.max_nodes).await?,
            Step::Tell(account) => *account,
        };
        let (password, kept) = match prepared {
            Some(prepared) => prepared.finished().await?,
            None => hashed().await?,
        };
        let now = self.0.clock.now();
        entrust(&client, &account, kept, now).await?;
        self.0
            .directory
            .seen(|directory| directory.epoch(&account.id).is_some() && directory.by_login(LOGIN).is_some())
            .await;
        Ok(Some(FirstAdministrator { login: LOGIN, password }))
    }

    /// Records that the password of [`Tenancy::first_administrator`] has been printed.
    pub async fn administrator_was_told(&self) -> Result<(), Error> {
        let secrets = secrets::api(self.0.clients.own());
        let Some(account) = self.0.directory.by_login(LOGIN) else { return Ok(()) };
        let change = Patch::Merge(json!({"metadata": {"annotations": {marks::UNTOLD: null}}}));
        secrets.patch_metadata(&Credentials::name(&account.id), &params(), &change).await?;
        Ok(())
    }
}

fn params() -> PatchParams {
    PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() }
}

async fn accounts(client: &kube::Client) -> Result<Vec<Account>, Error> {
    let users: Api<User> = Api::all(client.clone());
    Ok(pages::all(&users, &ListParams::default(), |user| Account::of(&user)).await?)
}

/// Lists the accounts with the platform role `Admin` that are not being deleted, each with its credentials.
async fn admins(client: &kube::Client) -> Result<Vec<(Account, Option<Secret>)>, Error> {
    let secrets = secrets::api(client.clone());
    let mut admins = Vec::new();
    for account in accounts(client).await? {
        if account.platform.contains(&PlatformRole::Admin) && !account.leaving {
            let credentials = secrets.get_opt(&Credentials::name(&account.id)).await?;
            admins.push((account, credentials));
        }
    }
    Ok(admins)
}

/// Creates the User of the first administrator.
async fn make(client: &kube::Client, max_nodes: i64) -> Result<Account, Error> {
    let id = new_user_id();
    let spec = UserSpec {
        max_node_num: max_nodes,
        platform_roles: vec![PlatformRole::Admin.to_string()],
        ..UserSpec::default()
    };
    let mut user = User::new(&format!("user-{id}"), spec);
    user.annotations_mut().insert(marks::TENANT_ID.to_owned(), id.to_string());
    user.labels_mut().insert(marks::LOGIN.to_owned(), LOGIN.to_owned());
    let made = Api::all(client.clone()).create(&writing(), &user).await?;
    Account::of(&made).ok_or_else(|| Error::Internal("the account that was made has no id".into()))
}

/// Writes the credentials of the account, annotated as not yet disclosed.
async fn entrust(
    client: &kube::Client,
    account: &Account,
    kept: String,
    now: Timestamp,
) -> Result<(), Error> {
    let secrets = secrets::api(client.clone());
    let mut secret = Credentials::new(Some(kept.clone()), now).to_secret(&account.id);
    secret.annotations_mut().insert(marks::UNTOLD.to_owned(), "true".to_owned());
    match secrets.create(&writing(), &secret).await {
        // Left by a start that was interrupted: that password was never disclosed.
        Err(error) if is_code(&error, 409) => {
            let before = secrets.get(&Credentials::name(&account.id)).await?;
            let mut credentials = Credentials::of(&before).unwrap_or_else(|| Credentials::new(None, now));
            credentials.password = Some(kept);
            credentials.raise_epoch(now);
            let after = Secret { data: credentials.to_secret(&account.id).data, ..before };
            secrets.replace(&Credentials::name(&account.id), &writing(), &after).await?;
            Ok(())
        }
        other => Ok(other.map(drop)?),
    }
}

/// Sets a new password for the account that `login` names, revokes all its credentials and enables it if it was disabled.
/// For operators with cluster access: `client` carries their rights, and there is no `Actor` to authorise.
pub async fn reset_password(client: &kube::Client, login: &str, now: Timestamp) -> Result<Password, Error> {
    let accounts = accounts(client).await?;
    let account = Account::named(&accounts, login)
        .ok_or_else(|| Error::NotFound { kind: "user", name: login.chars().take(64).collect() })?;
    let (password, kept) = hashed().await?;
    change_credentials(client.clone(), &account.id, now, |credentials| {
        credentials.password = Some(kept.clone());
        credentials.raise_epoch(now);
    })
    .await?;
    revoke_credentials(client.clone(), &account.id, None).await?;
    if account.disabled {
        let users: Api<User> = Api::all(client.clone());
        let change = Patch::Merge(json!({"spec": {"disabled": null}}));
        users.patch(&account.name, &params(), &change).await?;
    }
    Ok(password)
}

#[cfg(test)]
mod tests;
