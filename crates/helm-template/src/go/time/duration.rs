//! Durations: signed 64-bit nanoseconds.

use super::parse::quote;

/// Go's `time.Duration`, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration(pub i64);

pub(super) const SECOND: i64 = 1_000_000_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

/// Maximum magnitude of a parsed duration. Only a negative duration can have this magnitude.
const MAX_MAGNITUDE: u64 = 1 << 63;

impl Duration {
    pub fn from_secs(seconds: i64) -> Self {
        Self(seconds.wrapping_mul(SECOND))
    }

    /// Parses `1h15m30.5s`, with an optional sign.
    pub fn parse(text: &str) -> Result<Self, String> {
        let invalid = || format!("time: invalid duration {}", quote(text.as_bytes()));
        let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
            Some(rest) => (text.starts_with('-'), rest),
            None => (false, text),
        };
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut all = 0_u64;
        while !rest.is_empty() {
            let (part, after) = parse_component(rest).map_err(|flaw| match flaw {
                DurationSyntaxError::Invalid => invalid(),
                DurationSyntaxError::NoUnit => {
                    format!("time: missing unit in duration {}", quote(text.as_bytes()))
                }
                DurationSyntaxError::Unit(unit) => {
                    let (unit, text) = (quote(unit.as_bytes()), quote(text.as_bytes()));
                    format!("time: unknown unit {unit} in duration {text}")
                }
            })?;
            rest = after;
            all = all.checked_add(part).filter(|all| *all <= MAX_MAGNITUDE).ok_or_else(invalid)?;
        }
        if negative {
            return Ok(Self(0_i64.wrapping_sub_unsigned(all)));
        }
        i64::try_from(all).map(Self).map_err(|_| invalid())
    }

    #[expect(clippy::cast_precision_loss, reason = "as Go does")]
    fn in_units(self, unit: i64) -> f64 {
        (self.0 / unit) as f64 + (self.0 % unit) as f64 / unit as f64
    }

    pub fn seconds(self) -> f64 {
        self.in_units(SECOND)
    }

    pub fn minutes(self) -> f64 {
        self.in_units(MINUTE)
    }

    pub fn hours(self) -> f64 {
        self.in_units(HOUR)
    }

    #[must_use]
    pub fn truncate(self, multiple: Self) -> Self {
        if multiple.0 <= 0 { self } else { Self(self.0 - self.0 % multiple.0) }
    }

    /// Rounds to the nearest multiple, half away from zero.
    #[must_use]
    pub fn round(self, multiple: Self) -> Self {
        if multiple.0 <= 0 {
            return self;
        }
        let rest = self.0 % multiple.0;
        let below_half = rest.unsigned_abs() * 2 < multiple.0.unsigned_abs();
        Self(if below_half {
            self.0 - rest
        } else if self.0 < 0 {
            (self.0 - rest).saturating_sub(multiple.0)
        } else {
            (self.0 - rest).saturating_add(multiple.0)
        })
    }

    #[must_use]
    pub fn abs(self) -> Self {
        Self(self.0.saturating_abs())
    }
}

/// Why a duration cannot be parsed.
enum DurationSyntaxError<'t> {
    Invalid,
    NoUnit,
    Unit(&'t str),
}

/// Parses a number and its unit. Returns nanoseconds and the remaining text.
fn parse_component(text: &str) -> Result<(u64, &str), DurationSyntaxError<'_>> {
    let (whole, rest) = digits(text);
    let value =
        if whole.is_empty() { 0 } else { whole.parse::<u64>().map_err(|_| DurationSyntaxError::Invalid)? };
    if value > MAX_MAGNITUDE {
        return Err(DurationSyntaxError::Invalid);
    }
    let (fraction, rest) = rest.strip_prefix('.').map_or(("", rest), digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationSyntaxError::Invalid);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let nanoseconds = match unit {
        "" => return Err(DurationSyntaxError::NoUnit),
        "ns" => 1,
        // Go accepts both the micro sign and the Greek letter mu.
        "us" | "\u{B5}s" | "\u{3BC}s" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND.unsigned_abs(),
        "m" => MINUTE.unsigned_abs(),
        "h" => HOUR.unsigned_abs(),
        unit => return Err(DurationSyntaxError::Unit(unit)),
    };
    let whole = value
        .checked_mul(nanoseconds)
        .filter(|all| *all <= MAX_MAGNITUDE)
        .ok_or(DurationSyntaxError::Invalid)?;
    let all = whole
        .checked_add(fraction_of_unit(fraction, nanoseconds))
        .filter(|all| *all <= MAX_MAGNITUDE)
        .ok_or(DurationSyntaxError::Invalid)?;
    Ok((all, rest))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A fraction of a unit in nanoseconds. Digits beyond 64 bits are ignored.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "as Go does; the result is less than the unit"
)]
fn fraction_of_unit(fraction: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let next = value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        match next {
            Some(next) if value <= (MAX_MAGNITUDE - 1) / 10 && next <= MAX_MAGNITUDE => value = next,
            _ => break,
        }
        scale *= 10.0;
    }
    (value as f64 * (unit as f64 / scale)) as u64
}

impl std::fmt::Display for Duration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let size = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match size {
            0 => return f.write_str("0s"),
            1..1_000 => return write!(f, "{size}ns"),
            1_000..1_000_000 => return write!(f, "{}\u{B5}s", decimal(size, 1_000, 3)),
            1_000_000..1_000_000_000 => return write!(f, "{}ms", decimal(size, 1_000_000, 6)),
            _ => {}
        }
        let minutes = size / MINUTE.unsigned_abs();
        if minutes >= 60 {
            write!(f, "{}h", minutes / 60)?;
        }
        if minutes > 0 {
            write!(f, "{}m", minutes % 60)?;
        }
        write!(f, "{}s", decimal(size % MINUTE.unsigned_abs(), SECOND.unsigned_abs(), 9))
    }
}

/// A decimal fraction without trailing zeros.
fn decimal(size: u64, unit: u64, places: usize) -> String {
    let text = format!("{}.{:0places$}", size / unit, size % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
