//! Who sends a request: a token of ours, a session, or a token of Kubernetes.

use domain::Actor;
use domain::actor::Via;

use crate::{Error, Tenancy, tokens};

/// What a request carries to say who sends it.
#[derive(Clone, Copy, Default)]
pub struct Presented<'a> {
    /// After `Authorization: Bearer`. Where there is one, the cookie does not count.
    pub bearer: Option<&'a str>,
    /// The value of the cookie [`crate::sessions::COOKIE`].
    pub cookie: Option<&'a str>,
    /// The value of the header [`crate::sessions::CSRF_HEADER`].
    pub csrf: Option<&'a str>,
    /// Whether the request's method is one that changes things.
    pub is_unsafe: bool,
}

impl Tenancy {
    /// Whoever sends it. All that can be wrong with a credential has one answer.
    pub async fn authenticate(&self, presented: &Presented<'_>) -> Result<Actor, Error> {
        match (presented.bearer, presented.cookie) {
            (Some(text), _) if tokens::is_ours(text) => self.by_token(text),
            (Some(text), _) => self.by_kubernetes(text).await,
            (None, Some(cookie)) => self.by_session(cookie, presented.csrf, presented.is_unsafe),
            (None, None) => Err(Error::NotSignedIn),
        }
    }

    fn by_token(&self, text: &str) -> Result<Actor, Error> {
        let now = self.0.clock.now();
        let known = tokens::parse(text).and_then(|id| self.0.directory.token(&id));
        let token =
            known.filter(|token| token.is(text) && !token.is_expired(now)).ok_or(Error::NotSignedIn)?;
        let via = Via::Token { id: token.id.clone(), scopes: token.scopes.clone() };
        let actor = self.0.directory.actor(&token.owner, via).ok_or(Error::NotSignedIn)?;
        self.0.last_use.note(&token, now);
        Ok(actor)
    }

    fn by_session(&self, cookie: &str, csrf: Option<&str>, is_unsafe: bool) -> Result<Actor, Error> {
        let (session, key) = self.0.keys.open(cookie).ok_or(Error::NotSignedIn)?;
        let directory = &self.0.directory;
        let credentials = directory.credentials(&session.user);
        let good = credentials.is_some_and(|credentials| credentials.accept(&session.id, self.0.clock.now()))
            && directory.account(&session.user).is_some_and(|account| account.uid == session.uid);
        if !good {
            return Err(Error::NotSignedIn);
        }
        let actor = directory.actor(&session.user, Via::Session { id: session.id.to_string() });
        if is_unsafe && !csrf.is_some_and(|given| key.is_csrf(&session.id, given)) {
            return Err(Error::ForgedRequest);
        }
        actor.ok_or(Error::NotSignedIn)
    }

    /// The token against forged requests of the session in this cookie, for a page that was loaded anew. Of a cookie that is
    /// not ours there is none; whether the session is still good is asked of [`Tenancy::authenticate`].
    pub fn csrf_of(&self, cookie: &str) -> Option<String> {
        let (session, key) = self.0.keys.open(cookie)?;
        Some(key.csrf(&session.id))
    }
}
