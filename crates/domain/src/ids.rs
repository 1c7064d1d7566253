//! Ids and workspace names, validated once when they are parsed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Kubernetes' limit for the name of a namespace; workspace names become namespaces.
const MAX_NAMESPACE_LEN: usize = 63;

/// RFC 4648 base32 in lower case, because Kubernetes names allow no upper case.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    #[error("`{0}` is not a user id: it must be `u` and ten of the characters a-z and 2-7")]
    User(String),
    #[error("`{0}` is not a token id: it must be ten of the characters a-z and 2-7")]
    Token(String),
    #[error(
        "`{0}` is not a valid workspace name: at most 40 lower-case letters, digits and inner dashes, starting with a letter"
    )]
    Workspace(String),
    #[error("the name `{0}` is reserved for the system")]
    Reserved(String),
}

/// Lower-case base32 characters, one per random byte (its low five bits).
fn encode_base32<const N: usize>(random: [u8; N]) -> String {
    random.iter().map(|byte| char::from(BASE32[usize::from(byte & 31)])).collect()
}

fn is_base32(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| BASE32.contains(&byte))
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;

            fn try_from(text: String) -> Result<Self, IdError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }
    };
}

name! {
    /// Permanent id of a user: `u` and ten characters. The personal workspace and its first namespace have this name
    /// too.
    UserId
}

name! {
    /// Id of a token. It is not secret.
    TokenId
}

name! {
    /// Name of a workspace. Its first namespace has this name too.
    WorkspaceName
}

impl UserId {
    pub fn from_random(random: [u8; 10]) -> Self {
        Self(format!("u{}", encode_base32(random)))
    }
}

impl FromStr for UserId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        match text.strip_prefix('u') {
            Some(rest) if is_base32(rest, 10) => Ok(Self(text.to_owned())),
            _ => Err(IdError::User(truncate_for_error(text))),
        }
    }
}

impl TokenId {
    pub fn from_random(random: [u8; 10]) -> Self {
        Self(encode_base32(random))
    }
}

impl FromStr for TokenId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        if is_base32(text, 10) {
            Ok(Self(text.to_owned()))
        } else {
            Err(IdError::Token(truncate_for_error(text)))
        }
    }
}

/// Names reserved for the cluster and the platform, alone or as the first part of a name.
const RESERVED_NAMES: &[&str] =
    &["kube", "openyurt", "longshore", "default", "system", "admin", "host", "me"];

impl WorkspaceName {
    /// The personal workspace of a user.
    pub fn personal(user: &UserId) -> Self {
        Self(user.0.clone())
    }

    /// Whether it has the form of a user id, which only a personal workspace may have.
    pub fn is_personal(&self) -> bool {
        self.0.parse::<UserId>().is_ok()
    }

    /// Validates a name chosen by a user: not reserved, and not of the form of a user id.
    pub fn parse_chosen(text: &str) -> Result<Self, IdError> {
        let name: Self = text.parse()?;
        let first = text.split('-').next().unwrap_or(text);
        // A name that begins with a user id is a namespace of that account, or could become one.
        if RESERVED_NAMES.contains(&first) || first.parse::<UserId>().is_ok() {
            return Err(IdError::Reserved(text.to_owned()));
        }
        Ok(name)
    }
}

impl FromStr for WorkspaceName {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let well = text.len() <= 40
            && text.bytes().next().is_some_and(|first| first.is_ascii_lowercase())
            && text.bytes().last().is_some_and(small)
            && text.bytes().all(|byte| small(byte) || byte == b'-');
        if well { Ok(Self(text.to_owned())) } else { Err(IdError::Workspace(truncate_for_error(text))) }
    }
}

/// Name of a further namespace of a workspace: the workspace's name, a dash, and a word.
pub fn additional_namespace(workspace: &WorkspaceName, word: &str) -> Option<String> {
    let name = format!("{workspace}-{word}");
    let small = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let well = name.len() <= MAX_NAMESPACE_LEN
        && word.bytes().last().is_some_and(small)
        && word.bytes().next().is_some_and(small)
        && word.bytes().all(|byte| small(byte) || byte == b'-');
    well.then_some(name)
}

/// Truncates an invalid text for use in an error message.
pub fn truncate_for_error(text: &str) -> String {
    const LIMIT: usize = 64;
    match text.char_indices().nth(LIMIT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_id_is_u_and_ten_base32_characters() {
        let id = UserId::from_random([0, 1, 2, 3, 4, 25, 26, 31, 32, 255]);
        assert_eq!(id.as_str(), "uabcdez27a7");
        assert_eq!(id.as_str().parse(), Ok(id));
        for wrong in ["", "u", "uabcdez27a", "uabcdez27a77", "xabcdez27a7", "uABCDEZ27A7", "uabcdez27a1"] {
            assert!(wrong.parse::<UserId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn workspace_name_rejects_reserved_names() {
        for wrong in [
            "kube-system",
            "default",
            "longshore-system",
            "kube-x",
            "uabcdez27a7",
            "uabcdez27a7-test",
            "9a",
            "a-",
            "A",
            "",
            "a.b",
            "a/b",
        ] {
            assert!(WorkspaceName::parse_chosen(wrong).is_err(), "{wrong}");
        }
        assert!(WorkspaceName::parse_chosen(&"a".repeat(41)).is_err());
        for right in ["acme", "kubernetes-fans", "a", "team-7"] {
            assert!(WorkspaceName::parse_chosen(right).is_ok(), "{right}");
        }
    }

    #[test]
    fn id_error_truncates_long_input() {
        let message = "x".repeat(10_000).parse::<UserId>().unwrap_err().to_string();
        assert!(message.len() < 200, "{message}");
    }

    #[test]
    fn additional_namespace_starts_with_the_workspace_name() {
        let acme = WorkspaceName::parse_chosen("acme").unwrap();
        assert_eq!(additional_namespace(&acme, "test").as_deref(), Some("acme-test"));
        for wrong in ["", "-a", "a-", "A", "a.b"] {
            assert_eq!(additional_namespace(&acme, wrong), None, "{wrong}");
        }
    }
}
