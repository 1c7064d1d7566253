//! Conversion of any value to a number, like Go's `spf13/cast`. Values without a numeric form are zero.

use crate::go::{parse_float, parse_int};
use crate::value::Value;

pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(n) | Value::Int64(n) => *n,
        Value::Uint8(n) => i64::from(*n),
        Value::Uint64(n) => n.cast_signed(),
        Value::Float(n) => float_to_int(*n),
        Value::Bool(truth) => i64::from(*truth),
        Value::String(text) => parse_int(without_zeros(text)).unwrap_or_default(),
        _ => 0,
    }
}

#[expect(clippy::cast_precision_loss, reason = "as Go does")]
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(n) | Value::Int64(n) => *n as f64,
        Value::Uint8(n) => f64::from(*n),
        Value::Uint64(n) => *n as f64,
        Value::Float(n) => *n,
        Value::Bool(truth) => f64::from(u8::from(*truth)),
        Value::String(text) => parse_float(text).unwrap_or_default(),
        _ => 0.0,
    }
}

/// Go leaves the conversion of an out-of-range float undefined; on amd64 the result is the minimum integer.
#[expect(clippy::cast_possible_truncation, reason = "what is out of range is caught before")]
fn float_to_int(n: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&n) { n as i64 } else { i64::MIN }
}

/// Removes a fraction of only zeros: `1.00` becomes `1`.
fn without_zeros(text: &str) -> &str {
    let stem = text.trim_end_matches('0');
    match stem.strip_suffix('.') {
        Some(number) if stem.len() < text.len() => number,
        _ => text,
    }
}

/// `strconv.Atoi`, or zero on error.
pub(super) fn decimal(text: &str) -> i64 {
    if text.contains('_') { 0 } else { text.parse().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_convert_to_numbers_like_cast() {
        let table: [(&str, i64, f64); 12] = [
            ("", 0, 0.0),
            ("12", 12, 12.0),
            ("-12", -12, -12.0),
            ("010", 8, 10.0),
            ("08", 0, 8.0),
            ("0x1F", 31, 0.0),
            ("1.5", 0, 1.5),
            ("3.00", 3, 3.0),
            ("3.", 0, 3.0),
            ("1e3", 0, 1000.0),
            (" 1", 0, 0.0),
            ("9223372036854775808", 0, 9_223_372_036_854_775_808.0),
        ];
        for (text, int, float) in table {
            assert_eq!((to_int(&text.into()), to_float(&text.into())), (int, float), "{text}");
        }
        assert_eq!(to_int(&Value::Float(f64::NAN)), i64::MIN);
        assert_eq!(to_int(&Value::Float(1e300)), i64::MIN);
    }
}
