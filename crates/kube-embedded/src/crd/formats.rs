//! String formats of schemas.
//!
//! Only the formats that Kubernetes checks; others have no effect (`super::schema::is_known_format`).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::LazyLock;

use regex::Regex;

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a pattern of ours compiles")
}

macro_rules! patterns {
    ($($name:ident = $pattern:expr;)*) => {
        $(static $name: LazyLock<Regex> = LazyLock::new(|| regex($pattern));)*
    };
}

patterns! {
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID3 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    UUID4 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    UUID5 = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}$";
    CARD = r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$";
    SSN = r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$";
    HEX_COLOR = r"^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$";
    RGB_COLOR = r"^rgb\(\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*,\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*\)$";
    BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})$";
    TIME = r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    SHORT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    LONG_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
    EMAIL = r#"^(?:[^<>@\s]*\s*<)?[^<>@\s",;:()\[\]]+@[^<>@\s",;:()]+>?$"#;
    GO_DURATION = r"^[-+]?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$";
    WORD_DURATION = r"(?i)([0-9]+)\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|week|wk)";
}

/// Whether `text` has this format; unknown formats accept everything.
pub fn is_valid(format: &str, text: &str) -> bool {
    match format.replace('-', "").as_str() {
        "datetime" => is_date_time(text),
        "date" => is_date(text),
        "duration" => GO_DURATION.is_match(text) || WORD_DURATION.is_match(text),
        "byte" => BASE64.is_match(text),
        "uri" => is_uri(text),
        "email" => EMAIL.is_match(text),
        "hostname" => {
            HOSTNAME.is_match(text) && text.len() <= 255 && text.split('.').all(|label| label.len() <= 63)
        }
        "ipv4" => text.contains('.') && is_ip(text),
        "ipv6" => text.contains(':') && is_ip(text),
        "cidr" => {
            text.split_once('/').is_some_and(|(address, bits)| is_ip(address) && is_prefix(address, bits))
        }
        "mac" => is_mac(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID3.is_match(text),
        "uuid4" => UUID4.is_match(text),
        "uuid5" => UUID5.is_match(text),
        "isbn" => is_isbn10(text) || is_isbn13(text),
        "isbn10" => is_isbn10(text),
        "isbn13" => is_isbn13(text),
        "creditcard" => CARD.is_match(&digits(text)),
        "ssn" => SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "k8sshortname" => text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8slongname" => text.len() <= 253 && LONG_NAME.is_match(text),
        _ => true,
    }
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok() && text.as_bytes()[4] == b'-'
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(found) = TIME.captures(time) else { return false };
    is_date(date) && &found[1] <= "23" && &found[2] <= "59" && &found[3] <= "59"
}

/// Parses addresses like Go's older parser, which accepts leading zeros.
fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok() || {
        let parts: Vec<&str> = text.split('.').collect();
        let small = |part: &&str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u8>().is_ok()
        };
        parts.len() == 4 && parts.iter().all(small)
    }
}

fn is_prefix(address: &str, bits: &str) -> bool {
    let most = if address.parse::<Ipv6Addr>().is_ok() { 128 } else { 32 };
    bits.bytes().all(|b| b.is_ascii_digit()) && bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_uri(text: &str) -> bool {
    let bad = |c: char| c.is_control() || c == ' ' || c == '\u{7f}';
    if text.is_empty() || text.contains(bad) || !has_complete_escapes(text) {
        return false;
    }
    if text.starts_with('/') || text == "*" {
        return true;
    }
    let Some((scheme, rest)) = text.split_once(':') else { return false };
    let mut letters = scheme.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphabetic());
    let tail = letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    first && tail && !rest.is_empty()
}

fn has_complete_escapes(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'%')
        .all(|(at, _)| bytes.get(at + 1..at + 3).is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit)))
}

fn is_mac(text: &str) -> bool {
    let hex = |part: &str, size: usize| part.len() == size && part.bytes().all(|b| b.is_ascii_hexdigit());
    let of = |separator: char, size: usize, counts: &[usize]| {
        let parts: Vec<&str> = text.split(separator).collect();
        counts.contains(&parts.len()) && parts.iter().all(|part| hex(part, size))
    };
    of(':', 2, &[6, 8, 20]) || of('-', 2, &[6, 8, 20]) || of('.', 4, &[3, 4, 10])
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

fn is_isbn10(text: &str) -> bool {
    let plain: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    let value = |(at, b): (usize, &u8)| match b {
        b'0'..=b'9' => Some(u32::from(b - b'0')),
        b'X' if at == 9 => Some(10),
        _ => None,
    };
    let values: Option<Vec<u32>> = plain.iter().enumerate().map(value).collect();
    plain.len() == 10
        && values.is_some_and(|values| values.iter().zip(1u32..).map(|(v, n)| v * n).sum::<u32>() % 11 == 0)
}

fn is_isbn13(text: &str) -> bool {
    let plain: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    plain.len() == 13
        && plain.iter().all(u8::is_ascii_digit)
        && plain.iter().zip([1u32, 3].into_iter().cycle()).map(|(b, n)| u32::from(b - b'0') * n).sum::<u32>()
            % 10
            == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_valid_and_reject_invalid_text() {
        #[rustfmt::skip]
        let table = [
            ("date-time", "2020-01-01T00:00:00Z", true), ("date-time", "yesterday", false),
            ("date-time", "2020-01-01T25:00:00Z", false), ("date-time", "2020-01-01t00:00:00.5+01:00", true),
            ("date", "2020-02-30", false), ("date", "2020-02-28", true),
            ("duration", "1h30m", true), ("duration", "5", false), ("duration", "3 days", true),
            ("byte", "aGk=", true), ("byte", "a", false), ("byte", "", false),
            ("uri", "https://a.b/c", true), ("uri", "a b", false), ("uri", "foo", false), ("uri", "/x", true),
            ("email", "a@b.c", true), ("email", "ab", false),
            ("hostname", "a.example.com", true), ("hostname", "-a", false),
            ("ipv4", "10.0.0.1", true), ("ipv4", "010.0.0.1", true), ("ipv4", "::1", false), ("ipv4", "10.0.0", false),
            ("ipv6", "::1", true), ("ipv6", "1.1.1.1", false),
            ("cidr", "10.0.0.0/8", true), ("cidr", "10.0.0.0/33", false), ("cidr", "10.0.0.0", false),
            ("mac", "00:11:22:33:44:55", true), ("mac", "00:11", false),
            ("uuid", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8", true), ("uuid", "x", false),
            ("isbn", "0321751043", true), ("isbn13", "978-0321751041", true), ("isbn10", "0321751044", false),
            ("hexcolor", "#FFF", true), ("rgbcolor", "rgb(1, 2,3)", true), ("password", "x", true),
            ("k8s-short-name", "a-b", true), ("k8s-short-name", "A", false), ("whatever", "x", true),
        ];
        for (format, text, valid) in table {
            assert_eq!(is_valid(format, text), valid, "{text:?} as {format}");
        }
    }
}
