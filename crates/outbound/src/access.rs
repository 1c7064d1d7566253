//! Credentials and trusted certificates.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// Secret text. `Debug` does not print it.
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

/// Credentials of the `Authorization` header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Login {
    Basic { username: String, password: Secret },
    Bearer(Secret),
}

impl Login {
    /// Returns the header value, or `None` if the credentials contain characters that a header cannot carry.
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

/// Trusted certificate authorities and the client certificate, all PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trust {
    /// Custom authorities. If absent, the system's are used; with `also_system`, both are.
    pub authorities: Option<String>,
    pub also_system: bool,
    pub identity: Option<Identity>,
    /// Accepts any server certificate.
    pub blindly: bool,
}

/// Client certificate with its chain and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    pub certificate: String,
    pub key: Secret,
}

/// Credentials and trust for one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    pub login: Option<Login>,
    pub trust: Trust,
}

impl Access {
    /// No credentials; trusts the system's authorities.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns what remains after a redirect to another origin: no login, no client certificate, no blind trust. Custom
    /// authorities are kept, in addition to the system's.
    #[must_use]
    pub fn elsewhere(&self) -> Self {
        let authorities = self.trust.authorities.clone();
        let trust = Trust { also_system: authorities.is_some(), authorities, identity: None, blindly: false };
        Self { login: None, trust }
    }

    /// Whether it contains credentials, which must not reach another origin.
    pub fn has_credentials(&self) -> bool {
        self.login.is_some() || self.trust.identity.is_some()
    }
}
