//! Times and durations, parsed as in Go and formatted as in Kubernetes.
//!
//! A `Time` is RFC 3339 in whole seconds of UTC, a `MicroTime` has six digits, a `Duration` is `1h0m0s`. Error messages
//! match Go's `time` package.

use jiff::{SignedDuration, Timestamp};

use crate::clock::{rfc3339, rfc3339_micro};

const LAYOUT: &[&str] = &["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];

pub fn check_time(text: &str) -> Result<(), String> {
    parse(text, "2006-01-02T15:04:05Z07:00").map(drop)
}

pub fn check_micro(text: &str) -> Result<(), String> {
    parse(text, "2006-01-02T15:04:05.000000Z07:00").map(drop)
}

/// Normalises a `Time`: whole seconds, UTC; `None` if invalid.
pub fn normalise(text: &str) -> Option<String> {
    parse(text, "").ok().map(rfc3339)
}

/// Normalises a `MicroTime`: six digits, UTC.
pub fn normalise_micro(text: &str) -> Option<String> {
    parse(text, "").ok().map(rfc3339_micro)
}

fn parse(text: &str, layout: &str) -> Result<Timestamp, String> {
    let fail = |rest: &str, wanted: &str| {
        format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}")
    };
    let mut rest = text;
    for part in LAYOUT {
        let matched = rest.get(..part.len()).filter(|found| {
            if part.len() == 1 { found == part } else { found.bytes().all(|b| b.is_ascii_digit()) }
        });
        let found = matched.ok_or_else(|| fail(rest, part))?;
        rest = &rest[found.len()..];
    }
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.len() - fraction.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if digits == 0 {
            return Err(fail(rest, "Z07:00"));
        }
        rest = &fraction[digits..];
    }
    let zone = match rest.as_bytes() {
        b"Z" => true,
        [b'+' | b'-', h1, h2, b':', m1, m2] => [h1, h2, m1, m2].iter().all(|b| b.is_ascii_digit()),
        _ => false,
    };
    if !zone {
        return Err(fail(rest, "Z07:00"));
    }
    // Excess digits are truncated, as in Go.
    let seconds = &text[..19];
    let fraction: String = text[19..text.len() - rest.len()].chars().take(10).collect();
    format!("{seconds}{fraction}{rest}")
        .parse()
        .map_err(|_| format!("parsing time {text:?}: {} out of range", out_of_range_part(text)))
}

/// The part of a well-formed time that is out of range.
fn out_of_range_part(text: &str) -> &'static str {
    let number = |from: usize| text.get(from..from + 2).and_then(|part| part.parse::<u8>().ok()).unwrap_or(0);
    match (number(5), number(11), number(14), number(17)) {
        (0 | 13.., ..) => "month",
        (_, 24.., ..) => "hour",
        (_, _, 60.., _) => "minute",
        (.., 60..) => "second",
        _ => "day",
    }
}

/// Units of a duration in nanoseconds.
const UNITS: &[(&str, i128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Parses `1h30m`, `-1.5s`, `0`.
pub fn parse_duration(text: &str) -> Result<SignedDuration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if unsigned == "0" {
        return Ok(SignedDuration::ZERO);
    }
    if unsigned.is_empty() {
        return Err(invalid());
    }
    let mut rest = unsigned;
    let mut total = 0_i128;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(end);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        if unit.is_empty() && !number.is_empty() {
            return Err(format!("time: missing unit in duration {text:?}"));
        }
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return Err(invalid());
        }
        let Some((_, size)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(format!("time: unknown unit {unit:?} in duration {text:?}"));
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        let fraction = &fraction[..fraction.len().min(18)];
        let places = u32::try_from(fraction.len()).map_err(|_| invalid())?;
        let part: i128 = if fraction.is_empty() { 0 } else { fraction.parse().map_err(|_| invalid())? };
        let part = part.checked_mul(*size).ok_or_else(invalid)? / 10_i128.pow(places);
        let nanos = whole.checked_mul(*size).and_then(|whole| whole.checked_add(part)).ok_or_else(invalid)?;
        total = total.checked_add(nanos).ok_or_else(invalid)?;
        rest = tail;
    }
    let total = if text.starts_with('-') { -total } else { total };
    i64::try_from(total).map(SignedDuration::from_nanos).map_err(|_| invalid())
}

/// Formats as `1h0m0s`, `1.5s`, `250ms`, `0s`.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos().unsigned_abs();
    let sign = if duration.is_negative() { "-" } else { "" };
    let decimal = |size: u128| {
        let text = format!("{}.{:0width$}", nanos / size, nanos % size, width = size.ilog10() as usize);
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(1_000_000)),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = nanos % 60_000_000_000;
            let text = format!("{}.{:09}", seconds / 1_000_000_000, seconds % 1_000_000_000);
            let seconds = text.trim_end_matches('0').trim_end_matches('.');
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_normalised_to_utc_seconds() {
        assert_eq!(normalise("2020-01-02T03:04:05.9+01:00").unwrap(), "2020-01-02T02:04:05Z");
        assert_eq!(normalise_micro("2020-01-02T03:04:05.1234567Z").unwrap(), "2020-01-02T03:04:05.123456Z");
        #[rustfmt::skip]
        let table = [
            ("yesterday", "parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\""),
            ("2020-01-02", "parsing time \"2020-01-02\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"T\""),
            ("2020-13-02T00:00:00Z", "parsing time \"2020-13-02T00:00:00Z\": month out of range"),
            ("2020-02-30T00:00:00Z", "parsing time \"2020-02-30T00:00:00Z\": day out of range"),
        ];
        for (text, error) in table {
            assert_eq!(check_time(text), Err(error.to_owned()));
        }
    }

    #[test]
    fn durations_are_formatted_as_in_go() {
        let table = [
            ("1h", "1h0m0s"),
            ("90s", "1m30s"),
            ("1.5s", "1.5s"),
            ("250ms", "250ms"),
            ("0", "0s"),
            ("-1.5us", "-1.5µs"),
        ];
        for (given, printed) in table {
            assert_eq!(parse_duration(given).map(format_duration), Ok(printed.to_owned()));
        }
        assert_eq!(parse_duration("5"), Err("time: missing unit in duration \"5\"".to_owned()));
        assert_eq!(parse_duration("5x"), Err("time: unknown unit \"x\" in duration \"5x\"".to_owned()));
        assert_eq!(parse_duration(""), Err("time: invalid duration \"\"".to_owned()));
    }

    proptest! {
        #[test]
        fn no_text_stops_them(text in "\\PC*", near in "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,12})?(Z|[+-][0-9]{2}:[0-9]{2})") {
            let _ = (check_time(&text), parse_duration(&text), check_micro(&near), normalise(&near));
        }
    }
}
