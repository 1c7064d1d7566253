//! Resolution of scalars by the rules of go-yaml v2, which mostly match YAML 1.1.

use super::timestamp::is_timestamp;
use crate::value::Str;

/// The resolved type and value of a scalar. For [`ResolvedScalar::Text`], the value is the scalar's text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ResolvedScalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer larger than an `i64`.
    Uint(u64),
    Float(f64),
    Text,
}

pub(super) const TAG_PREFIX: &str = "tag:yaml.org,2002:";

const KEYWORDS: &[(&str, ResolvedScalar)] = &[
    ("y", ResolvedScalar::Bool(true)),
    ("Y", ResolvedScalar::Bool(true)),
    ("yes", ResolvedScalar::Bool(true)),
    ("Yes", ResolvedScalar::Bool(true)),
    ("YES", ResolvedScalar::Bool(true)),
    ("true", ResolvedScalar::Bool(true)),
    ("True", ResolvedScalar::Bool(true)),
    ("TRUE", ResolvedScalar::Bool(true)),
    ("on", ResolvedScalar::Bool(true)),
    ("On", ResolvedScalar::Bool(true)),
    ("ON", ResolvedScalar::Bool(true)),
    ("n", ResolvedScalar::Bool(false)),
    ("N", ResolvedScalar::Bool(false)),
    ("no", ResolvedScalar::Bool(false)),
    ("No", ResolvedScalar::Bool(false)),
    ("NO", ResolvedScalar::Bool(false)),
    ("false", ResolvedScalar::Bool(false)),
    ("False", ResolvedScalar::Bool(false)),
    ("FALSE", ResolvedScalar::Bool(false)),
    ("off", ResolvedScalar::Bool(false)),
    ("Off", ResolvedScalar::Bool(false)),
    ("OFF", ResolvedScalar::Bool(false)),
    ("~", ResolvedScalar::Null),
    ("null", ResolvedScalar::Null),
    ("Null", ResolvedScalar::Null),
    ("NULL", ResolvedScalar::Null),
    (".nan", ResolvedScalar::Float(f64::NAN)),
    (".NaN", ResolvedScalar::Float(f64::NAN)),
    (".NAN", ResolvedScalar::Float(f64::NAN)),
    (".inf", ResolvedScalar::Float(f64::INFINITY)),
    (".Inf", ResolvedScalar::Float(f64::INFINITY)),
    (".INF", ResolvedScalar::Float(f64::INFINITY)),
    ("+.inf", ResolvedScalar::Float(f64::INFINITY)),
    ("+.Inf", ResolvedScalar::Float(f64::INFINITY)),
    ("+.INF", ResolvedScalar::Float(f64::INFINITY)),
    ("-.inf", ResolvedScalar::Float(f64::NEG_INFINITY)),
    ("-.Inf", ResolvedScalar::Float(f64::NEG_INFINITY)),
    ("-.INF", ResolvedScalar::Float(f64::NEG_INFINITY)),
];

/// Resolves an untagged plain scalar.
pub(super) fn plain(text: &str) -> ResolvedScalar {
    match text.as_bytes().first() {
        None => ResolvedScalar::Null,
        Some(b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~') => keyword(text),
        Some(b'.') => match keyword(text) {
            ResolvedScalar::Text => leading_point(text),
            found => found,
        },
        Some(b'+' | b'-') => match keyword(text) {
            ResolvedScalar::Text => number(text),
            found => found,
        },
        Some(b'0'..=b'9') => number(text),
        Some(_) => ResolvedScalar::Text,
    }
}

/// Resolves a tagged scalar, or returns the error of a mismatch.
pub(super) fn tagged(tag: &str, text: &str) -> Result<ResolvedScalar, Str> {
    let Some(kind) = tag.strip_prefix(TAG_PREFIX) else { return Ok(ResolvedScalar::Text) };
    if !matches!(kind, "bool" | "int" | "float" | "null" | "timestamp") {
        return Ok(ResolvedScalar::Text);
    }
    let meaning = plain(text);
    let found = match meaning {
        ResolvedScalar::Null => "null",
        ResolvedScalar::Bool(_) => "bool",
        ResolvedScalar::Int(_) | ResolvedScalar::Uint(_) => "int",
        ResolvedScalar::Float(_) => "float",
        ResolvedScalar::Text if kind == "timestamp" && is_timestamp(text) => "timestamp",
        ResolvedScalar::Text => "str",
    };
    match meaning {
        _ if found == kind => Ok(meaning),
        #[expect(clippy::cast_precision_loss, reason = "as go-yaml does")]
        ResolvedScalar::Int(n) if kind == "float" => Ok(ResolvedScalar::Float(n as f64)),
        _ => Err(format!("yaml: cannot decode !!{found} `{text}` as a !!{kind}").into()),
    }
}

fn keyword(text: &str) -> ResolvedScalar {
    // The longest word has five letters.
    if text.len() > 5 {
        return ResolvedScalar::Text;
    }
    KEYWORDS.iter().find(|(word, _)| *word == text).map_or(ResolvedScalar::Text, |(_, meaning)| *meaning)
}

/// Resolves a number; dates stay text.
fn number(text: &str) -> ResolvedScalar {
    // Most texts that start with a digit or a sign are not numbers, and one of their first characters shows it.
    let plain = if text.contains('_') { &text.replace('_', "") } else { text };
    let bytes = plain.as_bytes();
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(plain);
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return ResolvedScalar::Text;
    }
    if let Some(n) = go_int(plain) {
        return ResolvedScalar::Int(n);
    }
    if bytes.first().is_some_and(u8::is_ascii_digit)
        && let Some(n) = go_uint(plain)
    {
        return ResolvedScalar::Uint(n);
    }
    if is_float(digits)
        && let Some(n) = plain.parse::<f64>().ok().filter(|n| n.is_finite())
    {
        return ResolvedScalar::Float(n);
    }
    // As in go-yaml, a second sign is accepted here, although the general form rejects it.
    if let Some(bits) = plain.strip_prefix("0b") {
        if let Ok(n) = i64::from_str_radix(bits, 2) {
            return ResolvedScalar::Int(n);
        }
    } else if let Some(bits) = plain.strip_prefix("-0b")
        && let Ok(n) = i64::from_str_radix(&format!("-{bits}"), 2)
    {
        return ResolvedScalar::Int(n);
    }
    ResolvedScalar::Text
}

/// The radix given by a prefix, and the remaining digits.
fn radix(digits: &str) -> (u32, &str) {
    let bytes = digits.as_bytes();
    if bytes.first() != Some(&b'0') {
        return (10, digits);
    }
    let rest = digits.get(2..).unwrap_or_default();
    match bytes.get(1) {
        Some(b'b' | b'B') if !rest.is_empty() => (2, rest),
        Some(b'o' | b'O') if !rest.is_empty() => (8, rest),
        Some(b'x' | b'X') if !rest.is_empty() => (16, rest),
        Some(_) => (8, digits.get(1..).unwrap_or_default()),
        None => (10, digits),
    }
}

fn go_uint(text: &str) -> Option<u64> {
    let (radix, digits) = radix(text);
    // Rust's parser would accept a sign here.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    u64::from_str_radix(digits, radix).ok()
}

fn go_int(text: &str) -> Option<i64> {
    match text.strip_prefix('-') {
        Some(digits) => 0_i64.checked_sub_unsigned(go_uint(digits)?),
        None => i64::try_from(go_uint(text.strip_prefix('+').unwrap_or(text))?).ok(),
    }
}

/// Whether an unsigned text is a decimal float: digits, optional fraction, optional exponent.
fn is_float(text: &str) -> bool {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let mut at = digits(0);
    if bytes.get(at) == Some(&b'.') {
        let fraction = digits(at + 1);
        if at + fraction == 0 {
            return false;
        }
        at += 1 + fraction;
    } else if at == 0 {
        return false;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        let exponent = digits(at);
        if exponent == 0 {
            return false;
        }
        at += exponent;
    }
    at == bytes.len()
}

/// Resolves a text that starts with a point, like Go's `ParseFloat`: underscores are allowed between digits only.
fn leading_point(text: &str) -> ResolvedScalar {
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let misplaced = |at: usize| at == 0 || !is_digit(at - 1) || !is_digit(at + 1);
    if memchr::memchr_iter(b'_', bytes).any(misplaced) {
        return ResolvedScalar::Text;
    }
    let plain = if text.contains('_') { &text.replace('_', "") } else { text };
    match plain.parse::<f64>() {
        Ok(n) if is_float(plain) && n.is_finite() => ResolvedScalar::Float(n),
        _ => ResolvedScalar::Text,
    }
}
