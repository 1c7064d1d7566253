//! Converts the schema of a custom resource to the type model of server-side apply and decoding.

use std::collections::HashMap;

use super::schema::{AdditionalProperties, ListType, StructuralSchema};
use crate::schema::types::{
    Field, List, ListMerge, Mapping, PatchStrategy, Shape, Struct, Type, TypeArena, TypeId,
};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Returns the types of one version of a CRD, and the type of its objects. `builtin` provides `ObjectMeta`.
pub fn from_schema(schema: &StructuralSchema, builtin: &TypeArena) -> (TypeArena, TypeId) {
    let mut build =
        TypeBuilder { types: TypeArena::default(), builtin, copied: HashMap::new(), metadata: None };
    let root = build.resource(schema);
    (build.types, root)
}

struct TypeBuilder<'a> {
    types: TypeArena,
    builtin: &'a TypeArena,
    copied: HashMap<TypeId, TypeId>,
    metadata: Option<TypeId>,
}

impl TypeBuilder<'_> {
    fn add(&mut self, shape: Shape) -> TypeId {
        self.types.add(Type { name: Box::default(), shape })
    }

    fn resource(&mut self, schema: &StructuralSchema) -> TypeId {
        let text = self.add(Shape::String);
        let metadata = self.metadata();
        let mut fields: Vec<Field> =
            ["apiVersion", "kind"].into_iter().map(|name| field(name, text, None)).collect();
        fields.push(field("metadata", metadata, None));
        self.fields(schema, &mut fields);
        self.add(structure(fields, schema))
    }

    fn fields(&mut self, schema: &StructuralSchema, fields: &mut Vec<Field>) {
        for (name, child) in &schema.properties {
            if fields.iter().any(|known| known.name == *name) {
                continue;
            }
            let ty = self.type_of(child);
            let mut member = field(name, ty, Some(child));
            member.required = schema.validations.required.contains(name);
            fields.push(member);
        }
    }

    fn type_of(&mut self, schema: &StructuralSchema) -> TypeId {
        if schema.int_or_string {
            return self.add(Shape::IntOrString);
        }
        let shape = match schema.ty.as_ref() {
            "string" => Shape::String,
            "integer" => Shape::Int64,
            "number" => Shape::Double,
            "boolean" => Shape::Bool,
            "array" => {
                let element = match &schema.items {
                    Some(items) => self.type_of(items),
                    None => self.add(Shape::Any),
                };
                let merge = match &schema.list {
                    ListType::Atomic => ListMerge::Atomic,
                    ListType::Set => ListMerge::Set,
                    ListType::Map(keys) => ListMerge::Map(keys.iter().cloned().collect()),
                };
                Shape::List(List { element, merge })
            }
            "object" if schema.embedded => return self.resource(schema),
            "object" => match &schema.additional {
                AdditionalProperties::Schema(values) => {
                    let value = self.type_of(values);
                    Shape::Map(Mapping { value, atomic: schema.map_atomic })
                }
                AdditionalProperties::Any(true) => {
                    let value = self.add(Shape::Any);
                    Shape::Map(Mapping { value, atomic: schema.map_atomic })
                }
                _ => {
                    let mut fields = Vec::new();
                    self.fields(schema, &mut fields);
                    structure(fields, schema)
                }
            },
            _ => Shape::Any,
        };
        self.add(shape)
    }

    fn metadata(&mut self) -> TypeId {
        if let Some(id) = self.metadata {
            return id;
        }
        let id = match self.builtin.by_name(OBJECT_META) {
            Some(found) => self.copy(found.id()),
            None => self.add(Shape::Any),
        };
        self.metadata = Some(id);
        id
    }

    /// Copies a built-in type with all types that it refers to.
    fn copy(&mut self, id: TypeId) -> TypeId {
        if let Some(&copied) = self.copied.get(&id) {
            return copied;
        }
        let source = self.builtin.get(id);
        let copied = self.types.add(Type { name: source.name().into(), shape: Shape::Any });
        self.copied.insert(id, copied);
        let mut shape = source.shape().clone();
        match &mut shape {
            Shape::Struct(body) => {
                for field in &mut body.fields {
                    field.ty = self.copy(field.ty);
                }
            }
            Shape::Map(map) => map.value = self.copy(map.value),
            Shape::List(list) => list.element = self.copy(list.element),
            _ => {}
        }
        self.types.set(copied, shape);
        copied
    }
}

fn structure(mut fields: Vec<Field>, schema: &StructuralSchema) -> Shape {
    fields.sort_by(|a, b| a.name.cmp(&b.name));
    let preserve_unknown = schema.preserve_unknown;
    Shape::Struct(Struct { fields: fields.into(), atomic: schema.map_atomic, preserve_unknown })
}

fn field(name: &str, ty: TypeId, schema: Option<&StructuralSchema>) -> Field {
    Field {
        name: name.into(),
        ty,
        required: false,
        pointer: true,
        omitempty: true,
        numbers: Box::default(),
        default: schema.and_then(|schema| schema.default.clone()),
        patch: PatchStrategy::default(),
    }
}
