//! Times as Go reads them from JSON and writes them: RFC 3339.

use helm_template::go::quote;
use helm_template::value::Str;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// A time as Go would write it after reading it: without zeros at the end of the fraction, `Z` for no offset.
pub(crate) fn normal(text: &str) -> Result<String, Str> {
    let mut rest = Rest { whole: text, rest: text };
    let year = rest.number(4, "2006", 0..=9999, "year")?;
    rest.literal("-")?;
    let month = rest.number(2, "01", 1..=12, "month")?;
    rest.literal("-")?;
    let day = rest.number(2, "02", 0..=99, "day")?;
    rest.literal("T")?;
    rest.number(2, "15", 0..=23, "hour")?;
    rest.literal(":")?;
    rest.number(2, "04", 0..=59, "minute")?;
    rest.literal(":")?;
    rest.number(2, "05", 0..=59, "second")?;
    let seconds = &text[..text.len() - rest.rest.len()];
    let fraction = rest.fraction();
    let offset = rest.offset()?;
    if !rest.rest.is_empty() {
        return Err(rest.range(&format!("extra text: {}", quote(rest.rest))));
    }
    if day < 1 || day > days(year, month) {
        return Err(rest.range("day out of range"));
    }
    let fraction = fraction.get(..fraction.len().min(9)).unwrap_or("").trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{seconds}{point}{fraction}{offset}"))
}

/// The time of Go's zero value.
pub(crate) const ZERO: &str = "0001-01-01T00:00:00Z";

fn days(year: u32, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        _ => 31,
    }
}

struct Rest<'a> {
    whole: &'a str,
    rest: &'a str,
}

impl<'a> Rest<'a> {
    fn literal(&mut self, literal: &str) -> Result<(), Str> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.unlike(literal))?;
        Ok(())
    }

    fn number(
        &mut self,
        digits: usize,
        element: &str,
        range: std::ops::RangeInclusive<u32>,
        unit: &str,
    ) -> Result<u32, Str> {
        let text = self.rest.get(..digits).filter(|text| text.bytes().all(|b| b.is_ascii_digit()));
        let text = text.ok_or_else(|| self.unlike(element))?;
        let number = text.parse().map_err(|_| self.unlike(element))?;
        self.rest = &self.rest[digits..];
        if range.contains(&number) { Ok(number) } else { Err(self.range(&format!("{unit} out of range"))) }
    }

    fn fraction(&mut self) -> &'a str {
        let Some(digits) = self.rest.strip_prefix('.') else { return "" };
        let length = digits.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return "";
        }
        self.rest = &digits[length..];
        &digits[..length]
    }

    fn offset(&mut self) -> Result<&'a str, Str> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok("Z");
        }
        let offset = self.rest.get(..6).filter(|offset| {
            let bytes = offset.as_bytes();
            matches!(bytes[0], b'+' | b'-')
                && bytes[3] == b':'
                && [1, 2, 4, 5].iter().all(|&digit| bytes[digit].is_ascii_digit())
        });
        let offset = offset.ok_or_else(|| self.unlike("Z07:00"))?;
        if &offset[1..3] > "23" {
            return Err(self.range("time zone offset hour out of range"));
        }
        if &offset[4..] > "59" {
            return Err(self.range("time zone offset minute out of range"));
        }
        self.rest = &self.rest[6..];
        Ok(if &offset[1..] == "00:00" { "Z" } else { offset })
    }

    fn unlike(&self, element: &str) -> Str {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.whole),
            quote(LAYOUT),
            quote(self.rest),
            quote(element)
        )
        .into()
    }

    fn range(&self, problem: &str) -> Str {
        format!("parsing time {}: {problem}", quote(self.whole)).into()
    }
}
