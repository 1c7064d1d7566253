//! When two values are the same.

use super::Value;

/// `reflect.DeepEqual`: of the same type, and the same all the way down.
#[expect(clippy::float_cmp, reason = "equal means equal")]
pub fn deep_equal(a: &Value, b: &Value) -> bool {
    if a.type_name() != b.type_name() {
        return false;
    }
    match (a, b) {
        (Value::Nil | Value::Null, Value::Nil | Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) | (Value::Int64(a), Value::Int64(b)) => a == b,
        (Value::Uint64(a), Value::Uint64(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Complex(a, b), Value::Complex(c, d)) => (a, b) == (c, d),
        (Value::String(a), Value::String(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) | (Value::Raw(a), Value::Raw(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            a.is(b) || (a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| deep_equal(a, b)))
        }
        (Value::Map(a), Value::Map(b)) => {
            let same =
                |(a, b): (&(super::Str, Value), &(super::Str, Value))| a.0 == b.0 && deep_equal(&a.1, &b.1);
            a.is(b) || (a.len() == b.len() && a.entries().iter().zip(b.entries().iter()).all(same))
        }
        (Value::Object(a), Value::Object(b)) => a.equals(b.as_ref()),
        _ => false,
    }
}
