//! Structural schemas: every field's type is specified once, outside `allOf`, `anyOf`, `oneOf` and `not`, which may only add restrictions.

use serde_json::{Map, Value, json};

use super::super::pattern;
use super::super::schema::MAX_DEPTH;
use crate::field::{FieldError, FieldErrors, Path};

#[derive(Clone, Copy, PartialEq)]
enum SchemaPosition {
    Root,
    Item,
    Field,
}

/// Validates a schema; the errors are sorted.
pub fn check(document: &Value, path: &Path) -> FieldErrors {
    let mut validator = StructuralValidator { errors: FieldErrors::new() };
    validator.validate_node(document, SchemaPosition::Root, path, 0);
    validator.check_completeness(document, document, path, path, 0);
    let mut errors: Vec<FieldError> = validator.errors.into_iter().collect();
    errors.sort_by_cached_key(ToString::to_string);
    errors.into()
}

struct StructuralValidator {
    errors: FieldErrors,
}

fn text<'v>(node: &'v Value, key: &str) -> &'v str {
    node[key].as_str().unwrap_or_default()
}

fn is_true(node: &Value, key: &str) -> bool {
    node[key] == true
}

fn list<'v>(node: &'v Value, key: &str) -> &'v [Value] {
    node[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn property_schemas(node: &Value) -> impl Iterator<Item = (&String, &Value)> {
    node["properties"].as_object().into_iter().flatten()
}

impl StructuralValidator {
    fn required(&mut self, path: &Path, detail: &str) {
        self.errors.push(FieldError::required(path, detail));
    }

    fn forbidden(&mut self, path: &Path, detail: &str) {
        self.errors.push(FieldError::forbidden(path, detail));
    }

    fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.errors.push(FieldError::invalid(path, value, detail));
    }

    fn validate_node(&mut self, node: &Value, position: SchemaPosition, path: &Path, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let ty = text(node, "type");
        if ty == "array" && !node["items"].is_object() {
            self.required(&path.field("items"), "must be specified");
        }
        if node["items"].is_object() {
            self.validate_node(&node["items"], SchemaPosition::Item, &path.field("items"), depth + 1);
        }
        for (name, child) in property_schemas(node) {
            self.validate_node(child, SchemaPosition::Field, &path.field("properties").key(name), depth + 1);
        }
        let additional = &node["additionalProperties"];
        if !additional.is_null() {
            let path = path.field("additionalProperties");
            if position == SchemaPosition::Root {
                self.forbidden(&path, "must not be used at the root");
            }
            if additional.is_object() {
                self.validate_node(additional, SchemaPosition::Field, &path, depth + 1);
            }
        }
        let (embedded, preserve) = (
            is_true(node, "x-kubernetes-embedded-resource"),
            is_true(node, "x-kubernetes-preserve-unknown-fields"),
        );
        let int_or_string = is_true(node, "x-kubernetes-int-or-string");
        for (key, set) in
            [("x-kubernetes-preserve-unknown-fields", preserve), ("x-kubernetes-embedded-resource", embedded)]
        {
            if int_or_string && set {
                self.invalid(&path.field(key), true, "must be false if x-kubernetes-int-or-string is true");
            }
        }
        let int_or_string_any_of = json!([{"type": "integer"}, {"type": "string"}]);
        let skip_any_of = node["anyOf"] == int_or_string_any_of;
        let skip_first_all_of_any_of = node["allOf"][0]["anyOf"] == int_or_string_any_of;
        self.check_restrictions(node, skip_any_of, skip_first_all_of_any_of, path, depth);

        if embedded && ty != "object" {
            let words = "must be object if x-kubernetes-embedded-resource is true";
            if ty.is_empty() {
                self.required(&path.field("type"), words);
            } else {
                self.invalid(&path.field("type"), ty, words);
            }
        } else if ty.is_empty() && !int_or_string && !preserve {
            let words = match position {
                SchemaPosition::Root => "must not be empty at the root",
                SchemaPosition::Item => "must not be empty for specified array items",
                SchemaPosition::Field => "must not be empty for specified object fields",
            };
            self.required(&path.field("type"), words);
        }
        if embedded && !additional.is_null() {
            let words = "must not be used if x-kubernetes-embedded-resource is set";
            self.forbidden(&path.field("additionalProperties"), words);
        }
        if position == SchemaPosition::Root && !ty.is_empty() && ty != "object" {
            self.invalid(&path.field("type"), ty, "must be object at the root");
        }
        self.check_metadata(node, position, embedded, path);
        if embedded && !preserve && property_schemas(node).next().is_none() {
            let words = "must not be empty if x-kubernetes-embedded-resource is true without \
                         x-kubernetes-preserve-unknown-fields";
            self.required(&path.field("properties"), words);
        }
    }

    fn check_metadata(&mut self, node: &Value, position: SchemaPosition, embedded: bool, path: &Path) {
        let is_resource = position == SchemaPosition::Root || embedded;
        let properties = &node["properties"];
        let properties_path = path.field("properties");
        for key in ["kind", "apiVersion"] {
            if is_resource && properties[key].is_object() && text(&properties[key], "type") != "string" {
                let ty = text(&properties[key], "type").to_owned();
                self.invalid(&properties_path.key(key).field("type"), ty, "must be string");
            }
        }
        let Some(metadata) = properties["metadata"].as_object() else { return };
        let metadata_path = properties_path.key("metadata");
        let ty = text(&properties["metadata"], "type");
        if is_resource && ty != "object" {
            self.invalid(&metadata_path.field("type"), ty, "must be object");
        }
        if position == SchemaPosition::Root && restricts_more_than_names(metadata) {
            let words = "must not specify anything other than name and generateName, but metadata is \
                         implicitly specified";
            self.forbidden(&metadata_path, words);
        }
    }

    /// Validates `anyOf`, `allOf`, `oneOf`, `not` and `pattern` of a schema.
    fn check_restrictions(
        &mut self,
        node: &Value,
        skip_any_of: bool,
        skip_first_all_of_any_of: bool,
        path: &Path,
        depth: usize,
    ) {
        if !skip_any_of {
            for (at, nested) in list(node, "anyOf").iter().enumerate() {
                self.check_nested(nested, false, &path.field("anyOf").index(at), depth + 1);
            }
        }
        for (at, nested) in list(node, "allOf").iter().enumerate() {
            self.check_nested(
                nested,
                skip_first_all_of_any_of && at == 0,
                &path.field("allOf").index(at),
                depth + 1,
            );
        }
        for (at, nested) in list(node, "oneOf").iter().enumerate() {
            self.check_nested(nested, false, &path.field("oneOf").index(at), depth + 1);
        }
        if node["not"].is_object() {
            self.check_nested(&node["not"], false, &path.field("not"), depth + 1);
        }
        let pattern_text = text(node, "pattern");
        if !pattern_text.is_empty()
            && let Err(why) = pattern::compile(pattern_text)
        {
            let detail = format!("must be a valid regular expression, but isn't: {why}");
            self.invalid(&path.field("pattern"), pattern_text, detail);
        }
    }

    /// Validates a schema inside `allOf`, `anyOf`, `oneOf` or `not`.
    fn check_nested(&mut self, node: &Value, skip_any_of: bool, path: &Path, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        self.check_restrictions(node, skip_any_of, false, path, depth);
        if node["items"].is_object() {
            self.check_nested(&node["items"], false, &path.field("items"), depth + 1);
        }
        for (name, child) in property_schemas(node) {
            self.check_nested(child, false, &path.field("properties").key(name), depth + 1);
        }
        let rows = [
            ("type", "must be empty to be structural"),
            ("additionalProperties", "must be undefined to be structural"),
            ("default", "must be undefined to be structural"),
            ("title", "must be empty to be structural"),
            ("description", "must be empty to be structural"),
            ("nullable", "must be false to be structural"),
            ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
            ("x-kubernetes-embedded-resource", "must be false to be structural"),
            ("x-kubernetes-int-or-string", "must be false to be structural"),
            ("x-kubernetes-list-map-keys", "must be empty to be structural"),
            ("x-kubernetes-list-type", "must be undefined to be structural"),
            ("x-kubernetes-map-type", "must be undefined to be structural"),
            ("x-kubernetes-validations", "must be empty to be structural"),
        ];
        for (key, words) in rows {
            if is_set(&node[key]) {
                self.forbidden(&path.field(key), words);
            }
        }
        if !node["properties"]["metadata"].is_null() {
            let words = "must not be specified in a nested context";
            self.forbidden(&path.field("properties").key("metadata"), words);
        }
    }

    /// Checks that every field inside `allOf`, `anyOf`, `oneOf` or `not` is also specified outside them.
    fn check_completeness(&mut self, node: &Value, structure: &Value, at: &Path, path: &Path, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        if node["not"].is_object() {
            self.check_specified(&node["not"], structure, at, &path.field("not"), depth + 1);
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            for (index, nested) in list(node, key).iter().enumerate() {
                self.check_specified(nested, structure, at, &path.field(key).index(index), depth + 1);
            }
        }
    }

    fn check_specified(&mut self, nested: &Value, structure: &Value, at: &Path, path: &Path, depth: usize) {
        if !structure.is_object() {
            self.required(at, &format!("because it is defined in {path}"));
            return;
        }
        self.check_completeness(nested, structure, at, path, depth);
        if nested["items"].is_object() {
            let (at, path) = (at.field("items"), path.field("items"));
            self.check_specified(&nested["items"], &structure["items"], &at, &path, depth + 1);
        }
        for (name, child) in property_schemas(nested) {
            let (at, path) = (at.field("properties").key(name), path.field("properties").key(name));
            match structure["properties"].get(name) {
                None => self.required(&at, &format!("because it is defined in {path}")),
                Some(structure) => self.check_specified(child, structure, &at, &path, depth + 1),
            }
        }
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    }
}

/// Whether the root's `metadata` schema constrains anything but `name` and `generateName`.
fn restricts_more_than_names(metadata: &Map<String, Value>) -> bool {
    let only_names = metadata
        .get("properties")
        .and_then(Value::as_object)
        .is_none_or(|properties| properties.keys().all(|name| name == "name" || name == "generateName"));
    let other = |key: &String| !matches!(key.as_str(), "type" | "default" | "properties");
    !only_names || metadata.iter().any(|(key, value)| other(key) && is_set(value))
}
