//! Numeric bounds, checked as in Kubernetes: integers natively, other numbers as floats.

use serde_json::Value;

use super::schema::Schema;

#[derive(Clone, Copy, Debug)]
pub enum Number {
    Int(i64),
    Float(f64),
}

impl Number {
    pub fn of(value: &Value) -> Option<Self> {
        value.as_i64().map(Self::Int).or_else(|| value.as_f64().map(Self::Float))
    }

    #[expect(clippy::cast_precision_loss, reason = "Kubernetes compares in floats here, too")]
    fn float(self) -> f64 {
        match self {
            Self::Int(int) => int as f64,
            Self::Float(float) => float,
        }
    }
}

/// An error: at the field, without a field, or at the field with another value.
pub enum Complaint {
    Field(String),
    General(String),
    Value(Value, String),
}

/// Reports a bound that does not fit the type, and compares with it as a float.
fn fitting(number: Number, misfit: Option<String>, complain: &mut impl FnMut(Complaint)) -> Number {
    match misfit {
        None => number,
        Some(text) => {
            complain(Complaint::General(text));
            Number::Float(number.float())
        }
    }
}

/// Validates a number against all numeric checks of its schema.
pub fn check(number: Number, schema: &Schema, name: &str, complain: &mut impl FnMut(Complaint)) {
    let ty = if schema.int_or_string { "" } else { schema.ty.as_ref() };
    let range = |number: Number, what: &str| -> Option<String> {
        let out = match (ty, schema.format.as_ref()) {
            ("integer", "int32") => !fits(number, f64::from(i32::MIN), f64::from(i32::MAX)),
            ("integer", _) => !fits(number, -9.223_372_036_854_776e18, 9.223_372_036_854_775e18),
            ("number", "float") => number.float().abs() > f64::from(f32::MAX),
            _ => false,
        };
        let format = match schema.format.as_ref() {
            "" => "(default format)".to_owned(),
            format => format!("with format {format}"),
        };
        out.then(|| format!("{what} value must be of type {ty} {format} in {name}"))
    };
    if let Some(text) = range(number, "Checked") {
        complain(Complaint::General(text));
    }
    let checks = &schema.checks;
    if let Some(factor) = checks.multiple_of {
        let number = fitting(number, range(Number::Float(factor), "MultipleOf"), complain);
        let is_multiple = match number {
            #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
            Number::Int(_) if factor as i64 <= 0 => {
                let whole = factor as i64;
                let text = format!("factor MultipleOf declared for {name} must be positive: {whole}");
                complain(Complaint::Value(whole.into(), text));
                true
            }
            #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
            Number::Int(int) => int % (factor as i64) == 0,
            Number::Float(float) => {
                let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
                (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
            }
        };
        if !is_multiple {
            complain(Complaint::Field(format!(
                "{name} in body should be a multiple of {}",
                bound(number, factor)
            )));
        }
    }
    if let Some(least) = checks.minimum {
        let number = fitting(number, range(Number::Float(least), "Minimum boundary"), complain);
        let exclusive = checks.exclusive_minimum;
        if order(number, least).is_lt() || (exclusive && order(number, least).is_eq()) {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            complain(Complaint::Field(format!("{name} in body should be {words} {}", bound(number, least))));
        }
    }
    if let Some(most) = checks.maximum {
        let number = fitting(number, range(Number::Float(most), "Maximum boundary"), complain);
        let exclusive = checks.exclusive_maximum;
        if order(number, most).is_gt() || (exclusive && order(number, most).is_eq()) {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            complain(Complaint::Field(format!("{name} in body should be {words} {}", bound(number, most))));
        }
    }
}

fn fits(number: Number, least: f64, most: f64) -> bool {
    let float = number.float();
    float.fract() == 0.0 && float >= least && float <= most
}

/// Compares with a bound; for integers with the integer part of the bound.
fn order(number: Number, bound: f64) -> std::cmp::Ordering {
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
        Number::Int(int) => int.cmp(&(bound as i64)),
        Number::Float(float) => float.partial_cmp(&bound).unwrap_or(std::cmp::Ordering::Equal),
    }
}

fn bound(number: Number, bound: f64) -> String {
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
        Number::Int(_) => (bound as i64).to_string(),
        Number::Float(_) => go_float(bound),
    }
}

/// Formats a float like Go's `%v`.
pub fn go_float(float: f64) -> String {
    if float == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
