//! Arguments of joining: server, token and CA hash.

use std::fmt;
use std::str::FromStr;

use http::Uri;

/// Address of a Kubernetes API: https, a host, a port, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress(Box<Uri>);

impl ServerAddress {
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Host and port, as a socket takes them.
    pub fn host_and_port(&self) -> (&str, u16) {
        let host = self.0.host().unwrap_or_default();
        (host.trim_start_matches('[').trim_end_matches(']'), self.0.port_u16().unwrap_or(443))
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    /// Without a scheme it is https, as with other tools that join nodes.
    fn from_str(text: &str) -> Result<Self, String> {
        let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let uri: Uri = whole.parse().map_err(|error| format!("`{text}` is not a valid address: {error}"))?;
        if uri.scheme_str() != Some("https") {
            return Err(format!("`{text}` is not an https address"));
        }
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        if authority.is_empty() || authority.contains('@') || uri.query().is_some() || uri.path() != "/" {
            return Err(format!("`{text}` is not an address of the form https://HOST:PORT"));
        }
        let plain = format!("https://{authority}/").parse();
        plain
            .map(|uri| Self(Box::new(uri)))
            .map_err(|error| format!("`{text}` is not a valid address: {error}"))
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_string().trim_end_matches('/'))
    }
}

/// A bootstrap token. The id is public, the secret is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    id: String,
    secret: String,
}

impl JoinToken {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn secret(&self) -> &str {
        &self.secret
    }

    /// The complete token, for a cluster that was verified.
    pub(super) fn expose(&self) -> String {
        format!("{}.{}", self.id, self.secret)
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JoinToken({}.…)", self.id)
    }
}

impl FromStr for JoinToken {
    type Err = String;

    /// The error does not repeat the text, which may be mostly secret.
    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        };
        match text.split_once('.') {
            Some((id, secret)) if plain(id, 6) && plain(secret, 16) => {
                Ok(Self { id: id.to_owned(), secret: secret.to_owned() })
            }
            _ => Err("a token has the form ID.SECRET: 6 and 16 lower-case letters or digits".to_owned()),
        }
    }
}

/// SHA-256 of the public key of the cluster's CA.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CaCertHash([u8; 32]);

impl CaCertHash {
    pub(super) fn from_digest(digest: [u8; 32]) -> Self {
        Self(digest)
    }
}

impl fmt::Display for CaCertHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for CaCertHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for CaCertHash {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not `sha256:` followed by 64 hexadecimal digits");
        let digits = text.strip_prefix("sha256:").filter(|digits| digits.len() == 64 && digits.is_ascii());
        let digits = digits.ok_or_else(wrong)?;
        let mut hash = [0; 32];
        for (n, byte) in hash.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&digits[2 * n..2 * n + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(hash))
    }
}

/// Parses a Node name.
pub(super) fn node_name(text: &str) -> Result<String, String> {
    let part = |part: &str| {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        !part.is_empty() && part.bytes().all(plain) && !part.starts_with('-') && !part.ends_with('-')
    };
    // The label `kubernetes.io/hostname` has at most 63 characters.
    if text.len() <= 63 && text.split('.').all(part) {
        return Ok(text.to_owned());
    }
    Err("a node name has at most 63 lower-case letters, digits, `-` and `.`, and starts and ends with a letter or digit".to_owned())
}

pub(super) fn label_value(text: &str) -> Result<String, String> {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let ends = [text.bytes().next(), text.bytes().last()];
    let framed = ends.into_iter().flatten().all(|b| b.is_ascii_alphanumeric());
    if text.len() <= 63 && text.bytes().all(inner) && framed {
        return Ok(text.to_owned());
    }
    Err(format!("`{text}` is not a valid label value"))
}

pub(super) fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("`{text}` is not of the form KEY=VALUE"))?;
    if key.is_empty() {
        return Err(format!("`{text}` has an empty key"));
    }
    Ok((key.to_owned(), label_value(value)?))
}
