//! Duplicate elements in lists that are sets or maps.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::schema::{ListType, StructuralSchema};
use crate::field::{FieldError, FieldErrors, Path};

/// Returns errors for duplicate elements anywhere in the value.
pub fn duplicates(value: &Value, schema: &StructuralSchema, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    walk(value, schema, path, &mut errors);
    errors
}

fn walk(value: &Value, schema: &StructuralSchema, path: &Path, errors: &mut FieldErrors) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name.as_str()) {
                    walk(value, property, &path.field(name), errors);
                } else if let Some(values) = schema.child(name) {
                    walk(value, values, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListType::Atomic => {}
                ListType::Set => {
                    for at in second_occurrences(items.iter()) {
                        errors.push(FieldError::duplicate(&path.index(at), items[at].clone()));
                    }
                }
                ListType::Map(keys) => duplicate_keys(items, keys, path, errors),
            }
            if let Some(child) = &schema.items {
                for (at, item) in items.iter().enumerate() {
                    walk(item, child, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

fn duplicate_keys(items: &[Value], keys: &[Box<str>], path: &Path, errors: &mut FieldErrors) {
    if let Some(at) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(&path.index(at), items[at].clone(), detail));
        return;
    }
    let identity = |item: &Value| -> Value {
        let parts = keys.iter().filter_map(|key| Some((key.to_string(), item.get(key.as_ref())?.clone())));
        Value::Object(parts.collect::<Map<_, _>>())
    };
    let identities: Vec<Value> = items.iter().map(identity).collect();
    for at in second_occurrences(identities.iter()) {
        errors.push(FieldError::duplicate(&path.index(at), identities[at].clone()));
    }
}

/// Returns the index of each value's second occurrence; later ones are not reported.
fn second_occurrences<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut second = Vec::new();
    for (at, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            second.push(at);
        }
    }
    second
}
