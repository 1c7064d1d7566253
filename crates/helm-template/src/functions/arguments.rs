//! Extraction of function arguments. The machine has already checked the number and types of arguments. An argument of another
//! type reads as Go's zero value.

use std::borrow::Cow;

use crate::go::print;
use crate::value::{Map, Str, Value};

/// The result of a function.
pub(super) type FunctionResult = Result<Value, Str>;

/// Go's panic message for a nil dereference.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// A `string` argument, for functions that work on characters.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    value.text().unwrap_or_default()
}

/// A `string` argument, for functions that work on bytes.
pub(super) fn bytes(value: &Value) -> &[u8] {
    value.string_bytes().unwrap_or_default()
}

/// An `int` or `int64` argument.
pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) | Value::Int64(n) => *n,
        _ => 0,
    }
}

/// A `map[string]interface {}` argument. A nil map reads as a new empty one.
pub(super) fn map(value: &Value) -> Cow<'_, Map> {
    value.as_map().map_or_else(|| Cow::Owned(Map::new()), Cow::Borrowed)
}

/// Any value as a string, like sprig's `strval`, which `toString`, `quote`, `join` and `dict` use.
pub(super) fn to_string_value(value: &Value) -> Value {
    match value {
        Value::String(_) | Value::Raw(_) => value.clone(),
        Value::Bytes(bytes) => Value::string_from_bytes(bytes.to_vec()),
        value => print(value).into(),
    }
}

/// Like [`to_string_value`], for functions that work on characters.
pub(super) fn printed(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Raw(bytes) | Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
        value => Cow::Owned(print(value)),
    }
}
