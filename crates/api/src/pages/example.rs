//! Example values of the schemas of the OpenAPI document, for [`super::docs`].

use serde_json::{Map, Value, json};

/// Levels of nested objects in an example; deeper ones are empty.
const MAX_DEPTH: usize = 6;
const TIME: &str = "2026-01-02T03:04:05Z";

/// Texts by the name of their field.
#[rustfmt::skip]
const TEXTS: &[(&str, &str)] = &[
    ("account",      "ana@example.com"),
    ("at",           TIME),
    ("chart",        "web"),
    ("cluster",      "host"),
    ("created",      TIME),
    ("displayName",  "Acme Inc."),
    ("email",        "ana@example.com"),
    ("expires",      TIME),
    ("id",           "uaaaaaaaaaa"),
    ("login",        "ana@example.com"),
    ("mobilephone",  "18300000000"),
    ("name",         "web"),
    ("namespace",    "acme"),
    ("node",         "edge-1"),
    ("oci",          "oci://registry.example.com/web"),
    ("operation",    "install"),
    ("organization", "Acme"),
    ("package",      "pkg-aaaaaaaaaaaaaaaaaaaa"),
    ("phone",        "18300000000"),
    ("pool",         "hangzhou"),
    ("release",      "web"),
    ("repo",         "charts"),
    ("role",         "developer"),
    ("since",        TIME),
    ("time",         TIME),
    ("timeout",      "10m"),
    ("to",           "ben@example.com"),
    ("until",        TIME),
    ("updated",      TIME),
    ("url",          "https://charts.example.com"),
    ("user",         "uaaaaaaaaaa"),
    ("version",      "1.0.0"),
    ("workspace",    "acme"),
];

/// Examples of schemas whose fields exclude each other: name, JSON.
pub const SCHEMAS: &[(&str, &str)] =
    &[("ChartSource", r#"{"repo": "charts", "name": "web", "version": "1.0.0"}"#)];

/// The text of a field or path parameter of this name.
pub fn text(name: &str) -> &'static str {
    TEXTS.iter().find(|(known, _)| *known == name).map_or("text", |(_, text)| text)
}

/// Examples of one document's schemas.
#[derive(Clone, Copy)]
pub struct Examples<'a> {
    /// `components.schemas` of the document.
    pub schemas: &'a Value,
    /// Whether optional fields are left out.
    pub required_only: bool,
}

impl Examples<'_> {
    /// An example of a schema.
    pub fn of(self, schema: &Value) -> Value {
        let example = self.value(schema, "", 0);
        if !self.required_only || example != json!({}) {
            return example;
        }
        // The body of a change has no required fields: one of them shows its form.
        let full = Self { required_only: false, ..self }.value(schema, "", 0);
        let first = full.as_object().into_iter().flatten().take(1);
        first.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>().into()
    }

    fn value(self, schema: &Value, name: &str, depth: usize) -> Value {
        if let Some(target) = schema["$ref"].as_str() {
            let target = target.rsplit('/').next().unwrap_or_default();
            if let Some((_, json)) = SCHEMAS.iter().find(|(name, _)| *name == target) {
                return serde_json::from_str(json).expect("examples are JSON");
            }
            return if depth < MAX_DEPTH {
                self.value(&self.schemas[target], name, depth)
            } else {
                json!({})
            };
        }
        if let Some(value) = schema.get("const").or_else(|| schema["enum"].get(0)) {
            return value.clone();
        }
        if let Some(value) = schema.get("default").filter(|value| !is_empty(value)) {
            return value.clone();
        }
        let mut alternatives =
            ["anyOf", "oneOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
        if let Some(first) = alternatives.find(|one| one["type"] != "null") {
            return self.value(first, name, depth);
        }
        match type_names(schema).find(|kind| *kind != "null") {
            Some("object") => self.object(schema, depth),
            Some("array") => json!([self.value(&schema["items"], name, depth.saturating_add(1))]),
            Some("string") if schema["format"] == "date-time" => json!(TIME),
            Some("string") => json!(text(name)),
            Some("integer" | "number") => {
                schema["minimum"].as_i64().filter(|least| *least > 0).unwrap_or(1).into()
            }
            Some("boolean") => json!(true),
            _ => json!({}),
        }
    }

    fn object(self, schema: &Value, depth: usize) -> Value {
        let deeper = depth.saturating_add(1);
        let mut fields = Map::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            if deeper < MAX_DEPTH && (!self.required_only || is_required(schema, name)) {
                fields.insert(name.clone(), self.value(field, name, deeper));
            }
        }
        if deeper < MAX_DEPTH && schema["additionalProperties"].is_object() && !self.required_only {
            fields.insert("name".to_owned(), self.value(&schema["additionalProperties"], "", deeper));
        }
        fields.into()
    }
}

/// Whether a field of an object is required.
pub fn is_required(schema: &Value, name: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|field| field == name))
}

/// The types of a schema: one, several, or none if every value fits.
pub fn type_names(schema: &Value) -> impl Iterator<Item = &str> {
    let one = schema["type"].as_str();
    let several = schema["type"].as_array().into_iter().flatten().filter_map(Value::as_str);
    one.into_iter().chain(several)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_has_the_types_of_its_schema_and_ends() {
        let schemas = json!({
            "Node": {"type": "object", "required": ["email"], "properties": {
                "email": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
                "mode": {"oneOf": [{"const": "fast"}, {"const": "slow"}]},
                "next": {"anyOf": [{"type": "null"}, {"$ref": "#/components/schemas/Node"}]},
                "size": {"type": ["integer", "null"], "minimum": 3},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            }},
        });
        let node = json!({"$ref": "#/components/schemas/Node"});
        let full = Examples { schemas: &schemas, required_only: false }.of(&node);
        assert_eq!(
            (&full["email"], &full["mode"], &full["size"]),
            (&json!("ana@example.com"), &json!("fast"), &json!(3))
        );
        assert_eq!(
            (&full["labels"], &full["next"]["next"]["mode"]),
            (&json!({"name": "text"}), &json!("fast"))
        );
        assert!(full["children"][0].is_object());
        let short = Examples { schemas: &schemas, required_only: true }.of(&node);
        assert_eq!(short, json!({"email": "ana@example.com"}));
        let change = json!({"type": "object", "properties": {"phone": {"type": "string"}}});
        let one = Examples { schemas: &schemas, required_only: true }.of(&change);
        assert_eq!(one, json!({"phone": "18300000000"}));
    }
}
