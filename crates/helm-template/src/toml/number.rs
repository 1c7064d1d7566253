//! Numbers and dates.

use crate::go::quote;
use crate::value::Value;

/// What a literal turned out to be while it was read.
enum Kind {
    Start,
    Decimal,
    Radix(u32),
    Float,
    Date,
}

/// The number or date that a text begins with, and what is wrong with it already.
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
            (other, _) => Some(format!("expected a digit but got {}", super::text::Text::quoted(other))),
        };
        if why.is_some() {
            return (sign, why);
        }
    }
    let mut kind = if signed { Kind::Decimal } else { Kind::Start };
    let mut end = sign.len();
    for (at, c) in unsigned.char_indices() {
        kind = match (kind, c) {
            (Kind::Start, 'b' | 'o' | 'x') if at == 1 && unsigned.starts_with('0') => {
                let (radix, name) = match c {
                    'b' => (2, "a binary"),
                    'o' => (8, "an octal"),
                    _ => (16, "a hexadecimal"),
                };
                let next = unsigned.chars().nth(2).unwrap_or_default();
                if !next.is_digit(radix) {
                    return ("0", Some(format!("not {name} number: '0{c}{next}'")));
                }
                Kind::Radix(radix)
            }
            (Kind::Radix(radix), c) if c == '_' || c.is_digit(radix) => Kind::Radix(radix),
            (Kind::Start, '0'..='9') => Kind::Start,
            (Kind::Start, '-' | ':') if at > 1 || !unsigned.starts_with('0') => Kind::Date,
            (Kind::Start, '_') | (Kind::Decimal, '0'..='9' | '_') => Kind::Decimal,
            (Kind::Start | Kind::Decimal, '.' | 'e' | 'E')
            | (Kind::Float, '0'..='9' | '_' | '.' | '-' | '+' | 'e' | 'E') => Kind::Float,
            (Kind::Date, '0'..='9' | '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+') => Kind::Date,
            _ => break,
        };
        end = sign.len() + at + c.len_utf8();
    }
    (text.get(..end).unwrap_or_default(), None)
}

/// `time_only_in_minutes` is TOML 1.1, where the seconds may be left out.
pub(super) fn value(literal: &str, time_only_in_minutes: bool) -> Result<Value, String> {
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
        return date(literal, time_only_in_minutes);
    }
    if radix == 10 && literal.contains(['.', 'e', 'E']) { float(literal) } else { integer(literal, radix) }
}

/// A date has a minus that belongs to no exponent.
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

/// Each underscore comes after a digit, and none is at the end.
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

/// As the text that JSON makes of it: a date is at midnight, a time in the year zero, both without a zone in UTC.
fn date(literal: &str, minutes_will_do: bool) -> Result<Value, String> {
    let text = literal.trim_end().replace(['t', ' '], "T").replace('z', "Z");
    let invalid = || format!("invalid datetime: {}", quote(&text));
    let (day, time) = match text.split_once('T') {
        Some((day, time)) => (day, Some(time)),
        None if text.contains(':') => ("0000-01-01", Some(text.as_str())),
        None => (text.as_str(), None),
    };
    if day.parse::<jiff::civil::Date>().is_err() || !has_pattern(day, "0000-00-00") {
        return Err(invalid());
    }
    let Some(time) = time else {
        return Ok(format!("{day}T00:00:00Z").into());
    };
    let zone_at = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, zone) = time.split_at(zone_at);
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, ""));
    let whole = match whole.len() {
        5 if minutes_will_do && fraction.is_empty() => format!("{whole}:00"),
        _ => whole.to_owned(),
    };
    let zone_fits =
        zone.is_empty() || zone == "Z" || has_pattern(zone, "+00:00") || has_pattern(zone, "-00:00");
    let fits = has_pattern(&whole, "00:00:00")
        && whole.parse::<jiff::civil::Time>().is_ok()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
        && zone_fits;
    if !fits {
        return Err(invalid());
    }
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let zone = if matches!(zone, "" | "+00:00" | "-00:00") { "Z" } else { zone };
    Ok(format!("{day}T{whole}{point}{fraction}{zone}").into())
}

/// Digits where the pattern has zeros, and its own characters elsewhere.
fn has_pattern(text: &str, pattern: &str) -> bool {
    text.len() == pattern.len()
        && text.bytes().zip(pattern.bytes()).all(|(byte, pattern)| match pattern {
            b'0' => byte.is_ascii_digit(),
            pattern => byte == pattern,
        })
}
