//! Authentication of requests: API and login tokens, session cookies, and Kubernetes ServiceAccount tokens.

use domain::Actor;
use domain::actor::AuthMethod;
use jiff::Timestamp;

use crate::sessions::SessionId;
use crate::{Error, Tenancy, tokens};

/// The credentials of a request.
#[derive(Clone, Copy, Default)]
pub struct RequestCredentials<'a> {
    /// The bearer token of the `Authorization` header. It takes precedence over the cookie.
    pub bearer: Option<&'a str>,
    /// The value of the cookie [`crate::sessions::COOKIE`].
    pub cookie: Option<&'a str>,
    /// The value of the header [`crate::sessions::CSRF_HEADER`].
    pub csrf: Option<&'a str>,
    /// Whether the request's method changes state.
    pub is_unsafe: bool,
}

impl Tenancy {
    /// Authenticates the sender of a request. Every invalid credential gives the same error.
    pub async fn authenticate(&self, presented: &RequestCredentials<'_>) -> Result<Actor, Error> {
        match (presented.bearer, presented.cookie) {
            (Some(text), _) if tokens::has_token_prefix(text) => self.authenticate_token(text),
            (Some(text), _) => self.authenticate_service_account(text).await,
            (None, Some(cookie)) => self.authenticate_session(cookie, presented.csrf, presented.is_unsafe),
            (None, None) => Err(Error::Unauthenticated),
        }
    }

    /// Authenticates by one of our tokens.
    fn authenticate_token(&self, text: &str) -> Result<Actor, Error> {
        let now = self.0.clock.now();
        let known = tokens::parse(text).and_then(|id| self.0.directory.token(&id));
        let token = known
            .filter(|token| token.matches(text) && !token.is_expired(now))
            .ok_or(Error::Unauthenticated)?;
        let via = AuthMethod::Token { id: token.id.clone(), scopes: token.scopes.clone() };
        let actor = self.0.directory.actor(&token.owner, via).ok_or(Error::Unauthenticated)?;
        self.0.last_use.record(&token, now);
        Ok(actor)
    }

    /// Authenticates by a session cookie. Unsafe requests also need the CSRF token.
    fn authenticate_session(
        &self,
        cookie: &str,
        csrf: Option<&str>,
        is_unsafe: bool,
    ) -> Result<Actor, Error> {
        let (session, key) = self.0.session_keys.verify(cookie).ok_or(Error::Unauthenticated)?;
        let directory = &self.0.directory;
        let credentials = directory.credentials(&session.user);
        let good = credentials
            .is_some_and(|credentials| credentials.accepts_session(&session.id, self.0.clock.now()))
            && directory.account(&session.user).is_some_and(|account| account.uid == session.uid);
        if !good {
            return Err(Error::Unauthenticated);
        }
        let actor = directory.actor(&session.user, AuthMethod::Session { id: session.id.to_string() });
        if is_unsafe && !csrf.is_some_and(|given| key.verify_csrf_token(&session.id, given)) {
            return Err(Error::InvalidCsrfToken);
        }
        actor.ok_or(Error::Unauthenticated)
    }

    /// The expiry of the actor's session. `None` for actors that authenticated otherwise.
    pub fn session_expiry(&self, actor: &Actor) -> Option<Timestamp> {
        let AuthMethod::Session { id } = &actor.auth_method else { return None };
        let session: SessionId = id.parse().ok()?;
        Timestamp::from_second(session.expires).ok()
    }

    /// The CSRF token of the session in this cookie, for a page that was reloaded. `None` for a cookie with an invalid signature.
    /// Does not check that the session is still valid: [`Tenancy::authenticate`] does.
    pub fn csrf_token_of_cookie(&self, cookie: &str) -> Option<String> {
        let (session, key) = self.0.session_keys.verify(cookie)?;
        Some(key.csrf_token(&session.id))
    }
}
