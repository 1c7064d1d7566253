//! The OpenAPI v3 schema of a custom kind, as clients fetch it.

use serde_json::{Map, Value, json};

use super::CustomKind;

const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";
const OBJECT_META: &str = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The schema as written, with the fields of every object added.
pub fn of(kind: &CustomKind) -> Value {
    let mut schema = kind.document.clone();
    if !schema.is_object() {
        schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    }
    complete(&mut schema, 0);
    let properties = properties(&mut schema);
    properties.insert(
        "apiVersion".to_owned(),
        json!({"type": "string", "description": format!("APIVersion defines the versioned schema of this representation of an object. Servers should convert recognized schemas to the latest internal value, and may reject unrecognized values. More info: {CONVENTIONS}#resources")}),
    );
    properties.insert(
        "kind".to_owned(),
        json!({"type": "string", "description": format!("Kind is a string value representing the REST resource this object represents. Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In CamelCase. More info: {CONVENTIONS}#types-kinds")}),
    );
    properties.insert("metadata".to_owned(), metadata());
    schema["x-kubernetes-group-version-kind"] =
        json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
    schema
}

fn metadata() -> Value {
    let description = format!("Standard object's metadata. More info: {CONVENTIONS}#metadata");
    json!({"description": description, "allOf": [{"$ref": OBJECT_META}]})
}

fn properties(schema: &mut Value) -> &mut Map<String, Value> {
    let fields = schema.as_object_mut().expect("a schema is an object");
    let properties = fields.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    properties.as_object_mut().expect("just made one")
}

/// Spells out integers-or-strings and embedded resources, which other tools do not know.
fn complete(schema: &mut Value, depth: usize) {
    if depth > super::schema::MAX_DEPTH || !schema.is_object() {
        return;
    }
    if schema["x-kubernetes-int-or-string"] == true
        && schema["anyOf"].is_null()
        && schema["allOf"][0]["anyOf"].is_null()
    {
        schema["anyOf"] = json!([{"type": "integer"}, {"type": "string"}]);
    }
    if let Some(children) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        children.values_mut().for_each(|child| complete(child, depth + 1));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = schema.get_mut(key) {
            complete(child, depth + 1);
        }
    }
    if schema["x-kubernetes-embedded-resource"] == true {
        let properties = properties(schema);
        properties.insert(
            "apiVersion".to_owned(),
            json!({"type": "string", "description": format!("apiVersion defines the versioned schema of this representation of an object. More info: {CONVENTIONS}#resources")}),
        );
        properties.insert(
            "kind".to_owned(),
            json!({"type": "string", "description": format!("kind is a string value representing the type of this object. In CamelCase. More info: {CONVENTIONS}#types-kinds")}),
        );
        properties.insert("metadata".to_owned(), metadata());
        let fields = schema.as_object_mut().expect("a schema is an object");
        let required = fields.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|known| known == name) {
                    required.push(name.into());
                }
            }
        }
    }
}
