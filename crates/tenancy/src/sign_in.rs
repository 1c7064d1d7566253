//! Sign-in: exchanges a login name and a secret for a session.
//!
//! The secret is the password or a login token. Every failure gives the same response after the same time. Only the form of the
//! secret decides whether it is compared as a token or as a password.

use std::net::IpAddr;
use std::sync::Arc;

use domain::Actor;
use domain::actor::AuthMethod;
use domain::fields::Password;
use jiff::{SignedDuration, Timestamp};

use crate::credential_store::update_credentials;
use crate::directory::account::normalize_login;
use crate::sessions::{Session, SessionId};
use crate::tokens::{self, TokenKind};
use crate::{Account, Error, Tenancy};

/// The length limit of a login name. An e-mail address has at most 320 characters.
const MAX_LOGIN_LEN: usize = 512;

/// A new session. `cookie` and `csrf` are for its user alone.
pub struct NewSession {
    pub actor: Actor,
    /// The value of the cookie [`crate::sessions::COOKIE`].
    pub cookie: String,
    /// The value of the header [`crate::sessions::CSRF_HEADER`] in unsafe requests.
    pub csrf: String,
    pub expires: Timestamp,
}

impl Tenancy {
    /// Opens a session for the account that `login` names if `secret` is valid.
    pub async fn sign_in(&self, login: &str, secret: &str, from: IpAddr) -> Result<NewSession, Error> {
        let account = self.verify_credentials(login, secret, from).await?;
        if account.is_expired(self.0.clock.now()) {
            return Err(Error::AccountExpired);
        }
        self.open_session(&account).await
    }

    /// Returns the account if `secret` is valid for it. Accepts expired accounts, but not disabled ones.
    pub async fn verify_credentials(
        &self,
        login: &str,
        secret: &str,
        from: IpAddr,
    ) -> Result<Arc<Account>, Error> {
        let login = if login.len() <= MAX_LOGIN_LEN { normalize_login(login) } else { String::new() };
        let account = self.0.directory.find_by_login(&login);
        let attempt =
            self.0.throttle.sign_in(account.as_ref().map_or(&login, |account| account.id.as_str()), from)?;
        let fits = match self.is_valid_secret(account.as_deref(), secret).await {
            Ok(fits) => fits,
            Err(error) => {
                attempt.withdraw();
                return Err(error);
            }
        };
        match account.filter(|account| fits && !account.is_disabled && !account.is_deleting) {
            Some(account) => {
                attempt.succeed();
                Ok(account)
            }
            None => Err(Error::WrongCredentials),
        }
    }

    /// Whether this is the password or a login token of the account.
    pub(crate) async fn is_valid_secret(
        &self,
        account: Option<&Account>,
        secret: &str,
    ) -> Result<bool, Error> {
        let directory = &self.0.directory;
        if let Some(id) = tokens::parse(secret) {
            let token = directory.token(&id).filter(|token| {
                token.matches(secret)
                    && token.kind == TokenKind::Login
                    && !token.is_expired(self.0.clock.now())
            });
            return Ok(token.zip(account).is_some_and(|(token, account)| token.owner == account.id));
        }
        let kept = account.and_then(|account| directory.credentials(&account.id)?.password_hash.clone());
        self.0.hasher.verify(&Password::from_sign_in(secret), kept.as_deref()).await
    }

    /// Opens a session with a new id, so that session fixation is impossible.
    pub(crate) async fn open_session(&self, account: &Account) -> Result<NewSession, Error> {
        // Without credentials there is no epoch that could revoke the session.
        let epoch = self.0.directory.credential_epoch(&account.id).ok_or(Error::WrongCredentials)?;
        let now = self.0.clock.now();
        let expires = now + SignedDuration::from_hours(self.0.settings.session_lifetime_hours);
        let id = SessionId::new(epoch, expires);
        let actor = self.0.directory.actor(&account.id, AuthMethod::Session { id: id.to_string() });
        let session =
            Session { user: account.id.clone(), uid: account.uid.clone(), id, issued: now.as_second() };
        let key = self.0.session_keys.signing_key(now).await?;
        Ok(NewSession {
            actor: actor.ok_or(Error::WrongCredentials)?,
            cookie: key.sign(&session),
            csrf: key.csrf_token(&session.id),
            expires,
        })
    }

    /// Ends the actor's session. Does nothing for actors that authenticated with a token.
    pub async fn sign_out(&self, actor: &Actor) -> Result<(), Error> {
        let (AuthMethod::Session { id }, Some(user)) = (&actor.auth_method, actor.user_id()) else {
            return Ok(());
        };
        let session: SessionId = id.parse().map_err(|_| Error::Unauthenticated)?;
        let now = self.0.clock.now();
        update_credentials(self.0.clients.platform(), user, now, |credentials| {
            credentials.end_session(&session, now);
        })
        .await?;
        let is_over = |credentials: std::sync::Arc<crate::credential_store::Credentials>| {
            !credentials.accepts_session(&session, now)
        };
        self.0
            .directory
            .wait_for_own_write(|directory| directory.credentials(user).is_none_or(is_over))
            .await;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
