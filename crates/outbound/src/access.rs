//! Credentials and trusted certificates.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;

/// Secret text. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SecretString(String);

impl SecretString {
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Credentials of the `Authorization` header.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HttpAuth {
    Basic { username: String, password: SecretString },
    Bearer(SecretString),
}

impl HttpAuth {
    /// Returns the header value, or `None` if the credentials contain characters that a header cannot carry.
    pub(crate) fn to_header_value(&self) -> Option<HeaderValue> {
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
pub struct TlsTrust {
    /// Custom authorities. If absent, the system's are used; with `include_system_roots`, both are.
    pub authorities: Option<String>,
    pub include_system_roots: bool,
    pub client_certificate: Option<ClientCertificate>,
    /// Accepts any server certificate.
    pub insecure_skip_verify: bool,
}

/// Client certificate with its chain and key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    pub certificate: String,
    pub key: SecretString,
}

/// Credentials and trust for one origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Access {
    pub auth: Option<HttpAuth>,
    pub trust: TlsTrust,
}

impl Access {
    /// No credentials; trusts the system's authorities.
    pub fn anonymous() -> Self {
        Self::default()
    }

    /// Returns what remains after a redirect to another origin: no login, no client certificate, no blind trust. Custom
    /// authorities are kept, in addition to the system's.
    #[must_use]
    pub fn for_other_origin(&self) -> Self {
        let authorities = self.trust.authorities.clone();
        let trust = TlsTrust {
            include_system_roots: authorities.is_some(),
            authorities,
            client_certificate: None,
            insecure_skip_verify: false,
        };
        Self { auth: None, trust }
    }

    /// Whether it contains credentials, which must not reach another origin.
    pub fn has_credentials(&self) -> bool {
        self.auth.is_some() || self.trust.client_certificate.is_some()
    }
}
