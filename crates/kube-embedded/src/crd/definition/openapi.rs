//! Validation of schema keywords, node by node: supported keywords and consistent combinations.

use std::collections::HashSet;

use serde_json::Value;

use super::super::paths;
use super::super::schema::{MAX_DEPTH, StructuralSchema};
use crate::field::{FieldError, FieldErrors, Path};

const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const REASONS: &[&str] =
    &["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

/// Maximum number of errors that repeat a whole list.
const MAX_LIST_ERRORS: usize = 100;

/// Keywords that no CRD may use. A schema with one of them is not validated further.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("id", "id is not supported"),
    ("additionalItems", "additionalItems is not supported"),
    ("patternProperties", "patternProperties is not supported"),
    ("definitions", "definitions is not supported"),
    ("dependencies", "dependencies is not supported"),
    ("$ref", "$ref is not supported"),
];

/// Returns all direct subschemas.
pub fn children(schema: &Value) -> impl Iterator<Item = &Value> {
    let maps = ["properties"].into_iter().flat_map(|key| schema[key].as_object().into_iter().flatten());
    let lists =
        ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| schema[key].as_array().into_iter().flatten());
    let single = ["items", "additionalProperties", "not"].into_iter().map(|key| &schema[key]);
    maps.map(|(_, child)| child).chain(lists).chain(single.filter(|child| child.is_object()))
}

/// Whether the schema has no keywords that prevent parsing it.
pub fn is_parsable(schema: &Value) -> bool {
    fn walk(schema: &Value, depth: usize) -> bool {
        depth < MAX_DEPTH
            && !schema["items"].is_array()
            && UNSUPPORTED.iter().all(|(key, _)| schema[*key].is_null())
            && children(schema).all(|child| walk(child, depth + 1))
    }
    walk(schema, 0)
}

/// Validates a whole schema.
pub fn check(document: &Value, path: &Path) -> FieldErrors {
    let mut walk = KeywordValidator { errors: FieldErrors::new() };
    walk.node(document, path, KeywordContext { root: true, ..KeywordContext::default() }, 0);
    walk.errors
}

/// Context of a node.
#[derive(Clone, Copy, Default)]
struct KeywordContext {
    root: bool,
    /// Why defaults are not allowed here.
    no_default: Option<&'static str>,
    inside_meta: bool,
}

struct KeywordValidator {
    errors: FieldErrors,
}

fn text<'v>(node: &'v Value, key: &str) -> &'v str {
    node[key].as_str().unwrap_or_default()
}

impl KeywordValidator {
    fn forbidden(&mut self, path: &Path, words: impl Into<String>) {
        self.errors.push(FieldError::forbidden(path, words));
    }

    fn invalid(&mut self, path: &Path, value: impl Into<Value>, words: impl Into<String>) {
        self.errors.push(FieldError::invalid(path, value, words));
    }

    /// Adds an error: required if empty, else invalid.
    fn required_or_invalid(&mut self, path: &Path, found: &str, words: &str) {
        self.errors.push(match found {
            "" => FieldError::required(path, words),
            found => FieldError::invalid(path, found, words),
        });
    }

    fn node(&mut self, node: &Value, path: &Path, place: KeywordContext, depth: usize) {
        if !node.is_object() || depth > MAX_DEPTH {
            return;
        }
        self.keywords(node, path, place);
        let below = KeywordContext { root: false, ..place };
        let additional = &node["additionalProperties"];
        let properties = node["properties"].as_object().into_iter().flatten();
        if node["uniqueItems"] == true {
            let words = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
            self.forbidden(&path.field("uniqueItems"), words);
        }
        if !additional.is_null() {
            let path = path.field("additionalProperties");
            if properties.clone().next().is_some() && *additional != true {
                self.forbidden(&path, "additionalProperties and properties are mutual exclusive");
            }
            let inside = "inside additionalProperties applying to object metadata";
            let no_default = if place.inside_meta { Some(inside) } else { below.no_default };
            self.node(additional, &path, KeywordContext { no_default, ..below }, depth + 1);
        }
        for (name, child) in properties {
            let mut below = below;
            let resource = place.root || node["x-kubernetes-embedded-resource"] == true;
            if resource && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
                below.inside_meta = true;
                if place.root {
                    below.no_default = Some(match name.as_str() {
                        "metadata" => "in top-level metadata",
                        "kind" => "in top-level kind",
                        _ => "in top-level apiVersion",
                    });
                }
            }
            self.node(child, &path.field("properties").key(name), below, depth + 1);
        }
        self.node(&node["not"], &path.field("not"), below, depth + 1);
        for key in ["allOf", "oneOf", "anyOf"] {
            for (at, child) in node[key].as_array().into_iter().flatten().enumerate() {
                self.node(child, &path.field(key).index(at), below, depth + 1);
            }
        }
        self.node(&node["items"], &path.field("items"), below, depth + 1);
        self.lists(node, path);
        self.map_list(node, path);
        for (at, rule) in node["x-kubernetes-validations"].as_array().into_iter().flatten().enumerate() {
            self.rule(rule, node, &path.field("x-kubernetes-validations").index(at));
        }
    }

    fn keywords(&mut self, node: &Value, path: &Path, place: KeywordContext) {
        let ty = text(node, "type");
        if !ty.is_empty() && !TYPES.contains(&ty) {
            self.errors.push(FieldError::unsupported(&path.field("type"), ty, TYPES));
        }
        if let (false, Some(why)) = (node["default"].is_null(), place.no_default) {
            self.forbidden(&path.field("default"), format!("must not be set {why}"));
        }
        for (key, words) in UNSUPPORTED {
            if !node[*key].is_null() {
                self.forbidden(&path.field(key), *words);
            }
        }
        if ty == "null" {
            let words = "type cannot be set to null, use nullable as an alternative";
            self.forbidden(&path.field("type"), words);
        }
        if node["items"].is_array() {
            self.forbidden(&path.field("items"), "items must be a schema object and not an array");
        }
        if place.inside_meta && node["x-kubernetes-embedded-resource"] == true {
            let words = "must not be used inside of resource meta";
            self.forbidden(&path.field("x-kubernetes-embedded-resource"), words);
        }
        if node["x-kubernetes-preserve-unknown-fields"] == false {
            let path = path.field("x-kubernetes-preserve-unknown-fields");
            self.invalid(&path, false, "must be true or undefined");
        }
    }

    fn lists(&mut self, node: &Value, path: &Path) {
        let ty = text(node, "type");
        let (map_type, list_type) =
            (text(node, "x-kubernetes-map-type"), text(node, "x-kubernetes-list-type"));
        if !node["x-kubernetes-map-type"].is_null() {
            if ty != "object" {
                self.required_or_invalid(
                    &path.field("type"),
                    ty,
                    "must be object if x-kubernetes-map-type is specified",
                );
            }
            if !matches!(map_type, "atomic" | "granular") {
                let path = path.field("x-kubernetes-map-type");
                self.errors.push(FieldError::unsupported(&path, map_type, &["atomic", "granular"]));
            }
        }
        let items = &node["items"];
        if !node["x-kubernetes-list-type"].is_null() {
            if ty != "array" {
                self.required_or_invalid(
                    &path.field("type"),
                    ty,
                    "must be array if x-kubernetes-list-type is specified",
                );
            } else if list_type == "set" && items.is_object() {
                let words = "must be atomic as item of a list with x-kubernetes-list-type=set";
                let inner = text(items, "x-kubernetes-list-type");
                if text(items, "type") == "array" && !inner.is_empty() && inner != "atomic" {
                    self.invalid(&path.field("items").field("x-kubernetes-list-type"), inner, words);
                }
                if text(items, "type") == "object" && text(items, "x-kubernetes-map-type") != "atomic" {
                    let path = path.field("items").field("x-kubernetes-map-type");
                    self.invalid(&path, Value::Null, words);
                }
            }
            if !matches!(list_type, "atomic" | "set" | "map") {
                let path = path.field("x-kubernetes-list-type");
                self.errors.push(FieldError::unsupported(&path, list_type, &["atomic", "set", "map"]));
            }
        }
        let keys = node["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !keys.is_empty() && list_type != "map" {
            let words = "must be map if x-kubernetes-list-map-keys is non-empty";
            self.required_or_invalid(&path.field("x-kubernetes-list-type"), list_type, words);
        }
    }

    fn map_list(&mut self, node: &Value, path: &Path) {
        let list_type = text(node, "x-kubernetes-list-type");
        let items = &node["items"];
        let keys = node["x-kubernetes-list-map-keys"].as_array().map(Vec::as_slice).unwrap_or_default();
        let keys_path = path.field("x-kubernetes-list-map-keys");
        let below = path.field("items");
        if list_type == "map" {
            if keys.is_empty() {
                let words = "must not be empty if x-kubernetes-list-type is map";
                self.errors.push(FieldError::required(&keys_path, words));
            }
            if items.is_null() {
                let words = "must have a schema if x-kubernetes-list-type is map";
                self.errors.push(FieldError::required(&below, words));
            } else if text(items, "type") != "object" {
                let words = "must be object if parent array's x-kubernetes-list-type is map";
                self.invalid(&below.field("type"), text(items, "type"), words);
            } else {
                let mut seen = HashSet::new();
                for (at, key) in keys.iter().enumerate() {
                    if let Some(property) = items["properties"].get(key.as_str().unwrap_or_default()) {
                        if matches!(text(property, "type"), "array" | "object") {
                            let words =
                                "must be a scalar type if parent array's x-kubernetes-list-type is map";
                            let name = key.as_str().unwrap_or_default();
                            let path = below.field("properties").key(name).field("type");
                            self.invalid(&path, text(items, "type"), words);
                        }
                    } else if at < MAX_LIST_ERRORS {
                        let words = "entries must all be names of item properties";
                        self.invalid(&keys_path, keys.to_vec(), words);
                    }
                    // Each error repeats all keys.
                    if !seen.insert(key) && at < MAX_LIST_ERRORS {
                        self.invalid(&keys_path, keys.to_vec(), "must not contain duplicate entries");
                    }
                }
            }
        }
        if !items.is_object() || !matches!(list_type, "set" | "map") {
            return;
        }
        if items["nullable"] == true {
            let words = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
            self.forbidden(&below.field("nullable"), words);
        }
        if list_type == "set" {
            return;
        }
        let required: HashSet<&Value> = items["required"].as_array().into_iter().flatten().collect();
        for key in keys {
            let name = key.as_str().unwrap_or_default();
            let Some(property) = items["properties"].get(name) else { continue };
            let path = below.field("properties").key(name);
            if !required.contains(&key) && property["default"].is_null() {
                let words = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                             required property";
                self.errors.push(FieldError::required(&path.field("default"), words));
            }
            if property["nullable"] == true {
                let words = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                self.forbidden(&path.field("nullable"), words);
            }
        }
    }

    /// Validates the parts of a rule other than its expression.
    fn rule(&mut self, rule: &Value, node: &Value, path: &Path) {
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message").trim());
        let breaks = |text: &str| text.contains(['\n', '\r']);
        if expression.is_empty() {
            self.errors.push(FieldError::required(&path.field("rule"), "rule is not specified"));
        } else if !text(rule, "message").is_empty() && message.is_empty() {
            self.invalid(&path.field("message"), text(rule, "message"), "must be non-empty if specified");
        } else if breaks(message) {
            self.invalid(&path.field("message"), text(rule, "message"), "must not contain line breaks");
        } else if breaks(expression) && message.is_empty() {
            let words = "message must be specified if rule contains line breaks";
            self.errors.push(FieldError::required(&path.field("message"), words));
        }
        let written = text(rule, "messageExpression");
        if !written.is_empty() && written.trim().is_empty() {
            let words = "messageExpression must be non-empty if specified";
            self.errors.push(FieldError::required(&path.field("messageExpression"), words));
        }
        if let Some(reason) = rule["reason"].as_str()
            && !REASONS.contains(&reason)
        {
            self.errors.push(FieldError::unsupported(&path.field("reason"), reason, REASONS));
        }
        let written = text(rule, "fieldPath");
        if written.is_empty() {
            return;
        }
        let path = path.field("fieldPath");
        if written.trim().is_empty() {
            self.invalid(&path, written, "must be non-empty if specified");
        }
        if breaks(written) {
            self.invalid(&path, written, "must not contain line breaks");
        }
        if paths::resolve(written, &StructuralSchema::parse(node), true).is_err() {
            self.invalid(&path, written, "must be a valid path");
        }
    }
}
