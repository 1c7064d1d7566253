//! How one is let in, and whom one believes.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// A text that nobody gets to see.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// How one shows who one is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Login {
    Basic { username: String, password: Secret },
    Bearer(Secret),
}

impl Login {
    /// The header, unless a header cannot carry it.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let text = match self {
            Self::Basic { username, password } => {
                format!("Basic {}", STANDARD.encode(format!("{username}:{}", password.expose())))
            }
            Self::Bearer(token) => format!("Bearer {}", token.expose()),
        };
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

/// Whose certificates are believed, and the certificate by which one is known oneself. All are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// These authorities and, if that is said, also those that the system trusts; without any, the system's.
    pub authorities: Option<String>,
    pub also_system: bool,
    pub identity: Option<Identity>,
    /// Any certificate is believed.
    pub blindly: bool,
}

/// A certificate, its chain, and its key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub certificate: String,
    pub key: Secret,
}

/// All that is for one origin and no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    pub login: Option<Login>,
    pub trust: Trust,
}

impl Access {
    /// Nothing but what the system trusts.
    pub fn none() -> Self {
        Self::default()
    }

    /// What is left of it at another origin: no login, no certificate of one's own, no blind trust. Authorities are only
    /// more to be believed, beside the system's.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        let authorities = self.trust.authorities.clone();
        let trust = Trust { also_system: authorities.is_some(), authorities, identity: None, blindly: false };
        Self { login: None, trust }
    }

    /// Whether there is anything in it that others must not get.
    pub fn has_credentials(&self) -> bool {
        self.login.is_some() || self.trust.identity.is_some()
    }
}
