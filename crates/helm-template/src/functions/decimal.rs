//! Decimal arithmetic, exact except for division: `addf 0.1 0.2` is 0.3.
//!
//! Like Go's `shopspring/decimal`, a number is an integer times a power of ten.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use crate::go::{FloatFormat, format_float};
use crate::value::Str;

/// Decimal places of a quotient.
const PRECISION: i64 = 16;

/// A decimal number: `digits` times ten to the power `exponent`.
pub(super) struct Decimal {
    digits: BigInt,
    exponent: i64,
}

impl Decimal {
    /// The shortest decimal that parses to this float.
    pub fn new(float: f64) -> Result<Self, Str> {
        let shortest = format!("{float:e}");
        let parts = shortest.split_once('e').and_then(|(digits, exponent)| {
            let behind_point = digits.split_once('.').map_or(0, |(_, part)| part.len());
            let digits = digits.replace('.', "").parse().ok()?;
            Some((digits, exponent.parse::<i64>().ok()? - i64::try_from(behind_point).ok()?))
        });
        parts.map(|(digits, exponent)| Self { digits, exponent }).ok_or_else(|| {
            format!("Cannot create a Decimal from {}", format_float(float, FloatFormat::General, None)).into()
        })
    }

    pub fn add(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { digits: a + b, exponent }
    }

    pub fn subtract(&self, other: &Self) -> Self {
        let (a, b, exponent) = self.aligned(other);
        Self { digits: a - b, exponent }
    }

    pub fn multiply(&self, other: &Self) -> Self {
        Self { digits: &self.digits * &other.digits, exponent: self.exponent + other.exponent }
    }

    /// Divides, rounding half away from zero.
    pub fn divide(&self, other: &Self) -> Result<Self, Str> {
        if other.digits.sign() == Sign::NoSign {
            return Err("decimal division by 0".into());
        }
        let shift = self.exponent - other.exponent + PRECISION;
        let (dividend, divisor) = if shift < 0 {
            (self.digits.clone(), &other.digits * power_of_ten(-shift))
        } else {
            (&self.digits * power_of_ten(shift), other.digits.clone())
        };
        let mut quotient = &dividend / &divisor;
        let rest: BigInt = (&dividend - &quotient * &divisor) * 2;
        if rest.magnitude().cmp(divisor.magnitude()) != Ordering::Less {
            let away = if dividend.sign() == divisor.sign() { 1 } else { -1 };
            quotient += away;
        }
        Ok(Self { digits: quotient, exponent: -PRECISION })
    }

    /// The nearest float.
    pub fn to_float(&self) -> f64 {
        format!("{}e{}", self.digits, self.exponent).parse().unwrap_or_default()
    }

    /// Both coefficients, scaled to the smaller exponent.
    fn aligned(&self, other: &Self) -> (BigInt, BigInt, i64) {
        let exponent = self.exponent.min(other.exponent);
        let scaled = |number: &Self| &number.digits * power_of_ten(number.exponent - exponent);
        (scaled(self), scaled(other), exponent)
    }
}

fn power_of_ten(exponent: i64) -> BigInt {
    BigInt::from(10).pow(u32::try_from(exponent).unwrap_or_default())
}
