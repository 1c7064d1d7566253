//! Parsing of times by a layout.

use super::calendar::{Date, MONTHS, WEEKDAYS, days_in, is_leap};
use super::elements::{
    TimeParseError, abbreviation, check_range, name, nanoseconds, number, offset, signed, strip_space,
    three_digits,
};
use super::instant::Time;
use super::layout::{Element, next};
use super::zone::Zone;

/// The fields parsed so far.
#[derive(Default)]
struct TimeFields {
    year: i64,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    /// Whether the time is PM, if the layout has `PM`.
    is_pm: Option<bool>,
    is_utc: bool,
    offset: Option<i64>,
    zone: String,
}

impl Time {
    /// Parses a time by a layout (`time.Parse`). Without a zone in the layout, the time is in the local zone.
    pub fn parse(layout: &str, value: &[u8], local: &Zone) -> Result<Self, String> {
        let mut reading = TimeFields::default();
        let (mut form, mut rest) = (layout, value);
        let flawed = |says: &str| format!("parsing time {}{says}", quote(value));
        let shape = |rest: &[u8], form: &str| {
            let (value, layout) = (quote(value), quote(layout.as_bytes()));
            let (rest, form) = (quote(rest), quote(form.as_bytes()));
            format!("parsing time {value} as {layout}: cannot parse {rest} as {form}")
        };
        loop {
            let (before, found) = next(form);
            rest = skip(rest, before.as_bytes()).map_err(|rest| shape(rest, before))?;
            let Some((written, element)) = found else { break };
            form = &form[before.len() + written.len()..];
            rest = match reading.read(element, rest, form) {
                Ok(rest) => rest,
                Err(TimeParseError::Shape) => return Err(shape(rest, written)),
                Err(TimeParseError::Range(what)) => return Err(flawed(&format!(": {what} out of range"))),
            };
        }
        if !rest.is_empty() {
            return Err(flawed(&format!(": extra text: {}", quote(rest))));
        }
        reading.time(local).map_err(|what| flawed(&format!(": {what}")))
    }
}

impl TimeFields {
    /// Parses one element. Returns the remaining text. `form` is the rest of the layout.
    fn read<'v>(
        &mut self,
        element: Element,
        value: &'v [u8],
        form: &str,
    ) -> Result<&'v [u8], TimeParseError> {
        let rest;
        match element {
            Element::Year => {
                let (year, after) = signed(value, 2)?;
                rest = after;
                // In some zones the Unix epoch falls on the last day of 1969, so 69 means 1969.
                self.year = year + if year >= 69 { 1900 } else { 2000 };
            }
            Element::LongYear => {
                if !value.first().is_some_and(u8::is_ascii_digit) {
                    return Err(TimeParseError::Shape);
                }
                (self.year, rest) = signed(value, 4)?;
            }
            Element::Month | Element::LongMonth => {
                let (at, after) = name(&MONTHS, element == Element::Month, value)?;
                (self.month, rest) = (Some(at + 1), after);
            }
            Element::NumberMonth | Element::ZeroMonth => {
                let (month, after) = number(value, element == Element::ZeroMonth)?;
                (self.month, rest) = (Some(check_range(month, 1, 12, "month")?), after);
            }
            Element::Weekday | Element::LongWeekday => {
                rest = name(&WEEKDAYS, element == Element::Weekday, value)?.1;
            }
            Element::Day | Element::SpaceDay | Element::ZeroDay => {
                let value = if element == Element::SpaceDay { strip_space(value) } else { value };
                let (day, after) = number(value, element == Element::ZeroDay)?;
                (self.day, rest) = (Some(day), after);
            }
            Element::SpaceYearDay => {
                let (day, after) = three_digits(strip_space(strip_space(value)), false)?;
                (self.day_of_year, rest) = (Some(day), after);
            }
            Element::ZeroYearDay => {
                let (day, after) = three_digits(value, true)?;
                (self.day_of_year, rest) = (Some(day), after);
            }
            Element::Hour => {
                let (hour, after) = number(value, false)?;
                (self.hour, rest) = (check_range(hour, 0, 23, "hour")?, after);
            }
            Element::Hour12 | Element::ZeroHour12 => {
                let (hour, after) = number(value, element == Element::ZeroHour12)?;
                (self.hour, rest) = (check_range(hour, 0, 12, "hour")?, after);
            }
            Element::Minute | Element::ZeroMinute => {
                let (minute, after) = number(value, element == Element::ZeroMinute)?;
                (self.minute, rest) = (check_range(minute, 0, 59, "minute")?, after);
            }
            Element::Second | Element::ZeroSecond => {
                let (second, after) = number(value, element == Element::ZeroSecond)?;
                self.second = check_range(second, 0, 59, "second")?;
                rest = self.implicit_fraction(after, form)?;
            }
            Element::Half { upper } => {
                let (half, after) = value.split_at_checked(2).ok_or(TimeParseError::Shape)?;
                self.is_pm = Some(match (half, upper) {
                    (b"PM", true) | (b"pm", false) => true,
                    (b"AM", true) | (b"am", false) => false,
                    _ => return Err(TimeParseError::Shape),
                });
                rest = after;
            }
            Element::Offset(how) => match value {
                [b'Z', after @ ..] if how.z => {
                    self.is_utc = true;
                    rest = after;
                }
                value => {
                    let (offset, after) = offset(value, how)?;
                    // Go uses -1 as its marker for "no offset", so an offset of one second west is ignored.
                    (self.offset, rest) = (Some(offset).filter(|offset| *offset != -1), after);
                }
            },
            Element::Zone => match value {
                [b'U', b'T', b'C', after @ ..] => {
                    self.is_utc = true;
                    rest = after;
                }
                value => {
                    let (name, after) = value.split_at(abbreviation(value).ok_or(TimeParseError::Shape)?);
                    self.zone = String::from_utf8_lossy(name).into_owned();
                    rest = after;
                }
            },
            Element::Fraction { digits, trimmed: false, .. } => {
                let (fraction, after) = value.split_at_checked(1 + digits).ok_or(TimeParseError::Shape)?;
                self.nanosecond = nanoseconds(fraction)?;
                rest = after;
            }
            Element::Fraction { trimmed: true, .. } => rest = self.fraction(value)?,
        }
        Ok(rest)
    }

    /// A fraction after the seconds is accepted even if the layout has none.
    fn implicit_fraction<'v>(&mut self, value: &'v [u8], form: &str) -> Result<&'v [u8], TimeParseError> {
        match next(form).1 {
            Some((_, Element::Fraction { .. })) => Ok(value),
            _ => self.fraction(value),
        }
    }

    /// Parses an optional fraction of any length.
    fn fraction<'v>(&mut self, value: &'v [u8]) -> Result<&'v [u8], TimeParseError> {
        let [b'.' | b',', digits @ ..] = value else { return Ok(value) };
        let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Ok(value);
        }
        let (fraction, rest) = value.split_at(1 + count);
        self.nanosecond = nanoseconds(fraction)?;
        Ok(rest)
    }

    fn time(mut self, local: &Zone) -> Result<Time, &'static str> {
        match self.is_pm {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        let (month, day) = self.month_and_day()?;
        if day < 1 || day > days_in(month, self.year) {
            return Err("day out of range");
        }
        let date = Date { year: self.year, month, day };
        let second = (self.hour * 60 + self.minute) * 60 + self.second;
        if self.is_utc {
            return Ok(Time::from_local(date, second, self.nanosecond, Zone::Utc));
        }
        let told = Time::from_local(date, second, self.nanosecond, Zone::Utc);
        let moved = |offset: i64, zone: Zone| Time::new(told.unix() - offset, self.nanosecond, zone);
        // If the local zone has the parsed offset and name, the result is in the local zone.
        if let Some(offset) = self.offset {
            let (here, name) = local.offset_and_name(told.unix() - offset);
            let same = here == offset && (self.zone.is_empty() || self.zone == *name);
            let zone = if same { local.clone() } else { Zone::Fixed(self.zone.into(), offset) };
            return Ok(moved(offset, zone));
        }
        if !self.zone.is_empty() {
            if let Some(offset) = local.offset_for_abbreviation(&self.zone, told.unix()) {
                return Ok(moved(offset, local.clone()));
            }
            // The offset of an unknown abbreviation is zero, except for the form GMT-5. The clock reading is kept.
            let hours =
                self.zone.strip_prefix("GMT").and_then(|hours| hours.parse::<i64>().ok()).unwrap_or(0);
            return Ok(moved(0, Zone::Fixed(self.zone.into(), hours * 3_600)));
        }
        Ok(Time::from_local(date, second, self.nanosecond, local.clone()))
    }

    fn month_and_day(&self) -> Result<(i64, i64), &'static str> {
        let Some(day_of_year) = self.day_of_year else {
            return Ok((self.month.unwrap_or(1), self.day.unwrap_or(1)));
        };
        let last = if is_leap(self.year) { 366 } else { 365 };
        if !(1..=last).contains(&day_of_year) {
            return Err("day-of-year out of range");
        }
        let mut day = day_of_year;
        let mut month = 1;
        while day > days_in(month, self.year) {
            day -= days_in(month, self.year);
            month += 1;
        }
        if self.month.is_some_and(|read| read != month) {
            return Err("day-of-year does not match month");
        }
        if self.day.is_some_and(|read| read != day) {
            return Err("day-of-year does not match day");
        }
        Ok((month, day))
    }
}

/// Skips the literal text between elements, where any run of spaces matches any other. Fails with the text at the first difference.
fn skip<'v>(mut value: &'v [u8], mut between: &[u8]) -> Result<&'v [u8], &'v [u8]> {
    while let Some(wanted) = between.first() {
        match (wanted, value.first()) {
            (b' ', Some(found)) if *found != b' ' => return Err(value),
            (b' ', _) => {
                between = trim_spaces(between);
                value = trim_spaces(value);
            }
            (wanted, Some(found)) if wanted == found => {
                between = &between[1..];
                value = &value[1..];
            }
            _ => return Err(value),
        }
    }
    Ok(value)
}

fn trim_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| **byte == b' ').count()..]
}

/// Quotes as Go's `time` package does: everything but printable ASCII is escaped byte by byte.
pub(super) fn quote(text: &[u8]) -> String {
    use std::fmt::Write;
    let mut out = String::from("\"");
    for byte in text {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(*byte));
            }
            b' '..=0x7F => out.push(char::from(*byte)),
            byte => {
                // Writing to a String cannot fail.
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}
