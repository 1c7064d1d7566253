//! OCI references of charts: `oci://HOST[:PORT]/PATH[:TAG][@DIGEST]`.

use std::fmt;
use std::str::FromStr;

use crate::digest::Digest;

/// URL scheme of a reference.
pub const SCHEME: &str = "oci://";
/// Docker Hub: its name in references, and the host that serves its API.
const DOCKER_HUB: (&str, &str) = ("docker.io", "registry-1.docker.io");

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OciReference {
    /// Host, with the port if given.
    pub host: String,
    /// The repository in the registry.
    pub path: String,
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a chart reference: {why}")]
pub struct ParseReferenceError {
    text: String,
    why: &'static str,
}

impl FromStr for OciReference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, ParseReferenceError> {
        // The authority may contain a password before `@`; it is not shown then.
        let rest = text.strip_prefix(SCHEME);
        let authority = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
        let shown =
            if authority.contains('@') { SCHEME.to_owned() } else { domain::ids::truncate_for_error(text) };
        let bad = |why| ParseReferenceError { text: shown.clone(), why };
        let rest = rest.ok_or_else(|| bad("it does not start with oci://"))?;
        if authority.contains('@') {
            return Err(bad("it contains a user name or password"));
        }
        let (host, rest) = rest.split_once('/').ok_or_else(|| bad("it has no chart name"))?;
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(|_| bad("its digest is invalid"))?)),
            None => (rest, None),
        };
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag.to_owned())),
            None => (rest, None),
        };
        let path = path.trim_end_matches('/');
        if host.is_empty()
            || !host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]_".contains(&byte))
        {
            return Err(bad("its host is invalid"));
        }
        if path.len() > 255 || path.split('/').any(|part| !is_path_component(part)) {
            return Err(bad(
                "its path has characters other than lower-case letters, digits and single separators",
            ));
        }
        if tag.as_deref().is_some_and(|tag| !is_tag(tag)) {
            return Err(bad("its tag has characters other than letters, digits, `.`, `_`, `-` and `+`"));
        }
        Ok(Self { host: host.to_owned(), path: path.to_owned(), tag, digest })
    }
}

/// Whether a path component is valid; `..` is not.
fn is_path_component(part: &str) -> bool {
    let end = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    end(part.bytes().next())
        && end(part.bytes().last())
        && part
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
        && !part.contains("..")
}

fn is_tag(tag: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    (1..=128).contains(&tag.len()) && tag.bytes().all(inner) && !tag.starts_with(['.', '-', '+'])
}

impl OciReference {
    /// The reference of a chart below this one, for a registry used as a chart repository.
    pub fn child(&self, chart: &str) -> Result<Self, ParseReferenceError> {
        format!("{SCHEME}{}/{}/{chart}", self.host, self.path).parse()
    }

    /// The host that serves the registry's API.
    pub(super) fn authority(&self) -> &str {
        if self.host == DOCKER_HUB.0 { DOCKER_HUB.1 } else { &self.host }
    }

    /// The last path component, which is the chart's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

impl fmt::Display for OciReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}/{}", self.host, self.path)?;
        self.tag.iter().try_for_each(|tag| write!(f, ":{tag}"))?;
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_parses_its_own_display() {
        let digest = Digest::sha256(b"").to_string();
        let rows = [
            ("oci://a.example/charts/web".to_owned(), "a.example", "charts/web", None, false),
            ("oci://127.0.0.1:5000/web:1.2.3".to_owned(), "127.0.0.1:5000", "web", Some("1.2.3"), false),
            (format!("oci://[::1]:5000/web:1.2.3@{digest}"), "[::1]:5000", "web", Some("1.2.3"), true),
            (format!("oci://a.example/a-b/c.d/e_f@{digest}"), "a.example", "a-b/c.d/e_f", None, true),
        ];
        for (text, host, path, tag, pinned) in rows {
            let read: OciReference = text.parse().unwrap();
            assert_eq!((&*read.host, &*read.path, read.tag.as_deref()), (host, path, tag));
            assert_eq!((read.digest.is_some(), read.to_string()), (pinned, text));
        }
    }

    #[test]
    fn invalid_reference_error_hides_the_password() {
        for wrong in [
            "a.example/web",
            "oci://a.example",
            "oci://a.example/",
            "oci:///web",
            "oci://a.example/../web",
            "oci://a.example/x/..",
            "oci://a.example/A",
            "oci://a.example/web:",
            "oci://a.example/web:a/b",
            "oci://a.example/web?x",
            "oci://a.example/web@sha256:00",
            "oci://a.example/a//b",
            "oci://me:canary@a.example/web",
        ] {
            let said = wrong.parse::<OciReference>().unwrap_err().to_string();
            assert!(said.contains("is not a chart reference") && !said.contains("canary"), "{wrong}: {said}");
        }
    }
}
