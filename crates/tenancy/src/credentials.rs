//! Changing what somebody is recognised by: the password, and all sessions at once.

use std::net::IpAddr;

use domain::fields::Password;
use domain::ids::UserId;
use domain::roles::Capability;
use domain::{Actor, Place};

use crate::secrets::change_credentials;
use crate::{Error, Tenancy};

impl Tenancy {
    /// Gives a person a new password and ends all their sessions. For oneself the old secret is needed (the password, or
    /// a login token where there is none); for others, the right to manage accounts.
    pub async fn change_password(
        &self,
        actor: &Actor,
        user: &UserId,
        old: Option<&str>,
        new: &Password,
        from: IpAddr,
    ) -> Result<(), Error> {
        if actor.id() == Some(user) {
            actor.themselves()?;
            let known = self.recognise(user.as_str(), old.unwrap_or_default(), from).await;
            // They are signed in: what is wrong is this one field.
            known.map_err(|error| match error {
                Error::WrongCredentials => Error::WrongOldSecret,
                other => other,
            })?;
        } else {
            self.manages(actor, user)?;
        }
        let kept = self.0.hasher.hash(new).await?;
        self.change(user, Some(&kept)).await
    }

    /// Ends all sessions of a person, and every stream that was opened through one.
    pub async fn revoke_sessions(&self, actor: &Actor, user: &UserId) -> Result<(), Error> {
        if actor.themselves().ok() != Some(user) {
            self.manages(actor, user)?;
        }
        self.change(user, None).await
    }

    fn manages(&self, actor: &Actor, user: &UserId) -> Result<(), Error> {
        actor.may(Capability::ManageUsers, Place::Platform)?;
        match self.0.directory.account(user) {
            Some(_) => Ok(()),
            None => Err(Error::NotFound { kind: "user", name: user.to_string() }),
        }
    }

    async fn change(&self, user: &UserId, password: Option<&str>) -> Result<(), Error> {
        let now = self.0.clock.now();
        let written = change_credentials(self.0.clients.own(), user, now, |credentials| {
            credentials.raise_epoch(now);
            if let Some(password) = password {
                credentials.password = Some(password.to_owned());
            }
        });
        let epoch = written.await?.epoch;
        self.0.directory.seen(|directory| directory.epoch(user).is_some_and(|seen| seen >= epoch)).await;
        Ok(())
    }
}
