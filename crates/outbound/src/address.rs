//! URLs with scheme `http` or `https`.
//!
//! `Display` and `Debug` omit the query, because it may contain a signature.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// URL of a resource to fetch.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Address(Url);

/// Scheme, host and port of an address. Credentials for one origin are never sent to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

/// Parse error of an [`Address`]. It does not repeat the text, which may contain a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseAddressError {
    #[error("invalid URL: {0}")]
    Malformed(url::ParseError),
    #[error("unsupported URL scheme `{0}`: use http or https")]
    Scheme(String),
    #[error("the URL contains a user name or password: pass them as credentials instead")]
    Userinfo,
}

impl Address {
    fn from_url(url: Url) -> Result<Self, ParseAddressError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ParseAddressError::Scheme(domain::ids::truncate_for_error(url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(ParseAddressError::Userinfo);
        }
        Ok(Self(url))
    }

    /// Resolves a reference against this address, as browsers and redirects do.
    pub fn join(&self, reference: &str) -> Result<Self, ParseAddressError> {
        Self::from_url(self.0.join(reference).map_err(ParseAddressError::Malformed)?)
    }

    /// Resolves a reference against this address as a folder, with or without a trailing slash. Keeps the folder's
    /// query, as Helm does.
    pub fn join_below(&self, reference: &str) -> Result<Self, ParseAddressError> {
        // An absolute URL is used unchanged.
        if let Ok(whole) = Url::parse(reference) {
            return Self::from_url(whole);
        }
        let mut folder = self.0.clone();
        if !folder.path().ends_with('/') {
            folder.set_path(&format!("{}/", folder.path()));
        }
        let mut joined = folder.join(reference).map_err(ParseAddressError::Malformed)?;
        joined.set_query(self.0.query());
        Self::from_url(joined)
    }

    pub fn is_secure(&self) -> bool {
        self.0.scheme() == "https"
    }

    pub fn origin(&self) -> Origin {
        Origin {
            secure: self.is_secure(),
            host: self.0.host_str().unwrap_or_default().to_owned(),
            port: self.0.port_or_known_default().unwrap_or_default(),
        }
    }

    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    pub fn path(&self) -> &str {
        self.0.path()
    }

    /// Appends a query parameter.
    #[must_use]
    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        self.0.query_pairs_mut().append_pair(name, value);
        self
    }

    /// Returns the value of a query parameter.
    pub fn query(&self, name: &str) -> Option<String> {
        self.0.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The full URL with its query, for sending requests.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl FromStr for Address {
    type Err = ParseAddressError;

    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        Self::from_url(Url::parse(text).map_err(ParseAddressError::Malformed)?)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (origin, path) = (self.origin(), self.path());
        let path = if path == "/" { "" } else { path };
        write!(f, "{origin}{}", domain::ids::truncate_for_error(path))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.secure { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        text.parse().unwrap()
    }

    #[test]
    fn join_below_resolves_references_like_helm() {
        let rows = [
            ("https://a.example/charts", "web-1.tgz", "https://a.example/charts/web-1.tgz"),
            ("https://a.example/charts/", "web-1.tgz", "https://a.example/charts/web-1.tgz"),
            ("https://a.example/charts", "/web-1.tgz", "https://a.example/web-1.tgz"),
            ("https://a.example/charts", "../web-1.tgz", "https://a.example/web-1.tgz"),
            ("https://a.example/c?key=1", "web-1.tgz", "https://a.example/c/web-1.tgz?key=1"),
            ("https://a.example/c?key=1", "https://b.example/w?x=2", "https://b.example/w?x=2"),
            ("https://a.example", "index.yaml", "https://a.example/index.yaml"),
        ];
        for (base, reference, expected) in rows {
            assert_eq!(address(base).join_below(reference).unwrap().as_str(), expected);
        }
    }

    #[test]
    fn address_display_and_errors_hide_query_and_userinfo() {
        let shown = address("https://a.example:8443/x?signature=canary");
        assert_eq!(format!("{shown} {shown:?}"), "https://a.example:8443/x https://a.example:8443/x");
        for wrong in ["https://me:canary@a.example/", "ftp://me:canary@a.example", "https://canary@:x"] {
            let said = wrong.parse::<Address>().unwrap_err();
            assert!(!format!("{said} {said:?}").contains("canary"), "{said}");
        }
        assert!(address("https://a.example").join("https://me:canary@b.example").is_err());
        assert!(address("https://a.example").join("file:///etc/passwd").is_err());
    }

    #[test]
    fn origin_compares_scheme_host_and_port() {
        let here = address("https://a.example/x").origin();
        for (other, same) in [
            ("https://A.example:443/y?z", true),
            ("https://a.example.:443/", false),
            ("http://a.example/x", false),
            ("https://a.example:8443/x", false),
            ("https://b.example/x", false),
        ] {
            assert_eq!(address(other).origin() == here, same, "{other}");
        }
    }

    #[test]
    fn address_normalises_ipv4_spellings() {
        for odd in ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://0177.0.0.1/"] {
            assert_eq!(address(odd).host(), "127.0.0.1", "{odd}");
        }
    }
}
