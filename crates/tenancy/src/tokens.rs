//! Tokens: `lsh_<id>_<secret>` with 256 random bits, shown once and stored as a SHA-256 digest in a Secret.
//!
//! A login token is created with the account. It grants all rights of its owner and can be used to sign in. An API token is
//! restricted to its scopes and expires.

use std::collections::BTreeMap;
use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use domain::ids::{TokenId, UserId};
use domain::scopes::Scopes;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube_types::well_known;
use sha2::{Digest, Sha256};

use crate::credential_store::{self, random_bytes};

pub(crate) mod last_use;
mod manage;

pub use manage::{NewToken, TokenRequest};

const TOKEN_PREFIX: &str = "lsh_";
const SECRET_BYTES: usize = 32;
/// 32 bytes in base64url without padding.
const SECRET_LEN: usize = 43;

/// Login tokens come with the account; API tokens are created by its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    Login,
    Api,
}

impl TokenKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::Api => "api",
        }
    }
}

/// The stored data of a token: all but its text.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenRecord {
    pub id: TokenId,
    pub owner: UserId,
    pub kind: TokenKind,
    pub name: String,
    pub scopes: Scopes,
    pub created: Timestamp,
    pub expires: Option<Timestamp>,
    pub last_use: Option<Timestamp>,
    digest: [u8; 32],
}

/// Omits the digest.
impl fmt::Debug for TokenRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenRecord")
            .field("id", &self.id)
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

/// The text of a token. Shown once; `Debug` omits it.
#[derive(Clone)]
pub struct TokenText(String);

impl TokenText {
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenText(…)")
    }
}

/// Generates a token. The text is the credential; only the record is stored.
pub(crate) fn mint(
    owner: &UserId,
    kind: TokenKind,
    name: &str,
    scopes: Scopes,
    now: Timestamp,
    expires: Option<Timestamp>,
) -> (TokenText, TokenRecord) {
    let id = TokenId::from_random(random_bytes());
    let secret = URL_SAFE_NO_PAD.encode(random_bytes::<SECRET_BYTES>());
    let text = format!("{TOKEN_PREFIX}{id}_{secret}");
    let record = TokenRecord {
        id,
        owner: owner.clone(),
        kind,
        name: name.to_owned(),
        scopes,
        created: now,
        expires,
        last_use: None,
        digest: digest(&text),
    };
    (TokenText(text), record)
}

/// Generates the login token of an account.
pub(crate) fn mint_login(owner: &UserId, now: Timestamp) -> (TokenText, TokenRecord) {
    mint(owner, TokenKind::Login, "login", Scopes::all(), now, None)
}

fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Whether the text has the prefix of our tokens.
pub(crate) fn has_token_prefix(text: &str) -> bool {
    text.starts_with(TOKEN_PREFIX)
}

/// Parses the id from the text of a token. `None` if the text is malformed.
pub(crate) fn parse(text: &str) -> Option<TokenId> {
    let (id, secret) = text.strip_prefix(TOKEN_PREFIX)?.split_once('_')?;
    let well = secret.len() == SECRET_LEN
        && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if well { id.parse().ok() } else { None }
}

impl TokenRecord {
    /// Whether `text` is this token. Compares in constant time.
    pub(crate) fn matches(&self, text: &str) -> bool {
        verify_slices_are_equal(&digest(text), &self.digest).is_ok()
    }

    /// Returns the record with other scopes.
    pub(crate) fn with_scopes(self, scopes: Scopes) -> Self {
        Self { scopes, ..self }
    }

    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    pub(crate) fn secret_name(id: &TokenId) -> String {
        format!("token-{id}")
    }

    pub(crate) fn to_secret(&self) -> Secret {
        let mut data = BTreeMap::from([
            ("sha256", hex(&self.digest)),
            ("kind", self.kind.as_str().to_owned()),
            ("name", self.name.clone()),
            ("scopes", self.scopes.to_string()),
            ("created", self.created.to_string()),
        ]);
        data.extend(self.expires.map(|expires| ("expires", expires.to_string())));
        credential_store::user_secret(Self::secret_name(&self.id), well_known::TOKEN_TYPE, &self.owner, data)
    }

    /// Parses a Secret of this type. `None` if a required field is missing or invalid: a broken record authenticates nothing.
    pub(crate) fn from_secret(secret: &Secret) -> Option<Self> {
        let field = |key| credential_store::secret_text(secret, key);
        let time = |text: &str| text.parse::<Timestamp>().ok();
        Some(Self {
            id: secret.metadata.name.as_deref()?.strip_prefix("token-")?.parse().ok()?,
            owner: secret.labels().get(well_known::USER)?.parse().ok()?,
            kind: match field("kind")? {
                "login" => TokenKind::Login,
                "api" => TokenKind::Api,
                _ => return None,
            },
            name: field("name")?.to_owned(),
            scopes: Scopes::parse(field("scopes")?.split(',')).ok()?,
            created: time(field("created")?)?,
            expires: match field("expires") {
                Some(text) => Some(time(text)?),
                None => None,
            },
            last_use: secret.annotations().get(well_known::LAST_USE).and_then(|text| time(text)),
            digest: unhex(field("sha256")?)?,
        })
    }
}

/// Encodes as lowercase hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing into a string");
        text
    })
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;
    use crate::credential_store::new_user_id;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn minted() -> (TokenText, TokenRecord) {
        let scopes = Scopes::parse(["read", "workspace:acme"]).unwrap();
        mint(&new_user_id(), TokenKind::Api, "build, deploy", scopes, at(1000), Some(at(2000)))
    }

    #[test]
    fn token_record_round_trips_without_the_token_text() {
        let (text, record) = minted();
        let secret = record.to_secret();
        assert_eq!(TokenRecord::from_secret(&secret).unwrap(), record);
        let (_, tail) = text.expose().rsplit_once(record.id.as_str()).unwrap();
        for kept in
            [format!("{secret:?}"), serde_json::to_string(&secret).unwrap(), format!("{record:?} {text:?}")]
        {
            assert!(!kept.contains(&tail[1..]), "{kept}");
        }
        for value in secret.data.unwrap().values() {
            assert!(!String::from_utf8_lossy(&value.0).contains(&tail[1..]));
        }
    }

    #[test]
    fn incomplete_secret_is_no_token() {
        let (_, record) = minted();
        for key in ["sha256", "kind", "name", "scopes", "created"] {
            let mut secret = record.to_secret();
            secret.data.as_mut().unwrap().remove(key);
            assert!(TokenRecord::from_secret(&secret).is_none(), "{key}");
        }
        for (key, wrong) in
            [("sha256", "00"), ("kind", "root"), ("scopes", ""), ("expires", "never"), ("created", "")]
        {
            let mut secret = record.to_secret();
            secret.data.as_mut().unwrap().insert(key.to_owned(), k8s_openapi::ByteString(wrong.into()));
            assert!(TokenRecord::from_secret(&secret).is_none(), "{key}={wrong}");
        }
    }

    #[test]
    fn token_expires_at_its_expiry() {
        let (text, record) = minted();
        assert_eq!(text.expose().len(), 4 + 10 + 1 + 43);
        assert!(record.matches(text.expose()));
        assert!(!record.is_expired(at(1999)) && record.is_expired(at(2000)));
        assert!(!mint_login(&record.owner, at(1000)).1.is_expired(Timestamp::MAX));
    }

    proptest! {
        #[test]
        fn no_token_that_was_changed_is_accepted(place: Index, with in any::<char>(), cut in any::<bool>()) {
            let (text, record) = minted();
            let mut changed: Vec<char> = text.expose().chars().collect();
            let place = place.index(changed.len());
            if cut { changed.truncate(place) } else { changed[place] = with }
            let changed: String = changed.into_iter().collect();
            prop_assume!(changed != text.expose());
            prop_assert!(!record.matches(&changed));
        }

        #[test]
        fn no_text_panics_the_parser(text in "\\PC{0,80}", tail in "[A-Za-z0-9_-]{40,46}") {
            let _ = parse(&text);
            prop_assert_eq!(parse(&format!("lsh_aaaaaaaaaa_{tail}")).is_some(), tail.len() == SECRET_LEN);
        }
    }
}
