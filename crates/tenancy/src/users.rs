//! Read, change and delete accounts, as their owners or as administrators.
//!
//! Invariant: an enabled administrator account without an expiry remains.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::ids::UserId;
use domain::roles::{Capability, PlatformRole};
use domain::{Actor, Place};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use kube_types::User;

use crate::change::{at_least, change};
use crate::credentials::manages_account;
use crate::directory::Account;
use crate::register::claims::only;
use crate::secrets::is_code;
use crate::{Error, Tenancy};
use patch::Checked;

mod address;
mod patch;

pub use patch::UserPatch;

/// Whether this account is an enabled administrator without an expiry.
fn administrates(user: &User) -> bool {
    let admin = user.spec.platform_roles.iter().any(|role| role == PlatformRole::Admin.as_str());
    admin && !user.spec.disabled && user.spec.valid_period == 0 && user.metadata.deletion_timestamp.is_none()
}

impl Tenancy {
    /// Lists all accounts by object name. Requires the right to read accounts.
    pub fn users(&self, actor: &Actor) -> Result<Vec<Arc<Account>>, Error> {
        actor.may(Capability::ReadUsers, Place::Platform)?;
        Ok(self.0.directory.accounts())
    }

    /// Returns an account: the actor's own, or any with the right to read accounts. Others are not found.
    pub fn user(&self, actor: &Actor, id: &UserId) -> Result<Arc<Account>, Error> {
        let own = actor.id() == Some(id);
        if !own && actor.may(Capability::ReadUsers, Place::Platform).is_err() {
            return Err(unknown(id));
        }
        self.0.directory.account(id).ok_or_else(|| unknown(id))
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
        if patch.only_for_administrators() || actor.id() != Some(id) {
            manages_account(actor, &account)?;
        } else {
            actor.themselves()?;
        }
        if patch.platform.is_some() {
            // Otherwise a token with narrow scopes could create an account with all rights.
            actor.themselves()?;
        }
        let patch = patch.checked()?;
        let written = match &patch.email {
            Some(email) => self.move_address(&account, email, &patch, expected).await?,
            None => self.write_user(&account, &patch, expected).await?,
        };
        self.heard_of(&written).await;
        Account::of(&written).map(Arc::new).ok_or_else(|| unknown(id))
    }

    /// Deletes an account and all that it owns: the actor's own, or any for an administrator.
    pub async fn delete_user(&self, actor: &Actor, id: &UserId, expected: Option<&str>) -> Result<(), Error> {
        let account = self.user(actor, id)?;
        if actor.id() == Some(id) {
            actor.themselves()?;
        } else {
            manages_account(actor, &account)?;
        }
        if let Some(workspace) = self.held_alone(id) {
            return Err(Error::Conflict(format!(
                "{} is the only admin of workspace `{workspace}`: give it another, or delete it first",
                account.name
            )));
        }
        let users: Api<User> = Api::all(self.0.clients.own());
        let mut seen = users.get_opt(&account.name).await?.ok_or_else(|| unknown(id))?;
        if expected.is_some_and(|expected| seen.resource_version().as_deref() != Some(expected)) {
            return Err(Error::Moved(format!("user `{}`", account.name)));
        }
        if administrates(&seen) {
            // A deletion cannot be undone, the loss of a role can, if two administrators remove each other at the same time.
            let seen_version = seen.resource_version();
            let without = Checked { platform: Some(BTreeSet::new()), ..Checked::default() };
            seen = self.write_user(&account, &without, seen_version.as_deref()).await?;
        }
        // The precondition is the UID alone: concurrent writes to the account do not prevent the deletion.
        seen.metadata.resource_version = None;
        match users.delete(&account.name, &only(&seen.metadata)).await {
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => Err(unknown(id)),
            done => done.map(drop).map_err(Error::from),
        }?;
        let uid = seen.metadata.uid.unwrap_or_default();
        self.0
            .directory
            .seen(|directory| {
                directory.account(id).is_none_or(|account| account.leaving || account.uid != uid)
            })
            .await;
        Ok(())
    }

    /// Writes the account, and reverts the write if no administrator remains: two administrators who demote each other at the same
    /// time both detect it after their own write.
    async fn write_user(
        &self,
        account: &Account,
        patch: &Checked,
        expected: Option<&str>,
    ) -> Result<User, Error> {
        let users: Api<User> = Api::all(self.0.clients.own());
        let last = || Error::Conflict(format!("{} is the last administrator of the platform", account.name));
        let before = users.get_opt(&account.name).await?.ok_or_else(|| unknown(&account.id))?;
        let mut after = before.clone();
        patch.enter(&mut after);
        let resigns = administrates(&before) && !administrates(&after);
        if resigns && !self.administrated_without(Some(&account.name)).await? {
            return Err(last());
        }
        let written = change(&users, &account.name, expected, |user| {
            same(user, account)?;
            // A user that became an administrator in the meantime was not checked above.
            if administrates(user) && !resigns {
                let mut after = user.clone();
                patch.enter(&mut after);
                if !administrates(&after) {
                    return Err(Error::Changed(format!("user `{}`", account.name)));
                }
            }
            patch.enter(user);
            Ok(())
        })
        .await?;
        if resigns && !self.administrated_without(None).await? {
            change(&users, &account.name, None, |user| {
                same(user, account)?;
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
    async fn administrated_without(&self, name: Option<&str>) -> Result<bool, Error> {
        let users: Api<User> = Api::all(self.0.clients.own());
        let all = users.list(&ListParams::default()).await?;
        Ok(all.iter().any(|user| administrates(user) && Some(user.name_any().as_str()) != name))
    }

    /// Waits until the directory has the write, so that the caller's next read finds it.
    pub(crate) async fn heard_of(&self, written: &User) {
        let (Some(account), Some(version)) = (Account::of(written), written.resource_version()) else {
            return;
        };
        let heard = |directory: &crate::Directory| {
            directory.account(&account.id).is_none_or(|known| at_least(&known.version, &version))
        };
        self.0.directory.seen(heard).await;
    }
}

/// Checks that `user` is the same account by UID, and not a later one with the same name.
fn same(user: &User, account: &Account) -> Result<(), Error> {
    if user.uid().is_some_and(|uid| uid == account.uid) { Ok(()) } else { Err(unknown(&account.id)) }
}

fn unknown(id: &UserId) -> Error {
    Error::NotFound { kind: "user", name: id.to_string() }
}

#[cfg(test)]
mod tests;
