//! Validation of an applied value against its type, before merging.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    element::Element,
    node::{Form, Node, Scalar},
};
use crate::go;

/// A validation error and its path: `.spec.replicas`, `expected numeric (int or float), got string`.
struct Misfit {
    path: String,
    message: String,
}

/// Returns all validation errors of `value` in the wording of Kubernetes.
pub fn validate(node: Node<'_>, value: &Value) -> Result<(), String> {
    let mut found = Vec::new();
    check(node, value, &mut String::new(), &mut found);
    let lines: Vec<String> = found
        .into_iter()
        .map(|Misfit { path, message }| if path.is_empty() { message } else { format!("{path}: {message}") })
        .collect();
    match lines.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn check(node: Node<'_>, value: &Value, path: &mut String, found: &mut Vec<Misfit>) {
    let mut complain = |message: String| found.push(Misfit { path: path.clone(), message });
    match node.form(Some(value)) {
        Form::Scalar(scalar) => {
            if let Some(message) = misfit(scalar, value) {
                complain(message);
            }
        }
        Form::AtomicMap | Form::Map => match value {
            Value::Null => {}
            Value::Object(members) => {
                for (name, member) in members {
                    let parent = path.len();
                    path.push('.');
                    path.push_str(name);
                    if let Some(below) = node.member(name) {
                        check(below, member, path, found);
                        path.truncate(parent);
                    } else {
                        // Kubernetes stops validating this map here.
                        let message = "field not declared in schema".to_owned();
                        found.push(Misfit { path: path.clone(), message });
                        path.truncate(parent);
                        return;
                    }
                }
            }
            other => complain(format!("expected map, got &{{{}}}", go::plain(other))),
        },
        Form::AtomicList | Form::List(_) => match value {
            Value::Null => {}
            Value::Array(items) => check_items(node, items, path, found),
            other => complain(format!("expected list, got &{{{}}}", go::plain(other))),
        },
    }
}

fn check_items(node: Node<'_>, items: &[Value], path: &mut String, found: &mut Vec<Misfit>) {
    let Form::List(list) = node.form(Some(&Value::Array(Vec::new()))) else {
        let element = node.element();
        for (i, item) in items.iter().enumerate() {
            let parent = path.len();
            path.push_str(&Element::Index(i64::try_from(i).unwrap_or(i64::MAX)).to_string());
            check(element, item, path, found);
            path.truncate(parent);
        }
        return;
    };
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let element = match list.element_of(item) {
            Ok(element) => element,
            Err(why) => {
                found.push(Misfit { path: path.clone(), message: format!("element {i}: {why}") });
                return;
            }
        };
        if seen.contains(&element) {
            let message = format!("duplicate entries for key {element}");
            found.push(Misfit { path: path.clone(), message });
        }
        let parent = path.len();
        path.push_str(&element.to_string());
        check(list.element, item, path, found);
        path.truncate(parent);
        seen.insert(element);
    }
}

fn misfit(scalar: Scalar, value: &Value) -> Option<String> {
    let fits = match (scalar, value) {
        (_, Value::Null)
        | (Scalar::Numeric, Value::Number(_))
        | (Scalar::String, Value::String(_))
        | (Scalar::Boolean, Value::Bool(_)) => true,
        (Scalar::Any, other) => !other.is_object() && !other.is_array(),
        _ => false,
    };
    if fits {
        return None;
    }
    Some(match scalar {
        Scalar::Numeric => format!("expected numeric (int or float), got {}", go::type_name(value)),
        Scalar::String => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(value))
        }
        Scalar::Boolean => format!("expected boolean, got &{{{}}}", go::plain(value)),
        Scalar::Any => format!("expected any scalar, got &{{{}}}", go::plain(value)),
    })
}
