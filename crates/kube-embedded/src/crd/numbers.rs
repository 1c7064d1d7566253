//! Numeric bounds, checked as in Kubernetes: integers natively, other numbers as floats.

use serde_json::Value;

use super::schema::StructuralSchema;

#[derive(Clone, Copy, Debug)]
pub enum SchemaNumber {
    Int(i64),
    Float(f64),
}

impl SchemaNumber {
    pub fn from_value(value: &Value) -> Option<Self> {
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
pub enum NumberError {
    Field(String),
    General(String),
    Value(Value, String),
}

/// Reports a bound that does not fit the type, and compares with it as a float.
fn check_bound_type(
    number: SchemaNumber,
    misfit: Option<String>,
    complain: &mut impl FnMut(NumberError),
) -> SchemaNumber {
    match misfit {
        None => number,
        Some(text) => {
            complain(NumberError::General(text));
            SchemaNumber::Float(number.float())
        }
    }
}

/// Validates a number against all numeric checks of its schema.
pub fn check(
    number: SchemaNumber,
    schema: &StructuralSchema,
    name: &str,
    complain: &mut impl FnMut(NumberError),
) {
    let ty = if schema.int_or_string { "" } else { schema.ty.as_ref() };
    let range = |number: SchemaNumber, what: &str| -> Option<String> {
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
        complain(NumberError::General(text));
    }
    let checks = &schema.validations;
    if let Some(factor) = checks.multiple_of {
        let number = check_bound_type(number, range(SchemaNumber::Float(factor), "MultipleOf"), complain);
        let is_multiple = match number {
            #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
            SchemaNumber::Int(_) if factor as i64 <= 0 => {
                let whole = factor as i64;
                let text = format!("factor MultipleOf declared for {name} must be positive: {whole}");
                complain(NumberError::Value(whole.into(), text));
                true
            }
            #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
            SchemaNumber::Int(int) => int % (factor as i64) == 0,
            SchemaNumber::Float(float) => {
                let times = if factor < 1.0 { 1.0 / factor * float } else { float / factor };
                (times - times.round()).abs() < 1e-9 * times.abs().max(1.0)
            }
        };
        if !is_multiple {
            complain(NumberError::Field(format!(
                "{name} in body should be a multiple of {}",
                format_bound(number, factor)
            )));
        }
    }
    if let Some(least) = checks.minimum {
        let number =
            check_bound_type(number, range(SchemaNumber::Float(least), "Minimum boundary"), complain);
        let exclusive = checks.exclusive_minimum;
        if compare_to_bound(number, least).is_lt() || (exclusive && compare_to_bound(number, least).is_eq()) {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            complain(NumberError::Field(format!(
                "{name} in body should be {words} {}",
                format_bound(number, least)
            )));
        }
    }
    if let Some(most) = checks.maximum {
        let number = check_bound_type(number, range(SchemaNumber::Float(most), "Maximum boundary"), complain);
        let exclusive = checks.exclusive_maximum;
        if compare_to_bound(number, most).is_gt() || (exclusive && compare_to_bound(number, most).is_eq()) {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            complain(NumberError::Field(format!(
                "{name} in body should be {words} {}",
                format_bound(number, most)
            )));
        }
    }
}

fn fits(number: SchemaNumber, least: f64, most: f64) -> bool {
    let float = number.float();
    float.fract() == 0.0 && float >= least && float <= most
}

/// Compares with a bound; for integers with the integer part of the bound.
fn compare_to_bound(number: SchemaNumber, bound: f64) -> std::cmp::Ordering {
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
        SchemaNumber::Int(int) => int.cmp(&(bound as i64)),
        SchemaNumber::Float(float) => float.partial_cmp(&bound).unwrap_or(std::cmp::Ordering::Equal),
    }
}

fn format_bound(number: SchemaNumber, bound: f64) -> String {
    match number {
        #[expect(clippy::cast_possible_truncation, reason = "as Kubernetes does")]
        SchemaNumber::Int(_) => (bound as i64).to_string(),
        SchemaNumber::Float(_) => go_float(bound),
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
