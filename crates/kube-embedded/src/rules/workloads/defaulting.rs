//! Helpers for defaulting.
//!
//! Go distinguishes absent from zero only for pointers, so there are two functions: [`default_if_absent`] for
//! pointers, [`default_if_zero`] for plain fields.

use serde_json::{Map, Value};

/// Sets a field that is absent.
pub fn default_if_absent(object: &mut Value, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null)
        && let Value::Object(map) = object
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// Sets a field that is absent, `""` or 0.
pub fn default_if_zero(object: &mut Value, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(|old| old.is_null() || old == "" || old == 0)
        && let Value::Object(map) = object
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// Sets a field.
pub fn set_field(object: &mut Value, name: &str, value: impl Into<Value>) {
    if let Value::Object(map) = object {
        map.insert(name.to_owned(), value.into());
    }
}

/// A field that is an object; created if absent. `None` if it cannot be created.
pub fn ensure_object<'a>(object: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    default_if_absent(object, name, Map::new());
    object.get_mut(name).filter(|member| member.is_object())
}

/// A nested field that is an object, if present: `spec.template`.
pub fn nested_mut<'a>(object: &'a mut Value, names: &str) -> Option<&'a mut Value> {
    names.split('.').try_fold(object, |object, name| object.get_mut(name)).filter(|found| found.is_object())
}

/// The elements of a list field.
pub fn items_mut<'a>(object: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Whether a field is absent, null or empty.
pub fn is_empty(object: &Value, name: &str) -> bool {
    match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Object(map)) => map.is_empty(),
        Some(Value::Array(list)) => list.is_empty(),
        Some(Value::String(text)) => text.is_empty(),
        Some(_) => false,
    }
}
