//! Secret text.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A password or token. It is stored in the contexts file and sent to its server, but never printed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }

    /// The public id of a token `lsh_<id>_<secret>`.
    pub fn token_id(&self) -> Option<&str> {
        let (id, _) = self.0.strip_prefix("lsh_")?.split_once('_')?;
        Some(id)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_debug_shows_token_id_only() {
        let token = Secret::new("lsh_abcdefghij_canary");
        assert_eq!(token.token_id(), Some("abcdefghij"));
        assert!(!format!("{token:?}").contains("canary"));
        assert_eq!(Secret::new("password").token_id(), None);
    }
}
