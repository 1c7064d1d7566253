//! RFC 3339 times as Go decodes them from JSON and encodes them.

use helm_template::go::quote;
use helm_template::go::time::days_in;
use helm_template::value::Str;

const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";

/// Normalizes a time as Go does: no trailing zeros in the fraction, `Z` for a zero offset.
pub(crate) fn normalize(text: &str) -> Result<String, Str> {
    let mut rest = TimeParser { input: text, rest: text };
    let year = rest.number(4, "2006", 0..=9999, "year")?;
    rest.literal("-")?;
    let month = rest.number(2, "01", 1..=12, "month")?;
    rest.literal("-")?;
    let day = rest.number(2, "02", 0..=99, "day")?;
    rest.literal("T")?;
    let date = rest.consumed(text);
    let hour = rest.hour()?;
    rest.literal(":")?;
    rest.number(2, "04", 0..=59, "minute")?;
    rest.literal(":")?;
    rest.number(2, "05", 0..=59, "second")?;
    let time = rest.consumed(text).get(date.len()..).unwrap_or_default();
    let time = time.split_once(':').map_or("", |(_, minutes)| minutes);
    let fraction = rest.fraction();
    let offset = rest.offset()?;
    if !rest.rest.is_empty() {
        return Err(rest.range_error(&format!("extra text: {}", quote(rest.rest))));
    }
    if day < 1 || i64::from(day) > days_in(month.into(), year.into()) {
        return Err(rest.range_error("day out of range"));
    }
    let fraction = fraction.get(..fraction.len().min(9)).unwrap_or("").trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    Ok(format!("{date}{hour:02}:{time}{point}{fraction}{offset}"))
}

/// Go's zero time.
pub(crate) const ZERO: &str = "0001-01-01T00:00:00Z";

struct TimeParser<'a> {
    input: &'a str,
    rest: &'a str,
}

impl<'a> TimeParser<'a> {
    fn literal(&mut self, literal: &str) -> Result<(), Str> {
        self.rest = self.rest.strip_prefix(literal).ok_or_else(|| self.parse_error(literal))?;
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
        let text = text.ok_or_else(|| self.parse_error(element))?;
        let number = text.parse().map_err(|_| self.parse_error(element))?;
        self.rest = &self.rest[digits..];
        if range.contains(&number) {
            Ok(number)
        } else {
            Err(self.range_error(&format!("{unit} out of range")))
        }
    }

    /// Go accepts a single digit here.
    fn hour(&mut self) -> Result<u32, Str> {
        let digits = if self.rest.as_bytes().get(1) == Some(&b':') { 1 } else { 2 };
        self.number(digits, "15", 0..=23, "hour")
    }

    /// The part already read.
    fn consumed(&self, whole: &'a str) -> &'a str {
        &whole[..whole.len() - self.rest.len()]
    }

    fn fraction(&mut self) -> &'a str {
        let Some(digits) = self.rest.strip_prefix(['.', ',']) else { return "" };
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
        let offset = offset.ok_or_else(|| self.parse_error("Z07:00"))?;
        if &offset[1..3] > "23" {
            return Err(self.range_error("time zone offset hour out of range"));
        }
        if &offset[4..] > "59" {
            return Err(self.range_error("time zone offset minute out of range"));
        }
        self.rest = &self.rest[6..];
        Ok(if &offset[1..] == "00:00" { "Z" } else { offset })
    }

    fn parse_error(&self, element: &str) -> Str {
        format!(
            "parsing time {} as {}: cannot parse {} as {}",
            quote(self.input),
            quote(LAYOUT),
            quote(self.rest),
            quote(element)
        )
        .into()
    }

    fn range_error(&self, problem: &str) -> Str {
        format!("parsing time {}: {problem}", quote(self.input)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalize_matches_go() {
        #[rustfmt::skip]
        let rows = [
            ("2020-01-02T03:04:05Z", Ok("2020-01-02T03:04:05Z")),
            ("2020-01-02T03:04:05.120000000Z", Ok("2020-01-02T03:04:05.12Z")),
            ("2020-01-02T03:04:05.1234567891Z", Ok("2020-01-02T03:04:05.123456789Z")),
            ("2020-01-02T03:04:05+00:00", Ok("2020-01-02T03:04:05Z")),
            ("2020-01-02T03:04:05-07:30", Ok("2020-01-02T03:04:05-07:30")),
            ("2020-01-02T03:04:05.000Z", Ok("2020-01-02T03:04:05Z")),
            ("abc", Err("parsing time \"abc\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"abc\" as \"2006\"")),
            ("", Err("parsing time \"\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\"")),
            ("2020", Err("parsing time \"2020\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"-\"")),
            ("2020-", Err("parsing time \"2020-\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"01\"")),
            ("2020-1-02T03:04:05Z", Err("parsing time \"2020-1-02T03:04:05Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"1-02T03:04:05Z\" as \"01\"")),
            ("2020-13-02T03:04:05Z", Err("parsing time \"2020-13-02T03:04:05Z\": month out of range")),
            ("2020-00-02T03:04:05Z", Err("parsing time \"2020-00-02T03:04:05Z\": month out of range")),
            ("2021-02-29T03:04:05Z", Err("parsing time \"2021-02-29T03:04:05Z\": day out of range")),
            ("2020-02-29T03:04:05Z", Ok("2020-02-29T03:04:05Z")),
            ("2020-02-00T03:04:05Z", Err("parsing time \"2020-02-00T03:04:05Z\": day out of range")),
            ("2020-01-02 03:04:05Z", Err("parsing time \"2020-01-02 03:04:05Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \" 03:04:05Z\" as \"T\"")),
            ("2020-01-02T24:04:05Z", Err("parsing time \"2020-01-02T24:04:05Z\": hour out of range")),
            ("2020-01-02T03:60:05Z", Err("parsing time \"2020-01-02T03:60:05Z\": minute out of range")),
            ("2020-01-02T03:04:60Z", Err("parsing time \"2020-01-02T03:04:60Z\": second out of range")),
            ("2020-01-02T03:04:05", Err("parsing time \"2020-01-02T03:04:05\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"")),
            ("2020-01-02T03:04:05z", Err("parsing time \"2020-01-02T03:04:05z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"z\" as \"Z07:00\"")),
            ("2020-01-02T03:04:05Zx", Err("parsing time \"2020-01-02T03:04:05Zx\": extra text: \"x\"")),
            ("2020-01-02T03:04:05+0000", Err("parsing time \"2020-01-02T03:04:05+0000\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"+0000\" as \"Z07:00\"")),
            ("2020-01-02T03:04:05.Z", Err("parsing time \"2020-01-02T03:04:05.Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \".Z\" as \"Z07:00\"")),
            ("2020-01-02T03:04:05,5Z", Ok("2020-01-02T03:04:05.5Z")),
            ("2020-01-02T3:04:05Z", Ok("2020-01-02T03:04:05Z")),
            ("2020-01-02T03:04:5Z", Err("parsing time \"2020-01-02T03:04:5Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"5Z\" as \"05\"")),
            ("0001-01-01T00:00:00Z", Ok("0001-01-01T00:00:00Z")),
            ("2020-01-02t03:04:05Z", Err("parsing time \"2020-01-02t03:04:05Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"t03:04:05Z\" as \"T\"")),
            ("2020-01-99T03:04:05Z", Err("parsing time \"2020-01-99T03:04:05Z\": day out of range")),
            ("20a0-01-02T03:04:05Z", Err("parsing time \"20a0-01-02T03:04:05Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"20a0-01-02T03:04:05Z\" as \"2006\"")),
        ];
        for (text, expected) in rows {
            assert_eq!(
                normalize(text).map_err(|error| error.to_string()).as_deref(),
                expected.map_err(str::to_owned).as_deref(),
                "{text}"
            );
        }
    }
}
