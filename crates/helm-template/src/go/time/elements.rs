//! Primitives of time parsing: numbers, names, offsets.

use super::layout::Offset;

/// Why an element cannot be parsed.
pub(super) enum TimeParseError {
    /// The text does not match the element.
    Shape,
    /// The text matches, but the value is out of range.
    Range(&'static str),
}

pub(super) type ElementResult<'v, T> = Result<(T, &'v [u8]), TimeParseError>;

pub(super) fn strip_space(value: &[u8]) -> &[u8] {
    value.strip_prefix(b" ").unwrap_or(value)
}

pub(super) fn check_range(
    number: i64,
    least: i64,
    most: i64,
    what: &'static str,
) -> Result<i64, TimeParseError> {
    if (least..=most).contains(&number) { Ok(number) } else { Err(TimeParseError::Range(what)) }
}

fn digit(value: &[u8], at: usize) -> Option<i64> {
    value.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| i64::from(byte - b'0'))
}

/// One or two digits; exactly two if `fixed`.
pub(super) fn number(value: &[u8], fixed: bool) -> ElementResult<'_, i64> {
    match (digit(value, 0), digit(value, 1)) {
        (Some(tens), Some(ones)) => Ok((tens * 10 + ones, &value[2..])),
        (Some(one), None) if !fixed => Ok((one, &value[1..])),
        _ => Err(TimeParseError::Shape),
    }
}

pub(super) fn three_digits(value: &[u8], fixed: bool) -> ElementResult<'_, i64> {
    let count = value.iter().take(3).take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 || (fixed && count != 3) {
        return Err(TimeParseError::Shape);
    }
    let (digits, rest) = value.split_at(count);
    Ok((digits.iter().fold(0, |number, byte| number * 10 + i64::from(byte - b'0')), rest))
}

/// A number of `width` characters, the first of which may be a sign.
pub(super) fn signed(value: &[u8], width: usize) -> ElementResult<'_, i64> {
    let (text, rest) = value.split_at_checked(width).ok_or(TimeParseError::Shape)?;
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] | digits => (false, digits),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(TimeParseError::Shape);
    }
    let size = digits.iter().fold(0, |number, byte| number * 10 + i64::from(byte - b'0'));
    Ok((if negative { -size } else { size }, rest))
}

/// The index of the name at the start of the text, ignoring case.
pub(super) fn name<'v>(names: &[&str], short: bool, value: &'v [u8]) -> ElementResult<'v, i64> {
    for (at, name) in (0..).zip(names) {
        let name = if short { &name[..3] } else { name };
        if value.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name.as_bytes())) {
            return Ok((at, &value[name.len()..]));
        }
    }
    Err(TimeParseError::Shape)
}

pub(super) fn offset(value: &[u8], how: Offset) -> ElementResult<'_, i64> {
    let step = if how.colon { 3 } else { 2 };
    let length = 3 + step * (how.parts - 1);
    let (text, rest) = value.split_at_checked(length).ok_or(TimeParseError::Shape)?;
    let mut parts = [0; 3];
    for (at, part) in parts.iter_mut().enumerate().take(how.parts) {
        let from = 1 + at * step;
        if how.colon && at > 0 && text[from - 1] != b':' {
            return Err(TimeParseError::Shape);
        }
        *part = number(&text[from..from + 2], true).map_or(-1, |(number, _)| number);
    }
    // Go checks ranges before syntax, and only up to the first part that is not a number; of several errors it reports the last.
    let [hour, minute, second] = parts;
    let whole = !parts.contains(&-1);
    if second > 60 && whole {
        return Err(TimeParseError::Range("time zone offset second"));
    }
    if minute > 60 && hour >= 0 {
        return Err(TimeParseError::Range("time zone offset minute"));
    }
    if hour > 24 {
        return Err(TimeParseError::Range("time zone offset hour"));
    }
    let size = (hour * 60 + minute) * 60 + second;
    match text[0] {
        b'+' if whole => Ok((size, rest)),
        b'-' if whole => Ok((-size, rest)),
        _ => Err(TimeParseError::Shape),
    }
}

/// The length of the zone abbreviation at the start of the text.
pub(super) fn abbreviation(value: &[u8]) -> Option<usize> {
    if value.len() < 3 {
        return None;
    }
    if value.starts_with(b"ChST") || value.starts_with(b"MeST") {
        return Some(4);
    }
    if let Some(rest) = value.strip_prefix(b"GMT") {
        return Some(3 + signed_hours(rest));
    }
    if matches!(value[0], b'+' | b'-') {
        return Some(signed_hours(value)).filter(|length| *length > 0);
    }
    let capitals = value.iter().take(6).take_while(|byte| byte.is_ascii_uppercase()).count();
    match capitals {
        3 => Some(3),
        4 if value[3] == b'T' || value.starts_with(b"WITA") => Some(4),
        5 if value[4] == b'T' => Some(5),
        _ => None,
    }
}

/// The length of an hour offset such as `-7`, up to 23 hours; zero if there is none.
fn signed_hours(value: &[u8]) -> usize {
    let [b'-' | b'+', digits @ ..] = value else { return 0 };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let hours = digits[..count]
        .iter()
        .fold(0_u64, |hours, byte| hours.saturating_mul(10).saturating_add(u64::from(byte - b'0')));
    if count == 0 || hours > 23 { 0 } else { 1 + count }
}

/// Parses a fraction with its separator. Only nine digits count.
pub(super) fn nanoseconds(fraction: &[u8]) -> Result<i64, TimeParseError> {
    let [b'.' | b',', digits @ ..] = fraction else { return Err(TimeParseError::Shape) };
    let digits = &digits[..digits.len().min(9)];
    let (mut value, _) = signed(digits, digits.len())?;
    if value < 0 {
        return Err(TimeParseError::Range("fractional second"));
    }
    for _ in digits.len()..9 {
        value *= 10;
    }
    Ok(value)
}
