//! What functions are given. The machine has counted the arguments and looked at their types, so that here they are
//! only taken out of their values; what is of another type after all reads as Go's zero value.

use std::borrow::Cow;

use crate::go::print;
use crate::value::{Map, Str, Value};

/// What a function comes to.
pub(super) type Done = Result<Value, Str>;

/// What Go says where a nil is asked for what only a value has.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// A `string` where characters matter.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    value.text().unwrap_or_default()
}

/// A `string` where bytes matter.
pub(super) fn bytes(value: &Value) -> &[u8] {
    value.string_bytes().unwrap_or_default()
}

/// An `int` or `int64`.
pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(n) | Value::Int64(n) => *n,
        _ => 0,
    }
}

/// A `map[string]interface {}`. In place of a nil there is an empty one, which nobody else sees.
pub(super) fn map(value: &Value) -> Cow<'_, Map> {
    value.as_map().map_or_else(|| Cow::Owned(Map::new()), Cow::Borrowed)
}

/// Any value as text, as sprig's `strval` has it: what `toString` gives and `quote`, `join` and `dict` work with.
pub(super) fn string_of(value: &Value) -> Value {
    match value {
        Value::String(_) | Value::Raw(_) => value.clone(),
        Value::Bytes(bytes) => Value::string_of(bytes.to_vec()),
        value => print(value).into(),
    }
}

/// The same where characters matter.
pub(super) fn printed(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        Value::Raw(bytes) | Value::Bytes(bytes) => String::from_utf8_lossy(bytes),
        value => Cow::Owned(print(value)),
    }
}
