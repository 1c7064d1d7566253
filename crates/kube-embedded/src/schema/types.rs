//! The shape of objects: one arena of types, for built-in kinds and custom resources alike.
//!
//! Used wherever objects are traversed by type: decoding and unknown
//! fields, protobuf, normalisation, strategic merge, server-side apply, OpenAPI. Types refer to each
//! other by index, because `JSONSchemaProps` contains itself.
//!
//! Invariants: the fields of a [`Struct`] are sorted by name; an id is valid in its own arena only.

use std::collections::HashMap;

use serde_json::Value;

pub type TypeId = u32;

/// An arena: the types of one custom kind, or of all built-in kinds.
#[derive(Debug, Default)]
pub struct TypeArena {
    types: Vec<Type>,
    names: HashMap<Box<str>, TypeId>,
}

/// A type: its Go name and its shape.
#[derive(Debug, Clone)]
pub struct Type {
    /// The published name: `io.k8s.api.core.v1.PodSpec`, also `io.k8s.apimachinery.pkg.api.resource.Quantity`;
    /// empty for plain scalars, lists and maps. A list with a name is a message of its own in protobuf.
    pub name: Box<str>,
    pub shape: Shape,
}

#[derive(Debug, Clone)]
pub enum Shape {
    String,
    Int32,
    Int64,
    Double,
    Bool,
    /// Base64 in JSON.
    Bytes,
    Time,
    MicroTime,
    /// `metav1.Duration`: a string such as `1h0m0s`.
    Duration,
    Quantity,
    IntOrString,
    /// Any value: `RawExtension`, JSON, and free-form fields of a CRD.
    Any,
    Struct(Struct),
    Map(Mapping),
    List(List),
}

#[derive(Debug, Clone, Default)]
pub struct Struct {
    pub fields: Box<[Field]>,
    /// Server-side apply treats it as one value. Strategic merge uses only [`PatchStrategy`].
    pub atomic: bool,
    /// Unlisted fields are kept (custom resources only).
    pub preserve_unknown: bool,
}

#[derive(Debug, Clone)]
pub struct Mapping {
    pub value: TypeId,
    pub atomic: bool,
}

#[derive(Debug, Clone)]
pub struct List {
    pub element: TypeId,
    pub merge: ListMerge,
}

/// How server-side apply merges a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListMerge {
    Atomic,
    Set,
    /// Elements are identified by these fields.
    Map(Box<[Box<str>]>),
}

/// A field of a struct.
#[derive(Debug, Clone)]
pub struct Field {
    pub name: Box<str>,
    pub ty: TypeId,
    pub required: bool,
    /// Go: a pointer, so that a zero value in protobuf counts as set.
    pub pointer: bool,
    /// Go: omitted from JSON when empty. Fields that are neither pointer nor `omitempty` are always written.
    pub omitempty: bool,
    /// Field numbers from the message down to this field: more than one if Go embeds a struct
    /// (`Volume.volumeSource`). Empty if protobuf has no such field.
    pub numbers: Box<[u32]>,
    /// A default in the schema (`protocol: TCP`).
    pub default: Option<Value>,
    /// Strategic merge patch.
    pub patch: PatchStrategy,
}

/// How strategic merge patch treats a field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PatchStrategy {
    /// `x-kubernetes-patch-strategy` contains `merge`.
    pub merge: bool,
    /// `x-kubernetes-patch-strategy` contains `retainKeys`.
    pub retain_keys: bool,
    /// `x-kubernetes-patch-strategy` is `replace`: a patch replaces the map as a whole.
    pub replace: bool,
    /// `x-kubernetes-patch-merge-key`; a merged list without one is a list of primitives.
    pub merge_key: Option<Box<str>>,
}

impl TypeArena {
    pub fn add(&mut self, ty: Type) -> TypeId {
        let name = ty.name.clone();
        let id = self.add_variant(ty);
        if !name.is_empty() {
            self.names.insert(name, id);
        }
        id
    }

    /// Adds a variant of a named type, which keeps the name: the same struct, merged differently where
    /// a field says so.
    pub fn add_variant(&mut self, ty: Type) -> TypeId {
        let id = TypeId::try_from(self.types.len()).expect("an arena holds fewer than 2^32 types");
        self.types.push(ty);
        id
    }

    /// Replaces a type that was added as a placeholder for a cycle.
    pub fn set(&mut self, id: TypeId, shape: Shape) {
        self.types[id as usize].shape = shape;
    }

    pub fn by_name(&self, name: &str) -> Option<TypeRef<'_>> {
        self.names.get(name).map(|&id| self.get(id))
    }

    pub fn get(&self, id: TypeId) -> TypeRef<'_> {
        TypeRef { types: self, id }
    }

    pub fn len(&self) -> usize {
        self.types.len()
    }

    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }
}

/// A type together with its arena.
#[derive(Clone, Copy)]
pub struct TypeRef<'a> {
    types: &'a TypeArena,
    id: TypeId,
}

impl<'a> TypeRef<'a> {
    pub fn id(self) -> TypeId {
        self.id
    }

    /// `io.k8s.api.core.v1.PodSpec`
    pub fn name(self) -> &'a str {
        &self.types.types[self.id as usize].name
    }

    /// `PodSpec`: the last part of the name, as in Go's messages.
    pub fn short_name(self) -> &'a str {
        let name = self.name();
        name.rsplit('.').next().unwrap_or(name)
    }

    pub fn shape(self) -> &'a Shape {
        &self.types.types[self.id as usize].shape
    }

    /// Another type of the same arena.
    #[must_use]
    pub fn with_id(self, id: TypeId) -> Self {
        Self { types: self.types, id }
    }

    /// The named type of the same package.
    pub fn sibling(self, short_name: &str) -> Option<Self> {
        let (package, _) = self.name().rsplit_once('.')?;
        self.types.by_name(&format!("{package}.{short_name}"))
    }

    /// The field `name`, if this is a struct that has it.
    pub fn field(self, name: &str) -> Option<&'a Field> {
        let Shape::Struct(body) = self.shape() else { return None };
        body.field(name)
    }

    /// The type of a struct's field or of a map's value.
    pub fn child(self, name: &str) -> Option<Self> {
        match self.shape() {
            Shape::Struct(body) => body.field(name).map(|field| self.with_id(field.ty)),
            Shape::Map(map) => Some(self.with_id(map.value)),
            _ => None,
        }
    }

    /// The element type of a list.
    pub fn element(self) -> Option<Self> {
        let Shape::List(list) = self.shape() else { return None };
        Some(self.with_id(list.element))
    }
}

impl Struct {
    pub fn field(&self, name: &str) -> Option<&Field> {
        let at = self.fields.binary_search_by(|field| field.name.as_ref().cmp(name)).ok()?;
        Some(&self.fields[at])
    }
}
