//! Schemas of built-in types, as Kubernetes publishes them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::descriptions::{self, FieldDescription};
use crate::schema::{
    builtin,
    types::{Field, ListMerge, PatchStrategy, Shape, Struct, TypeRef},
};

/// Collects the schemas of one document: each type once, with all referenced types.
pub struct SchemaCollector<'a> {
    group: &'a str,
    version: &'a str,
    schemas: BTreeMap<String, Value>,
}

impl<'a> SchemaCollector<'a> {
    pub fn new(group: &'a str, version: &'a str) -> Self {
        Self { group, version, schemas: BTreeMap::new() }
    }

    pub fn finish(self) -> Map<String, Value> {
        self.schemas.into_iter().collect()
    }

    pub fn insert(&mut self, name: String, schema: Value) {
        self.schemas.insert(name, schema);
    }

    /// As [`SchemaCollector::add`], if Kubernetes publishes the type (not the options of `exec` and the like).
    pub fn add_published(&mut self, ty: Option<TypeRef<'_>>) {
        if let Some(ty) = ty.filter(|ty| descriptions::for_type(ty.name()).is_some()) {
            self.add(ty);
        }
    }

    /// Adds a named type and all types below it.
    pub fn add(&mut self, ty: TypeRef<'_>) {
        match ty.shape() {
            Shape::List(list) => return self.add(ty.with_id(list.element)),
            Shape::Map(map) => return self.add(ty.with_id(map.value)),
            _ if ty.name().is_empty() || self.schemas.contains_key(ty.name()) => return,
            _ => {}
        }
        let mut schema = Map::new();
        if let Some(described) = descriptions::for_type(ty.name()).filter(|described| described.text != "") {
            schema.insert("description".to_owned(), described.text.clone());
        }
        // Inserted before its fields are visited: a type may contain itself.
        self.schemas.insert(ty.name().to_owned(), Value::Null);
        if let Shape::Struct(body) = ty.shape() {
            self.describe(ty, body, &mut schema);
        } else {
            schema.extend(shape_schema(ty.shape()));
            if matches!(ty.shape(), Shape::Any) && ty.name().starts_with("io.k8s.apimachinery.") {
                schema.insert("type".to_owned(), "object".into()); // RawExtension, FieldsV1
            }
        }
        self.schemas.insert(ty.name().to_owned(), Value::Object(schema));
    }

    fn describe(&mut self, ty: TypeRef<'_>, body: &Struct, schema: &mut Map<String, Value>) {
        schema.insert("type".to_owned(), "object".into());
        let described = descriptions::for_type(ty.name());
        let mut properties = Map::new();
        for field in &body.fields {
            let field_type = ty.with_id(field.ty);
            self.add(field_type);
            let text = described.and_then(|described| described.fields.get(&*field.name));
            properties.insert(field.name.to_string(), property_schema(field, field_type, text));
        }
        if !properties.is_empty() {
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        let required: Vec<_> = body.fields.iter().filter(|f| f.required).map(|f| &*f.name).collect();
        if !required.is_empty() {
            schema.insert("required".to_owned(), json!(required));
        }
        if body.atomic {
            schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
        }
        let kinds = self.group_version_kinds(ty);
        if !kinds.is_empty() {
            schema.insert("x-kubernetes-group-version-kind".to_owned(), kinds.into());
        }
    }

    /// A kind of all groups is listed for the core group and for the document's group.
    fn group_version_kinds(&self, ty: TypeRef<'_>) -> Vec<Value> {
        let own = [("", "v1"), (self.group, self.version)];
        let own = if self.group.is_empty() { &own[..1] } else { &own[..] };
        let kind =
            |group: &str, version: &str| json!({"group": group, "version": version, "kind": ty.short_name()});
        let mut kinds = Vec::new();
        for api_version in builtin::versions_of(ty) {
            if &**api_version == "*" {
                kinds.extend(own.iter().map(|(group, version)| kind(group, version)));
            } else {
                let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
                kinds.push(kind(group, version));
            }
        }
        kinds
    }
}

pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn property_schema(field: &Field, ty: TypeRef<'_>, text: Option<&FieldDescription>) -> Value {
    let mut schema = Map::new();
    if let Some(text) = text.filter(|text| text.text != "") {
        schema.insert("description".to_owned(), text.text.clone());
    }
    let values = text.map_or(&Value::Null, |text| &text.enum_values);
    if let Some(default) = default(field, ty) {
        schema.insert("default".to_owned(), default);
    }
    match ty.shape() {
        Shape::Map(_) | Shape::List(_) => {}
        Shape::Struct(body) => {
            let Some(Shape::Struct(usual)) = ty.sibling(ty.short_name()).map(TypeRef::shape) else {
                return reference(ty.name());
            };
            if usual.atomic != body.atomic {
                let merged = if body.atomic { "atomic" } else { "granular" };
                schema.insert("x-kubernetes-map-type".to_owned(), merged.into());
            }
        }
        _ if !values.is_null() => {
            schema.insert("enum".to_owned(), values.clone());
        }
        _ => {}
    }
    // A `$ref` has no siblings; with further fields it becomes an `allOf`.
    if !is_reference(ty) {
        schema.extend(inline_schema(ty, values));
    } else if schema.is_empty() {
        return reference(ty.name());
    } else {
        schema.insert("allOf".to_owned(), json!([reference(ty.name())]));
    }
    let PatchStrategy { merge, retain_keys, replace, .. } = field.patch;
    let strategies = [(merge, "merge"), (retain_keys, "retainKeys"), (replace, "replace")];
    let strategies: Vec<_> = strategies.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    if !strategies.is_empty() {
        schema.insert("x-kubernetes-patch-strategy".to_owned(), strategies.join(",").into());
    }
    if let Some(key) = &field.patch.merge_key {
        schema.insert("x-kubernetes-patch-merge-key".to_owned(), (**key).into());
    }
    Value::Object(schema)
}

/// The default in the schema, or the zero value that Go always writes.
fn default(field: &Field, ty: TypeRef<'_>) -> Option<Value> {
    if field.default.is_some() {
        return field.default.clone();
    }
    if field.pointer || field.omitempty { None } else { zero_default(ty) }
}

fn zero_default(ty: TypeRef<'_>) -> Option<Value> {
    match ty.shape() {
        Shape::String => Some("".into()),
        Shape::Int32 | Shape::Int64 | Shape::Double => Some(0.into()),
        Shape::Bool => Some(false.into()),
        Shape::Struct(_) => Some(json!({})),
        _ => None,
    }
}

/// Named types are referenced; a list has a name only in protobuf.
fn is_reference(ty: TypeRef<'_>) -> bool {
    !ty.name().is_empty() && !matches!(ty.shape(), Shape::List(_))
}

/// The inline schema of an unnamed type.
fn inline_schema(ty: TypeRef<'_>, values: &Value) -> Map<String, Value> {
    let mut schema = shape_schema(ty.shape());
    match ty.shape() {
        Shape::Map(map) => {
            schema.insert("additionalProperties".to_owned(), element_schema(ty.with_id(map.value), values));
            if map.atomic {
                schema.insert("x-kubernetes-map-type".to_owned(), "atomic".into());
            }
        }
        Shape::List(list) => {
            schema.insert("items".to_owned(), element_schema(ty.with_id(list.element), values));
            let merge = match &list.merge {
                ListMerge::Atomic => "atomic",
                ListMerge::Set => "set",
                ListMerge::Map(keys) => {
                    schema.insert("x-kubernetes-list-map-keys".to_owned(), json!(keys));
                    "map"
                }
            };
            schema.insert("x-kubernetes-list-type".to_owned(), merge.into());
        }
        _ => {}
    }
    schema
}

/// The schema of an element of a list or a map.
fn element_schema(ty: TypeRef<'_>, values: &Value) -> Value {
    let mut schema = Map::new();
    if let Some(zero) = zero_default(ty) {
        schema.insert("default".to_owned(), zero);
    }
    if !is_reference(ty) {
        schema.extend(inline_schema(ty, values));
        if !values.is_null() && !matches!(ty.shape(), Shape::Map(_) | Shape::List(_)) {
            schema.insert("enum".to_owned(), values.clone());
        }
    } else if schema.is_empty() {
        return reference(ty.name());
    } else {
        schema.insert("allOf".to_owned(), json!([reference(ty.name())]));
    }
    Value::Object(schema)
}

/// The schema fields of a shape alone.
fn shape_schema(shape: &Shape) -> Map<String, Value> {
    let words = match shape {
        Shape::String | Shape::Duration => json!({"type": "string"}),
        Shape::Int32 => json!({"type": "integer", "format": "int32"}),
        Shape::Int64 => json!({"type": "integer", "format": "int64"}),
        Shape::Double => json!({"type": "number", "format": "double"}),
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Bytes => json!({"type": "string", "format": "byte"}),
        Shape::Time | Shape::MicroTime => json!({"type": "string", "format": "date-time"}),
        Shape::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        Shape::IntOrString => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        Shape::Any => json!({}),
        Shape::Struct(_) | Shape::Map(_) => json!({"type": "object"}),
        Shape::List(_) => json!({"type": "array"}),
    };
    if let Value::Object(words) = words { words } else { Map::new() }
}
