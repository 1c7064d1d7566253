//! Validation of an applied value against its type, before merging.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    element::PathElement,
    node::{ScalarType, TypeNode, ValueForm},
};
use crate::go;

/// A validation error and its path: `.spec.replicas`, `expected numeric (int or float), got string`.
struct TypeMismatch {
    path: String,
    message: String,
}

/// Returns all validation errors of `value` in the wording of Kubernetes.
pub fn validate(node: TypeNode<'_>, value: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    check_node(node, value, &mut String::new(), &mut found);
    let lines: Vec<String> = found
        .into_iter()
        .map(
            |TypeMismatch { path, message }| {
                if path.is_empty() { message } else { format!("{path}: {message}") }
            },
        )
        .collect();
    match lines.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn check_node(node: TypeNode<'_>, value: &Value, path: &mut String, found: &mut Vec<TypeMismatch>) {
    let mut complain = |message: String| found.push(TypeMismatch { path: path.clone(), message });
    match node.form(Some(value)) {
        ValueForm::Scalar(scalar) => {
            if let Some(message) = scalar_mismatch(scalar, value) {
                complain(message);
            }
        }
        ValueForm::AtomicMap | ValueForm::Map => match value {
            Value::Null => {}
            Value::Object(members) => {
                for (name, member) in members {
                    let parent = path.len();
                    path.push('.');
                    path.push_str(name);
                    if let Some(below) = node.member(name) {
                        check_node(below, member, path, found);
                        path.truncate(parent);
                    } else {
                        // Kubernetes stops validating this map here.
                        let message = "field not declared in schema".to_owned();
                        found.push(TypeMismatch { path: path.clone(), message });
                        path.truncate(parent);
                        return;
                    }
                }
            }
            other => complain(format!("expected map, got &{{{}}}", go::format_v(other))),
        },
        ValueForm::AtomicList | ValueForm::List(_) => match value {
            Value::Null => {}
            Value::Array(items) => check_items(node, items, path, found),
            other => complain(format!("expected list, got &{{{}}}", go::format_v(other))),
        },
    }
}

fn check_items(node: TypeNode<'_>, items: &[Value], path: &mut String, found: &mut Vec<TypeMismatch>) {
    let ValueForm::List(list) = node.form(Some(&Value::Array(Vec::new()))) else {
        let element = node.element();
        for (i, item) in items.iter().enumerate() {
            let parent = path.len();
            path.push_str(&PathElement::Index(i64::try_from(i).unwrap_or(i64::MAX)).to_string());
            check_node(element, item, path, found);
            path.truncate(parent);
        }
        return;
    };
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let element = match list.identity_of(item) {
            Ok(element) => element,
            Err(why) => {
                found.push(TypeMismatch { path: path.clone(), message: format!("element {i}: {why}") });
                return;
            }
        };
        if seen.contains(&element) {
            let message = format!("duplicate entries for key {element}");
            found.push(TypeMismatch { path: path.clone(), message });
        }
        let parent = path.len();
        path.push_str(&element.to_string());
        check_node(list.element, item, path, found);
        path.truncate(parent);
        seen.insert(element);
    }
}

fn scalar_mismatch(scalar: ScalarType, value: &Value) -> Option<String> {
    let fits = match (scalar, value) {
        (_, Value::Null)
        | (ScalarType::Numeric, Value::Number(_))
        | (ScalarType::String, Value::String(_))
        | (ScalarType::Boolean, Value::Bool(_)) => true,
        (ScalarType::Any, other) => !other.is_object() && !other.is_array(),
        _ => false,
    };
    if fits {
        return None;
    }
    Some(match scalar {
        ScalarType::Numeric => format!("expected numeric (int or float), got {}", go::type_name(value)),
        ScalarType::String => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::format_sharp_v(value))
        }
        ScalarType::Boolean => format!("expected boolean, got &{{{}}}", go::format_v(value)),
        ScalarType::Any => format!("expected any scalar, got &{{{}}}", go::format_v(value)),
    })
}
