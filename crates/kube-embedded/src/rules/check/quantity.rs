//! Quantities of resources, as far as rules need them: to be compared and to be added.
//!
//! Writing them in canonical form is done elsewhere, before any rule looks.

use serde_json::Value;

use super::At;
use crate::field::FieldError;

const NANO: i128 = 1_000_000_000;

/// An amount in billionths, rounded up as Kubernetes rounds. What is out of range saturates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

impl Quantity {
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let (number, suffix) = rest.split_at(digits);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let (multiplier, divisor) = scale(suffix)?;
        // Digits beyond what matters would only overflow.
        let fraction = &fraction[..fraction.len().min(18)];
        let mut amount = whole
            .trim_start_matches('0')
            .bytes()
            .try_fold(0i128, |sum, digit| sum.checked_mul(10)?.checked_add(i128::from(digit - b'0')));
        amount = amount.and_then(|whole| whole.checked_mul(NANO * NANO));
        let mut unit = NANO * NANO;
        for digit in fraction.bytes() {
            unit /= 10;
            amount = amount.and_then(|sum| sum.checked_add(unit * i128::from(digit - b'0')));
        }
        // From billionths of billionths to billionths, rounding up; large values go a coarser way.
        let scaled = match amount.and_then(|amount| amount.checked_mul(multiplier)) {
            Some(scaled) => {
                let by = divisor.saturating_mul(NANO);
                scaled / by + i128::from(scaled % by != 0)
            }
            None => amount.map_or(i128::MAX, |amount| (amount / NANO).saturating_mul(multiplier) / divisor),
        };
        Some(Self(if negative { -scaled } else { scaled }))
    }

    /// What stands in an object: a string, or a number that has not been rewritten.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    pub fn is_zero(self) -> bool {
        self.0 == 0
    }

    pub fn is_negative(self) -> bool {
        self.0 < 0
    }

    pub fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    /// Thousandths, rounded up.
    pub fn milli(self) -> i128 {
        self.0 / 1_000_000 + i128::from(self.0 % 1_000_000 > 0)
    }

    /// Whole units, rounded up.
    pub fn units(self) -> i128 {
        self.0 / NANO + i128::from(self.0 % NANO > 0)
    }

    /// In words of the same sort as a sample: `2Gi` if the sample is binary, else `1500m` or `2`.
    pub fn words_like(self, sample: &str) -> String {
        if !self.is_whole() {
            return format!("{}m", self.milli());
        }
        let units = self.units();
        let steps: &[(i128, &str)] = if sample.ends_with('i') {
            &[
                (1 << 60, "Ei"),
                (1 << 50, "Pi"),
                (1 << 40, "Ti"),
                (1 << 30, "Gi"),
                (1 << 20, "Mi"),
                (1 << 10, "Ki"),
            ]
        } else {
            &[
                (1_000_000_000_000_000_000, "E"),
                (1_000_000_000_000_000, "P"),
                (1_000_000_000_000, "T"),
                (1_000_000_000, "G"),
                (1_000_000, "M"),
                (1_000, "k"),
            ]
        };
        match steps.iter().find(|(step, _)| units != 0 && units % step == 0) {
            Some((step, suffix)) => format!("{}{suffix}", units / step),
            None => units.to_string(),
        }
    }

    /// For ratios, where the last digit does not matter.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of amounts needs no more than a float has")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64
    }

    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// What a suffix multiplies with, and divides by.
fn scale(suffix: &str) -> Option<(i128, i128)> {
    let binary = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
    if let Some(power) = binary.iter().position(|name| *name == suffix) {
        return Some((1024i128.pow(u32::try_from(power + 1).ok()?), 1));
    }
    let exponent = match suffix {
        "" => 0,
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?,
    };
    let power = 10i128.checked_pow(exponent.unsigned_abs().min(30))?;
    Some(if exponent < 0 { (1, power) } else { (power, 1) })
}

/// `Invalid value: "-1": must be greater than or equal to 0`
pub fn not_negative(at: &At, errs: &mut Vec<FieldError>) {
    if at.value.and_then(Quantity::of).is_some_and(Quantity::is_negative) {
        errs.push(FieldError::invalid(&at.path, at.json(), super::NOT_NEGATIVE));
    }
}

/// `Invalid value: "0": must be greater than zero`
pub fn positive(at: &At, errs: &mut Vec<FieldError>) {
    if at.value.and_then(Quantity::of).is_some_and(|amount| amount <= Quantity::default()) {
        errs.push(FieldError::invalid(&at.path, at.json(), super::POSITIVE));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_same_amount_can_be_written_in_many_ways() {
        for row in [
            ["1", "1000m", "1e0", "1.0", "0.001k", "1000000u"],
            ["1Gi", "1024Mi", "1048576Ki", "1073741824", "1073741824e0", "1.0Gi"],
            ["1e3", "1k", "1000", "1E3", "1000000m", "+1k"],
            ["-5", "-5000m", "-0.005k", "-5.0", "-5e0", "-500e-2"],
        ] {
            let amounts: Vec<_> = row.iter().map(|text| Quantity::parse(text)).collect();
            assert!(amounts[0].is_some() && amounts.iter().all(|a| a == &amounts[0]), "{row:?} {amounts:?}");
        }
        assert!(Quantity::parse("999m") < Quantity::parse("1"));
        assert_eq!(Quantity::parse("1.5").map(Quantity::is_whole), Some(false));
        let words = |text: &str, sample: &str| Quantity::parse(text).map(|amount| amount.words_like(sample));
        assert_eq!(words("2048Mi", "1Gi").as_deref(), Some("2Gi"));
        assert_eq!(words("2000", "1").as_deref(), Some("2k"));
        assert_eq!(words("1.5", "1").as_deref(), Some("1500m"));
        for bad in ["", "-", ".", "1.2.3", "1x", "1ki", "abc", "1e"] {
            assert_eq!(Quantity::parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".*", digits in "[0-9.]{0,60}[eE]?[-+]?[0-9]{0,12}(Ei|m|n)?") {
            let _ = Quantity::parse(&text);
            let _ = Quantity::parse(&digits);
        }
    }
}
