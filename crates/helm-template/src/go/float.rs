//! Floating-point formatting, as in Go's `strconv.FormatFloat`.

use std::fmt::Write;

/// The forms of `strconv.FormatFloat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatFormat {
    /// `1e+06`
    Exponent,
    /// `1000000`
    Fixed,
    /// Exponent form only for large or small exponents: the form of `%v`.
    General,
    /// `0x1.8p+01`
    Hex,
    /// `4503599627370496p-52`
    Binary,
}

/// No float has more decimal places than this; further digits are zeros.
const MAX_DIGITS: usize = 1_100;

/// Formats a float. Without a precision, it uses the fewest digits that parse back to the same number.
pub fn format(value: f64, form: FloatFormat, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match form {
        FloatFormat::Fixed => match precision {
            Some(digits) => {
                let exact = digits.min(MAX_DIGITS);
                format!("{value:.exact$}") + &"0".repeat(digits - exact)
            }
            None => fixed(value),
        },
        FloatFormat::Exponent => exponent(value, precision),
        FloatFormat::General => general(value, precision),
        FloatFormat::Hex => hex(value, precision),
        FloatFormat::Binary => {
            let (sign, mantissa, power) = binary(value);
            format!("{sign}{mantissa}p{power:+}")
        }
    }
}

/// Sign, mantissa and the power of two that multiplies it.
fn binary(value: f64) -> (&'static str, u64, i32) {
    let bits = value.to_bits();
    let sign = if bits >> 63 == 1 { "-" } else { "" };
    let (fraction, exponent) = (bits & ((1 << 52) - 1), i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0));
    match exponent {
        0 => (sign, fraction, -1074),
        exponent => (sign, fraction | (1 << 52), exponent - 1075),
    }
}

fn hex(value: f64, precision: Option<usize>) -> String {
    /// Hexadecimal digits after the point.
    const DIGITS: u32 = 13;
    let (sign, mut mantissa, mut power) = binary(value);
    if mantissa == 0 {
        power = 0;
    } else {
        // Normalise to one bit before the point.
        let shift = mantissa.leading_zeros().saturating_sub(11);
        mantissa <<= shift;
        power += 52 - i32::try_from(shift).unwrap_or(0);
    }
    if let Some(kept) = precision.and_then(|kept| u32::try_from(kept).ok()).filter(|kept| *kept < DIGITS) {
        let dropped = (DIGITS - kept) * 4;
        let (half, rest) = (1 << (dropped - 1), mantissa & ((1 << dropped) - 1));
        mantissa >>= dropped;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= dropped;
        if mantissa >> 53 == 1 {
            mantissa >>= 1;
            power += 1;
        }
    }
    let digits = format!("{:013x}", mantissa & ((1 << 52) - 1));
    let digits = match precision {
        None => digits.trim_end_matches('0').to_owned(),
        Some(kept) => digits.chars().chain(std::iter::repeat('0')).take(kept).collect(),
    };
    let point = if digits.is_empty() { "" } else { "." };
    let power_sign = if power < 0 { '-' } else { '+' };
    format!("{sign}0x{}{point}{digits}p{power_sign}{:02}", mantissa >> 52, power.unsigned_abs())
}

fn exponent(value: f64, precision: Option<usize>) -> String {
    let text = match precision {
        Some(digits) => format!("{value:.*e}", digits.min(MAX_DIGITS)),
        None => shortest(value),
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    let zeros = "0".repeat(precision.unwrap_or(0).saturating_sub(MAX_DIGITS));
    format!("{mantissa}{zeros}e{sign}{digits:0>2}")
}

/// Mantissa and exponent with the fewest digits that parse back to the same number. Of two equally near candidates, Go takes the
/// even one.
fn shortest(value: f64) -> String {
    /// A tie between two candidates occurs only with more digits than this.
    const MANY: usize = 14;
    let text = format!("{value:e}");
    let digits = text.bytes().take_while(|byte| *byte != b'e').filter(u8::is_ascii_digit).count();
    if digits > MANY {
        let even = format!("{value:.*e}", digits - 1);
        #[expect(clippy::float_cmp, reason = "it must read back as exactly this number")]
        if even.parse().is_ok_and(|read: f64| read == value) {
            return even;
        }
    }
    text
}

/// Sign, digits without trailing zeros, and the power of ten of the first digit.
fn decimal_parts(text: &str) -> (&str, String, i32) {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |mantissa| ("-", mantissa));
    let mut digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    let kept = digits.trim_end_matches('0').len().max(1);
    digits.truncate(kept);
    (sign, digits, power.parse().unwrap_or(0))
}

fn fixed(value: f64) -> String {
    let text = shortest(value);
    let (sign, digits, power) = decimal_parts(&text);
    without_exponent(sign, &digits, power)
}

fn general(value: f64, precision: Option<usize>) -> String {
    let significant = precision.map(|p| p.max(1));
    let text = match significant {
        Some(digits) => format!("{value:.*e}", (digits - 1).min(MAX_DIGITS)),
        None => shortest(value),
    };
    let (sign, digits, power) = decimal_parts(&text);
    // The shortest form has no precision to derive a threshold from; this value is 6 here.
    let threshold = significant.map_or(6, |limit| i32::try_from(limit).unwrap_or(i32::MAX));
    if power >= -4 && power < threshold {
        return without_exponent(sign, &digits, power);
    }
    let mut out = String::from(sign);
    let (first, rest) = digits.split_at(1);
    out.push_str(first);
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    let sign = if power < 0 { '-' } else { '+' };
    // Writing to a String cannot fail.
    let _ = write!(out, "e{sign}{:02}", power.unsigned_abs());
    out
}

fn without_exponent(sign: &str, digits: &str, power: i32) -> String {
    let mut out = String::from(sign);
    if power < 0 {
        out.push_str("0.");
        (1..-power).for_each(|_| out.push('0'));
        out.push_str(digits);
        return out;
    }
    let whole = usize::try_from(power).unwrap_or(0) + 1;
    if digits.len() <= whole {
        out.push_str(digits);
        (digits.len()..whole).for_each(|_| out.push('0'));
    } else {
        out.push_str(&digits[..whole]);
        out.push('.');
        out.push_str(&digits[whole..]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_matches_go() {
        let table = [
            (1e6, "1e+06", "1e+06"),
            (12_345_678.0, "1.2345678e+07", "1.23e+07"),
            (123_456.0, "123456", "1.23e+05"),
            (0.0001, "0.0001", "0.0001"),
            (0.000_01, "1e-05", "1e-05"),
            (-1.5, "-1.5", "-1.5"),
            (123_456_789.5, "1.234567895e+08", "1.23e+08"),
            (0.0, "0", "0"),
            (1e21, "1e+21", "1e+21"),
            // A tie between ...2 and ...3.
            (-777_707_444_638_603.2, "-7.777074446386032e+14", "-7.78e+14"),
        ];
        for (value, shortest, three) in table {
            assert_eq!(format(value, FloatFormat::General, None), shortest);
            assert_eq!(format(value, FloatFormat::General, Some(3)), three);
        }
        assert_eq!(format(12_345.678, FloatFormat::Exponent, Some(2)), "1.23e+04");
        assert_eq!(format(2.5, FloatFormat::Fixed, Some(0)), "2");
        assert_eq!(format(-777_707_444_638_603.2, FloatFormat::Fixed, None), "-777707444638603.2");
        assert_eq!(format(9_223_372_036_854_775_808.0, FloatFormat::Fixed, None), "9223372036854776000");
        assert_eq!(format(-0.000_25, FloatFormat::Fixed, None), "-0.00025");
        assert_eq!(format(f64::NEG_INFINITY, FloatFormat::General, None), "-Inf");
    }
}
