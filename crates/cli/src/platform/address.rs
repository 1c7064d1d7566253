//! Address of a platform: scheme, host and port.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "`{0}` is not a platform address: expected one like https://longshore.example.com or http://127.0.0.1:8080"
    )]
    Malformed(String),
    #[error("`{0}` would send secrets unencrypted: http is allowed for this machine only, use https")]
    InsecureHttp(String),
}

/// Normalised address of a platform. Two spellings of one address are equal, so that a token is sent only to the server
/// that it belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    secure: bool,
    host: String,
    port: u16,
}

fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

fn is_loopback(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || bare.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

impl Address {
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Default name of a context.
    pub fn default_context_name(&self) -> String {
        let Self { secure, host, port } = self;
        if *port == default_port(*secure) { host.clone() } else { format!("{host}:{port}") }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    /// Without a scheme it is https, or http for a loopback host.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        // The text is not repeated in errors, because it may contain a password.
        let wrong = |shown: &str| AddressError::Malformed(shown.to_owned());
        let uri: Uri = text.trim().trim_end_matches('/').parse().map_err(|_| wrong("…"))?;
        let authority = uri.authority().ok_or_else(|| wrong("…"))?;
        if authority.as_str().contains('@') || !matches!(uri.path(), "" | "/") || uri.query().is_some() {
            return Err(wrong(authority.host()));
        }
        let host = authority.host().to_ascii_lowercase();
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            None => !is_loopback(&host),
            Some(_) => return Err(wrong(&host)),
        };
        let port = match authority.port() {
            // `http::Uri` treats an invalid port as absent.
            None if authority.as_str() != authority.host() => return Err(wrong(&host)),
            None => default_port(secure),
            Some(port) => port.as_str().parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong(&host))?,
        };
        if host.is_empty() {
            return Err(wrong("…"));
        }
        let address = Self { secure, host, port };
        if secure || is_loopback(&address.host) {
            Ok(address)
        } else {
            Err(AddressError::InsecureHttp(address.to_string()))
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.secure { "https" } else { "http" }, self.default_context_name())
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_spellings_are_normalized() {
        #[rustfmt::skip]
        let rows = [
            ("https://Longshore.Example.com/", "https://longshore.example.com", "longshore.example.com"),
            ("longshore.example.com",          "https://longshore.example.com", "longshore.example.com"),
            ("https://example.com:443",        "https://example.com",           "example.com"),
            ("example.com:8443",               "https://example.com:8443",      "example.com:8443"),
            ("127.0.0.1:8080",                 "http://127.0.0.1:8080",         "127.0.0.1:8080"),
            ("http://localhost:80",            "http://localhost",              "localhost"),
            ("http://[::1]:8080",              "http://[::1]:8080",             "[::1]:8080"),
        ];
        for (text, whole, short) in rows {
            let address: Address = text.parse().unwrap();
            assert_eq!(
                (address.to_string().as_str(), address.default_context_name().as_str()),
                (whole, short),
                "{text}"
            );
            assert_eq!(whole.parse(), Ok(address));
        }
    }

    #[test]
    fn address_rejects_malformed_and_insecure_urls() {
        for wrong in [
            "",
            "/",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://a?b",
            "https://a:0",
            "https://a:99999",
            "a b",
        ] {
            assert!(matches!(wrong.parse::<Address>(), Err(AddressError::Malformed(_))), "{wrong}");
        }
        let pasted = "https://ana:canary@example.com".parse::<Address>().unwrap_err().to_string();
        assert!(!pasted.contains("canary"), "{pasted}");
        for plain in ["http://example.com", "http://10.0.0.1:8080", "http://localhost.example.com"] {
            assert!(matches!(plain.parse::<Address>(), Err(AddressError::InsecureHttp(_))), "{plain}");
        }
    }
}
