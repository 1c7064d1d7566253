//! Names of Kubernetes objects, validated before they become part of an API path.
//!
//! A request path has one segment per name, and the Kubernetes client inserts names verbatim. [`check_name`] accepts
//! only names that are identical raw and percent-encoded, so a valid name can neither end its segment nor begin a
//! query. Kubernetes allows more for a few kinds (a ClusterRole may be called `a b`); such names are refused here.

use std::fmt;

/// The longest name of an object, as in Kubernetes.
pub const MAX_NAME_LEN: usize = 253;
/// The longest name of a namespace, as in Kubernetes.
pub const MAX_LABEL_LEN: usize = 63;

/// Regular expression of DNS subdomain names, for schemas.
pub const SUBDOMAIN_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// Regular expression of DNS label names, for schemas.
pub const LABEL_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// [`SUBDOMAIN_PATTERN`] or empty.
pub const OPTIONAL_SUBDOMAIN_PATTERN: &str =
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$";
/// [`LABEL_PATTERN`] or empty.
pub const OPTIONAL_LABEL_PATTERN: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$";
/// Regular expression of the names that [`check_name`] accepts, except for the length and for `.` and `..`, for
/// schemas.
pub const NAME_PATTERN: &str = r"^[A-Za-z0-9][-._~!$&'()*+,;=:@A-Za-z0-9]*$";
/// Regular expression of keys in ConfigMaps and Secrets, for schemas.
pub const KEY_PATTERN: &str = r"^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$";

/// Maximum number of characters of an invalid name that an error repeats.
const MAX_QUOTED_CHARS: usize = 64;

/// Error: the text is not a valid name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidName {
    name: String,
    rule: &'static str,
}

impl InvalidName {
    fn new(name: &str, rule: &'static str) -> Self {
        let mut quoted: String = name.chars().take(MAX_QUOTED_CHARS).collect();
        if quoted.len() < name.len() {
            quoted.push('…');
        }
        Self { name: quoted, rule }
    }
}

impl fmt::Display for InvalidName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is not a valid name: {}", self.name, self.rule)
    }
}

impl std::error::Error for InvalidName {}

/// Checks a name of any kind: one path segment that needs no encoding.
pub fn check_name(name: &str) -> Result<(), InvalidName> {
    // Characters of a path segment (RFC 3986) except `%`.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte);
    if name.is_empty() || name.len() > MAX_NAME_LEN {
        return Err(InvalidName::new(name, "1 to 253 characters are required"));
    }
    if name == "." || name == ".." {
        return Err(InvalidName::new(name, "it is a relative path"));
    }
    if !name.bytes().all(is_plain) {
        return Err(InvalidName::new(
            name,
            "letters, digits and -._~!$&'()*+,;=:@ are allowed, but no '/', '%', '?', '#', spaces and control characters",
        ));
    }
    Ok(())
}

/// Checks a DNS subdomain: the name of most kinds, such as a ConfigMap or a repository.
pub fn check_subdomain(name: &str) -> Result<(), InvalidName> {
    let rule =
        "a DNS subdomain is required: lower-case letters, digits, inner '-' and '.', at most 253 characters";
    let is_valid = name.len() <= MAX_NAME_LEN && name.split('.').all(is_dns_label);
    if is_valid { Ok(()) } else { Err(InvalidName::new(name, rule)) }
}

/// Checks a DNS label: the name of a namespace.
pub fn check_label(name: &str) -> Result<(), InvalidName> {
    let rule = "a DNS label is required: lower-case letters, digits and inner '-', at most 63 characters";
    let is_valid = name.len() <= MAX_LABEL_LEN && is_dns_label(name);
    if is_valid { Ok(()) } else { Err(InvalidName::new(name, rule)) }
}

fn is_dns_label(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_plain) && !text.starts_with('-') && !text.ends_with('-')
}

/// Names that change the meaning of a path or are too long, for tests of every API that takes a name.
pub fn hostile_names() -> Vec<String> {
    let fixed = [
        "?watch=true",
        "a?watch=true",
        "a?watch=1&allowWatchBookmarks=true",
        "a?follow=true",
        "a#b",
        "#",
        "a/b",
        "/",
        "a/../b",
        "..",
        ".",
        "../../secrets",
        "a%2fb",
        "%2e%2e",
        "%3Fwatch=true",
        "a%00",
        "a\u{0}b",
        "a\nb",
        "a\r\nHost: b",
        "a\u{1b}[2J",
        "a b",
        "\u{2215}",
    ];
    fixed.into_iter().map(str::to_owned).chain(["a".repeat(10_000)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_refused_by_every_rule() {
        for name in hostile_names() {
            for check in [check_name, check_subdomain, check_label] {
                let error = check(&name).expect_err(&name).to_string();
                assert!(error.len() < 600 && !error.contains(|letter: char| letter.is_control()), "{error}");
            }
        }
    }

    #[test]
    fn patterns_refuse_hostile_names() {
        for pattern in [
            SUBDOMAIN_PATTERN,
            LABEL_PATTERN,
            OPTIONAL_SUBDOMAIN_PATTERN,
            OPTIONAL_LABEL_PATTERN,
            NAME_PATTERN,
            KEY_PATTERN,
        ] {
            let pattern = regex::Regex::new(pattern).unwrap();
            for name in hostile_names().iter().filter(|name| name.len() <= MAX_NAME_LEN) {
                assert!(!pattern.is_match(name), "{pattern} {name}");
            }
            assert!(pattern.is_match("acme-1"));
        }
    }

    #[test]
    fn names_of_kubernetes_are_accepted() {
        for name in
            ["a", "web-1", "sh.helm.release.v1.web.v1", "system:node:edge-1", "A_b~c", &"a".repeat(253)]
        {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for name in ["acme.charts", "pkg-0f", "a"] {
            assert_eq!(check_subdomain(name), Ok(()), "{name}");
        }
        for name in ["", "A", "-a", "a-", "a..b", ".a", "a_b", "a:b", &"a".repeat(254)] {
            assert!(check_subdomain(name).is_err(), "{name}");
        }
        assert_eq!(check_label(&"a".repeat(63)), Ok(()));
        assert!(check_label(&"a".repeat(64)).is_err() && check_label("a.b").is_err());
    }
}
