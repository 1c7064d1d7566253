//! Whether texts are addresses of the web or of mail, as far as the library that Helm asks sees it.

use helm_template::go::regexp::{Expression, Subject};
use helm_template::go::url::Url;
use helm_template::profile::Profile;

/// Any address with a scheme.
pub fn is_request_url(text: &str, profile: Profile) -> bool {
    Url::parse(text.as_bytes(), profile).is_ok_and(|url| !url.scheme.is_empty())
}

/// An address that a browser would take, also without its scheme.
pub fn is_url(text: &str, profile: Profile) -> bool {
    const SHORTEST: usize = 4;
    const LONGEST: usize = 2083;
    if text.len() < SHORTEST || text.chars().count() >= LONGEST || text.starts_with('.') {
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
    const NUMBERS: &str = r"\d{1,3}(\.\d{1,3}){3}";
    const NUMBERS6: &str = r"\[[0-9a-fA-F:.%]+\]";
    const LABELS: &str = r"[a-zA-Z0-9]([a-zA-Z0-9_-]+)?[a-zA-Z0-9]([-.][a-zA-Z0-9]+)*";
    const SUBDOMAIN: &str = r"(www\.)|([a-zA-Z0-9]+([-_.]?[a-zA-Z0-9])*[a-zA-Z0-9]\.[a-zA-Z0-9]+)";
    const LETTERS: &str = r"a-zA-Z\x{00a1}-\x{ffff}";
    const PORT_AND_PATH: &str = r"(:\d{1,5})?([/?#]\S*)?";
    let host =
        format!(r"(({LABELS})|({SUBDOMAIN}))?(([{LETTERS}0-9]+-?-?)*[{LETTERS}0-9]+)(\.[{LETTERS}]+)?");
    format!(r"^{SCHEME}{USER}({NUMBERS}|{NUMBERS6}|{host})\.?{PORT_AND_PATH}$")
}

/// `local@domain`: words and dots before, a domain of at least two labels behind.
pub fn is_email(text: &str) -> bool {
    let Some((local, domain)) = split_local(text) else { return false };
    is_local(local) && is_domain(domain)
}

/// A local part in quotes may have an `@` of its own.
fn split_local(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('"') {
        Some(quoted) => {
            let end = quoted.find('"')? + 2;
            Some((&text[..end], text[end..].strip_prefix('@')?))
        }
        None => text.split_once('@'),
    }
}

fn is_local(local: &str) -> bool {
    if let Some(quoted) = local.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        return quoted.chars().all(|c| c != '\\' && !matches!(c, '\0' | '\n' | '\r'));
    }
    let is_word = |word: &str| {
        !word.is_empty() && word.chars().all(|c| is_letter_or_digit(c) || "!#$%&'*+-/=?^_`{|}~".contains(c))
    };
    local.split('.').all(is_word)
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
