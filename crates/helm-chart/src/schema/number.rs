//! Numbers in schemas and messages.

use helm_template::data::Data;
use helm_template::go::{FloatFormat, format_float};

/// The value as a number.
pub fn to_f64(data: &Data) -> Option<f64> {
    match data {
        #[expect(clippy::cast_precision_loss, reason = "limits are floats")]
        Data::Int(n) => Some(*n as f64),
        Data::Float(n) => Some(*n),
        _ => None,
    }
}

pub fn is_integer(n: f64) -> bool {
    n.fract() == 0.0
}

/// The value as a whole number.
pub fn to_integer(data: &Data) -> Option<i64> {
    match data {
        Data::Int(n) => Some(*n),
        #[expect(clippy::cast_possible_truncation, reason = "whole, and as near as an i64 comes")]
        Data::Float(n) if is_integer(*n) => Some(*n as i64),
        _ => None,
    }
}

/// Whether `n` is a multiple of `of`, in decimal notation: 0.3 is a multiple of 0.1.
pub fn is_multiple(n: f64, of: f64) -> bool {
    let ((n_digits, n_scale), (of_digits, of_scale)) = (decimal(n), decimal(of));
    let scale = n_scale.min(of_scale);
    let raised = |digits: u128, by: i32| {
        10_u128.checked_pow(by.unsigned_abs()).and_then(|power| digits.checked_mul(power))
    };
    match (raised(n_digits, n_scale - scale), raised(of_digits, of_scale - scale)) {
        (_, Some(0)) => false,
        (Some(n), Some(of)) => n % of == 0,
        _ => is_integer(n / of),
    }
}

/// Decimal digits of the absolute value, and the power of ten to multiply by.
fn decimal(n: f64) -> (u128, i32) {
    let text = format!("{:e}", n.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}").parse().unwrap_or_default();
    let places = i32::try_from(fraction.len()).unwrap_or_default();
    (digits, exponent.parse::<i32>().unwrap_or_default() - places)
}

/// Formats as Go's `%g`.
pub fn format_general(n: f64) -> String {
    format_float(n, FloatFormat::General, None)
}

/// Formats a float as Go's English printer: `1,234.5`, `1×10⁰⁶`.
pub fn format_english(n: f64) -> String {
    let text = format_general(n);
    let Some((mantissa, exponent)) = text.split_once('e') else { return group_thousands(&text) };
    let raised = exponent.chars().filter_map(|c| match c {
        '-' => Some('⁻'),
        '1' => Some('¹'),
        '2' => Some('²'),
        '3' => Some('³'),
        c => c.to_digit(10).and_then(|digit| char::from_u32(0x2070 + digit)),
    });
    format!("{mantissa}×10{}", raised.collect::<String>())
}

/// Inserts thousands separators.
pub fn group_thousands(number: &str) -> String {
    let (sign, number) = number.strip_prefix('-').map_or(("", number), |number| ("-", number));
    let (whole, fraction) = number.find('.').map_or((number, ""), |point| number.split_at(point));
    let mut grouped = String::from(sign);
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped.push_str(fraction);
    grouped
}
