//! The normal form of stored and returned objects: that of Go's encoder.
//!
//! Called on every write, after [`super::conform`]. Quantities become canonical, times UTC in their precision;
//! empty optional fields are removed, and fields that Go always writes are added (`""`, `0`, `{}`, `null`).
//!
//! Invariant: idempotent. Custom resources are unchanged: the types of their
//! fields must be optional pointers, so that nothing is added or removed.

use serde_json::{Map, Value};

use super::{conform, times};
use crate::quantity::Quantity;
use crate::schema::types::{Field, Shape, Struct, TypeRef};

pub fn normalise(ty: TypeRef<'_>, value: &mut Value) {
    match (ty.shape(), &mut *value) {
        (_, Value::Null) => {}
        (Shape::Quantity, given) => {
            if let Ok(quantity) = Quantity::parse(&conform::quantity_text(given)) {
                *value = quantity.to_string().into();
            }
        }
        (Shape::Time, Value::String(text)) => replace(text, times::normalise),
        (Shape::MicroTime, Value::String(text)) => replace(text, times::normalise_micro),
        (Shape::Duration, Value::String(text)) => {
            replace(text, |text| times::parse_duration(text).ok().map(times::format_duration));
        }
        (Shape::Bytes, Value::String(text)) => text.retain(|c| !matches!(c, '\r' | '\n')),
        (Shape::Struct(body), Value::Object(members)) => self::members(ty, body, members),
        (Shape::Map(map), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                normalise(ty.with_id(map.value), entry);
            }
        }
        (Shape::List(list), Value::Array(elements)) => {
            for element in elements {
                normalise(ty.with_id(list.element), element);
            }
        }
        _ => {}
    }
}

fn replace(text: &mut String, normal: impl FnOnce(&str) -> Option<String>) {
    if let Some(normal) = normal(text) {
        *text = normal;
    }
}

fn members(ty: TypeRef<'_>, body: &Struct, members: &mut Map<String, Value>) {
    for field in &body.fields {
        let below = ty.with_id(field.ty);
        if let Some(value) = members.get_mut(field.name.as_ref()) {
            normalise(below, value);
            if field.omitempty && is_omitted(field, below, value) {
                members.remove(field.name.as_ref());
            }
        } else if !field.omitempty {
            let mut value = value_if_absent(field, below);
            normalise(below, &mut value);
            members.insert(field.name.to_string(), value);
        }
    }
}

/// Whether Go's encoder omits a value. A pointer is empty only if it is nil.
fn is_omitted(field: &Field, ty: TypeRef<'_>, value: &Value) -> bool {
    let by_reference = field.pointer || matches!(ty.shape(), Shape::Struct(_) | Shape::Any);
    match value {
        Value::Null => true,
        _ if by_reference => false,
        Value::Bool(given) => !given,
        Value::Number(number) => number.as_f64() == Some(0.0) && !matches!(ty.shape(), Shape::IntOrString),
        Value::String(text) => text.is_empty() && !matches!(ty.shape(), Shape::IntOrString),
        Value::Array(elements) => elements.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}

/// Converts an object in normal form to its form when read back from the store: an empty list that is always
/// written is null then.
pub fn as_stored(ty: TypeRef<'_>, value: &mut Value) {
    match (ty.shape(), &mut *value) {
        (Shape::List(_), Value::Array(elements)) if elements.is_empty() => *value = Value::Null,
        (Shape::List(list), Value::Array(elements)) => {
            for element in elements {
                as_stored(ty.with_id(list.element), element);
            }
        }
        (Shape::Map(map), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                as_stored(ty.with_id(map.value), entry);
            }
        }
        (Shape::Struct(body), Value::Object(members)) if loses_empty_lists(ty) => {
            for field in &body.fields {
                if let Some(value) = members.get_mut(field.name.as_ref()) {
                    as_stored(ty.with_id(field.ty), value);
                }
            }
        }
        _ => {}
    }
}

/// Kubernetes stores built-in kinds as protobuf, which does not distinguish an empty list from none. Only the objects of
/// the extension servers (CRDs, `APIServices`) are stored as JSON, and reviews are not stored at all.
fn loses_empty_lists(ty: TypeRef<'_>) -> bool {
    let name = ty.name();
    name.starts_with("io.k8s.api.")
        && !name.starts_with("io.k8s.api.authorization.")
        && !name.starts_with("io.k8s.api.authentication.")
}

/// The value of an always-written field that is absent.
fn value_if_absent(field: &Field, ty: TypeRef<'_>) -> Value {
    if field.pointer || matches!(ty.shape(), Shape::Bytes) { Value::Null } else { conform::zero(ty) }
}
