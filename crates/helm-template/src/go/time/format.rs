//! Formatting of times by a layout.

use std::fmt::Write;

use super::calendar::{MONTHS, WEEKDAYS};
use super::instant::Time;
use super::layout::{Element, Offset, next};

impl Time {
    /// Formats the time by a layout (`Time.Format`).
    pub fn format(&self, layout: &str) -> String {
        let mut out = String::with_capacity(layout.len() + 10);
        let mut rest = layout;
        loop {
            let (before, found) = next(rest);
            out.push_str(before);
            let Some((written, element)) = found else { return out };
            rest = &rest[before.len() + written.len()..];
            // Writing to a String cannot fail.
            let _ = self.write(&mut out, element);
        }
    }

    fn write(&self, out: &mut String, element: Element) -> std::fmt::Result {
        let date = self.date();
        let second = self.second_of_day();
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        let hour12 = if hour % 12 == 0 { 12 } else { hour % 12 };
        match element {
            Element::Year => write!(out, "{:02}", date.year.abs() % 100),
            Element::LongYear if date.year < 0 => write!(out, "-{:04}", -date.year),
            Element::LongYear => write!(out, "{:04}", date.year),
            Element::Month => out.write_str(&month(date.month)[..3]),
            Element::LongMonth => out.write_str(month(date.month)),
            Element::NumberMonth => write!(out, "{}", date.month),
            Element::ZeroMonth => write!(out, "{:02}", date.month),
            Element::Weekday => out.write_str(&weekday(self.weekday())[..3]),
            Element::LongWeekday => out.write_str(weekday(self.weekday())),
            Element::Day => write!(out, "{}", date.day),
            Element::SpaceDay => write!(out, "{:2}", date.day),
            Element::ZeroDay => write!(out, "{:02}", date.day),
            Element::SpaceYearDay => write!(out, "{:3}", date.day_of_year()),
            Element::ZeroYearDay => write!(out, "{:03}", date.day_of_year()),
            Element::Hour => write!(out, "{hour:02}"),
            Element::Hour12 => write!(out, "{hour12}"),
            Element::ZeroHour12 => write!(out, "{hour12:02}"),
            Element::Minute => write!(out, "{minute}"),
            Element::ZeroMinute => write!(out, "{minute:02}"),
            Element::Second => write!(out, "{second}"),
            Element::ZeroSecond => write!(out, "{second:02}"),
            Element::Half { upper } => out.write_str(match (hour >= 12, upper) {
                (true, true) => "PM",
                (true, false) => "pm",
                (false, true) => "AM",
                (false, false) => "am",
            }),
            Element::Zone => match self.offset_and_name() {
                (offset, name) if name.is_empty() => {
                    write_offset(out, offset, Offset { z: false, colon: false, parts: 2 })
                }
                (_, name) => out.write_str(&name),
            },
            Element::Offset(how) => write_offset(out, self.offset_and_name().0, how),
            Element::Fraction { separator, digits, trimmed } => {
                let all = format!("{:09}", self.nanosecond());
                let cut = &all[..digits.min(9)];
                let cut = if trimmed { cut.trim_end_matches('0') } else { cut };
                if cut.is_empty() { Ok(()) } else { write!(out, "{separator}{cut}") }
            }
        }
    }
}

fn write_offset(out: &mut String, offset: i64, how: Offset) -> std::fmt::Result {
    if how.z && offset == 0 {
        return out.write_str("Z");
    }
    // The sign is taken from whole minutes: an offset between -59 s and 0 is printed with a plus.
    let sign = if offset / 60 < 0 { '-' } else { '+' };
    let (minutes, colon) = (offset.abs() / 60, if how.colon { ":" } else { "" });
    write!(out, "{sign}{:02}", minutes / 60)?;
    if how.parts > 1 {
        write!(out, "{colon}{:02}", minutes % 60)?;
    }
    if how.parts > 2 {
        write!(out, "{colon}{:02}", offset.abs() % 60)?;
    }
    Ok(())
}

fn month(number: i64) -> &'static str {
    usize::try_from(number - 1).ok().and_then(|at| MONTHS.get(at)).copied().unwrap_or("January")
}

fn weekday(number: i64) -> &'static str {
    usize::try_from(number).ok().and_then(|at| WEEKDAYS.get(at)).copied().unwrap_or("Sunday")
}

impl std::fmt::Display for Time {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.format("2006-01-02 15:04:05.999999999 -0700 MST"))?;
        match self.monotonic() {
            Some(since) => {
                let (sign, since) = (if since < 0 { '-' } else { '+' }, since.unsigned_abs());
                write!(f, " m={sign}{}.{:09}", since / 1_000_000_000, since % 1_000_000_000)
            }
            None => Ok(()),
        }
    }
}
