//! URLs and email addresses, as validated by the library that Helm uses.

use helm_template::go::regexp::{Expression, Subject};
use helm_template::go::url::Url;
use helm_template::profile::Profile;

/// Any URL with a scheme, parsed as a request URI without fragment: a `#` belongs to the path, and is invalid in the
/// host.
pub fn is_request_url(text: &str, profile: Profile) -> bool {
    let host = text.split_once("://").and_then(|(_, rest)| rest.split(['/', '?']).next());
    if host.is_some_and(|host| host.contains('#')) {
        return false;
    }
    Url::parse(text.as_bytes(), profile).is_ok_and(|url| !url.scheme.is_empty())
}

/// A URL as a browser accepts it, with or without scheme.
pub fn is_url(text: &str, profile: Profile) -> bool {
    const MIN_URL_LEN: usize = 4;
    const MAX_URL_LEN: usize = 2083;
    if text.len() < MIN_URL_LEN || text.chars().count() >= MAX_URL_LEN || text.starts_with('.') {
        return false;
    }
    let has_port_only = text.contains(':') && !text.contains("://");
    let whole = if has_port_only { format!("http://{text}") } else { text.to_owned() };
    let Ok(url) = Url::parse(whole.as_bytes(), profile) else { return false };
    if url.host.starts_with(b".")
        || (url.host.is_empty() && !url.path.is_empty() && !url.path.contains(&b'.'))
    {
        return false;
    }
    Expression::compile(&url_pattern(), profile)
        .is_ok_and(|pattern| pattern.is_match(&Subject::new(text.as_bytes())))
}

fn url_pattern() -> String {
    const SCHEME: &str = r"((ftp|tcp|udp|wss?|https?)://)?";
    const USER: &str = r"(\S+(:\S*)?@)?";
    const NUMBERS: &str = concat!(
        r"([1-9]\d?|1\d\d|2[01]\d|22[0-3]|24\d|25[0-5])",
        r"(\.(\d{1,2}|1\d\d|2[0-4]\d|25[0-5])){3}",
    );
    const NUMBERS6: &str = r"\[[0-9a-fA-F:.%]+\]";
    const LABELS: &str = r"[a-zA-Z0-9]([a-zA-Z0-9_-]+)?[a-zA-Z0-9]([-.][a-zA-Z0-9]+)*";
    const SUBDOMAIN: &str = r"(www\.)|([a-zA-Z0-9]+([-_.]?[a-zA-Z0-9])*[a-zA-Z0-9]\.[a-zA-Z0-9]+)";
    const LETTERS: &str = r"a-zA-Z\x{00a1}-\x{ffff}";
    const PORT_AND_PATH: &str = r"(:\d{1,5})?([/?#]\S*)?";
    let host =
        format!(r"(({LABELS})|({SUBDOMAIN}))?(([{LETTERS}0-9]+-?-?)*[{LETTERS}0-9]+)(\.[{LETTERS}]+)?");
    format!(r"^{SCHEME}{USER}({NUMBERS}|{NUMBERS6}|{host})\.?{PORT_AND_PATH}$")
}

/// `local@domain`: dot-separated words, then a domain of at least two labels. Quoted local parts, which are rare, are
/// not supported.
pub fn is_email(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| is_letter_or_digit(c) || "!#$%&'*+-/=?^_`{|}~".contains(c))
    };
    text.split_once('@').is_some_and(|(local, domain)| local.split('.').all(is_word) && is_domain(domain))
}

fn is_domain(domain: &str) -> bool {
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let Some((labels, last)) = domain.rsplit_once('.') else { return false };
    let ends = |text: &str, fits: fn(char) -> bool| text.starts_with(fits) && text.ends_with(fits);
    ends(labels, is_letter_or_digit)
        && labels.chars().all(|c| is_letter_or_digit(c) || "-._~".contains(c))
        && ends(last, is_letter)
        && last.chars().all(|c| is_letter_or_digit(c) || "-_~".contains(c))
}

fn is_letter(c: char) -> bool {
    c.is_ascii_alphabetic()
        || matches!(c, '\u{a0}'..='\u{d7ff}' | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{ffef}')
}

fn is_letter_or_digit(c: char) -> bool {
    c.is_ascii_digit() || is_letter(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded from Helm 4.3.1.
    #[test]
    fn is_email_matches_helm() {
        let good = ["a@b.c", "a.b@c.d", "a@b.c.", "a+b@c.d", "A@B.C", "ü@b.c", "a@b_c.d", "a@b~c.d"];
        let bad = [
            "a@b", "a..b@c.d", ".a@b.c", "a b@c.d", "a@-b.c", "a@b-.c", "a@b.1", "a@b.c1", "<a@b.c>", "@b.c",
        ];
        for text in good {
            assert!(is_email(text), "{text}");
        }
        for text in bad {
            assert!(!is_email(text), "{text}");
        }
    }

    #[test]
    fn is_url_matches_helm() {
        let good = [
            "http://x.y?z",
            "https://github.com/foo-bar/",
            "foo.com:80/x",
            "http://localhost",
            "http://1.2.3.4",
        ];
        let bad = ["a", "x y", "ssh://x.y", "http://256.1.1.1", "https://0.0.0.0", "/a/b", "https://"];
        for text in good {
            assert!(is_url(text, Profile::Helm4), "{text}");
        }
        for text in bad {
            assert!(!is_url(text, Profile::Helm4), "{text}");
        }
        assert!(is_request_url("https://x.y/#z", Profile::Helm4) && is_request_url("a:b", Profile::Helm4));
        assert!(!is_request_url("http://x.y#z", Profile::Helm4) && !is_request_url("/a", Profile::Helm4));
    }
}
