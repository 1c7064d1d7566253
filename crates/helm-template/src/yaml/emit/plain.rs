//! Which texts cannot stand without quotes because they would be read as something else: a number, a truth, a date.

use super::Dialect;

/// A plain scalar of this text would be read as this text.
pub(super) fn reads_as_text(text: &str, dialect: Dialect) -> bool {
    let Some(first) = text.bytes().next() else {
        return false;
    };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => !is_word(text),
        b'.' => !is_special_float(text) && !is_float(text) && !is_float_in_groups(text),
        b'+' | b'-' | b'0'..=b'9' => {
            !is_special_float(text) && !is_timestamp(text) && !is_number(text, dialect) && !is_base60(text)
        }
        _ => true,
    }
}

/// Truths and nulls of YAML 1.1. go-yaml v3 no longer reads all of them, but still quotes them.
fn is_word(text: &str) -> bool {
    #[rustfmt::skip]
    let is = matches!(
        text,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON"
            | "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF"
            | "~" | "null" | "Null" | "NULL"
    );
    is
}

fn is_special_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    matches!(unsigned, ".inf" | ".Inf" | ".INF") || matches!(text, ".nan" | ".NaN" | ".NAN")
}

fn is_number(text: &str, dialect: Dialect) -> bool {
    let without;
    let text = if text.contains('_') {
        without = text.replace('_', "");
        &without
    } else {
        text
    };
    is_float(text) || is_prefixed(text) || is_prefixed_oddly(text, dialect)
}

/// Digits, a fraction, an exponent, and not too large for a float. Every whole number in decimal or octal is one.
fn is_float(text: &str) -> bool {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_fits = digits(whole) && digits(fraction) && (!whole.is_empty() || !fraction.is_empty());
    let exponent_fits = exponent.is_none_or(|exponent| {
        let unsigned = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !unsigned.is_empty() && digits(unsigned)
    });
    mantissa_fits && exponent_fits && text.parse::<f64>().is_ok_and(f64::is_finite)
}

/// `.5_0`: underscores between digits.
fn is_float_in_groups(text: &str) -> bool {
    let between_digits = |at: usize| {
        let is_digit =
            |at: Option<usize>| at.and_then(|at| text.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
        is_digit(at.checked_sub(1)) && is_digit(at.checked_add(1))
    };
    let mut underscores = text.match_indices('_').peekable();
    underscores.peek().is_some()
        && underscores.all(|(at, _)| between_digits(at))
        && is_float(&text.replace('_', ""))
}

/// `0x1F`, `-0b1`, `0o7`.
fn is_prefixed(text: &str) -> bool {
    let (sign, unsigned) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.bytes().next(), rest),
        None => (None, text),
    };
    let radix = match unsigned.get(..2) {
        Some("0x" | "0X") => 16,
        Some("0b" | "0B") => 2,
        Some("0o" | "0O") => 8,
        _ => return false,
    };
    fits(sign, &unsigned[2..], radix)
}

/// `0b-1`: go-yaml cuts the prefix off and reads on, sign and all.
fn is_prefixed_oddly(text: &str, dialect: Dialect) -> bool {
    let (digits, radix) = match (text.get(..2), dialect) {
        (Some("0b"), _) => (&text[2..], 2),
        (Some("0o"), Dialect::V3) => (&text[2..], 8),
        _ => return false,
    };
    digits.strip_prefix(['+', '-']).is_some_and(|rest| fits(digits.bytes().next(), rest, radix))
}

fn fits(sign: Option<u8>, digits: &str, radix: u32) -> bool {
    let most = match sign {
        None => u64::MAX,
        Some(b'-') => 1 << 63,
        Some(_) => (1 << 63) - 1,
    };
    // The standard library would take another sign.
    digits.bytes().all(|b| b.is_ascii_alphanumeric())
        && u64::from_str_radix(digits, radix).is_ok_and(|n| n <= most)
}

/// `1:30`, which YAML 1.1 reads as a number to the base of 60.
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

/// `2006-1-2`, `2006-1-2 15:4:5.999`, `2006-1-2T15:4:5.999Z` and `...+07:00`, as far as Go's `time.Parse` takes them.
fn is_timestamp(text: &str) -> bool {
    date_and_time(text).is_some()
}

fn date_and_time(text: &str) -> Option<()> {
    let year = text.get(..4).filter(|year| year.bytes().all(|b| b.is_ascii_digit()))?;
    let (month, rest) = one_or_two_digits(text[4..].strip_prefix('-')?)?;
    let (day, rest) = one_or_two_digits(rest.strip_prefix('-')?)?;
    if !(1..=12).contains(&month) || !(1..=days_in(year.parse().ok()?, month)).contains(&day) {
        return None;
    }
    match rest.bytes().next() {
        None => Some(()),
        Some(b' ') => time(rest.trim_start_matches(' ')).filter(|rest| rest.is_empty()).map(|_| ()),
        Some(b'T' | b't') => zone(time(&rest[1..])?),
        Some(_) => None,
    }
}

/// What comes after the time.
fn time(text: &str) -> Option<&str> {
    let (hour, rest) = one_or_two_digits(text)?;
    let (minute, rest) = one_or_two_digits(rest.strip_prefix(':')?)?;
    let (second, rest) = one_or_two_digits(rest.strip_prefix(':')?)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction =
        rest.strip_prefix(['.', ',']).map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    Some(match fraction {
        // A point without digits is no fraction.
        Some(after) if after.len() + 1 < rest.len() => after,
        _ => rest,
    })
}

fn zone(text: &str) -> Option<()> {
    match text.as_bytes() {
        [b'Z'] => Some(()),
        [b'+' | b'-', h1, h2, b':', m1, m2] => {
            let two = |a: &u8, b: &u8| {
                (a.is_ascii_digit() && b.is_ascii_digit()).then(|| (a - b'0') * 10 + (b - b'0'))
            };
            (two(h1, h2)? <= 24 && two(m1, m2)? <= 60).then_some(())
        }
        _ => None,
    }
}

fn one_or_two_digits(text: &str) -> Option<(u32, &str)> {
    let count = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let (digits, rest) = text.split_at(count);
    Some((digits.parse().ok()?, rest))
}

fn days_in(year: u32, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}
