//! Cron schedules: parser with the error messages of Kubernetes, and the next run time.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// A field: its minimum and maximum, and names for numbers.
struct FieldBounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const FIELD_BOUNDS: [FieldBounds; 5] = [
    FieldBounds { min: 0, max: 59, names: &[] },
    FieldBounds { min: 0, max: 23, names: &[] },
    FieldBounds { min: 1, max: 31, names: &[] },
    FieldBounds {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    FieldBounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];
const DESCRIPTORS: &[(&str, &str)] = &[
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];
/// Marks a field given as `*` or `?`.
const STAR_BIT: u64 = 1 << 63;
/// `next_after` gives up after this many years.
const MAX_SEARCH_YEARS: i16 = 5;

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Minutes, hours, days of the month, months and days of the week: a bit for each matching number.
    Fields([u64; 5], TimeZone),
    Every(SignedDuration),
}

/// Validates a schedule. The error is Kubernetes' message.
pub fn validate(schedule: &str) -> Result<(), String> {
    Schedule::parse(schedule, TimeZone::UTC).map(drop)
}

impl Schedule {
    /// Parses a schedule in `zone`, unless it names a time zone itself.
    pub fn parse(schedule: &str, mut zone: TimeZone) -> Result<Self, String> {
        if schedule.is_empty() {
            return Err("empty spec string".to_owned());
        }
        let mut rest = schedule;
        if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            let (name, times) = schedule
                .split_once(' ')
                .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
            let name = name.split_once('=').map_or("", |(_, zone)| zone);
            zone = time_zone(name)
                .ok_or_else(|| format!("provided bad location {name}: unknown time zone {name}"))?;
            rest = times.trim();
        }
        if rest.starts_with('@') {
            return parse_descriptor(rest, zone);
        }
        let fields: Vec<_> = rest.split_whitespace().collect();
        if fields.len() != FIELD_BOUNDS.len() {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        }
        let mut bits = [0; 5];
        for (at, field) in fields.iter().enumerate() {
            for expr in field.split(',').filter(|range| !range.is_empty()) {
                bits[at] |= parse_range(expr, &FIELD_BOUNDS[at])?;
            }
        }
        Ok(Self::Fields(bits, zone))
    }

    /// The first time after `after`; `None` if there is none for years. An hour skipped by daylight saving time is
    /// skipped, a repeated one counts twice.
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let (bits, zone) = match self {
            Self::Every(pause) => {
                return Timestamp::from_second(after.as_second()).ok()?.checked_add(*pause).ok();
            }
            Self::Fields(bits, zone) => (bits, zone),
        };
        let has = |field: usize, number: i8| bits[field] & (1 << number) != 0;
        let midnight = |date: Date| Some(date.to_zoned(zone.clone()).ok()?.timestamp());
        let seconds = |seconds: i64| SignedDuration::from_secs(seconds);
        let minute = after.as_second().checked_add(60)?;
        let mut candidate = Timestamp::from_second(minute - minute.rem_euclid(60)).ok()?;
        let last_year = zone.to_datetime(candidate).year().checked_add(MAX_SEARCH_YEARS)?;
        loop {
            let local = zone.to_datetime(candidate);
            let date = local.date();
            let next = if date.year() > last_year {
                return None;
            } else if !has(3, date.month()) {
                midnight(date.last_of_month().tomorrow().ok()?)?
            } else if !matches_day(bits, date) {
                midnight(date.tomorrow().ok()?)?
            } else if !has(1, local.hour()) {
                candidate.checked_add(seconds(60 * (60 - i64::from(local.minute())))).ok()?
            } else if !has(0, local.minute()) {
                candidate.checked_add(seconds(60)).ok()?
            } else {
                return Some(candidate);
            };
            // Where midnight is skipped or repeated, the search still advances.
            candidate = next.max(candidate.checked_add(seconds(60)).ok()?);
        }
    }
}

/// Day of the month and day of the week must both match if one of them is `*`; otherwise one of them.
fn matches_day(bits: &[u64; 5], date: Date) -> bool {
    let matches_month_day = bits[2] & (1 << date.day()) != 0;
    let matches_weekday = bits[4] & (1 << date.weekday().to_sunday_zero_offset()) != 0;
    if (bits[2] | bits[4]) & STAR_BIT != 0 {
        matches_month_day && matches_weekday
    } else {
        matches_month_day || matches_weekday
    }
}

/// Whether Go accepts this non-empty time zone name. Names are case-sensitive.
pub fn is_time_zone(name: &str) -> bool {
    !name.is_empty() && time_zone(name).is_some()
}

/// The time zone of a name; an empty name and Local are UTC.
pub fn time_zone(name: &str) -> Option<TimeZone> {
    match name {
        "" | "UTC" | "Local" => Some(TimeZone::UTC),
        _ => TimeZone::get(name).ok().filter(|zone| zone.iana_name() == Some(name)),
    }
}

fn parse_descriptor(text: &str, zone: TimeZone) -> Result<Schedule, String> {
    if let Some((_, fields)) = DESCRIPTORS.iter().find(|(name, _)| *name == text) {
        return Schedule::parse(fields, zone);
    }
    let Some(written) = text.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {text}"));
    };
    let Some(pause) = parse_duration(written) else {
        let number = !written.is_empty() && written.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let problem = if number { "missing unit in" } else { "invalid" };
        return Err(format!("failed to parse duration {text}: time: {problem} duration {written:?}"));
    };
    // Whole seconds, and at least one.
    Ok(Schedule::Every(SignedDuration::from_secs(pause.as_secs().max(1))))
}

/// Parses `1h30m` as Go does.
fn parse_duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut sum = 0.0;
    let mut unit_count = 0;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - after.len()];
        let unit = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
        let seconds = match &after[..unit] {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum += number.parse::<f64>().ok()? * seconds;
        rest = &after[unit..];
        unit_count += 1;
    }
    let signed = if text.starts_with('-') { -sum } else { sum };
    // Go counts nanoseconds in 64 bits.
    let is_in_range = unit_count > 0 && sum < 9_223_372_036.0;
    SignedDuration::try_from_secs_f64(signed).ok().filter(|_| is_in_range)
}

/// Parses a range such as `1-5/2` into a bit set.
fn parse_range(expr: &str, bounds: &FieldBounds) -> Result<u64, String> {
    let parts: Vec<_> = expr.split('/').collect();
    let ends: Vec<_> = parts[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => (parse_number(one, bounds.names, bounds.min)?, parse_number(one, bounds.names, bounds.min)?),
        [from, to] => {
            (parse_number(from, bounds.names, bounds.min)?, parse_number(to, bounds.names, bounds.min)?)
        }
        [first, ..] => {
            parse_number(first, bounds.names, bounds.min)?;
            return Err(format!("too many hyphens: {expr}"));
        }
        [] => return Ok(0),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.max;
            }
            parse_number(step, &[], 0)?
        }
        _ => return Err(format!("too many slashes: {expr}")),
    };
    let (min, max) = (bounds.min, bounds.max);
    if start < min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {expr}"));
    }
    if end > max {
        return Err(format!("end of range ({end}) above maximum ({max}): {expr}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expr}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expr}"));
    }
    let star = matches!(ends[0], "*" | "?") && step == 1;
    let mut bits = if star { STAR_BIT } else { 0 };
    let mut number = start;
    while number <= end {
        bits |= 1 << number;
        number = number.saturating_add(step);
    }
    Ok(bits)
}

/// Parses a number or a name such as `jan`; `names[0]` means `first_value`.
fn parse_number(text: &str, names: &[&str], first_value: u64) -> Result<u64, String> {
    if let Some(at) = names.iter().position(|name| text.eq_ignore_ascii_case(name)) {
        return Ok(first_value + at as u64);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let problem = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        "invalid syntax"
    } else {
        match text.parse::<i64>() {
            Ok(number) => {
                return u64::try_from(number)
                    .map_err(|_| format!("negative number ({number}) not allowed: {text}"));
            }
            Err(_) => "value out of range",
        }
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {problem}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn schedules_are_parsed_as_in_kubernetes() {
        for good in
            ["* * * * *", "*/5 0-3,5 1 jan-mar MON", "@daily", "@every 1h30m", "? ? ? ? ?", "5/10 * * * *"]
        {
            assert_eq!(validate(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("bad", "expected exactly 5 fields, found 1: [bad]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
        ] {
            assert_eq!(validate(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[test]
    fn next_time_follows_wall_clock_across_dst() {
        for (schedule, zone, after, expected) in [
            ("* * * * *", "UTC", "2026-01-02T03:04:05Z", "2026-01-02T03:05:00Z"),
            ("5 * * * *", "UTC", "2026-01-02T03:05:00Z", "2026-01-02T04:05:00Z"),
            ("*/20 9-17/4 * * *", "UTC", "2026-01-02T13:40:30Z", "2026-01-02T17:00:00Z"),
            ("0 0 29 2 *", "UTC", "2026-01-02T00:00:00Z", "2028-02-29T00:00:00Z"),
            ("0 12 13 * fri", "UTC", "2026-01-02T13:00:00Z", "2026-01-09T12:00:00Z"),
            ("0 12 */2 * fri", "UTC", "2026-01-03T13:00:00Z", "2026-01-05T12:00:00Z"),
            ("0 12 * * 1", "UTC", "2026-01-02T13:00:00Z", "2026-01-05T12:00:00Z"),
            ("@monthly", "UTC", "2026-12-02T13:00:00Z", "2027-01-01T00:00:00Z"),
            ("@hourly", "Asia/Kolkata", "2026-01-02T03:04:05Z", "2026-01-02T03:30:00Z"),
            ("@every 90m", "UTC", "2026-01-02T03:04:05.5Z", "2026-01-02T04:34:05Z"),
            ("@every 1ms", "UTC", "2026-01-02T03:04:05Z", "2026-01-02T03:04:06Z"),
            // Berlin skips 02:00 to 03:00 in March and repeats it in October.
            ("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-30T00:30:00Z"),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z"),
            ("30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"),
            ("TZ=Asia/Tokyo 0 9 * * *", "UTC", "2026-01-02T03:00:00Z", "2026-01-03T00:00:00Z"),
        ] {
            let parsed = Schedule::parse(schedule, time_zone(zone).unwrap()).unwrap();
            assert_eq!(
                parsed.next_after(after.parse().unwrap()),
                Some(expected.parse().unwrap()),
                "{schedule} {after}"
            );
        }
        let never = Schedule::parse("0 0 31 2 *", TimeZone::UTC).unwrap();
        assert_eq!(never.next_after("2026-01-02T03:04:05Z".parse().unwrap()), None);
        assert_eq!(never.next_after(Timestamp::MAX), None);
    }

    proptest! {
        #[test]
        fn a_next_time_is_later_and_fits(
            fields in "([0-9]|\\*/[1-9]|\\*) ([0-9]|\\*) ([1-9]|\\*) ([1-9]|\\*) ([0-6]|\\*)",
            after in 0..4_000_000_000i64,
        ) {
            let zone = TimeZone::get("America/Sao_Paulo").unwrap();
            let (after, times) = (Timestamp::from_second(after).unwrap(), Schedule::parse(&fields, zone).unwrap());
            if let Some(next) = times.next_after(after) {
                prop_assert!(next > after);
                prop_assert_eq!(times.next_after(next - SignedDuration::from_secs(1)), Some(next));
            }
        }

        #[test]
        fn no_text_panics(text in "\\PC*", fields in "(@every )?([-*/?,0-9a-zµ]{0,6} ?){0,7}") {
            let _ = validate(&text);
            let _ = validate(&fields);
        }
    }
}
