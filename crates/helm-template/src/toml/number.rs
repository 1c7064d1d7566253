//! Numbers and dates.

use crate::env::Clock;
use crate::go::quote;
use crate::go::time::{RFC3339, Time, Zone};
use crate::value::Value;
use crate::value::time::time_value;

/// The kind of a literal, as far as it has been scanned.
enum LiteralKind {
    Start,
    Decimal,
    Radix(u32),
    Float,
    Date,
}

/// The number or date at the start of a text, and an error found while scanning it.
pub(super) fn literal(text: &str) -> (&str, Option<String>) {
    let signed = text.starts_with(['+', '-']);
    let (sign, unsigned) = text.split_at(usize::from(signed));
    if signed {
        let mut chars = unsigned.chars();
        let why = match (chars.next(), chars.next()) {
            (Some('i' | 'n'), _) => {
                let special = ["inf", "nan"].into_iter().find(|word| unsigned.starts_with(word));
                let length = sign.len() + special.map_or(1, str::len);
                let word = text.get(..length).unwrap_or_default();
                return (word, special.is_none().then(|| format!("invalid float: '{word}'")));
            }
            (Some('0'), Some(base @ ('b' | 'o' | 'x'))) => {
                Some(format!("cannot use sign with non-decimal numbers: '{sign}0{base}'"))
            }
            (Some('.'), _) => Some("floats must start with a digit, not '.'".to_owned()),
            (Some('0'..='9'), _) => None,
            (other, _) => Some(format!("expected a digit but got {}", super::text::TomlText::quoted(other))),
        };
        if why.is_some() {
            return (sign, why);
        }
    }
    let mut kind = if signed { LiteralKind::Decimal } else { LiteralKind::Start };
    let mut end = sign.len();
    for (at, c) in unsigned.char_indices() {
        kind = match (kind, c) {
            (LiteralKind::Start, 'b' | 'o' | 'x') if at == 1 && unsigned.starts_with('0') => {
                let (radix, name) = match c {
                    'b' => (2, "a binary"),
                    'o' => (8, "an octal"),
                    _ => (16, "a hexadecimal"),
                };
                let next = unsigned.chars().nth(2).unwrap_or_default();
                if !next.is_digit(radix) {
                    return ("0", Some(format!("not {name} number: '0{c}{next}'")));
                }
                LiteralKind::Radix(radix)
            }
            (LiteralKind::Radix(radix), c) if c == '_' || c.is_digit(radix) => LiteralKind::Radix(radix),
            (LiteralKind::Start, '0'..='9') => LiteralKind::Start,
            (LiteralKind::Start, '-' | ':') if at > 1 || !unsigned.starts_with('0') => LiteralKind::Date,
            (LiteralKind::Start, '_') | (LiteralKind::Decimal, '0'..='9' | '_') => LiteralKind::Decimal,
            (LiteralKind::Start | LiteralKind::Decimal, '.' | 'e' | 'E')
            | (LiteralKind::Float, '0'..='9' | '_' | '.' | '-' | '+' | 'e' | 'E') => LiteralKind::Float,
            (LiteralKind::Date, '0'..='9' | '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+') => {
                LiteralKind::Date
            }
            _ => break,
        };
        end = sign.len() + at + c.len_utf8();
    }
    (text.get(..end).unwrap_or_default(), None)
}

/// Parses a literal.
pub(super) fn value(literal: &str, minutes_will_do: bool, clock: &dyn Clock) -> Result<Value, String> {
    let unsigned = literal.strip_prefix(['+', '-']).unwrap_or(literal);
    if matches!(unsigned, "inf" | "nan") {
        let number: f64 = unsigned.parse().unwrap_or(f64::NAN);
        return Ok(Value::Float(if literal.starts_with('-') { -number } else { number }));
    }
    let radix = match unsigned.get(..2) {
        Some("0b") => 2,
        Some("0o") => 8,
        Some("0x") => 16,
        _ => 10,
    };
    if radix == 10 && (unsigned.contains(':') || unsigned.get(1..).is_some_and(is_date)) {
        return date(literal, minutes_will_do, clock);
    }
    if radix == 10 && literal.contains(['.', 'e', 'E']) { float(literal) } else { integer(literal, radix) }
}

/// Whether the literal is a date: it has a minus that is not part of an exponent.
fn is_date(rest: &str) -> bool {
    rest.contains('-') && !rest.contains(['e', 'E'])
}

fn integer(literal: &str, radix: u32) -> Result<Value, String> {
    if !underscores_fit(literal) {
        return Err(format!("Invalid integer {}: underscores must be surrounded by digits", quote(literal)));
    }
    if has_leading_zero(literal) {
        return Err(format!("Invalid integer {}: cannot have leading zeroes", quote(literal)));
    }
    let digits = literal.replace('_', "");
    let digits = if radix == 10 { digits.as_str() } else { digits.get(2..).unwrap_or_default() };
    i64::from_str_radix(digits, radix)
        .map(Value::Int64)
        .map_err(|_| format!("{literal} is out of range for int64"))
}

fn float(literal: &str) -> Result<Value, String> {
    let invalid = |why: &str| Err(format!("Invalid float {}: {why}", quote(literal)));
    let mut parts = literal.split(['.', 'e', 'E']).filter(|part| !part.is_empty());
    if !parts.clone().all(underscores_fit) {
        return invalid("underscores must be surrounded by digits");
    }
    if parts.next().is_some_and(has_leading_zero) {
        return invalid("cannot have leading zeroes");
    }
    let mut after_points = literal.split('.').skip(1);
    if !after_points.all(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return invalid("'.' must be followed by one or more digits");
    }
    match literal.replace('_', "").parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(Value::Float(number)),
        Ok(_) => Err(format!("{literal} is out of range for float64")),
        Err(_) => Err(format!("Invalid float value: {}", quote(literal))),
    }
}

/// Whether each underscore follows a digit, and none is at the end.
fn underscores_fit(text: &str) -> bool {
    let mut fits = false;
    for c in text.chars() {
        if c == '_' && !fits {
            return false;
        }
        fits = c.is_ascii_hexdigit();
    }
    fits
}

fn has_leading_zero(text: &str) -> bool {
    match text.as_bytes() {
        [b'0', next, ..] => !matches!(next, b'b' | b'o' | b'x'),
        [b'+' | b'-', b'0', _, ..] => true,
        _ => false,
    }
}

const DATETIME: &str = "datetime-local";
const DATE: &str = "date-local";
const TIME: &str = "time-local";

/// Date formats. Formats without an offset use fixed zones with these names, by which the encoder recognises them again.
const FORMS: &[(&str, Option<&str>)] = &[
    (RFC3339, None),
    ("2006-01-02T15:04:05.999999999", Some(DATETIME)),
    ("2006-01-02", Some(DATE)),
    ("15:04:05.999999999", Some(TIME)),
];

/// Formats of TOML 1.1, which allows omitting seconds.
const SHORT_FORMS: &[(&str, Option<&str>)] =
    &[("2006-01-02T15:04Z07:00", None), ("2006-01-02T15:04", Some(DATETIME)), ("15:04", Some(TIME))];

fn date(literal: &str, minutes_will_do: bool, clock: &dyn Clock) -> Result<Value, String> {
    let text = literal.trim_end().replace(['t', ' '], "T").replace('z', "Z");
    let local = Zone::local(clock.zone());
    let offset = local.offset(clock.now().as_second());
    let short = if minutes_will_do { SHORT_FORMS } else { &[] };
    FORMS
        .iter()
        .chain(short)
        .find_map(|(form, zone)| {
            let zone = zone.map_or_else(|| local.clone(), |name| Zone::Fixed(name.into(), offset));
            Some((form, Time::parse(form, text.as_bytes(), &zone).ok()?))
        })
        .filter(|(form, _)| has_all_zeros(&text, form))
        .map(|(_, time)| time_value(time, &local))
        .ok_or_else(|| format!("invalid datetime: {}", quote(&text)))
}

/// Go's parser accepts numbers without their leading zeros, which TOML requires. A missing zero shifts the separators, which this
/// check detects.
fn has_all_zeros(text: &str, form: &str) -> bool {
    let form = form.split(['.', 'Z']).next().unwrap_or_default();
    let mut pairs = form.bytes().zip(text.bytes());
    pairs.all(|(form, byte)| form.is_ascii_digit() || form == byte)
}

/// Formats a time for a document.
pub(super) fn format_time(time: &Time) -> String {
    let form = match time.zone() {
        Zone::Fixed(name, _) => FORMS.iter().find(|(_, zone)| *zone == Some(name)),
        _ => None,
    };
    match form {
        Some((form, _)) => time.in_zone(Zone::Utc).format(form),
        None => time.format(RFC3339),
    }
}
