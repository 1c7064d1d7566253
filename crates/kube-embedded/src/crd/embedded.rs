//! Validation of `apiVersion`, `kind` and `metadata` of embedded resources.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::schema::StructuralSchema;
use crate::decode::conform::{ErrorStyle, conform};
use crate::field::{FieldError, FieldErrors, Path};
use crate::schema::builtin;

static LABEL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^[a-z]([-a-z0-9]*[a-z0-9])?$").expect("a pattern of ours compiles"));

/// Returns the errors of Kubernetes for an invalid DNS-1035 label; empty if it is valid.
pub fn label_errors(text: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if text.len() > 63 {
        complaints.push("must be no more than 63 characters".to_owned());
    }
    if !LABEL.is_match(text) {
        complaints.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
             regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    complaints
}

/// Returns the first embedded `apiVersion`, `kind` or `metadata` of the wrong type: such an object cannot be decoded.
pub fn first_type_error(value: &Value, schema: &StructuralSchema, path: &Path) -> Option<FieldError> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, value)| {
            if schema.embedded && matches!(name.as_str(), "apiVersion" | "kind") && !value.is_string() {
                return Some(FieldError::invalid(&path.field(name), value.clone(), "must be a string"));
            }
            if schema.embedded && name == "metadata" {
                return metadata_type_error(value, &path.field(name));
            }
            let child = schema.child(name)?;
            let is_property = schema.properties.contains_key(name.as_str());
            first_type_error(value, child, &if is_property { path.field(name) } else { path.key(name) })
        }),
        Value::Array(items) => {
            let child = schema.items.as_ref()?;
            items.iter().enumerate().find_map(|(at, item)| first_type_error(item, child, &path.index(at)))
        }
        _ => None,
    }
}

fn metadata_type_error(metadata: &Value, path: &Path) -> Option<FieldError> {
    if !metadata.is_object() {
        return Some(FieldError::invalid(path, metadata.clone(), "must be an object"));
    }
    let ty = builtin::types().by_name("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")?;
    let why = conform(ty, &mut metadata.clone(), ErrorStyle::Unstructured).err()?;
    Some(FieldError::invalid(path, metadata.clone(), why))
}

/// Validates embedded resources anywhere in the object.
pub fn check(object: &Value, schema: &StructuralSchema) -> FieldErrors {
    let mut errors = FieldErrors::new();
    walk(object, schema, &Path::root(), &mut errors);
    errors
}

fn walk(value: &Value, schema: &StructuralSchema, path: &Path, errors: &mut FieldErrors) {
    match value {
        Value::Object(fields) => {
            if schema.embedded {
                resource(value, path, errors);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name.as_str()) {
                    walk(value, property, &path.field(name), errors);
                } else if let Some(values) = schema.child(name) {
                    walk(value, values, &path.key(name), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &schema.items else { return };
            for (at, item) in items.iter().enumerate() {
                walk(item, child, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

fn resource(value: &Value, path: &Path, errors: &mut FieldErrors) {
    match value.get("apiVersion") {
        None => errors.push(FieldError::required(&path.field("apiVersion"), "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&path.field("apiVersion"), "", "must not be empty"));
        }
        Some(Value::String(text)) if text.matches('/').count() > 1 => {
            let detail = format!("unexpected GroupVersion string: {text}");
            errors.push(FieldError::invalid(&path.field("apiVersion"), text.as_str(), detail));
        }
        Some(Value::String(_)) => {}
        Some(other) => {
            errors.push(FieldError::invalid(&path.field("apiVersion"), other.clone(), "must be a string"));
        }
    }
    match value.get("kind") {
        None => errors.push(FieldError::required(&path.field("kind"), "")),
        Some(Value::String(text)) if text.is_empty() => {
            errors.push(FieldError::invalid(&path.field("kind"), "", "must not be empty"));
        }
        Some(Value::String(text)) => {
            let complaints = label_errors(&text.to_lowercase());
            if !complaints.is_empty() {
                let detail =
                    format!("may have mixed case, but should otherwise match: {}", complaints.join(","));
                errors.push(FieldError::invalid(&path.field("kind"), text.as_str(), detail));
            }
        }
        Some(other) => {
            errors.push(FieldError::invalid(&path.field("kind"), other.clone(), "must be a string"));
        }
    }
    if let Some(name) = value["metadata"]["name"].as_str() {
        let path = path.field("metadata").field("name");
        let detail = match name {
            "." | ".." => format!("may not be '{name}'"),
            _ if name.contains('/') => "may not contain '/'".to_owned(),
            _ if name.contains('%') => "may not contain '%'".to_owned(),
            _ => return,
        };
        errors.push(FieldError::invalid(&path, name, detail));
    }
}
