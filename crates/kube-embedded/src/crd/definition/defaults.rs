//! Validation of defaults: they must satisfy their schema and contain no unknown fields.

use serde_json::Value;

use super::super::cel::rules::CelRules;
use super::super::schema::{MAX_DEPTH, StructuralSchema};
use super::super::{embedded, shape, validation};
use crate::field::{FieldError, FieldErrors, Path};

pub fn check(document: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    walk(document, true, false, path, 0, &mut errors);
    errors
}

fn walk(
    node: &Value,
    resource: bool,
    inside_meta: bool,
    path: &Path,
    depth: usize,
    errors: &mut FieldErrors,
) {
    if !node.is_object() || depth > MAX_DEPTH {
        return;
    }
    let default = &node["default"];
    if !default.is_null() && !inside_meta {
        let schema = StructuralSchema::parse(node);
        let path = path.field("default");
        if shape::has_unknown(default, &schema) {
            errors.push(FieldError::invalid(&path, default.clone(), "must not have unknown fields"));
        }
        let mut complaints: FieldErrors = embedded::check(default, &schema)
            .into_iter()
            .map(|error| FieldError { path: path.field(error.path.as_str()), ..error })
            .collect();
        if complaints.is_empty() {
            complaints = validation::check(default, None, &schema, Some(&path));
        }
        if complaints.is_empty()
            && let Some(rules) = CelRules::compile(&schema)
        {
            // A default must be valid both as an unchanged and as a new value.
            complaints = rules.check(default, Some(default), &schema, Some(&path), &mut Vec::new());
            if complaints.is_empty() {
                complaints = rules.check(default, None, &schema, Some(&path), &mut Vec::new());
            }
        }
        errors.extend(complaints);
    }
    if node["items"].is_object() {
        walk(&node["items"], false, inside_meta, &path.field("items"), depth + 1, errors);
    }
    let resource = resource || node["x-kubernetes-embedded-resource"] == true;
    for (name, child) in node["properties"].as_object().into_iter().flatten() {
        let meta = resource && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        let path = path.field("properties").key(name);
        walk(child, false, inside_meta || meta, &path, depth + 1, errors);
    }
}
