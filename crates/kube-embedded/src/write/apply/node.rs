//! Types for server-side apply: scalar, list or map, atomic or granular.
//!
//! Used by [`super::validate`], [`super::merge`], [`super::compare`] and [`super::prune`]. Types that a schema leaves open are deduced from
//! the value: maps are granular, lists atomic.

use serde_json::Value;

use super::element::PathElement;
use crate::schema::types::{Field, List, ListMerge, Shape, TypeRef};

const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A type, or its absence.
#[derive(Clone, Copy)]
pub enum TypeNode<'a> {
    /// `preserves_unknown`: a parent preserves unknown fields, and so does this node.
    Typed { ty: TypeRef<'a>, preserves_unknown: bool },
    /// Deduced from the value.
    Deduced,
    /// One opaque value of any type.
    Opaque,
}

/// The type of a scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ScalarType {
    Numeric,
    String,
    Boolean,
    Any,
}

/// How a node is walked, given its value.
#[derive(Clone, Copy)]
pub enum ValueForm<'a> {
    Scalar(ScalarType),
    /// A list or map that is owned and replaced as a whole.
    AtomicList,
    AtomicMap,
    /// An associative list: elements are identified by value or by keys.
    List(AssociativeList<'a>),
    Map,
}

/// An associative list.
#[derive(Clone, Copy)]
pub struct AssociativeList<'a> {
    pub element: TypeNode<'a>,
    /// Empty for a set.
    keys: &'a [Box<str>],
}

impl<'a> TypeNode<'a> {
    pub fn root(ty: TypeRef<'a>) -> Self {
        Self::Typed { ty, preserves_unknown: false }
    }

    fn child(self, ty: TypeRef<'a>) -> Self {
        let open = match self {
            Self::Typed { preserves_unknown: open, .. } => open,
            Self::Deduced | Self::Opaque => false,
        };
        let preserves = matches!(ty.shape(), Shape::Struct(body) if body.preserve_unknown);
        Self::Typed { ty, preserves_unknown: open || preserves }
    }

    /// Returns the form of `value`. If the schema allows several forms and the value does not decide, it is a map.
    pub fn form(self, value: Option<&Value>) -> ValueForm<'a> {
        match self {
            Self::Typed { ty, .. } => match ty.shape() {
                Shape::String | Shape::Bytes | Shape::Duration => ValueForm::Scalar(ScalarType::String),
                Shape::Int32 | Shape::Int64 | Shape::Double => ValueForm::Scalar(ScalarType::Numeric),
                Shape::Bool => ValueForm::Scalar(ScalarType::Boolean),
                Shape::Time | Shape::MicroTime | Shape::Quantity => ValueForm::Scalar(ScalarType::Any),
                Shape::Any if ty.name() == RAW_EXTENSION => Self::Opaque.form(value),
                Shape::Any | Shape::IntOrString => Self::Deduced.form(value),
                Shape::Struct(body) if body.atomic => ValueForm::AtomicMap,
                Shape::Map(map) if map.atomic => ValueForm::AtomicMap,
                Shape::Struct(_) | Shape::Map(_) => ValueForm::Map,
                Shape::List(list) => self.list_form(ty, list),
            },
            Self::Deduced | Self::Opaque => match value {
                Some(Value::Bool(_) | Value::Number(_) | Value::String(_)) => {
                    ValueForm::Scalar(ScalarType::Any)
                }
                Some(Value::Array(_)) => ValueForm::AtomicList,
                _ if matches!(self, Self::Opaque) => ValueForm::AtomicMap,
                _ => ValueForm::Map,
            },
        }
    }

    fn list_form(self, ty: TypeRef<'a>, list: &'a List) -> ValueForm<'a> {
        let element = self.child(ty.with_id(list.element));
        match &list.merge {
            ListMerge::Atomic => ValueForm::AtomicList,
            ListMerge::Set => ValueForm::List(AssociativeList { element, keys: &[] }),
            ListMerge::Map(keys) => ValueForm::List(AssociativeList { element, keys }),
        }
    }

    /// The declared field `name`, if this is a struct that has it.
    pub fn declared(self, name: &str) -> Option<&'a Field> {
        match self {
            Self::Typed { ty, .. } => ty.field(name),
            Self::Deduced | Self::Opaque => None,
        }
    }

    /// Default of an omitted key field: the declared default, or the zero value if Go always encodes the field.
    fn key_default(self, name: &str) -> Option<Value> {
        let field = self.declared(name)?;
        let always_written = !field.pointer && !field.omitempty;
        field.default.clone().or_else(|| match self.member(name)? {
            Self::Typed { ty, .. } if always_written => match ty.shape() {
                Shape::String => Some("".into()),
                Shape::Int32 | Shape::Int64 => Some(0.into()),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns the member `name` of a map; `None` if the schema does not allow it.
    pub fn member(self, name: &str) -> Option<Self> {
        let Self::Typed { ty, preserves_unknown: open } = self else {
            return Some(self);
        };
        match ty.shape() {
            Shape::Struct(body) => match body.field(name) {
                Some(field) => Some(self.child(ty.with_id(field.ty))),
                None if open || body.preserve_unknown || body.fields.is_empty() => Some(Self::Deduced),
                None => None,
            },
            Shape::Map(map) => Some(self.child(ty.with_id(map.value))),
            Shape::Any if ty.name() == RAW_EXTENSION => Some(Self::Opaque),
            _ => Some(Self::Deduced),
        }
    }

    /// Like [`Self::member`], for values that have been validated.
    pub fn member_or_deduced(self, name: &str) -> Self {
        self.member(name).unwrap_or(Self::Deduced)
    }

    /// Returns the type of list elements.
    pub fn element(self) -> Self {
        match self {
            Self::Typed { ty, .. } => ty.element().map_or(Self::Opaque, |element| self.child(element)),
            Self::Deduced | Self::Opaque => Self::Opaque,
        }
    }

    /// Returns the node behind one element of an owned path, without a value.
    pub fn descend(self, element: &PathElement) -> Option<Self> {
        match (element, self.form(None)) {
            (PathElement::Field(name), ValueForm::Map) => self.member(name),
            (PathElement::Key(_) | PathElement::Value(_), ValueForm::List(list)) => Some(list.element),
            _ => None,
        }
    }

    /// Whether the schema leaves the node entirely open. Such maps were never tracked as one field.
    pub fn is_free_form(self) -> bool {
        match self {
            Self::Deduced => true,
            Self::Opaque => false,
            Self::Typed { ty, .. } => match ty.shape() {
                Shape::Any => ty.name() != RAW_EXTENSION,
                Shape::IntOrString => true,
                Shape::Struct(body) => body.fields.is_empty(),
                _ => false,
            },
        }
    }
}

impl AssociativeList<'_> {
    /// Returns the identity of `item` in this list.
    pub fn identity_of(&self, item: &Value) -> Result<PathElement, String> {
        if self.keys.is_empty() {
            return match item {
                Value::Object(_) => {
                    Err("associative list without keys has an element that's a map type".into())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".into()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".into())
                }
                _ => Ok(PathElement::Value(item.clone())),
            };
        }
        let members = match item {
            Value::Object(members) => members,
            Value::Null => return Err("associative list with keys may not have a null element".into()),
            _ => return Err("associative list with keys may not have non-map elements".into()),
        };
        let mut keys: Vec<(Box<str>, Value)> = Vec::with_capacity(self.keys.len());
        for name in self.keys {
            let default = || self.element.key_default(name);
            if let Some(value) = members.get(name.as_ref()).cloned().or_else(default) {
                keys.push((name.clone(), value));
            }
        }
        if keys.is_empty() {
            let names: Vec<_> = self.keys.iter().map(|name| format!("\"{name}\"")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                names.join(" ")
            ));
        }
        keys.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(PathElement::Key(keys.into()))
    }

    /// Returns all items with their identities.
    pub fn elements<'v>(&self, items: &'v [Value]) -> Result<Vec<(PathElement, &'v Value)>, String> {
        let known = |(i, item)| match self.identity_of(item) {
            Ok(element) => Ok((element, item)),
            Err(why) => Err(format!("element {i}: {why}")),
        };
        items.iter().enumerate().map(known).collect()
    }
}
