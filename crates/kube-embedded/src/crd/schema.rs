//! The schema of one version of a CRD, parsed once for all walks over objects.
//!
//! [`StructuralSchema`] contains the structure of `openAPIV3Schema` (allowed fields, preserved fields, list merging) and its validations
//! (lengths, bounds, patterns). Parsing never fails: parts that Kubernetes refuses are left out, and the validation of the CRD
//! (`super::definition`) reports them.
//!
//! Invariant: depth is bounded by [`MAX_DEPTH`], so that recursive walks over a schema end.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::{Map, Value};

use super::pattern;

/// Deeper schemas are truncated; JSON parsers refuse deeper documents anyway.
pub const MAX_DEPTH: usize = 100;

/// One node of a schema.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the keywords are flags")]
pub struct StructuralSchema {
    /// `string`, `integer`, ...; empty if the schema does not set it.
    pub ty: Box<str>,
    /// Only formats that Kubernetes supports for this type; others have no effect.
    pub format: Box<str>,
    pub nullable: bool,
    pub int_or_string: bool,
    pub preserve_unknown: bool,
    pub embedded: bool,
    pub list: ListType,
    pub map_atomic: bool,
    pub properties: BTreeMap<Box<str>, StructuralSchema>,
    pub additional: AdditionalProperties,
    pub items: Option<Box<StructuralSchema>>,
    pub default: Option<Value>,
    pub validations: ValueValidations,
    /// `x-kubernetes-validations` as written.
    pub rules: Vec<ValidationRule>,
}

/// `x-kubernetes-list-type`
#[derive(Debug, Default, PartialEq, Eq)]
pub enum ListType {
    #[default]
    Atomic,
    Set,
    Map(Vec<Box<str>>),
}

/// `additionalProperties`
#[derive(Debug, Default)]
pub enum AdditionalProperties {
    #[default]
    Unset,
    Any(bool),
    Schema(Box<StructuralSchema>),
}

/// Validations beyond the type.
#[derive(Debug, Default)]
pub struct ValueValidations {
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<SchemaPattern>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
    pub unique_items: bool,
    pub required: Vec<Box<str>>,
    pub enum_values: Vec<Value>,
    pub all_of: Vec<StructuralSchema>,
    pub any_of: Vec<StructuralSchema>,
    pub one_of: Vec<StructuralSchema>,
    pub not: Option<Box<StructuralSchema>>,
}

#[derive(Debug)]
pub struct SchemaPattern {
    pub text: Box<str>,
    /// The compiled pattern, or the error.
    pub regex: Result<Regex, String>,
}

/// One rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default)]
pub struct ValidationRule {
    pub rule: String,
    pub message: String,
    pub message_expression: String,
    pub reason: Option<String>,
    pub field_path: String,
    pub optional_old_self: Option<bool>,
}

/// Supported string formats, without dashes.
#[rustfmt::skip]
const STRING_FORMATS: &[&str] = &[
    "bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4",
    "uuid5", "isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password",
    "date", "duration", "datetime", "k8sshortname", "k8slongname",
];

/// Whether Kubernetes supports this format for this type; an unknown one causes a warning and is ignored.
pub fn is_known_format(ty: &str, format: &str) -> bool {
    match ty {
        "" | "string" => STRING_FORMATS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

impl StructuralSchema {
    /// Parses a `JSONSchemaProps` document.
    pub fn parse(document: &Value) -> Self {
        Self::parse_at_depth(document, 0)
    }

    fn parse_at_depth(document: &Value, depth: usize) -> Self {
        let Some(node) = document.as_object().filter(|_| depth < MAX_DEPTH) else { return Self::default() };
        let text = |key: &str| node.get(key).and_then(Value::as_str).unwrap_or_default();
        let flag = |key: &str| node.get(key).and_then(Value::as_bool).unwrap_or_default();
        let child = |document: &Value| Self::parse_at_depth(document, depth + 1);

        let int_or_string = flag("x-kubernetes-int-or-string");
        let (ty, format) = (text("type"), text("format"));
        let known = !int_or_string && is_known_format(ty, format);
        let properties = node.get("properties").and_then(Value::as_object).into_iter().flatten();
        Self {
            ty: ty.into(),
            format: if known { format.into() } else { Box::default() },
            nullable: flag("nullable"),
            int_or_string,
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            list: match text("x-kubernetes-list-type") {
                "set" => ListType::Set,
                "map" => ListType::Map(strings(node, "x-kubernetes-list-map-keys")),
                _ => ListType::Atomic,
            },
            map_atomic: text("x-kubernetes-map-type") == "atomic",
            properties: properties.map(|(name, schema)| (name.as_str().into(), child(schema))).collect(),
            additional: match node.get("additionalProperties") {
                None | Some(Value::Null) => AdditionalProperties::Unset,
                Some(Value::Bool(allowed)) => AdditionalProperties::Any(*allowed),
                Some(schema) => AdditionalProperties::Schema(Box::new(child(schema))),
            },
            items: node.get("items").filter(|items| items.is_object()).map(|items| Box::new(child(items))),
            default: node.get("default").filter(|default| !default.is_null()).cloned(),
            validations: ValueValidations::parse(node, depth),
            rules: node
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .map(|rules| rules.iter().map(ValidationRule::parse).collect())
                .unwrap_or_default(),
        }
    }

    /// Returns the schema of a field: its property, or that of the map values.
    pub fn child(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            AdditionalProperties::Schema(schema) => Some(schema),
            _ => None,
        })
    }

    /// Whether this or anything below it has a default.
    pub fn has_defaults(&self) -> bool {
        let additional =
            matches!(&self.additional, AdditionalProperties::Schema(schema) if schema.has_defaults());
        self.default.is_some()
            || additional
            || self.items.as_ref().is_some_and(|items| items.has_defaults())
            || self.properties.values().any(Self::has_defaults)
    }

    /// Whether this or anything below it has a rule.
    pub fn has_rules(&self) -> bool {
        let below = match &self.additional {
            AdditionalProperties::Schema(schema) => schema.has_rules(),
            _ => false,
        };
        !self.rules.is_empty()
            || below
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.properties.values().any(Self::has_rules)
    }

    /// Returns the allowed JSON types; empty for any.
    pub fn types(&self) -> &[&str] {
        if self.int_or_string {
            return &["integer", "string"];
        }
        match self.ty.as_ref() {
            "string" => &["string"],
            "integer" => &["integer"],
            "number" => &["number"],
            "boolean" => &["boolean"],
            "array" => &["array"],
            "object" => &["object"],
            _ => &[],
        }
    }
}

impl ValueValidations {
    fn parse(node: &Map<String, Value>, depth: usize) -> Self {
        let number = |key: &str| node.get(key).and_then(Value::as_f64);
        let size = |key: &str| node.get(key).and_then(Value::as_i64);
        let flag = |key: &str| node.get(key).and_then(Value::as_bool).unwrap_or_default();
        let child = |document: &Value| StructuralSchema::parse_at_depth(document, depth + 1);
        let list = |key: &str| -> Vec<StructuralSchema> {
            node.get(key).and_then(Value::as_array).into_iter().flatten().map(child).collect()
        };
        Self {
            maximum: number("maximum"),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: number("minimum"),
            exclusive_minimum: flag("exclusiveMinimum"),
            multiple_of: number("multipleOf"),
            max_length: size("maxLength"),
            min_length: size("minLength"),
            pattern: node
                .get("pattern")
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
                .map(|text| SchemaPattern { text: text.into(), regex: pattern::compile(text) }),
            max_items: size("maxItems"),
            min_items: size("minItems"),
            max_properties: size("maxProperties"),
            min_properties: size("minProperties"),
            unique_items: flag("uniqueItems"),
            required: strings(node, "required"),
            enum_values: node.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
            all_of: list("allOf"),
            any_of: list("anyOf"),
            one_of: list("oneOf"),
            not: node.get("not").filter(|not| not.is_object()).map(|not| Box::new(child(not))),
        }
    }
}

impl ValidationRule {
    fn parse(document: &Value) -> Self {
        let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
        Self {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: document["reason"].as_str().map(ToOwned::to_owned),
            field_path: text("fieldPath"),
            optional_old_self: document["optionalOldSelf"].as_bool(),
        }
    }
}

fn strings(node: &Map<String, Value>, key: &str) -> Vec<Box<str>> {
    let list = node.get(key).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(Into::into).collect()
}
