//! Detection of texts that need quotes, because as plain scalars they would decode as a number, boolean or date.

use super::Dialect;
use crate::yaml::resolve::{self, ResolvedScalar};
use crate::yaml::timestamp::is_timestamp;

/// Whether the text as a plain scalar decodes as a string. go-yaml v3 decodes fewer words as booleans than v2, but still quotes them.
pub(super) fn reads_as_text(text: &str, dialect: Dialect) -> bool {
    if resolve::plain(text) != ResolvedScalar::Text {
        return false;
    }
    !text.starts_with(|c: char| matches!(c, '+' | '-' | '0'..='9'))
        || !(is_timestamp(text) || is_base60(text) || (dialect == Dialect::V3 && is_signed_octal(text)))
}

/// Whether the text is a number like `0o-7`: go-yaml v3 removes the prefix and parses the rest with its sign.
fn is_signed_octal(text: &str) -> bool {
    let plain = text.replace('_', "");
    plain.strip_prefix("0o").is_some_and(|digits| i64::from_str_radix(digits, 8).is_ok())
}

/// Whether the text is a number in base 60 such as `1:30`, as YAML 1.1 defines.
fn is_base60(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut parts = unsigned.split(':');
    let first = parts.next().unwrap_or_default();
    if !first.starts_with(|c: char| c.is_ascii_digit()) || !first.bytes().all(is_digit_or_underscore) {
        return false;
    }
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return false;
    }
    while let Some(part) = parts.next() {
        let sixtieth = match (parts.peek(), part.split_once('.')) {
            (None, Some((sixtieth, fraction))) if fraction.bytes().all(is_digit_or_underscore) => sixtieth,
            _ => part,
        };
        let fits = match sixtieth.as_bytes() {
            [digit] => digit.is_ascii_digit(),
            [tens, digit] => matches!(tens, b'0'..=b'5') && digit.is_ascii_digit(),
            _ => false,
        };
        if !fits {
            return false;
        }
    }
    true
}

fn is_digit_or_underscore(byte: u8) -> bool {
    byte.is_ascii_digit() || byte == b'_'
}
