//! Accounts as their owners and the administrators see and change them.
//!
//! Always true of what is done here: somebody who can administrate the platform, and whose account has no end, remains.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::fields::{Email, Organization};
use domain::ids::UserId;
use domain::roles::{Capability, PlatformRole};
use domain::{Actor, Place};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use kube_types::User;

use crate::change::{at_least, change};
use crate::directory::Account;
use crate::register::claims::{self, Claim, only};
use crate::secrets::is_code;
use crate::{Error, Tenancy};

/// What may be changed of an account. The first four only an administrator may; the others its owner too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserPatch {
    pub disabled: Option<bool>,
    /// In days; 0: without end.
    pub valid_days: Option<i64>,
    pub max_nodes: Option<i64>,
    pub platform: Option<BTreeSet<PlatformRole>>,
    pub organization: Option<String>,
    pub email: Option<String>,
}

/// A [`UserPatch`] whose fields have been checked.
struct Checked {
    disabled: Option<bool>,
    valid_days: Option<i64>,
    max_nodes: Option<i64>,
    platform: Option<BTreeSet<PlatformRole>>,
    organization: Option<Organization>,
    email: Option<Email>,
}

impl UserPatch {
    fn only_for_administrators(&self) -> bool {
        let Self { disabled, valid_days, max_nodes, platform, organization: _, email: _ } = self;
        disabled.is_some() || valid_days.is_some() || max_nodes.is_some() || platform.is_some()
    }

    fn checked(self) -> Result<Checked, Error> {
        let within = |name: &str, value: Option<i64>, most: i64| match value {
            Some(value) if !(0..=most).contains(&value) => {
                Err(Error::Invalid(format!("{name} is 0 to {most}")))
            }
            value => Ok(value),
        };
        let Self { disabled, valid_days, max_nodes, platform, organization, email } = self;
        Ok(Checked {
            disabled,
            valid_days: within("the validity in days", valid_days, 36_500)?,
            max_nodes: within("the number of nodes", max_nodes, 10_000)?,
            platform,
            organization: organization.as_deref().map(Organization::parse).transpose()?,
            email: email.as_deref().map(Email::parse).transpose()?,
        })
    }
}

impl Checked {
    fn enter(&self, user: &mut User) {
        let Self { disabled, valid_days, max_nodes, platform, organization, email } = self;
        let spec = &mut user.spec;
        spec.disabled = disabled.unwrap_or(spec.disabled);
        spec.valid_period = valid_days.unwrap_or(spec.valid_period);
        spec.max_node_num = max_nodes.unwrap_or(spec.max_node_num);
        if let Some(roles) = platform {
            spec.platform_roles = roles.iter().map(ToString::to_string).collect();
        }
        if let Some(organization) = organization {
            organization.as_str().clone_into(&mut spec.organization);
        }
        if let Some(email) = email {
            email.as_str().clone_into(&mut spec.email);
        }
    }
}

/// Whether somebody administrates the platform by this account, for as long as nobody changes that.
fn administrates(user: &User) -> bool {
    let admin = user.spec.platform_roles.iter().any(|role| role == PlatformRole::Admin.as_str());
    admin && !user.spec.disabled && user.spec.valid_period == 0 && user.metadata.deletion_timestamp.is_none()
}

impl Tenancy {
    /// Everybody, by the name of the object.
    pub fn users(&self, actor: &Actor) -> Result<Vec<Arc<Account>>, Error> {
        actor.may(Capability::ReadUsers, Place::Platform)?;
        Ok(self.0.directory.accounts())
    }

    /// One account: one's own, or any for an administrator. What somebody may not see is not there for them.
    pub fn user(&self, actor: &Actor, id: &UserId) -> Result<Arc<Account>, Error> {
        let own = actor.id() == Some(id);
        if !own && actor.may(Capability::ReadUsers, Place::Platform).is_err() {
            return Err(unknown(id));
        }
        self.0.directory.account(id).ok_or_else(|| unknown(id))
    }

    /// Changes an account. `expected` is the version that the caller saw.
    pub async fn patch_user(
        &self,
        actor: &Actor,
        id: &UserId,
        patch: UserPatch,
        expected: Option<&str>,
    ) -> Result<Arc<Account>, Error> {
        let account = self.user(actor, id)?;
        if patch.only_for_administrators() || actor.id() != Some(id) {
            actor.may(Capability::ManageUsers, Place::Platform)?;
        } else {
            actor.themselves()?;
        }
        if patch.platform.is_some() {
            // Or a token that is good for little could make somebody who may do everything.
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

    /// Removes an account and all that is its own: one's own, or any for an administrator.
    pub async fn delete_user(&self, actor: &Actor, id: &UserId, expected: Option<&str>) -> Result<(), Error> {
        let account = self.user(actor, id)?;
        if actor.id() == Some(id) {
            actor.themselves()?;
        } else {
            actor.may(Capability::ManageUsers, Place::Platform)?;
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
            // A deletion cannot be taken back, the loss of a role can, should two administrators remove each other.
            let seen_version = seen.resource_version();
            let without = Checked {
                disabled: None,
                valid_days: None,
                max_nodes: None,
                platform: Some(BTreeSet::new()),
                organization: None,
                email: None,
            };
            seen = self.write_user(&account, &without, seen_version.as_deref()).await?;
        }
        // Whatever is written to the account meanwhile, this is the one to go: its UID says so.
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

    /// Writes, and takes it back where nobody is left to administrate the platform: two who do this to each other at once
    /// both see it after their own write.
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
            // One who became an administrator meanwhile was not asked about.
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

    /// Whether somebody administrates the platform, not counting one. Asks the cluster, not memory.
    async fn administrated_without(&self, name: Option<&str>) -> Result<bool, Error> {
        let users: Api<User> = Api::all(self.0.clients.own());
        let all = users.list(&ListParams::default()).await?;
        Ok(all.iter().any(|user| administrates(user) && Some(user.name_any().as_str()) != name))
    }

    /// Claims the new address, writes it, and gives the old one back. What a crash leaves is a claim that no longer counts.
    async fn move_address(
        &self,
        account: &Account,
        email: &Email,
        patch: &Checked,
        expected: Option<&str>,
    ) -> Result<User, Error> {
        let client = self.0.clients.own();
        let old = Email::parse(&account.email).ok();
        if old.as_ref() == Some(email) {
            return self.write_user(account, patch, expected).await;
        }
        if self.0.directory.by_login(email.as_str()).is_some_and(|other| other.id != account.id) {
            return Err(Error::AccountExists);
        }
        let claim = Claim { account: account.name.clone(), user: account.id.clone(), at: self.0.clock.now() };
        let claimed = claims::claim(client.clone(), email, &claim).await?;
        let written = match self.write_user(account, patch, expected).await {
            Ok(written) => written,
            Err(error) => {
                // A write whose outcome is not known may have happened; then the claim must stay, and counts.
                if !matches!(error, Error::Unavailable(_)) {
                    self.give_back(&claimed).await;
                }
                return Err(error);
            }
        };
        if let Some(old) = old
            && let Some(map) = claims::maps(client).get_opt(&claims::name(&old)).await?
            && Claim::of(&map).is_some_and(|claim| claim.user == account.id)
        {
            self.give_back(&map).await;
        }
        Ok(written)
    }

    async fn give_back(&self, claimed: &k8s_openapi::api::core::v1::ConfigMap) {
        if let Err(error) = claims::release(self.0.clients.own(), claimed).await {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not give an e-mail address back");
        }
    }

    /// Waits until memory knows what was written, so that the caller's next question finds it.
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

/// The account that was asked about, and not another that has its name since.
fn same(user: &User, account: &Account) -> Result<(), Error> {
    if user.uid().is_some_and(|uid| uid == account.uid) { Ok(()) } else { Err(unknown(&account.id)) }
}

fn unknown(id: &UserId) -> Error {
    Error::NotFound { kind: "user", name: id.to_string() }
}

#[cfg(test)]
mod tests;
