//! Pruning and defaulting of objects by their schema.
//!
//! Writes run [`prune`] and then [`default`]; reads of older objects run [`default`] only. `metadata` of the object and of embedded
//! resources has the type `ObjectMeta` regardless of the schema.

use serde_json::{Map, Value};

use super::schema::{AdditionalProperties, StructuralSchema};

#[rustfmt::skip]
const OBJECT_META: &[&str] = &[
    "annotations", "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers",
    "generateName", "generation", "labels", "managedFields", "name", "namespace", "ownerReferences",
    "resourceVersion", "selfLink", "uid",
];
const OWNER_REFERENCE: &[&str] = &["apiVersion", "blockOwnerDeletion", "controller", "kind", "name", "uid"];
#[rustfmt::skip]
const MANAGED_FIELDS: &[&str] = &[
    "apiVersion", "fieldsType", "fieldsV1", "manager", "operation", "subresource", "time",
];

fn is_meta(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Drops unknown fields and nulls that the schema does not allow; returns the paths of the unknown fields.
pub fn prune(object: &mut Value, schema: &StructuralSchema) -> Vec<String> {
    let unknown = drop_unknown(object, schema);
    drop_nulls(object, Some(schema));
    unknown
}

/// Drops unknown fields; returns their paths in the order of Kubernetes: fields of `metadata`, of the body, of embedded metadata.
pub fn drop_unknown(object: &mut Value, schema: &StructuralSchema) -> Vec<String> {
    let mut unknown = Vec::new();
    if let Some(metadata) = object.get_mut("metadata") {
        prune_metadata(metadata, "metadata", &mut unknown);
    }
    let mut body = Vec::new();
    prune_node(object, Some(schema), true, "", &mut body);
    body.sort();
    unknown.append(&mut body);
    let mut embedded = Vec::new();
    prune_embedded(object, Some(schema), "", &mut embedded);
    embedded.sort();
    unknown.append(&mut embedded);
    convert_whole_floats(object);
    unknown
}

/// Whether pruning would drop anything. Defaults must not contain unknown fields.
pub fn has_unknown(value: &Value, schema: &StructuralSchema) -> bool {
    let mut copy = value.clone();
    let mut unknown = Vec::new();
    prune_node(&mut copy, Some(schema), schema.embedded, "", &mut unknown);
    !unknown.is_empty() || copy != *value
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn prune_node(
    value: &mut Value,
    schema: Option<&StructuralSchema>,
    resource: bool,
    path: &str,
    out: &mut Vec<String>,
) {
    let preserves = schema.is_some_and(|schema| schema.preserve_unknown);
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            if resource && is_meta(name) {
                return true;
            }
            let Some(schema) = schema else {
                out.push(join(path, name));
                return false;
            };
            let child = match (&schema.additional, schema.properties.get(name.as_str())) {
                (_, Some(property)) => Some(property),
                (AdditionalProperties::Schema(values), None) => Some(values.as_ref()),
                (AdditionalProperties::Any(_), None) => None,
                (AdditionalProperties::Unset, None) if preserves => return true,
                (AdditionalProperties::Unset, None) => {
                    if !is_meta(name) || !path.is_empty() {
                        out.push(join(path, name));
                    }
                    return false;
                }
            };
            prune_node(value, child, child.is_some_and(|child| child.embedded), &join(path, name), out);
            true
        }),
        Value::Array(items) => {
            let child = schema.and_then(|schema| schema.items.as_deref());
            if child.is_none() && preserves {
                return;
            }
            for (at, item) in items.iter_mut().enumerate() {
                let embedded = child.is_some_and(|child| child.embedded);
                prune_node(item, child, embedded, &format!("{path}[{at}]"), out);
            }
        }
        _ => {}
    }
}

/// Removes nulls of fields that are neither nullable nor have a default.
fn drop_nulls(value: &mut Value, schema: Option<&StructuralSchema>) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let child = schema.and_then(|schema| schema.child(name));
            if value.is_null() && child.is_some_and(|child| !child.nullable && child.default.is_none()) {
                return false;
            }
            drop_nulls(value, child);
            true
        }),
        Value::Array(items) => {
            let child = schema.and_then(|schema| schema.items.as_deref());
            for item in items {
                drop_nulls(item, child);
            }
        }
        _ => {}
    }
}

fn prune_embedded(value: &mut Value, schema: Option<&StructuralSchema>, path: &str, out: &mut Vec<String>) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = join(path, name);
                if schema.embedded && name == "metadata" {
                    prune_metadata(value, &path, out);
                }
                prune_embedded(value, schema.child(name), &path, out);
            }
        }
        Value::Array(items) => {
            for (at, item) in items.iter_mut().enumerate() {
                prune_embedded(item, schema.items.as_deref(), &format!("{path}[{at}]"), out);
            }
        }
        _ => {}
    }
}

fn prune_metadata(metadata: &mut Value, path: &str, out: &mut Vec<String>) {
    let Value::Object(fields) = metadata else { return };
    let keep = |fields: &mut Map<String, Value>, known: &[&str], path: &str, out: &mut Vec<String>| {
        fields.retain(|name, _| {
            let is_known = known.contains(&name.as_str());
            if !is_known {
                out.push(join(path, name));
            }
            is_known
        });
    };
    keep(fields, OBJECT_META, path, out);
    for (list, known) in [("ownerReferences", OWNER_REFERENCE), ("managedFields", MANAGED_FIELDS)] {
        let items = fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        for (at, item) in items.enumerate() {
            if let Value::Object(item) = item {
                keep(item, known, &format!("{path}.{list}[{at}]"), out);
            }
        }
    }
}

/// Converts whole floats to integers: Go encodes `1.0` as `1`.
fn convert_whole_floats(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            if float.fract() == 0.0 && float.abs() < 9.0e18 {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range of i64")]
                let whole = float as i64;
                *value = whole.into();
            }
        }
        Value::Object(fields) => fields.values_mut().for_each(convert_whole_floats),
        Value::Array(items) => items.iter_mut().for_each(convert_whole_floats),
        _ => {}
    }
}

/// Sets defaults, top down; a null in a field that is not nullable is replaced by the default.
pub fn default(value: &mut Value, schema: &StructuralSchema) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &schema.properties {
                let Some(default) = &property.default else { continue };
                match fields.get(name.as_ref()) {
                    None => {}
                    Some(Value::Null) if !property.nullable => {}
                    Some(_) => continue,
                }
                fields.insert(name.to_string(), default.clone());
            }
            for (name, value) in fields.iter_mut() {
                if let Some(child) = schema.child(name) {
                    default_null(value, child);
                    default(value, child);
                }
            }
        }
        Value::Array(items) => {
            let Some(child) = &schema.items else { return };
            for item in items {
                default_null(item, child);
                default(item, child);
            }
        }
        _ => {}
    }
}

fn default_null(value: &mut Value, schema: &StructuralSchema) {
    if let (Value::Null, false, Some(default)) = (&value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nulls_are_dropped_only_by_pruning() {
        let given = json!({"spec": {"m": null, "zz": 1}});
        let (mut kept, mut pruned) = (given.clone(), given);
        assert_eq!(drop_unknown(&mut kept, &schema()), ["spec.zz"]);
        assert_eq!(kept, json!({"spec": {"m": null}}));
        assert_eq!(prune(&mut pruned, &schema()), ["spec.zz"]);
        assert_eq!(pruned, json!({"spec": {}}));
    }

    fn schema() -> StructuralSchema {
        StructuralSchema::parse(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "a": {"type": "string", "default": "x"},
                "n": {"type": "string", "nullable": true, "default": "y"},
                "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {
                    "k": {"type": "integer", "default": 1}}}},
                "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "integer"}}}},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "closed": {"type": "object", "properties": {"k": {"type": "integer"}}}}},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {
                    "spec": {"type": "object"}}},
                "any": {"type": "object", "additionalProperties": true},
            }},
        }}))
    }

    #[test]
    fn unknown_fields_are_dropped_and_reported() {
        let mut object = json!({
            "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a", "labls": {}}, "bogus": 1,
            "spec": {
                "b": 1, "m": {"q": {"k": 1, "z": 2}}, "l": [{"k": 1}, {"z": 1}], "a": null, "n": null,
                "open": {"x": {"y": null}, "closed": {"k": 2.0, "z": 1}},
                "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "x": 1}, "status": {}},
                "any": {"x": {"y": 1}},
            },
        });
        let unknown = prune(&mut object, &schema());
        assert_eq!(
            unknown,
            [
                "metadata.labls",
                "bogus",
                "spec.any.x.y",
                "spec.b",
                "spec.l[1].z",
                "spec.m.q.z",
                "spec.open.closed.z",
                "spec.pod.status",
                "spec.pod.metadata.x"
            ]
        );
        default(&mut object, &schema());
        assert_eq!(
            object,
            json!({
                "apiVersion": "g/v1", "kind": "K", "metadata": {"name": "a"},
                "spec": {
                    "m": {"q": {"k": 1}}, "l": [{"k": 1}, {}], "a": "x", "n": null,
                    "open": {"x": {"y": null}, "closed": {"k": 2}},
                    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
                    "any": {"x": {}},
                },
            })
        );
    }

    #[test]
    fn defaults_apply_inside_maps_and_defaults() {
        let schema = StructuralSchema::parse(&json!({"type": "object", "properties": {"spec": {
            "type": "object", "default": {}, "properties": {
                "a": {"type": "string", "default": "x"},
                "l": {"type": "array", "items": {"type": "integer", "default": 4}}}}}}));
        let mut object = json!({});
        default(&mut object, &schema);
        assert_eq!(object, json!({"spec": {"a": "x"}}));
        let mut object = json!({"spec": {"l": [null, 1]}});
        default(&mut object, &schema);
        assert_eq!(object, json!({"spec": {"a": "x", "l": [4, 1]}}));
    }
}
