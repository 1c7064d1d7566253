//! `eq`, `lt` and the other comparison functions: basic values of the same kind only.

use std::cmp::Ordering;
use std::fmt::{Display, Formatter};
use std::rc::Rc;

use crate::go::{print, printf};
use crate::value::{Kind, Str, Value};

/// The basic kinds that can be compared, as in Go's `basicKind`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BasicKind {
    Other,
    Bool,
    Complex,
    Int,
    Float,
    String,
    Uint,
}

fn basic_kind(value: &Value) -> BasicKind {
    match value.kind() {
        Kind::Bool => BasicKind::Bool,
        Kind::Int | Kind::Int64 => BasicKind::Int,
        Kind::Uint8 | Kind::Uint64 => BasicKind::Uint,
        Kind::Float64 => BasicKind::Float,
        Kind::Complex128 => BasicKind::Complex,
        Kind::String => BasicKind::String,
        _ => BasicKind::Other,
    }
}

/// An integer of either sign, widened.
fn widened_int(value: &Value) -> Option<i128> {
    match value {
        Value::Int(n) | Value::Int64(n) => Some(i128::from(*n)),
        Value::Uint8(n) => Some(i128::from(*n)),
        Value::Uint64(n) => Some(i128::from(*n)),
        Value::Object(object) => object.int().map(i128::from),
        _ => None,
    }
}

/// Why two values cannot be compared.
pub(super) enum CompareError {
    /// The types of the two values.
    Types(String, String),
    Other(Str),
}

impl Display for CompareError {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Types(a, b) => write!(f, "incompatible types for comparison: {a} and {b}"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

impl From<&str> for CompareError {
    fn from(why: &str) -> Self {
        Self::Other(why.into())
    }
}

impl From<String> for CompareError {
    fn from(why: String) -> Self {
        Self::Other(why.into())
    }
}

fn incompatible(a: &Value, b: &Value) -> CompareError {
    CompareError::Types(a.type_name().to_owned(), b.type_name().to_owned())
}

/// Whether the first argument equals one of the others.
pub(super) fn equal(args: &[Value]) -> Result<bool, CompareError> {
    let [first, others @ ..] = args else { return Ok(false) };
    if others.is_empty() {
        return Err("missing argument for comparison".into());
    }
    for other in others {
        if equal_two(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[expect(clippy::float_cmp, reason = "equal means equal")]
fn equal_two(a: &Value, b: &Value) -> Result<bool, CompareError> {
    if let (Some(a), Some(b)) = (widened_int(a), widened_int(b)) {
        return Ok(a == b);
    }
    if basic_kind(a) != basic_kind(b) {
        return if a.is_some() && b.is_some() { Err(incompatible(a, b)) } else { Ok(false) };
    }
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Float(a), Value::Float(b)) => Ok(a == b),
        (Value::Complex(a, b), Value::Complex(c, d)) => Ok((a, b) == (c, d)),
        (a, b) if a.kind() == Kind::String => Ok(a.string_bytes() == b.string_bytes()),
        (a, b) if a.kind() != b.kind() && a.is_some() && b.is_some() => {
            let (one, other) = (display(a), print(b));
            Err(format!("non-comparable types {one}: {}, {}: {other}", a.type_name(), b.type_name()).into())
        }
        (a, b) if is_nil(a) || is_nil(b) => Ok(is_nil(a) == is_nil(b)),
        (Value::Object(a), Value::Object(b)) if a.is_comparable() => {
            Ok(Rc::ptr_eq(a, b) || a.is_same(b.as_ref()))
        }
        (_, b) => Err(format!("non-comparable type {}: {}", display(b), b.type_name()).into()),
    }
}

/// Whether the value is nil, or a nil map or list.
fn is_nil(value: &Value) -> bool {
    match value {
        Value::Map(map) => map.is_nil(),
        Value::List(list) => list.is_nil(),
        value => value.is_nil(),
    }
}

/// Prints a value as Go's error messages do: with `%s`, whatever its type.
fn display(value: &Value) -> String {
    printf("%s", std::slice::from_ref(value))
}

pub(super) fn less_or_equal(args: &[Value]) -> Result<bool, CompareError> {
    Ok(less(args)? || equal(args)?)
}

pub(super) fn less(args: &[Value]) -> Result<bool, CompareError> {
    const BAD: &str = "invalid type for comparison";
    let [a, b] = args else { return Ok(false) };
    if basic_kind(a) == BasicKind::Other || basic_kind(b) == BasicKind::Other {
        return Err(BAD.into());
    }
    if let (Some(a), Some(b)) = (widened_int(a), widened_int(b)) {
        return Ok(a < b);
    }
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => Ok(a.partial_cmp(b) == Some(Ordering::Less)),
        (a, b) if a.kind() == Kind::String && b.kind() == Kind::String => {
            Ok(a.string_bytes() < b.string_bytes())
        }
        (a, b) if basic_kind(a) != basic_kind(b) => Err(incompatible(a, b)),
        _ => Err(BAD.into()),
    }
}
