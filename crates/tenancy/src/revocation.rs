//! Credentials of accounts: setting passwords and revoking everything that an account authenticates with.

use std::net::IpAddr;

use domain::fields::Password;
use domain::ids::{TokenId, UserId};
use domain::roles::{Capability, PlatformRole};
use domain::{AccessScope, Actor};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, ResourceExt};
use kube_types::{SYSTEM_NAMESPACE, Workspace, well_known};
use serde_json::json;

use crate::credential_store::{self, is_code, post_params, update_credentials};
use crate::directory::Account;
use crate::node_join::token;
use crate::tokens::{TokenRecord, TokenText, mint_login};
use crate::{Error, Tenancy};

impl Tenancy {
    /// Sets a password. For the actor's own account the old secret is required (the password, or a login token if there is none), and all
    /// sessions end. For another account the actor needs the right to manage accounts and an unscoped credential, because a password grants
    /// all rights; everything that the account authenticated with is revoked.
    pub async fn change_password(
        &self,
        actor: &Actor,
        user: &UserId,
        old: Option<&str>,
        new: &Password,
        from: IpAddr,
    ) -> Result<(), Error> {
        let own = actor.user_id() == Some(user);
        if own {
            actor.require_unrestricted_user()?;
            let known = self.verify_credentials(user.as_str(), old.unwrap_or_default(), from).await;
            // The caller is authenticated: only the old password is wrong.
            known.map_err(|error| match error {
                Error::WrongCredentials => Error::WrongOldSecret,
                other => other,
            })?;
        } else {
            self.check_manages_user(actor, user)?;
            actor.require_unrestricted_user()?;
        }
        let kept = self.0.hasher.hash(new).await?;
        let epoch = raise_epoch(self.0.clients.platform(), user, Some(&kept), self.0.clock.now()).await?;
        if !own {
            self.revoke_credentials(user, None).await?;
        }
        self.0
            .directory
            .wait_for_own_write(|directory| {
                directory.credential_epoch(user).is_some_and(|seen| seen >= epoch)
            })
            .await;
        Ok(())
    }

    /// Revokes everything that an account authenticates with: sessions, the login token, API tokens and tokens of its
    /// ServiceAccount (kubeconfigs). Streams that were opened with one of them end. An actor without a password who revokes its own
    /// credentials gets a new login token. Another account without a password is locked out until an administrator sets one.
    pub async fn revoke_all(&self, actor: &Actor, user: &UserId) -> Result<Option<TokenText>, Error> {
        let own = actor.require_unrestricted_user().ok() == Some(user);
        if !own {
            self.check_manages_user(actor, user)?;
        }
        let (client, now) = (self.0.clients.platform(), self.0.clock.now());
        let has_password =
            self.0.directory.credentials(user).is_some_and(|credentials| credentials.password_hash.is_some());
        let fresh = (own && !has_password).then(|| mint_login(user, now));
        if let Some((_, record)) = &fresh {
            credential_store::api(client.clone()).create(&post_params(), &record.to_secret()).await?;
        }
        let epoch = raise_epoch(client, user, None, now).await?;
        self.revoke_credentials(user, fresh.as_ref().map(|(_, record)| &record.id)).await?;
        let fresh_is_known = |directory: &crate::Directory| {
            fresh.as_ref().is_none_or(|(_, record)| directory.token(&record.id).is_some())
        };
        self.0
            .directory
            .wait_for_own_write(|directory| {
                directory.credential_epoch(user).is_some_and(|seen| seen >= epoch)
                    && fresh_is_known(directory)
            })
            .await;
        Ok(fresh.map(|(text, _)| text))
    }

    async fn revoke_credentials(&self, user: &UserId, keep: Option<&TokenId>) -> Result<(), Error> {
        revoke_credentials(self.0.clients.platform(), user, keep, self.0.clock.now()).await?;
        self.0
            .directory
            .wait_for_own_write(|directory| {
                directory.tokens_of(user).iter().all(|token| Some(&token.id) == keep)
            })
            .await;
        Ok(())
    }

    /// Checks that the actor may manage the account of another user.
    fn check_manages_user(&self, actor: &Actor, user: &UserId) -> Result<(), Error> {
        actor.authorize(Capability::ManageUsers, AccessScope::Platform)?;
        match self.0.directory.account(user) {
            Some(account) => check_manages_account(actor, &account),
            None => Err(Error::NotFound { kind: "user", name: user.to_string() }),
        }
    }
}

/// Checks that the actor may change the account of another user. Accounts of administrators require a session or an unscoped token: a
/// token with narrow scopes must not decide who administrates the platform.
pub(crate) fn check_manages_account(actor: &Actor, account: &Account) -> Result<(), Error> {
    actor.authorize(Capability::ManageUsers, AccessScope::Platform)?;
    if account.platform_roles.contains(&PlatformRole::Admin) {
        actor.require_unrestricted_user()?;
    }
    Ok(())
}

/// Ends all sessions, and sets the password if there is a new one. Returns the new epoch.
async fn raise_epoch(
    client: kube::Client,
    user: &UserId,
    password: Option<&str>,
    now: Timestamp,
) -> Result<u64, Error> {
    let written = update_credentials(client, user, now, |credentials| {
        credentials.raise_epoch(now);
        if let Some(password) = password {
            credentials.password_hash = Some(password.to_owned());
        }
    });
    Ok(written.await?.epoch)
}

/// Deletes the tokens of an account except `keep`, its join tokens too, revokes the access by ServiceAccounts of its personal workspace, and
/// recreates its own ServiceAccount, which invalidates the tokens of its kubeconfigs. Reads the cluster, not the cache. Idempotent: the
/// caller retries a failed revocation.
pub(crate) async fn revoke_credentials(
    client: kube::Client,
    user: &UserId,
    keep: Option<&TokenId>,
    now: Timestamp,
) -> Result<(), Error> {
    let secrets = credential_store::api(client.clone());
    let theirs = ListParams::default().labels(&format!("{}={user}", well_known::USER));
    let keep = keep.map(TokenRecord::secret_name);
    for secret in secrets.list(&theirs).await? {
        let name = secret.name_any();
        if secret.type_.as_deref() != Some(well_known::TOKEN_TYPE) || Some(&name) == keep.as_ref() {
            continue;
        }
        match secrets.delete(&name, &DeleteParams::default()).await {
            Err(error) if !is_code(&error, 404) => return Err(error.into()),
            _ => {}
        }
    }
    token::delete_tokens_of(client.clone(), user).await?;
    revoke_tenant_access(client.clone(), user, now).await?;
    recreate_service_account(client, user).await
}

/// Makes the workspace controller revoke the access that the user has by ServiceAccounts of the personal workspace.
async fn revoke_tenant_access(client: kube::Client, user: &UserId, now: Timestamp) -> Result<(), Error> {
    let workspaces: Api<Workspace> = Api::all(client);
    let annotations = json!({ well_known::MEMBER_LEFT: now.to_string(), well_known::KEEP_BINDINGS: null });
    let left = Patch::Merge(json!({ "metadata": { "annotations": annotations } }));
    match workspaces.patch(user.as_str(), &PatchParams::default(), &left).await {
        // Not provisioned yet.
        Err(error) if is_code(&error, 404) => Ok(()),
        patched => Ok(patched.map(drop)?),
    }
}

/// Recreates the ServiceAccount: its new UID invalidates all its tokens. If this is interrupted, the User controller creates it.
async fn recreate_service_account(client: kube::Client, user: &UserId) -> Result<(), Error> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client, SYSTEM_NAMESPACE);
    let Some(found) = accounts.get_opt(user.as_str()).await? else { return Ok(()) };
    let preconditions = Preconditions { uid: found.uid(), resource_version: None };
    let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
    match accounts.delete(user.as_str(), &params).await {
        Err(error) if !is_code(&error, 404) && !is_code(&error, 409) => return Err(error.into()),
        _ => {}
    }
    let ObjectMeta { name, namespace, labels, annotations, .. } = found.metadata;
    let metadata = ObjectMeta { name, namespace, labels, annotations, ..ObjectMeta::default() };
    let automount_service_account_token = found.automount_service_account_token;
    let fresh = ServiceAccount { metadata, automount_service_account_token, ..ServiceAccount::default() };
    match accounts.create(&post_params(), &fresh).await {
        Err(error) if !is_code(&error, 409) => Err(error.into()),
        _ => Ok(()),
    }
}
