//! Template values of Go's `time` package: times, durations, months, weekdays and zones.

use std::any::Any;
use std::borrow::Cow;
use std::rc::Rc;

use super::{Kind, Method, Object, Str, Type, Value, negligible_cost};
use crate::data::{Data, Members};
use crate::go::time::{Duration, MONTHS, RFC3339, Time, WEEKDAYS, Zone};
use crate::go::{print, quote};

type MethodResult = Result<Value, Str>;
type MethodRow = (&'static str, &'static [Type], fn(&dyn Object, &[Value]) -> MethodResult);

pub(crate) const TIME: &str = "time.Time";
pub(crate) const DURATION: &str = "time.Duration";

const LOCATION: &str = "*time.Location";

const TIMES: &[Type] = &[Type::Object(TIME)];
const DURATIONS: &[Type] = &[Type::Object(DURATION)];
const ZONES: &[Type] = &[Type::Object(LOCATION)];
const TEXT: &[Type] = &[Type::String];
const INTS: &[Type] = &[Type::Int, Type::Int, Type::Int];

/// A time, with the local zone for its `Local` method.
struct TimeValue {
    time: Time,
    local: Zone,
}

pub(crate) fn time_value(time: Time, local: &Zone) -> Value {
    Value::Object(Rc::new(TimeValue { time, local: local.clone() }))
}

pub(crate) fn duration_value(duration: Duration) -> Value {
    Value::Object(Rc::new(DurationValue(duration)))
}

/// The time in a value, if it is one.
pub(crate) fn as_time(value: &Value) -> Option<&Time> {
    match value {
        Value::Object(object) => Some(&object.as_any().downcast_ref::<TimeValue>()?.time),
        _ => None,
    }
}

/// The duration in a value, if it is one. For a duration parameter, Go also accepts an integer literal.
pub(crate) fn as_duration(value: &Value) -> Option<Duration> {
    match value {
        Value::Object(object) => Some(object.as_any().downcast_ref::<DurationValue>()?.0),
        Value::Int64(nanoseconds) => Some(Duration(*nanoseconds)),
        _ => None,
    }
}

impl Object for TimeValue {
    fn type_name(&self) -> &str {
        TIME
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn print(&self) -> Cow<'_, str> {
        self.time.to_string().into()
    }

    /// Go syntax: `time.Date(2020, time.January, 2, 3, 4, 5, 0, time.UTC)`.
    fn source(&self) -> Option<String> {
        let (time, date, second) = (&self.time, self.time.date(), self.time.second_of_day());
        let month = named_int("time.Month", date.month);
        let zone = match time.zone() {
            Zone::Utc => "time.UTC".to_owned(),
            zone if *zone == self.local => "time.Local".to_owned(),
            zone => format!("time.Location({})", quote(zone.name())),
        };
        Some(format!(
            "time.Date({}, time.{}, {}, {}, {}, {}, {}, {zone})",
            date.year,
            print(&month),
            date.day,
            second / 3_600,
            second / 60 % 60,
            second % 60,
            time.nanosecond(),
        ))
    }

    fn method(&self, name: &str) -> Option<Method> {
        find(TIME_METHODS, name)
    }

    fn data(&self) -> Result<Data, Str> {
        if (0..10_000).contains(&self.time.date().year) {
            return Ok(Data::string(self.time.format(RFC3339)));
        }
        let why = "Time.MarshalJSON: year outside of range [0,9999]";
        Err(format!("json: error calling MarshalJSON for type time.Time: {why}").into())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.time == other.time)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[rustfmt::skip]
const TIME_METHODS: &[MethodRow] = &[
    ("Unix",       &[],       |it, _| Ok(Value::Int64(time_value_ref(it)?.time.unix()))),
    ("UnixMilli",  &[],       |it, _| Ok(Value::Int64(time_value_ref(it)?.time.unix_in(1_000)))),
    ("UnixMicro",  &[],       |it, _| Ok(Value::Int64(time_value_ref(it)?.time.unix_in(1_000_000)))),
    ("UnixNano",   &[],       |it, _| Ok(Value::Int64(time_value_ref(it)?.time.unix_in(1_000_000_000)))),
    ("Year",       &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.date().year))),
    ("Month",      &[],       |it, _| Ok(named_int("time.Month", time_value_ref(it)?.time.date().month))),
    ("Day",        &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.date().day))),
    ("YearDay",    &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.date().day_of_year()))),
    ("Weekday",    &[],       |it, _| Ok(named_int("time.Weekday", time_value_ref(it)?.time.weekday()))),
    ("Hour",       &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.second_of_day() / 3_600))),
    ("Minute",     &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.second_of_day() / 60 % 60))),
    ("Second",     &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.second_of_day() % 60))),
    ("Nanosecond", &[],       |it, _| Ok(Value::Int(time_value_ref(it)?.time.nanosecond()))),
    ("IsZero",     &[],       |it, _| Ok(time_value_ref(it)?.time.is_zero().into())),
    ("IsDST",      &[],       |it, _| Ok(time_value_ref(it)?.time.is_dst().into())),
    ("String",     &[],       |it, _| Ok(it.print().as_ref().into())),
    ("Format",     TEXT,      |it, args| Ok(time_value_ref(it)?.time.format(&args[0].text().unwrap_or_default()).into())),
    ("UTC",        &[],       |it, _| map_time(it, |time| time.in_zone(Zone::Utc))),
    ("Local",      &[],       |it, _| { let local = time_value_ref(it)?.local.clone(); map_time(it, |time| time.in_zone(local)) }),
    ("In",         ZONES,     |it, args| { let zone = zone_argument(args)?; map_time(it, |time| time.in_zone(zone)) }),
    ("Location",   &[],       |it, _| Ok(Value::Object(Rc::new(LocationValue(time_value_ref(it)?.time.zone().clone()))))),
    ("Add",        DURATIONS, |it, args| { let by = duration_argument(args)?; map_time(it, |time| time.add(by)) }),
    ("Truncate",   DURATIONS, |it, args| { let by = duration_argument(args)?; map_time(it, |time| time.truncate(by)) }),
    ("Round",      DURATIONS, |it, args| { let by = duration_argument(args)?; map_time(it, |time| time.round(by)) }),
    ("AddDate",    INTS,      |it, args| map_time(it, |time| time.add_date(int(args, 0), int(args, 1), int(args, 2)))),
    ("Sub",        TIMES,     |it, args| Ok(duration_value(time_value_ref(it)?.time.since(time_argument(args)?)))),
    ("Before",     TIMES,     |it, args| Ok(time_value_ref(it)?.time.compare(time_argument(args)?).is_lt().into())),
    ("After",      TIMES,     |it, args| Ok(time_value_ref(it)?.time.compare(time_argument(args)?).is_gt().into())),
    ("Equal",      TIMES,     |it, args| Ok(time_value_ref(it)?.time.compare(time_argument(args)?).is_eq().into())),
    ("Compare",    TIMES,     |it, args| Ok(Value::Int(time_value_ref(it)?.time.compare(time_argument(args)?) as i64))),
];

/// A `time.Duration`.
struct DurationValue(Duration);

impl Object for DurationValue {
    fn type_name(&self) -> &str {
        DURATION
    }

    fn kind(&self) -> Kind {
        Kind::Int64
    }

    fn int(&self) -> Option<i64> {
        Some(self.0.0)
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn print(&self) -> Cow<'_, str> {
        self.0.to_string().into()
    }

    fn is_true(&self) -> bool {
        self.0.0 != 0
    }

    fn method(&self, name: &str) -> Option<Method> {
        find(DURATION_METHODS, name)
    }

    fn data(&self) -> Result<Data, Str> {
        Ok(Data::Int(self.0.0))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.0 == other.0)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[rustfmt::skip]
const DURATION_METHODS: &[MethodRow] = &[
    ("Nanoseconds",  &[],       |it, _| Ok(Value::Int64(duration_ref(it)?.0))),
    ("Microseconds", &[],       |it, _| Ok(Value::Int64(duration_ref(it)?.0 / 1_000))),
    ("Milliseconds", &[],       |it, _| Ok(Value::Int64(duration_ref(it)?.0 / 1_000_000))),
    ("Seconds",      &[],       |it, _| Ok(Value::Float(duration_ref(it)?.seconds()))),
    ("Minutes",      &[],       |it, _| Ok(Value::Float(duration_ref(it)?.minutes()))),
    ("Hours",        &[],       |it, _| Ok(Value::Float(duration_ref(it)?.hours()))),
    ("String",       &[],       |it, _| Ok(it.print().as_ref().into())),
    ("Abs",          &[],       |it, _| Ok(duration_value(duration_ref(it)?.abs()))),
    ("Truncate",     DURATIONS, |it, args| Ok(duration_value(duration_ref(it)?.truncate(duration_argument(args)?)))),
    ("Round",        DURATIONS, |it, args| Ok(duration_value(duration_ref(it)?.round(duration_argument(args)?)))),
];

/// A named number: a month or a weekday.
struct NamedInt {
    type_name: &'static str,
    number: i64,
}

fn named_int(of: &'static str, number: i64) -> Value {
    Value::Object(Rc::new(NamedInt { type_name: of, number }))
}

impl Object for NamedInt {
    fn type_name(&self) -> &str {
        self.type_name
    }

    fn kind(&self) -> Kind {
        Kind::Int
    }

    fn int(&self) -> Option<i64> {
        Some(self.number)
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn print(&self) -> Cow<'_, str> {
        let (names, first) =
            if self.type_name == "time.Month" { (MONTHS.as_slice(), 1) } else { (WEEKDAYS.as_slice(), 0) };
        let name = usize::try_from(self.number - first).ok().and_then(|at| names.get(at));
        name.map_or_else(|| self.number.to_string().into(), |name| Cow::Borrowed(*name))
    }

    fn is_true(&self) -> bool {
        self.number != 0
    }

    fn method(&self, name: &str) -> Option<Method> {
        find(STRING_METHOD, name)
    }

    fn data(&self) -> Result<Data, Str> {
        Ok(Data::Int(self.number))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| (self.type_name, self.number) == (other.type_name, other.number))
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A `*time.Location`.
struct LocationValue(Zone);

impl Object for LocationValue {
    fn type_name(&self) -> &'static str {
        LOCATION
    }

    fn kind(&self) -> Kind {
        Kind::Ptr
    }

    fn is_stringer(&self) -> bool {
        true
    }

    fn print(&self) -> Cow<'_, str> {
        self.0.name().into()
    }

    fn method(&self, name: &str) -> Option<Method> {
        find(STRING_METHOD, name)
    }

    /// A struct without exported fields.
    fn data(&self) -> Result<Data, Str> {
        Ok(Data::Map(Members::new()))
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<Self>().is_some_and(|other| self.0 == other.0)
    }

    /// In Go, each zone is one pointer, so equal zones are identical.
    fn is_same(&self, other: &dyn Object) -> bool {
        self.equals(other)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

const STRING_METHOD: &[MethodRow] = &[("String", &[], |it, _| Ok(it.print().as_ref().into()))];

fn find(rows: &[MethodRow], name: &str) -> Option<Method> {
    let row = rows.iter().find(|row| row.0 == name)?;
    Some(Method { params: row.1, variadic: false, cost: negligible_cost, run: row.2 })
}

/// Unreachable: methods are only called on their own type.
const FOREIGN_TYPE: &str = "method called on a foreign type";

fn time_value_ref(object: &dyn Object) -> Result<&TimeValue, Str> {
    object.as_any().downcast_ref().ok_or_else(|| FOREIGN_TYPE.into())
}

fn duration_ref(object: &dyn Object) -> Result<Duration, Str> {
    object.as_any().downcast_ref::<DurationValue>().map(|lapse| lapse.0).ok_or_else(|| FOREIGN_TYPE.into())
}

fn map_time(object: &dyn Object, how: impl FnOnce(&Time) -> Time) -> MethodResult {
    let moment = time_value_ref(object)?;
    Ok(time_value(how(&moment.time), &moment.local))
}

fn time_argument(args: &[Value]) -> Result<&Time, Str> {
    as_time(&args[0]).ok_or_else(|| FOREIGN_TYPE.into())
}

fn duration_argument(args: &[Value]) -> Result<Duration, Str> {
    as_duration(&args[0]).ok_or_else(|| FOREIGN_TYPE.into())
}

fn zone_argument(args: &[Value]) -> Result<Zone, Str> {
    match &args[0] {
        Value::Object(object) => object.as_any().downcast_ref::<LocationValue>().map(|zone| zone.0.clone()),
        _ => None,
    }
    // Go panics on a nil zone.
    .ok_or_else(|| "time: missing Location in call to Time.In".into())
}

fn int(args: &[Value], at: usize) -> i64 {
    if let Value::Int(number) = args[at] { number } else { 0 }
}
