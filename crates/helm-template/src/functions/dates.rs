//! Date functions: times, durations and time zones.

use crate::exec::{FunctionBody, FunctionRow, Machine};
use crate::go::time::{Duration, Time, Zone};
use crate::go::{parse_float, print, quote};
use crate::value::time::{DURATION, TIME, as_duration, as_time, duration_value, time_value};
use crate::value::{Str, Type, Value};

type DateResult = Result<Value, Str>;

const ANY: &[Type] = &[Type::Any];
const TWO: &[Type] = &[Type::Any, Type::Any];
const DATE: &[Type] = &[Type::String, Type::Any];
const HTML: &[Type] = &[Type::Any, Type::String];
const ZONED: &[Type] = &[Type::String, Type::Any, Type::String];
const MODIFY: &[Type] = &[Type::String, Type::Object(TIME)];
const PARSE: &[Type] = &[Type::String, Type::String];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("now",                  &[],    false, FunctionBody::Machine(|m, _| Ok(time_value(now(m), &local(m))))),
    ("date",                 DATE,   false, FunctionBody::Machine(|m, args| Ok(format(m, &text(args, 0), &args[1], "Local")))),
    ("htmlDate",             ANY,    false, FunctionBody::Machine(|m, args| Ok(format(m, HTML_DATE, &args[0], "Local")))),
    ("dateInZone",           ZONED,  false, FunctionBody::Machine(date_in_zone)),
    ("date_in_zone",         ZONED,  false, FunctionBody::Machine(date_in_zone)),
    ("htmlDateInZone",       HTML,   false, FunctionBody::Machine(|m, args| Ok(format(m, HTML_DATE, &args[0], &text(args, 1))))),
    ("dateModify",           MODIFY, false, FunctionBody::Machine(|m, args| Ok(modify(m, args).unwrap_or_else(|_| args[1].clone())))),
    ("date_modify",          MODIFY, false, FunctionBody::Machine(|m, args| Ok(modify(m, args).unwrap_or_else(|_| args[1].clone())))),
    ("mustDateModify",       MODIFY, false, FunctionBody::Machine(|m, args| modify(m, args))),
    ("must_date_modify",     MODIFY, false, FunctionBody::Machine(|m, args| modify(m, args))),
    ("toDate",               PARSE,  false, FunctionBody::Machine(|m, args| Ok(parse(m, args).unwrap_or_else(|_| time_value(Time::zero(), &local(m)))))),
    ("mustToDate",           PARSE,  false, FunctionBody::Machine(|m, args| parse(m, args))),
    ("unixEpoch",            &[Type::Object(TIME)], false, FunctionBody::Plain(unix_epoch)),
    ("ago",                  ANY,    false, FunctionBody::Machine(ago)),
    ("duration",             ANY,    false, FunctionBody::Plain(duration)),
    ("durationRound",        ANY,    false, FunctionBody::Machine(duration_round)),
    // Added by Helm 4.
    ("mustToDuration",       ANY,    false, FunctionBody::Plain(|args| Ok(duration_value(to_duration(&args[0])?)))),
    ("durationNanoseconds",  ANY,    false, FunctionBody::Plain(|args| Ok(Value::Int64(duration_or_zero(args).0)))),
    ("durationMicroseconds", ANY,    false, FunctionBody::Plain(|args| Ok(Value::Int64(duration_or_zero(args).0 / 1_000)))),
    ("durationMilliseconds", ANY,    false, FunctionBody::Plain(|args| Ok(Value::Int64(duration_or_zero(args).0 / 1_000_000)))),
    ("durationSeconds",      ANY,    false, FunctionBody::Plain(|args| Ok(Value::Float(duration_or_zero(args).seconds())))),
    ("durationMinutes",      ANY,    false, FunctionBody::Plain(|args| Ok(Value::Float(duration_or_zero(args).minutes())))),
    ("durationHours",        ANY,    false, FunctionBody::Plain(|args| Ok(Value::Float(duration_or_zero(args).hours())))),
    ("durationDays",         ANY,    false, FunctionBody::Plain(|args| Ok(Value::Float(duration_or_zero(args).hours() / 24.0)))),
    ("durationWeeks",        ANY,    false, FunctionBody::Plain(|args| Ok(Value::Float(duration_or_zero(args).hours() / 24.0 / 7.0)))),
    ("durationRoundTo",      TWO,    false, FunctionBody::Plain(|args| Ok(to_multiple(args, Duration::round)))),
    ("durationTruncateTo",   TWO,    false, FunctionBody::Plain(|args| Ok(to_multiple(args, Duration::truncate)))),
];

const HTML_DATE: &str = "2006-01-02";

fn text(args: &[Value], at: usize) -> String {
    args[at].text().unwrap_or_default().into_owned()
}

fn local(machine: &Machine<'_>) -> Zone {
    Zone::local(machine.env.clock.zone())
}

fn now(machine: &Machine<'_>) -> Time {
    Time::now(machine.env.clock.now(), local(machine))
}

/// A time, or seconds since 1970; any other value means now.
fn to_time(machine: &Machine<'_>, value: &Value) -> Time {
    match value {
        Value::Int(unix) | Value::Int64(unix) => Time::new(*unix, 0, local(machine)),
        value => as_time(value).cloned().unwrap_or_else(|| now(machine)),
    }
}

fn format(machine: &Machine<'_>, layout: &str, date: &Value, zone: &str) -> Value {
    let zone = match zone {
        "Local" => local(machine),
        // An unknown zone means UTC.
        name => Zone::load(name).unwrap_or(Zone::Utc),
    };
    to_time(machine, date).in_zone(zone).format(layout).into()
}

fn date_in_zone(machine: &mut Machine<'_>, args: &[Value]) -> DateResult {
    Ok(format(machine, &text(args, 0), &args[1], &text(args, 2)))
}

fn modify(machine: &Machine<'_>, args: &[Value]) -> DateResult {
    let by = Duration::parse(&text(args, 0))?;
    Ok(time_value(to_time(machine, &args[1]).add(by), &local(machine)))
}

fn parse(machine: &Machine<'_>, args: &[Value]) -> DateResult {
    let local = local(machine);
    let time = Time::parse(&text(args, 0), args[1].string_bytes().unwrap_or_default(), &local)?;
    Ok(time_value(time, &local))
}

fn unix_epoch(args: &[Value]) -> DateResult {
    Ok(as_time(&args[0]).map_or(0, Time::unix).to_string().into())
}

fn ago(machine: &mut Machine<'_>, args: &[Value]) -> DateResult {
    let since = now(machine).since(&to_time(machine, &args[0]));
    Ok(since.round(Duration::from_secs(1)).to_string().into())
}

/// Formats a number of seconds. An `int`, unlike an `int64`, counts as zero, as in sprig.
fn duration(args: &[Value]) -> DateResult {
    let seconds = match &args[0] {
        Value::String(text) => parse_int(text),
        Value::Int64(seconds) => *seconds,
        _ => 0,
    };
    Ok(Duration::from_secs(seconds).to_string().into())
}

/// Parses like Go's `strconv.ParseInt` with its error ignored: zero for a syntax error, the nearest limit for an overflow.
fn parse_int(text: &str) -> i64 {
    let negative = text.starts_with('-');
    let most = if negative { i64::MIN } else { i64::MAX };
    let mut size = 0_u64;
    for byte in text.strip_prefix(['-', '+']).unwrap_or(text).bytes() {
        if !byte.is_ascii_digit() {
            return 0;
        }
        // Digits after an overflow are not examined.
        size = match size.checked_mul(10).and_then(|size| size.checked_add(u64::from(byte - b'0'))) {
            Some(size) => size,
            None => return most,
        };
    }
    let signed = if negative { 0_i64.checked_sub_unsigned(size) } else { 0_i64.checked_add_unsigned(size) };
    signed.unwrap_or(most)
}

/// Rounds to the largest unit that the duration exceeds.
fn duration_round(machine: &mut Machine<'_>, args: &[Value]) -> DateResult {
    const UNITS: [(u64, &str); 6] =
        [(365 * 86_400, "y"), (30 * 86_400, "mo"), (86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")];
    let duration = match &args[0] {
        Value::String(text) => Duration::parse(text).unwrap_or_default(),
        Value::Int64(nanoseconds) => Duration(*nanoseconds),
        value => as_time(value).map_or(Duration(0), |time| now(machine).since(time)),
    };
    let size = duration.0.unsigned_abs();
    let unit =
        UNITS.into_iter().map(|(seconds, name)| (seconds * 1_000_000_000, name)).find(|unit| size > unit.0);
    Ok(unit.map_or_else(|| "0s".to_owned(), |(length, name)| format!("{}{name}", size / length)).into())
}

/// Converts a value to a duration as Helm 4 does: a duration, a duration string, or a number of seconds.
fn to_duration(value: &Value) -> Result<Duration, Str> {
    match value {
        Value::Nil | Value::Null => Err("invalid duration".into()),
        Value::String(_) | Value::Raw(_) => {
            let whole = value.text().unwrap_or_default();
            let text = whole.trim();
            if text.is_empty() {
                return Err("empty duration".into());
            }
            if let Ok(duration) = Duration::parse(text) {
                return Ok(duration);
            }
            match parse_float(text) {
                Some(seconds) => duration_from_float(seconds),
                None => Err(format!("could not parse duration {}", quote(&whole)).into()),
            }
        }
        Value::Int(seconds) | Value::Int64(seconds) => {
            let nanoseconds = seconds.checked_mul(1_000_000_000).map(Duration);
            nanoseconds.ok_or_else(|| format!("duration seconds overflow: {seconds}").into())
        }
        Value::Uint64(seconds) => {
            let nanoseconds =
                i64::try_from(*seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
            nanoseconds.map(Duration).ok_or_else(|| format!("duration seconds overflow: {seconds}").into())
        }
        Value::Float(seconds) => duration_from_float(*seconds),
        Value::Object(object) if object.type_name() == DURATION => Ok(as_duration(value).unwrap_or_default()),
        Value::Object(object) => match object.int() {
            Some(seconds) => to_duration(&Value::Int64(seconds)),
            None => Err(format!("unsupported duration type {}", object.type_name()).into()),
        },
        value => Err(format!("unsupported duration type {}", value.type_name()).into()),
    }
}

fn duration_from_float(seconds: f64) -> Result<Duration, Str> {
    const MAX_SECONDS: f64 = 9_223_372_036.854_776;
    let shown = || print(&Value::Float(seconds));
    if !seconds.is_finite() {
        return Err(format!("invalid duration seconds: {}", shown()).into());
    }
    if seconds.abs() > MAX_SECONDS {
        return Err(format!("duration seconds overflow: {}", shown()).into());
    }
    #[expect(clippy::cast_possible_truncation, reason = "it is in range, and Go cuts the fraction off")]
    Ok(Duration((seconds * 1e9) as i64))
}

fn duration_or_zero(args: &[Value]) -> Duration {
    to_duration(&args[0]).unwrap_or_default()
}

fn to_multiple(args: &[Value], how: fn(Duration, Duration) -> Duration) -> Value {
    duration_value(match (to_duration(&args[0]), to_duration(&args[1])) {
        (Ok(duration), Ok(multiple)) => how(duration, multiple),
        (Ok(duration), Err(_)) => duration,
        (Err(_), _) => Duration(0),
    })
}
