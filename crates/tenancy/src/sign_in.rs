//! Sign-in: exchanges a login name and a secret for a session.
//!
//! The secret is the password or a login token. Every failure gives the same response after the same time. Only the form of the
//! secret decides whether it is compared as a token or as a password.

use std::net::IpAddr;
use std::sync::Arc;

use domain::Actor;
use domain::actor::Via;
use domain::fields::Password;
use jiff::{SignedDuration, Timestamp};

use crate::directory::account::normal;
use crate::secrets::change_credentials;
use crate::sessions::{Session, SessionId};
use crate::tokens::{self, TokenKind};
use crate::{Account, Error, Tenancy};

/// The length limit of a login name. An e-mail address has at most 320 characters.
const LONGEST_LOGIN: usize = 512;

/// A new session. `cookie` and `csrf` are for its user alone.
pub struct SignedIn {
    pub actor: Actor,
    /// The value of the cookie [`crate::sessions::COOKIE`].
    pub cookie: String,
    /// The value of the header [`crate::sessions::CSRF_HEADER`] in unsafe requests.
    pub csrf: String,
    pub expires: Timestamp,
}

impl Tenancy {
    /// Opens a session for the account that `login` names if `secret` is valid.
    pub async fn sign_in(&self, login: &str, secret: &str, from: IpAddr) -> Result<SignedIn, Error> {
        let account = self.recognise(login, secret, from).await?;
        if account.is_expired(self.0.clock.now()) {
            return Err(Error::AccountExpired);
        }
        self.open_session(&account).await
    }

    /// Returns the account if `secret` is valid for it. Accepts expired accounts, but not disabled ones.
    pub async fn recognise(&self, login: &str, secret: &str, from: IpAddr) -> Result<Arc<Account>, Error> {
        let login = if login.len() <= LONGEST_LOGIN { normal(login) } else { String::new() };
        let account = self.0.directory.by_login(&login);
        let attempt =
            self.0.throttle.sign_in(account.as_ref().map_or(&login, |account| account.id.as_str()), from)?;
        let fits = match self.fits(account.as_deref(), secret).await {
            Ok(fits) => fits,
            Err(error) => {
                attempt.withdrawn();
                return Err(error);
            }
        };
        match account.filter(|account| fits && !account.disabled && !account.leaving) {
            Some(account) => {
                attempt.succeeded();
                Ok(account)
            }
            None => Err(Error::WrongCredentials),
        }
    }

    /// Whether this is the password or a login token of the account.
    pub(crate) async fn fits(&self, account: Option<&Account>, secret: &str) -> Result<bool, Error> {
        let directory = &self.0.directory;
        if let Some(id) = tokens::parse(secret) {
            let token = directory.token(&id).filter(|token| {
                token.is(secret) && token.kind == TokenKind::Login && !token.is_expired(self.0.clock.now())
            });
            return Ok(token.zip(account).is_some_and(|(token, account)| token.owner == account.id));
        }
        let kept = account.and_then(|account| directory.credentials(&account.id)?.password.clone());
        self.0.hasher.is(&Password::attempt(secret), kept.as_deref()).await
    }

    /// Opens a session with a new id, so that session fixation is impossible.
    pub(crate) async fn open_session(&self, account: &Account) -> Result<SignedIn, Error> {
        // Without credentials there is no epoch that could revoke the session.
        let epoch = self.0.directory.epoch(&account.id).ok_or(Error::WrongCredentials)?;
        let now = self.0.clock.now();
        let expires = now + SignedDuration::from_hours(self.0.settings.session_hours);
        let id = SessionId::new(epoch, expires);
        let actor = self.0.directory.actor(&account.id, Via::Session { id: id.to_string() });
        let session =
            Session { user: account.id.clone(), uid: account.uid.clone(), id, issued: now.as_second() };
        let key = self.0.keys.current(now).await?;
        Ok(SignedIn {
            actor: actor.ok_or(Error::WrongCredentials)?,
            cookie: key.sign(&session),
            csrf: key.csrf(&session.id),
            expires,
        })
    }

    /// Ends the actor's session. Does nothing for actors that authenticated with a token.
    pub async fn sign_out(&self, actor: &Actor) -> Result<(), Error> {
        let (Via::Session { id }, Some(user)) = (&actor.via, actor.id()) else { return Ok(()) };
        let session: SessionId = id.parse().map_err(|_| Error::NotSignedIn)?;
        let now = self.0.clock.now();
        change_credentials(self.0.clients.own(), user, now, |credentials| credentials.end(&session, now))
            .await?;
        let is_over =
            |credentials: std::sync::Arc<crate::secrets::Credentials>| !credentials.accept(&session, now);
        self.0.directory.seen(|directory| directory.credentials(user).is_none_or(is_over)).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
