//! Sessions: a signed cookie with user, epoch and expiry.
//!
//! Format: `base64url(payload).base64url(HMAC-SHA256)`. The payload is a [`Session`] in JSON. The server stores no sessions. A
//! session is valid while it is signed by one of our keys, it has not expired, the User object has the same UID, and the
//! user's epoch is the one at which the session was opened. The CSRF token is a second signature, over the session id.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::UserId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::credential_store::random_bytes;

pub(crate) mod keys;

/// The name of the cookie.
pub const COOKIE_NAME: &str = "longshore_session";
/// The header that unsafe requests with a cookie carry.
pub const CSRF_HEADER: &str = "x-csrf-token";

/// Maximum length of a cookie or CSRF token. Issued ones are shorter.
const MAX_COOKIE_LEN: usize = 1024;

/// The payload of the cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Session {
    pub user: UserId,
    /// The UID of the User object.
    pub uid: String,
    pub id: SessionId,
    /// In seconds since 1970-01-01.
    pub issued: i64,
}

/// The id of a session. It contains expiry and epoch, so that the validity of an actor's session can be checked at any time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SessionId {
    pub epoch: u64,
    /// In seconds since 1970-01-01.
    pub expires: i64,
    nonce: String,
}

#[derive(Debug, thiserror::Error)]
#[error("not a session id")]
pub(crate) struct InvalidSessionId;

impl SessionId {
    pub fn new(epoch: u64, expires: Timestamp) -> Self {
        Self { epoch, expires: expires.as_second(), nonce: URL_SAFE_NO_PAD.encode(random_bytes::<16>()) }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires <= now.as_second()
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.expires, self.nonce)
    }
}

impl FromStr for SessionId {
    type Err = InvalidSessionId;

    fn from_str(text: &str) -> Result<Self, InvalidSessionId> {
        let mut parts = text.split('.');
        let mut part = || parts.next().ok_or(InvalidSessionId);
        let (epoch, expires, nonce) = (part()?, part()?, part()?.to_owned());
        Ok(Self {
            epoch: epoch.parse().map_err(|_| InvalidSessionId)?,
            expires: expires.parse().map_err(|_| InvalidSessionId)?,
            nonce,
        })
    }
}

impl TryFrom<String> for SessionId {
    type Error = InvalidSessionId;

    fn try_from(text: String) -> Result<Self, InvalidSessionId> {
        text.parse()
    }
}

impl From<SessionId> for String {
    fn from(id: SessionId) -> Self {
        id.to_string()
    }
}

/// A key that signs sessions.
#[derive(Clone)]
pub(crate) struct SessionKey(hmac::Key);

impl SessionKey {
    pub fn new(bytes: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, bytes))
    }

    /// The value of the cookie.
    pub fn sign(&self, session: &Session) -> String {
        let payload = serde_json::to_vec(session).expect("a session is JSON");
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let tag = hmac::sign(&self.0, payload.as_bytes());
        format!("{payload}.{}", URL_SAFE_NO_PAD.encode(tag))
    }

    /// Parses the cookie if this key has signed it. The payload of other cookies is not parsed.
    pub fn verify(&self, cookie: &str) -> Option<Session> {
        let (payload, tag) = cookie.split_once('.').filter(|_| cookie.len() <= MAX_COOKIE_LEN)?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, payload.as_bytes(), &tag).ok()?;
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    /// The CSRF token: unsafe requests must carry it in addition to the cookie.
    pub fn csrf_token(&self, id: &SessionId) -> String {
        URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, csrf_message(id).as_bytes()))
    }

    /// Whether `given` is the CSRF token of this session. Compares in constant time.
    pub fn verify_csrf_token(&self, id: &SessionId, given: &str) -> bool {
        let given = if given.len() <= MAX_COOKIE_LEN { URL_SAFE_NO_PAD.decode(given).ok() } else { None };
        given.is_some_and(|given| hmac::verify(&self.0, csrf_message(id).as_bytes(), &given).is_ok())
    }
}

/// The signed text of a CSRF token. No payload contains a colon, so neither signature is valid in place of the other.
fn csrf_message(id: &SessionId) -> String {
    format!("csrf:{id}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::credential_store::new_user_id;

    fn session() -> Session {
        let id = SessionId::new(7, Timestamp::from_second(2000).unwrap());
        Session { user: new_user_id(), uid: "a-b-c".to_owned(), id, issued: 1000 }
    }

    #[test]
    fn cookie_round_trips_with_its_key_only() {
        let (one, other) = (SessionKey::new(&[1; 32]), SessionKey::new(&[2; 32]));
        let session = session();
        let cookie = one.sign(&session);
        assert_eq!(one.verify(&cookie), Some(session.clone()));
        assert_eq!(other.verify(&cookie), None);
        assert!(
            cookie.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)),
            "{cookie}"
        );
        assert!(cookie.len() < MAX_COOKIE_LEN / 2, "{}", cookie.len());
        assert!(!session.id.is_expired(Timestamp::from_second(1999).unwrap()));
        assert!(session.id.is_expired(Timestamp::from_second(2000).unwrap()));
    }

    #[test]
    fn csrf_token_is_valid_for_one_session() {
        let key = SessionKey::new(&[1; 32]);
        let (mine, theirs) = (session(), session());
        assert!(key.verify_csrf_token(&mine.id, &key.csrf_token(&mine.id)));
        assert!(!key.verify_csrf_token(&mine.id, &key.csrf_token(&theirs.id)));
        assert!(!SessionKey::new(&[2; 32]).verify_csrf_token(&mine.id, &key.csrf_token(&mine.id)));
        let cookie = key.sign(&mine);
        let (payload, tag) = cookie.split_once('.').unwrap();
        for wrong in ["", tag, payload, &format!("{}A", key.csrf_token(&mine.id)), &"A".repeat(10_000)] {
            assert!(!key.verify_csrf_token(&mine.id, wrong), "{wrong}");
        }
        assert_eq!(key.verify(&format!("{payload}.{}", key.csrf_token(&mine.id))), None);
    }

    #[test]
    fn unsigned_payload_is_not_parsed() {
        let payload = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&session()).unwrap());
        for tag in ["", "AAAA", &URL_SAFE_NO_PAD.encode([0; 32])] {
            assert_eq!(SessionKey::new(&[1; 32]).verify(&format!("{payload}.{tag}")), None);
        }
    }

    proptest! {
        #[test]
        fn no_cookie_that_was_changed_is_accepted(place: Index, with in any::<char>(), cut in any::<bool>()) {
            let key = SessionKey::new(&[1; 32]);
            let cookie = key.sign(&session());
            let mut changed: Vec<char> = cookie.chars().collect();
            let place = place.index(changed.len());
            if cut { changed.truncate(place) } else { changed[place] = with }
            let changed: String = changed.into_iter().collect();
            prop_assume!(changed != cookie);
            prop_assert_eq!(key.verify(&changed), None);
        }

        #[test]
        fn no_text_panics_the_parsers(text in "\\PC{0,80}", parts in "[0-9.]{0,40}") {
            let key = SessionKey::new(&[1; 32]);
            let _ = (key.verify(&text), key.verify_csrf_token(&session().id, &text), parts.parse::<SessionId>());
        }

        #[test]
        fn an_id_comes_back_from_its_text(epoch: u64, expires in 0..253_402_207_200_i64) {
            let id = SessionId::new(epoch, Timestamp::from_second(expires).unwrap());
            prop_assert_eq!(id.to_string().parse::<SessionId>().unwrap(), id);
        }
    }
}
