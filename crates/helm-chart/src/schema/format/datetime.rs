//! Dates, times, durations and periods.

use helm_template::go::quote;
use jiff::civil::Date;

use super::{invalid, quoted};

/// `2006-01-02`, with the messages of Go's `time.Parse`.
pub fn date(text: &str) -> Result<(), String> {
    let bad = |rest: &str, element: &str| {
        invalid(format!(
            "parsing time {} as \"2006-01-02\": cannot parse {} as {}",
            quote(text),
            quote(rest),
            quote(element)
        ))
    };
    let number = |from: usize, length: usize| {
        let digits =
            text.get(from..from + length).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        digits.and_then(|digits| digits.parse::<i16>().ok())
    };
    let rest = |from: usize| text.get(from..).unwrap_or_default();
    let Some(year) = number(0, 4) else { return bad(text, "2006") };
    if !rest(4).starts_with('-') {
        return bad(rest(4), "-");
    }
    let Some(month) = number(5, 2) else { return bad(rest(5), "01") };
    if !(1..=12).contains(&month) {
        return invalid(format!("parsing time {}: month out of range", quote(text)));
    }
    if !rest(7).starts_with('-') {
        return bad(rest(7), "-");
    }
    let Some(day) = number(8, 2) else { return bad(rest(8), "02") };
    if text.len() > 10 {
        return invalid(format!("parsing time {}: extra text: {}", quote(text), quote(rest(10))));
    }
    let day_of = |n: i16| i8::try_from(n).unwrap_or_default();
    match Date::new(year, day_of(month), day_of(day)) {
        Ok(_) => Ok(()),
        Err(_) => invalid(format!("parsing time {}: day out of range", quote(text))),
    }
}

/// `15:04:05` with an optional fraction and an offset.
pub fn time(text: &str) -> Result<(), String> {
    if text.len() < 9 {
        return invalid("less than 9 characters long");
    }
    let bytes = text.as_bytes();
    if bytes[2] != b':' || bytes[5] != b':' {
        return invalid("missing colon in correct place");
    }
    let part = |from: usize| text.get(from..from + 2).and_then(|digits| digits.parse::<i32>().ok());
    let (Some(hour), Some(minute), Some(second)) = (part(0), part(3), part(6)) else {
        return invalid("invalid hour/min/sec");
    };
    if hour > 23 || minute > 59 || second > 60 {
        return invalid("hour/min/sec out of range");
    }
    let mut rest = text.get(8..).unwrap_or_default();
    if let Some(fraction) = rest.strip_prefix('.') {
        rest = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == fraction.len() {
            return invalid("no digits in second fraction");
        }
    }
    let mut minutes = hour * 60 + minute;
    if !matches!(rest, "z" | "Z") {
        minutes = (minutes + offset(rest)?).rem_euclid(24 * 60);
    }
    if second >= 60 && minutes != 24 * 60 - 1 {
        return invalid("invalid leap second");
    }
    Ok(())
}

/// Minutes to add to reach UTC.
fn offset(text: &str) -> Result<i32, String> {
    if text.len() != 6 {
        return invalid("offset must be 6 characters long");
    }
    let sign = match text.as_bytes()[0] {
        b'+' => -1,
        b'-' => 1,
        _ => return invalid("offset must begin with plus/minus"),
    };
    if text.as_bytes()[3] != b':' {
        return invalid("missing colon in offset in correct place");
    }
    let part = |from: usize| text.get(from..from + 2).and_then(|digits| digits.parse::<i32>().ok());
    let (Some(hour), Some(minute)) = (part(1), part(4)) else { return invalid("invalid hour/min in offset") };
    if hour > 23 || minute > 59 {
        return invalid("hour/min in offset out of range");
    }
    Ok(sign * (hour * 60 + minute))
}

pub fn date_time(text: &str) -> Result<(), String> {
    if text.len() < 20 {
        return invalid("less than 20 characters long");
    }
    if !matches!(text.as_bytes()[10], b't' | b'T') {
        return invalid("11th character must be t or T");
    }
    date(text.get(..10).unwrap_or_default()).map_err(|why| format!("invalid date element: {why}"))?;
    time(text.get(11..).unwrap_or_default()).map_err(|why| format!("invalid time element: {why}"))
}

/// Helm 3's time check: the offset is optional.
pub fn is_time(text: &str) -> bool {
    text.contains(':') && (time(text).is_ok() || time(&format!("{text}Z")).is_ok()) && !text.contains('z')
}

/// Helm 3's date-time check: a date or a time alone is enough.
pub fn is_date_time(text: &str) -> bool {
    is_time(text) || date(text).is_ok() || (date_time(text).is_ok() && !text.contains(['t', 'z']))
}

/// `P1Y2M3DT4H5M6S` or `P1W`.
pub fn duration(text: &str) -> Result<(), String> {
    let Some(text) = text.strip_prefix('P') else { return invalid("must start with P") };
    if text.is_empty() {
        return invalid("nothing after P");
    }
    if let Some(weeks) = text.strip_suffix('W') {
        if weeks.is_empty() {
            return invalid("no number in week");
        }
        return if weeks.bytes().all(|byte| byte.is_ascii_digit()) {
            Ok(())
        } else {
            invalid("invalid week")
        };
    }
    for (part, elements) in text.split('T').enumerate() {
        if part != 0 && elements.is_empty() {
            return invalid("no time elements");
        }
        let all = match part {
            0 => "YMD",
            1 => "HMS",
            _ => return invalid("more than one T"),
        };
        in_order(elements, all)?;
    }
    Ok(())
}

fn in_order(mut elements: &str, all: &str) -> Result<(), String> {
    let mut units = all;
    while !elements.is_empty() {
        let rest = elements.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() == elements.len() {
            return invalid("missing number");
        }
        let Some(unit) = rest.chars().next() else { return invalid("missing unit") };
        units = match units.split_once(unit) {
            Some((_, later)) => later,
            None if all.contains(unit) => return invalid(format!("unit {} out of order", quoted(unit))),
            None => return invalid(format!("invalid unit {}", quoted(unit))),
        };
        elements = rest.get(unit.len_utf8()..).unwrap_or_default();
    }
    Ok(())
}

/// Two times joined by a slash, one of which may be a duration.
pub fn period(text: &str) -> Result<(), String> {
    let Some((start, end)) = text.split_once('/') else { return invalid("missing slash") };
    if start.starts_with('P') {
        duration(start).map_err(|why| format!("invalid start duration: {why}"))?;
        return date_time(end).map_err(|why| format!("invalid end date-time: {why}"));
    }
    date_time(start).map_err(|why| format!("invalid start date-time: {why}"))?;
    if end.starts_with('P') {
        return duration(end).map_err(|why| format!("invalid end duration: {why}"));
    }
    date_time(end).map_err(|why| format!("invalid end date-time: {why}"))
}
