//! Resource quantities such as `500m`, `1Gi`, `1e3`, compatible with Kubernetes' `resource.Quantity`.
//!
//! Used for normalisation (canonical form), validation, quota, limits and the scheduler. Suffixes, rounding and the
//! canonical form match Kubernetes.
//!
//! Invariants:
//! - A quantity is a whole number of billionths. Finer fractions are rounded up, away from zero.
//! - Arithmetic is exact up to 10^29 and saturates there.
//! - Printing a parsed quantity is exact at any size. Its cost is linear in the length of the text, whatever the
//!   exponent.

use std::cmp::Ordering;
use std::fmt;

use serde_json::Value;

/// Billionths in one.
const NANOS_PER_UNIT: i128 = 1_000_000_000;
/// Largest quantity in a binary unit. Kubernetes caps only these.
const MAX_BINARY: i128 = (i64::MAX as i128) * NANOS_PER_UNIT;
/// Number of decimal digits that always fit into Go's 64-bit integers.
const MAX_EXACT_DIGITS: usize = 18;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `12e6`
    DecimalExponent,
    /// `12Mi`
    BinarySi,
    /// `12M`
    DecimalSi,
}

use Format::{BinarySi, DecimalExponent, DecimalSi};

/// Named suffixes: (suffix, power of 1024 or 1000, format).
#[rustfmt::skip]
const SUFFIXES: &[(&str, i64, Format)] = &[
    ("n", -3, DecimalSi), ("u", -2, DecimalSi), ("m", -1, DecimalSi), ("", 0, DecimalSi),
    ("k",  1, DecimalSi), ("M",  2, DecimalSi), ("G",  3, DecimalSi), ("T", 4, DecimalSi),
    ("P",  5, DecimalSi), ("E",  6, DecimalSi),
    ("Ki", 1, BinarySi),  ("Mi", 2, BinarySi),  ("Gi", 3, BinarySi),
    ("Ti", 4, BinarySi),  ("Pi", 5, BinarySi),  ("Ei", 6, BinarySi),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Numeric,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

/// A quantity and the format in which it is written. Equality and order compare the amount only.
#[derive(Clone, Debug)]
pub struct Quantity {
    nano: i128,
    format: Format,
    /// Text, where it does not follow from amount and format: Kubernetes keeps the text of numbers that look canonical
    /// (`1E3`, `+1`), and amounts beyond `i128` are represented by their text alone.
    text: Option<Box<str>>,
}

impl Quantity {
    pub const ZERO: Self = Self { nano: 0, format: DecimalSi, text: None };

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let parts = split(text)?;
        let (power, format) = parse_suffix(parts.suffix)?;
        let digits = [parts.whole, parts.fraction].concat();
        let places = i64::try_from(parts.fraction.len()).unwrap_or(i64::MAX);
        let scale = if format == BinarySi { -places } else { power - places };
        let fits = if format == BinarySi {
            places == 0 && i64::try_from(digits.len()).is_ok_and(|long| long + 3 * power <= 14)
        } else {
            digits.len() <= MAX_EXACT_DIGITS && scale >= -9
        };
        if !fits && !parts.has_digits {
            return Err(QuantityError::Numeric);
        }
        if format == BinarySi {
            return Ok(Self::binary(text, parts.negative, &digits, scale, power, fits));
        }
        let (digits, exponent) = round_up(digits, scale);
        let nano = signed(parts.negative, in_nano(&digits, exponent));
        let verbatim = fits && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0');
        let text = if verbatim {
            Some(text.into())
        } else if nano.unsigned_abs() >= i128::MAX.unsigned_abs() {
            Some(decimal(parts.negative, &digits, exponent, format).into())
        } else {
            None
        };
        Ok(Self { nano, format, text })
    }

    /// `digits` times `10^scale` times `1024^power`.
    fn binary(text: &str, negative: bool, digits: &str, scale: i64, power: i64, fits: bool) -> Self {
        let mut scaled = digits.to_owned();
        for _ in 0..power {
            scaled = times_1024(&scaled);
        }
        let (scaled, exponent) = round_up(scaled, scale);
        let nano = in_nano(&scaled, exponent).min(MAX_BINARY);
        let format = if !fits && nano > 0 && nano < NANOS_PER_UNIT { DecimalSi } else { BinarySi };
        let odd = digits.parse::<u64>().is_ok_and(|number| number & 7 != 0);
        Self { nano: signed(negative, nano), format, text: (fits && odd).then(|| text.into()) }
    }

    /// Reads a quantity from an object's field: a string, or a number that the API server has not normalised.
    pub fn from_value(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text).ok(),
            Value::Number(number) => Self::parse(&number.to_string()).ok(),
            _ => None,
        }
    }

    pub fn from_units(value: i64, format: Format) -> Self {
        Self { nano: i128::from(value) * NANOS_PER_UNIT, format, text: None }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    pub fn is_zero(&self) -> bool {
        self.nano == 0
    }

    /// -1, 0 or 1.
    pub fn sign(&self) -> i32 {
        match self.nano.cmp(&0) {
            Ordering::Less => -1,
            Ordering::Equal => 0,
            Ordering::Greater => 1,
        }
    }

    /// Whole units, rounded away from zero; saturates at `i64`.
    pub fn value(&self) -> i64 {
        self.to_units(NANOS_PER_UNIT)
    }

    /// Thousandths, rounded away from zero; saturates at `i64`.
    pub fn milli_value(&self) -> i64 {
        self.to_units(NANOS_PER_UNIT / 1000)
    }

    /// Rounds away from zero to whole thousandths, as Kubernetes does with every entry of a resource list (requests,
    /// limits, capacity, quota).
    #[must_use]
    pub fn round_up_to_milli(&self) -> Self {
        let unit = NANOS_PER_UNIT / 1000;
        if self.nano % unit == 0 {
            return self.clone();
        }
        Self { nano: away_from_zero(self.nano, unit).saturating_mul(unit), format: self.format, text: None }
    }

    /// Whether it has no fraction.
    pub fn is_whole(&self) -> bool {
        self.nano % NANOS_PER_UNIT == 0
    }

    fn to_units(&self, unit: i128) -> i64 {
        let units = away_from_zero(self.nano, unit);
        i64::try_from(units).unwrap_or(if units < 0 { i64::MIN } else { i64::MAX })
    }

    /// Approximate value, for ratios.
    #[expect(clippy::cast_precision_loss, reason = "a ratio of amounts needs no more than a float has")]
    pub fn as_f64(&self) -> f64 {
        self.nano as f64 / NANOS_PER_UNIT as f64
    }

    /// Sum in this quantity's format, or in the other's if this is zero.
    #[must_use]
    pub fn add(&self, other: &Self) -> Self {
        self.with_nano(self.nano.saturating_add(other.nano), other)
    }

    #[must_use]
    pub fn sub(&self, other: &Self) -> Self {
        self.with_nano(self.nano.saturating_sub(other.nano), other)
    }

    /// Product with a count, in the same format.
    #[must_use]
    pub fn times(&self, count: u64) -> Self {
        Self { nano: self.nano.saturating_mul(count.into()), format: self.format, text: None }
    }

    fn with_nano(&self, nano: i128, other: &Self) -> Self {
        let format = if self.is_zero() { other.format } else { self.format };
        Self { nano, format, text: None }
    }
}

impl Default for Quantity {
    fn default() -> Self {
        Self::ZERO
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nano == other.nano
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nano.cmp(&other.nano)
    }
}

impl std::str::FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        Self::parse(text)
    }
}

/// Canonical form: no fraction, and the largest unit that needs none.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(text) = &self.text {
            return f.write_str(text);
        }
        let small = self.nano.unsigned_abs() < 1024 * NANOS_PER_UNIT.unsigned_abs();
        if self.format == BinarySi && !small && self.is_whole() {
            let mut value = self.nano / NANOS_PER_UNIT;
            let mut power = 0;
            while value % 1024 == 0 && power < 6 {
                value /= 1024;
                power += 1;
            }
            return write!(f, "{value}{}", suffix_for(power, BinarySi).unwrap_or_default());
        }
        let format = if self.format == BinarySi { DecimalSi } else { self.format };
        f.write_str(&decimal(self.nano < 0, &self.nano.unsigned_abs().to_string(), -9, format))
    }
}

/// Parsed parts of a quantity's text.
struct QuantityParts<'a> {
    negative: bool,
    /// Without leading zeros; `0` if no other digit remains.
    whole: &'a str,
    fraction: &'a str,
    suffix: &'a str,
    /// Whether the text has any digit. Where Go takes its fast path, `Ki` and `.` parse as zero.
    has_digits: bool,
}

fn split(text: &str) -> Result<QuantityParts<'_>, QuantityError> {
    if text.is_empty() {
        return Err(QuantityError::Format);
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, rest) = leading_digits(unsigned);
    let (fraction, tail) = rest.strip_prefix('.').map_or(("", rest), leading_digits);
    let letters = tail.trim_start_matches(['e', 'E', 'i', 'n', 'u', 'm', 'k', 'K', 'M', 'G', 'T', 'P']);
    let exponent = if letters.is_empty() { "" } else { letters.strip_prefix(['+', '-']).unwrap_or(letters) };
    if !leading_digits(exponent).1.is_empty() {
        return Err(QuantityError::Format);
    }
    let trimmed = whole.trim_start_matches('0');
    Ok(QuantityParts {
        negative: text.starts_with('-'),
        whole: if trimmed.is_empty() { "0" } else { trimmed },
        fraction,
        suffix: tail,
        has_digits: !whole.is_empty() || !fraction.is_empty(),
    })
}

fn leading_digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

/// Interprets a suffix: a power of 1024 for binary units, otherwise a power of ten.
fn parse_suffix(suffix: &str) -> Result<(i64, Format), QuantityError> {
    if let Some((_, power, format)) = SUFFIXES.iter().find(|(name, ..)| *name == suffix) {
        return Ok((if *format == BinarySi { *power } else { power * 3 }, *format));
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let exponent: i64 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    // Go truncates absurd exponents to their low 32 bits. Here they are clamped.
    Ok((exponent.clamp(i32::MIN.into(), i32::MAX.into()), DecimalExponent))
}

fn suffix_for(power: i64, format: Format) -> Option<&'static str> {
    if power == 0 {
        return Some("");
    }
    SUFFIXES.iter().find(|row| (row.1, row.2) == (power, format)).map(|row| row.0)
}

/// Rounds to billionths, away from zero.
fn round_up(mut digits: String, exponent: i64) -> (String, i64) {
    if exponent >= -9 {
        return (digits, exponent);
    }
    let surplus = usize::try_from(-9 - exponent).unwrap_or(usize::MAX).min(digits.len());
    let cut = digits.split_off(digits.len() - surplus);
    if cut.bytes().any(|digit| digit != b'0') {
        digits = increment(&digits);
    }
    (digits, -9)
}

fn increment(digits: &str) -> String {
    let head = digits.trim_end_matches('9');
    let zeros = "0".repeat(digits.len() - head.len());
    match head.as_bytes().split_last() {
        Some((last, rest)) => {
            let rest = std::str::from_utf8(rest).expect("decimal digits are ASCII");
            format!("{rest}{}{zeros}", char::from(last + 1))
        }
        None => format!("1{zeros}"),
    }
}

fn times_1024(digits: &str) -> String {
    let mut carry = 0_u32;
    let mut reversed: Vec<u8> = Vec::with_capacity(digits.len() + 4);
    for digit in digits.bytes().rev() {
        carry += u32::from(digit - b'0') * 1024;
        reversed.push(b'0' + u8::try_from(carry % 10).expect("a digit is below ten"));
        carry /= 10;
    }
    let mut product = carry.to_string();
    product.extend(reversed.iter().rev().map(|&digit| char::from(digit)));
    product
}

/// Returns `digits` times `10^exponent` in billionths, saturating. The number must have no finer fraction.
fn in_nano(digits: &str, exponent: i64) -> i128 {
    let digits = digits.trim_start_matches('0');
    if digits.is_empty() {
        return 0;
    }
    let parsed = digits.parse::<i128>().ok();
    let factor = u32::try_from(exponent + 9).ok().and_then(|power| 10_i128.checked_pow(power));
    parsed.zip(factor).and_then(|(number, factor)| number.checked_mul(factor)).unwrap_or(i128::MAX)
}

fn signed(negative: bool, nano: i128) -> i128 {
    if negative { -nano } else { nano }
}

fn away_from_zero(nano: i128, unit: i128) -> i128 {
    nano / unit + if nano % unit == 0 { 0 } else { nano.signum() }
}

/// Canonical form of `digits` times `10^exponent`.
fn decimal(negative: bool, digits: &str, exponent: i64, format: Format) -> String {
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    let dropped = digits.len() - digits.trim_end_matches('0').len();
    let exponent = exponent + i64::try_from(dropped).unwrap_or(i64::MAX);
    let zeros = usize::try_from(exponent.rem_euclid(3)).expect("a remainder of three is small");
    let exponent = exponent - exponent.rem_euclid(3);
    let sign = if negative { "-" } else { "" };
    let named = if format == DecimalSi { suffix_for(exponent / 3, DecimalSi) } else { None };
    // Go prints no suffix beyond `E`, which changes the amount. The exponent keeps it.
    let tail = match named {
        Some(name) => name.to_owned(),
        None if exponent == 0 => String::new(),
        None => format!("e{exponent}"),
    };
    format!("{sign}{significant}{}{tail}", "0".repeat(zeros))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_canonical_as_kubernetes_prints_them() {
        #[rustfmt::skip]
        let table = [
            ("0", "0"), ("0.5", "500m"), ("1024Mi", "1Gi"), ("1e3", "1e3"), ("1E3", "1E3"), ("0.1", "100m"),
            ("1000m", "1"), ("1.5Gi", "1536Mi"), ("1.1Ki", "1126400m"), ("0.5Ki", "512"), ("+1", "+1"),
            ("01", "01"), ("1.", "1."), ("-1.5", "-1500m"), ("0.1n", "1n"), ("-0.1n", "-1n"), ("1e-10", "1e-9"),
            ("1e1", "10"), ("10e1", "100"), ("1500e-3", "1500e-3"), ("1.5e3", "1500"), ("100000", "100k"),
            ("9999999999999999999", "9999999999999999999"), ("9999999999999999999Ki", "9223372036854775807"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1Ei", "1Ei"), ("8Ei", "9223372036854775807"), ("-8Ei", "-9223372036854775807"), ("-", "0"),
            (".", "0"), ("Ki", "0"), ("0Ki", "0"), ("2048Ki", "2Mi"), ("1000Ki", "1000Ki"), ("512", "512"),
            ("1000E", "1e21"), ("1e2147483647", "10e2147483646"), ("1e-2147483648", "1e-9"),
            ("0.0001Ki", "102400u"), ("1.500", "1.500"),
        ];
        for (given, printed) in table {
            assert_eq!(Quantity::parse(given).map(|q| q.to_string()), Ok(printed.to_owned()), "{given}");
        }
    }

    #[test]
    fn parse_errors_name_the_invalid_part() {
        use QuantityError::*;
        #[rustfmt::skip]
        let table = [
            ("", Format), ("abc", Format), ("1 ", Format), ("1.2.3", Format), ("--1", Suffix), ("1Ki5x", Format),
            ("e", Suffix), ("kk", Suffix), ("1Kib", Format), ("1e", Suffix), ("1e99999999999999999999", Suffix),
            ("Ei", Numeric), ("e-10", Numeric), ("1é", Format),
        ];
        for (given, error) in table {
            assert_eq!(Quantity::parse(given).map(|q| q.to_string()), Err(error), "{given}");
        }
    }

    #[test]
    fn sum_takes_format_of_the_nonzero_operand() {
        let q = |text: &str| Quantity::parse(text).unwrap();
        assert_eq!(q("0").add(&q("1Gi")).to_string(), "1Gi");
        assert_eq!(q("1Gi").add(&q("1024Mi")).to_string(), "2Gi");
        assert_eq!(q("1").sub(&q("250m")).to_string(), "750m");
        assert_eq!((q("1.5").value(), q("-1.5").value(), q("1u").milli_value()), (2, -2, 1));
        assert_eq!((q("1e30").value(), q("-1e99").milli_value()), (i64::MAX, i64::MIN));
        assert_eq!(q("1e99").add(&q("1e99")), q("1e98"));
        assert_eq!(q("0.1n").round_up_to_milli().to_string(), "1m");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = Quantity::parse(&text);
        }

        #[test]
        fn printing_and_reading_again_keeps_amount_and_text(
            text in "[+-]?[0-9]{0,30}(\\.[0-9]{0,15})?(|n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e-?[0-9]{1,2})"
        ) {
            if let Ok(quantity) = Quantity::parse(&text) {
                let printed = quantity.to_string();
                let again = Quantity::parse(&printed).unwrap();
                prop_assert_eq!(&again, &quantity);
                prop_assert_eq!(again.to_string(), printed);
            }
        }

        #[test]
        fn order_is_that_of_the_numbers(a in -1_000_000_000_i64..1_000_000_000, b in any::<i32>()) {
            let micro = Quantity::parse(&format!("{a}u")).unwrap();
            let milli = Quantity::parse(&format!("{b}m")).unwrap();
            prop_assert_eq!(micro.cmp(&milli), i128::from(a).cmp(&(i128::from(b) * 1000)));
            prop_assert_eq!(micro.add(&milli).sub(&milli), micro);
        }
    }
}
