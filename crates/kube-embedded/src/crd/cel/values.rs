//! Conversion of JSON to CEL values, typed by a schema.
//!
//! Field names are escaped so that expressions can contain them; map keys are not.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, Program, Value as Cel};
use serde_json::Value;

use crate::crd::schema::{AdditionalProperties, StructuralSchema};

/// Reserved words that can be field names.
#[rustfmt::skip]
const RESERVED: &[&str] = &[
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if",
    "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
];

/// Escapes a field name for use in expressions; `None` for names that cannot be escaped.
pub fn escape(name: &str) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/');
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.chars().all(plain) {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(format!("__{name}__"));
    }
    let escaped = name.replace("__", "__underscores__");
    Some(escaped.replace('.', "__dot__").replace('-', "__dash__").replace('/', "__slash__"))
}

/// Converts a value without a schema, for admission policies.
pub fn untyped(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(flag) => Cel::Bool(*flag),
        Value::Number(number) => number
            .as_i64()
            .map(Cel::Int)
            .or_else(|| number.as_u64().map(Cel::UInt))
            .unwrap_or_else(|| Cel::Float(number.as_f64().unwrap_or(f64::NAN))),
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => Cel::List(Arc::new(items.iter().map(untyped).collect())),
        Value::Object(fields) => map(fields.iter().map(|(name, value)| (name.clone(), untyped(value)))),
    }
}

fn map(entries: impl Iterator<Item = (String, Cel)>) -> Cel {
    let map: HashMap<Key, Cel> = entries.map(|(name, value)| (Key::String(Arc::new(name)), value)).collect();
    Cel::Map(Map { map: Arc::new(map) })
}

/// Converts a value of a custom resource. Unknown fields are omitted.
pub fn typed(value: &Value, schema: &StructuralSchema, resource: bool) -> Cel {
    match value {
        Value::Object(fields) => {
            if let AdditionalProperties::Schema(values) = &schema.additional {
                return map(fields
                    .iter()
                    .map(|(name, value)| (name.clone(), typed(value, values, values.embedded))));
            }
            map(fields.iter().filter_map(|(name, value)| {
                let value = match schema.properties.get(name.as_str()) {
                    Some(child) if !(resource && name == "metadata") => typed(value, child, child.embedded),
                    _ if resource && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") => {
                        untyped(value)
                    }
                    _ => return None,
                };
                Some((escape(name)?, value))
            }))
        }
        Value::Array(items) => {
            let item = |value: &Value| match &schema.items {
                Some(child) => typed(value, child, child.embedded),
                None => untyped(value),
            };
            Cel::List(Arc::new(items.iter().map(item).collect()))
        }
        Value::Number(number) if schema.ty.as_ref() == "number" => {
            Cel::Float(number.as_f64().unwrap_or(f64::NAN))
        }
        Value::String(text) => match schema.format.as_ref() {
            "date-time" | "datetime" => call(&TIMESTAMP_CALL, text),
            "date" => call(&TIMESTAMP_CALL, &format!("{text}T00:00:00Z")),
            "duration" => call(&DURATION_CALL, text),
            "byte" => match base64::engine::general_purpose::STANDARD.decode(text) {
                Ok(bytes) => Cel::Bytes(Arc::new(bytes)),
                Err(_) => untyped(value),
            },
            _ => untyped(value),
        },
        _ => untyped(value),
    }
}

static TIMESTAMP_CALL: LazyLock<Program> =
    LazyLock::new(|| Program::compile("timestamp(text)").expect("an expression of ours compiles"));
static DURATION_CALL: LazyLock<Program> =
    LazyLock::new(|| Program::compile("duration(text)").expect("an expression of ours compiles"));

/// Calls the interpreter to create times, because their types are private.
fn call(program: &Program, text: &str) -> Cel {
    let mut context = Context::default();
    let plain = Cel::String(Arc::new(text.to_owned()));
    context.add_variable_from_value("text", plain.clone());
    program.execute(&context).unwrap_or(plain)
}

/// Size of the largest list or map in a computed value.
pub fn max_computed_size(value: &Cel) -> usize {
    match value {
        Cel::List(items) => items.iter().map(max_computed_size).max().unwrap_or_default().max(items.len()),
        Cel::Map(map) => map.map.values().map(max_computed_size).max().unwrap_or_default().max(map.map.len()),
        _ => 1,
    }
}

/// Size of the largest list or map, which bounds the cost of loops.
pub fn max_collection_size(value: &Value) -> usize {
    match value {
        Value::Array(items) => {
            items.iter().map(max_collection_size).max().unwrap_or_default().max(items.len())
        }
        Value::Object(fields) => {
            fields.values().map(max_collection_size).max().unwrap_or_default().max(fields.len())
        }
        _ => 1,
    }
}
