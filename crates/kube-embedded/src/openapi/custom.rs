//! Schemas of custom resources: that of the CRD with the common fields of objects.

use serde_json::{Map, Value, json};

use super::schemas::{SchemaCollector, reference};
use crate::schema::{builtin, resources::Resource};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
const CONVENTIONS: &str =
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md";

/// Adds a custom kind and its list.
pub fn add_custom_kind(row: &Resource, schema: Value, schemas: &mut SchemaCollector<'_>) {
    let name = published_name(&row.group, &row.version, &row.kind);
    schemas.insert(published_name(&row.group, &row.version, &row.list_kind), list_schema(row, &name));
    schemas.insert(name, object_schema(row, schema));
    for meta in [OBJECT_META, LIST_META] {
        schemas.add_published(builtin::types().by_name(meta));
    }
}

/// The OpenAPI name: `ships.example.com`, `v1`, `Ship` is `com.example.ships.v1.Ship`.
fn published_name(group: &str, version: &str, kind: &str) -> String {
    let domain: Vec<_> = group.rsplit('.').collect();
    format!("{}.{version}.{kind}", domain.join("."))
}

fn object_schema(row: &Resource, mut schema: Value) -> Value {
    expand_extensions(&mut schema);
    let Value::Object(mut schema) = schema else { return object_schema(row, json!({"type": "object"})) };
    let mut properties = match schema.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    };
    properties.extend(common_fields("object's metadata", OBJECT_META, "metadata"));
    schema.insert("type".to_owned(), "object".into());
    schema.insert("properties".to_owned(), Value::Object(properties));
    schema.insert("x-kubernetes-group-version-kind".to_owned(), group_version_kind(row, &row.kind));
    schema.extend(selectable_fields(row));
    Value::Object(schema)
}

fn list_schema(row: &Resource, element: &str) -> Value {
    let mut properties = common_fields("list metadata", LIST_META, "types-kinds");
    properties.insert(
        "items".to_owned(),
        json!({
            "description": format!("List of {}. More info: {CONVENTIONS}", row.name),
            "type": "array",
            "items": reference(element),
        }),
    );
    let mut list = json!({
        "description": format!("{} is a list of {}", row.list_kind, row.kind),
        "type": "object",
        "required": ["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind": group_version_kind(row, &row.list_kind),
    });
    list.as_object_mut().expect("it was made as one").extend(selectable_fields(row));
    list
}

/// The fields that field selectors support.
fn selectable_fields(row: &Resource) -> Option<(String, Value)> {
    let fields = row.custom.iter().flat_map(|custom| custom.selectable_fields());
    let fields: Vec<_> = fields.map(|path| json!({"fieldPath": path})).collect();
    (!fields.is_empty()).then(|| ("x-kubernetes-selectable-fields".to_owned(), fields.into()))
}

fn group_version_kind(row: &Resource, kind: &str) -> Value {
    json!([{"group": row.group, "version": row.version, "kind": kind}])
}

/// `apiVersion`, `kind` and `metadata`, with the descriptions of built-in kinds.
fn common_fields(what: &str, meta: &str, section: &str) -> Map<String, Value> {
    let text = |field| {
        let described = super::descriptions::for_type("io.k8s.api.core.v1.ConfigMap");
        described.and_then(|described| described.fields.get(field)).map(|field| field.text.clone())
    };
    let metadata = format!("Standard {what}. More info: {CONVENTIONS}#{section}");
    let mut fields = Map::new();
    for name in ["apiVersion", "kind"] {
        fields.insert(name.to_owned(), json!({"type": "string", "description": text(name)}));
    }
    fields.insert("metadata".to_owned(), json!({"description": metadata, "allOf": [reference(meta)]}));
    fields
}

/// Expands extensions for clients that know only OpenAPI: int-or-string, embedded resources.
fn expand_extensions(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    let says = |key: &str| fields.get(key) == Some(&Value::Bool(true));
    let (int_or_string, embedded) =
        (says("x-kubernetes-int-or-string"), says("x-kubernetes-embedded-resource"));
    let open =
        fields.get("anyOf").is_none() && fields.get("allOf").is_none_or(|all| all[0]["anyOf"].is_null());
    if int_or_string && open {
        fields.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(key) {
            expand_extensions(inner);
        }
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(expand_extensions);
    }
    if embedded {
        add_embedded_fields(fields);
    }
}

/// Adds the common fields of an embedded resource.
fn add_embedded_fields(fields: &mut Map<String, Value>) {
    if let Some(properties) = fields.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        let version = "apiVersion defines the versioned schema of this representation of an object.";
        let kind = "kind is a string value representing the type of this object. In CamelCase.";
        properties.extend(common_fields("object's metadata", OBJECT_META, "metadata"));
        let mut describe = |field: &str, text: String| properties[field]["description"] = text.into();
        describe("apiVersion", format!("{version} More info: {CONVENTIONS}#resources"));
        describe("kind", format!("{kind} More info: {CONVENTIONS}#types-kinds"));
    }
    if let Some(required) = fields.entry("required").or_insert_with(|| json!([])).as_array_mut() {
        for name in ["kind", "apiVersion"] {
            if !required.iter().any(|known| known == name) {
                required.push(name.into());
            }
        }
    }
}
