//! The five fields of a cron schedule, with the complaints of the parser that Kubernetes uses.

/// A field: what it is called in no message, its least and greatest number, and names for numbers.
struct Bounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds {
        min: 1,
        max: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { min: 0, max: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];
const DESCRIPTORS: &[&str] =
    &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Whether a schedule can be read, or why not.
pub fn check(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let (zone, times) = schedule
            .split_once(' ')
            .ok_or("invalid schedule format: runtime error: slice bounds out of range [:-1]")?;
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if !zone.is_empty() && !is_time_zone(zone) {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = times.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<_> = rest.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        field.split(',').filter(|range| !range.is_empty()).try_for_each(|expr| range(expr, bounds))?;
    }
    Ok(())
}

/// Go knows UTC and Local by exactly these names; all others it looks up, as they are written.
pub fn is_time_zone(name: &str) -> bool {
    let found = || jiff::tz::TimeZone::get(name).is_ok_and(|zone| zone.iana_name() == Some(name));
    matches!(name, "UTC" | "Local") || found()
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    match text.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => {
            let number = !duration.is_empty() && duration.bytes().all(|b| b.is_ascii_digit() || b == b'.');
            let what = if number { "missing unit in" } else { "invalid" };
            Err(format!("failed to parse duration {text}: time: {what} duration {duration:?}"))
        }
        None => Err(format!("unrecognized descriptor: {text}")),
    }
}

/// `1h30m`, as Go reads it.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let after = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = &rest[..rest.len() - after.len()];
        let unit = after.len() - after.trim_start_matches(|c: char| !c.is_ascii_digit() && c != '.').len();
        let known = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&&after[..unit]);
        if !known || !number.bytes().any(|b| b.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        rest = &after[unit..];
        parts += 1;
    }
    parts > 0
}

fn range(expr: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<_> = expr.split('/').collect();
    let ends: Vec<_> = parts[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [one] => (number(one, bounds.names, bounds.min)?, number(one, bounds.names, bounds.min)?),
        [from, to] => (number(from, bounds.names, bounds.min)?, number(to, bounds.names, bounds.min)?),
        [first, ..] => {
            number(first, bounds.names, bounds.min)?;
            return Err(format!("too many hyphens: {expr}"));
        }
        [] => return Ok(()),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = bounds.max;
            }
            number(step, &[], 0)?
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
    Ok(())
}

/// A number, or a name for one; the first name stands for `first`.
fn number(text: &str, names: &[&str], first: u64) -> Result<u64, String> {
    if let Some(at) = names.iter().position(|name| text.eq_ignore_ascii_case(name)) {
        return Ok(first + at as u64);
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let why = if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
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
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn schedules_are_read_as_kubernetes_reads_them() {
        for good in
            ["* * * * *", "*/5 0-3,5 1 jan-mar MON", "@daily", "@every 1h30m", "? ? ? ? ?", "5/10 * * * *"]
        {
            assert_eq!(check(good), Ok(()), "{good}");
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
            assert_eq!(check(bad), Err(why.to_owned()), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC*", fields in "(@every )?([-*/?,0-9a-zµ]{0,6} ?){0,7}") {
            let _ = check(&text);
            let _ = check(&fields);
        }
    }
}
