//! Read, change and delete accounts, as their owners or as administrators.
//!
//! Invariant: an enabled administrator account without an expiry remains.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::ids::UserId;
use domain::roles::{Capability, PlatformRole};
use domain::{AccessScope, Actor};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use kube_types::User;

use crate::credential_store::is_code;
use crate::directory::Account;
use crate::register::email_claims::delete_if_unchanged;
use crate::revocation::check_manages_account;
use crate::update::{is_at_least_version, update_with_retry};
use crate::{Error, Tenancy};
use patch::ValidatedPatch;

mod email;
mod patch;

pub use patch::UserPatch;

/// Whether this account is an enabled administrator without an expiry.
fn is_permanent_administrator(user: &User) -> bool {
    let admin = user.spec.platform_roles.iter().any(|role| role == PlatformRole::Admin.as_str());
    admin && !user.spec.disabled && user.spec.valid_period == 0 && user.metadata.deletion_timestamp.is_none()
}

impl Tenancy {
    /// Lists all accounts by object name. Requires the right to read accounts.
    pub fn users(&self, actor: &Actor) -> Result<Vec<Arc<Account>>, Error> {
        actor.authorize(Capability::ReadUsers, AccessScope::Platform)?;
        Ok(self.0.directory.accounts())
    }

    /// Returns an account: the actor's own, or any with the right to read accounts. Others are not found.
    pub fn user(&self, actor: &Actor, id: &UserId) -> Result<Arc<Account>, Error> {
        let own = actor.user_id() == Some(id);
        if !own && actor.authorize(Capability::ReadUsers, AccessScope::Platform).is_err() {
            return Err(user_not_found(id));
        }
        self.0.directory.account(id).ok_or_else(|| user_not_found(id))
    }

    /// Changes an account. `expected` is the `resourceVersion` that the caller read.
    pub async fn patch_user(
        &self,
        actor: &Actor,
        id: &UserId,
        patch: UserPatch,
        expected: Option<&str>,
    ) -> Result<Arc<Account>, Error> {
        let account = self.user(actor, id)?;
        if patch.requires_administrator() || actor.user_id() != Some(id) {
            check_manages_account(actor, &account)?;
        } else {
            actor.require_unrestricted_user()?;
        }
        if patch.platform_roles.is_some() {
            // Otherwise a token with narrow scopes could create an account with all rights.
            actor.require_unrestricted_user()?;
        }
        let patch = patch.validate()?;
        let written = match &patch.email {
            Some(email) => self.change_email(&account, email, &patch, expected).await?,
            None => self.write_user(&account, &patch, expected).await?,
        };
        self.wait_for_user(&written).await;
        Account::from_user(&written).map(Arc::new).ok_or_else(|| user_not_found(id))
    }

    /// Deletes an account and all that it owns: the actor's own, or any for an administrator.
    pub async fn delete_user(&self, actor: &Actor, id: &UserId, expected: Option<&str>) -> Result<(), Error> {
        let account = self.user(actor, id)?;
        if actor.user_id() == Some(id) {
            actor.require_unrestricted_user()?;
        } else {
            check_manages_account(actor, &account)?;
        }
        if let Some(workspace) = self.workspace_with_sole_admin(id) {
            return Err(Error::Conflict(format!(
                "{} is the only admin of workspace `{workspace}`: appoint another, or delete the workspace first",
                account.name
            )));
        }
        let users: Api<User> = Api::all(self.0.clients.platform());
        let mut seen = users.get_opt(&account.name).await?.ok_or_else(|| user_not_found(id))?;
        if expected.is_some_and(|expected| seen.resource_version().as_deref() != Some(expected)) {
            return Err(Error::StaleResourceVersion(format!("user `{}`", account.name)));
        }
        if is_permanent_administrator(&seen) {
            // A deletion cannot be undone, the loss of a role can, if two administrators remove each other at the same time.
            let seen_version = seen.resource_version();
            let without =
                ValidatedPatch { platform_roles: Some(BTreeSet::new()), ..ValidatedPatch::default() };
            seen = self.write_user(&account, &without, seen_version.as_deref()).await?;
        }
        // The precondition is the UID alone: concurrent writes to the account do not prevent the deletion.
        seen.metadata.resource_version = None;
        match users.delete(&account.name, &delete_if_unchanged(&seen.metadata)).await {
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Err(user_not_found(id)),
            done => done.map(drop).map_err(Error::from),
        }?;
        let uid = seen.metadata.uid.unwrap_or_default();
        self.0
            .directory
            .wait_for_own_write(|directory| {
                directory.account(id).is_none_or(|account| account.is_deleting || account.uid != uid)
            })
            .await;
        Ok(())
    }

    /// Writes the account, and reverts the write if no administrator remains: two administrators who demote each other at the same
    /// time both detect it after their own write.
    async fn write_user(
        &self,
        account: &Account,
        patch: &ValidatedPatch,
        expected: Option<&str>,
    ) -> Result<User, Error> {
        let users: Api<User> = Api::all(self.0.clients.platform());
        let last = || Error::Conflict(format!("{} is the last administrator of the platform", account.name));
        let before = users.get_opt(&account.name).await?.ok_or_else(|| user_not_found(&account.id))?;
        let mut after = before.clone();
        patch.apply(&mut after);
        let resigns = is_permanent_administrator(&before) && !is_permanent_administrator(&after);
        if resigns && !self.has_other_administrator(Some(&account.name)).await? {
            return Err(last());
        }
        let written = update_with_retry(&users, &account.name, expected, |user| {
            check_same_account(user, account)?;
            // A user that became an administrator in the meantime was not checked above.
            if is_permanent_administrator(user) && !resigns {
                let mut after = user.clone();
                patch.apply(&mut after);
                if !is_permanent_administrator(&after) {
                    return Err(Error::ConcurrentUpdate(format!("user `{}`", account.name)));
                }
            }
            patch.apply(user);
            Ok(())
        })
        .await?;
        if resigns && !self.has_other_administrator(None).await? {
            update_with_retry(&users, &account.name, None, |user| {
                check_same_account(user, account)?;
                user.spec.platform_roles.clone_from(&before.spec.platform_roles);
                user.spec.disabled = before.spec.disabled;
                user.spec.valid_period = before.spec.valid_period;
                Ok(())
            })
            .await?;
            return Err(last());
        }
        Ok(written)
    }

    /// Whether an administrator other than `name` remains. Reads the cluster, not the cache.
    async fn has_other_administrator(&self, name: Option<&str>) -> Result<bool, Error> {
        let users: Api<User> = Api::all(self.0.clients.platform());
        let all = users.list(&ListParams::default()).await?;
        Ok(all.iter().any(|user| is_permanent_administrator(user) && Some(user.name_any().as_str()) != name))
    }

    /// Waits until the directory has the write, so that the caller's next read finds it.
    pub(crate) async fn wait_for_user(&self, written: &User) {
        let (Some(account), Some(version)) = (Account::from_user(written), written.resource_version()) else {
            return;
        };
        let heard = |directory: &crate::Directory| {
            directory.account(&account.id).is_none_or(|known| is_at_least_version(&known.version, &version))
        };
        self.0.directory.wait_for_own_write(heard).await;
    }
}

/// Checks that `user` is the same account by UID, and not a later one with the same name.
fn check_same_account(user: &User, account: &Account) -> Result<(), Error> {
    if user.uid().is_some_and(|uid| uid == account.uid) { Ok(()) } else { Err(user_not_found(&account.id)) }
}

fn user_not_found(id: &UserId) -> Error {
    Error::NotFound { kind: "user", name: id.to_string() }
}

#[cfg(test)]
mod tests;
