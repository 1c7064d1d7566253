//! Timestamps as go-yaml recognises them.

use crate::go::time::days_in;

/// Whether `!!timestamp` accepts the text: a date, or a date with a time.
pub(super) fn is_timestamp(text: &str) -> bool {
    let mut rest = TimestampParser(text.as_bytes());
    let Some(year) = rest.number(4, 4) else { return false };
    let Some((month, day)) = rest.month_and_day() else { return false };
    if !(1..=12).contains(&month) || day < 1 || i64::from(day) > days_in(month.into(), year.into()) {
        return false;
    }
    if rest.0.is_empty() {
        return true;
    }
    match rest.0.first() {
        Some(b'T' | b't') => {
            rest.0 = &rest.0[1..];
            rest.time().is_some() && rest.zone().is_some() && rest.0.is_empty()
        }
        Some(b' ') => {
            rest.0 = &rest.0[1..];
            rest.time().is_some() && rest.0.is_empty()
        }
        _ => false,
    }
}

/// The unparsed rest of a text.
struct TimestampParser<'a>(&'a [u8]);

impl TimestampParser<'_> {
    fn literal(&mut self, byte: u8) -> Option<()> {
        self.0 = self.0.strip_prefix(&[byte])?;
        Some(())
    }

    fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let count = self.0.iter().take(most).take_while(|byte| byte.is_ascii_digit()).count();
        if count < least {
            return None;
        }
        let (digits, rest) = self.0.split_at(count);
        self.0 = rest;
        Some(digits.iter().fold(0, |n, digit| n * 10 + u32::from(digit - b'0')))
    }

    fn month_and_day(&mut self) -> Option<(u32, u32)> {
        self.literal(b'-')?;
        let month = self.number(1, 2)?;
        self.literal(b'-')?;
        Some((month, self.number(1, 2)?))
    }

    /// A time such as `15:4:5`, with an optional fraction.
    fn time(&mut self) -> Option<()> {
        let hour = self.number(1, 2)?;
        self.literal(b':')?;
        let minute = self.number(1, 2)?;
        self.literal(b':')?;
        let second = self.number(1, 2)?;
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        if matches!(self.0, [b'.' | b',', b'0'..=b'9', ..]) {
            let digits = self.0.iter().skip(1).take_while(|byte| byte.is_ascii_digit()).count();
            self.0 = self.0.get(1 + digits..)?;
        }
        Some(())
    }

    /// A zone: `Z` or `+01:00`.
    fn zone(&mut self) -> Option<()> {
        if self.literal(b'Z').is_some() {
            return Some(());
        }
        let [b'+' | b'-', rest @ ..] = self.0 else { return None };
        self.0 = rest;
        let hours = self.number(2, 2)?;
        self.literal(b':')?;
        let minutes = self.number(2, 2)?;
        (hours <= 24 && minutes <= 60).then_some(())
    }
}
