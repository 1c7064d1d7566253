//! The form in which objects are stored and answered: the one that Go's encoder would write.
//!
//! Asked on every write, after [`super::conform`]. Quantities become canonical, times UTC in their precision;
//! what is empty and may be left out goes, and what Go always writes is written (`""`, `0`, `{}`, `null`).
//!
//! Always true: doing it twice changes nothing. Custom resources keep what they are given: the types of their
//! fields must be marked as optional pointers, so that nothing is added or dropped.

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
        (Shape::Time, Value::String(text)) => replace(text, times::normal),
        (Shape::MicroTime, Value::String(text)) => replace(text, times::normal_micro),
        (Shape::Duration, Value::String(text)) => {
            replace(text, |text| times::duration(text).ok().map(times::duration_text));
        }
        (Shape::Bytes, Value::String(text)) => text.retain(|c| !matches!(c, '\r' | '\n')),
        (Shape::Struct(body), Value::Object(members)) => self::members(ty, body, members),
        (Shape::Map(map), Value::Object(entries)) => {
            for entry in entries.values_mut() {
                normalise(ty.follow(map.value), entry);
            }
        }
        (Shape::List(list), Value::Array(elements)) => {
            for element in elements {
                normalise(ty.follow(list.element), element);
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
        let below = ty.follow(field.ty);
        if let Some(value) = members.get_mut(field.name.as_ref()) {
            normalise(below, value);
            if field.omitempty && is_left_out(field, below, value) {
                members.remove(field.name.as_ref());
            } else if value.as_array().is_some_and(Vec::is_empty) && loses_empty_lists(ty) {
                *value = Value::Null;
            }
        } else if !field.omitempty {
            let mut value = absent(field, below);
            normalise(below, &mut value);
            members.insert(field.name.to_string(), value);
        }
    }
}

/// What Go's encoder calls empty. A pointer is empty only when it points nowhere.
fn is_left_out(field: &Field, ty: TypeRef<'_>, value: &Value) -> bool {
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

/// Kubernetes stores its own kinds as protobuf, which cannot tell an empty list from none. Only what the
/// extension servers own (CRDs, `APIServices`) is stored as JSON, and reviews are not stored at all.
fn loses_empty_lists(ty: TypeRef<'_>) -> bool {
    let name = ty.name();
    name.starts_with("io.k8s.api.")
        && !name.starts_with("io.k8s.api.authorization.")
        && !name.starts_with("io.k8s.api.authentication.")
}

/// What is written for a field that is always written and was not given.
fn absent(field: &Field, ty: TypeRef<'_>) -> Value {
    if field.pointer || matches!(ty.shape(), Shape::Bytes) { Value::Null } else { conform::zero(ty) }
}
