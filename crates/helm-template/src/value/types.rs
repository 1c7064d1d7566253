//! Go types of values and function parameters.

use super::Value;

/// Go's `reflect.Kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Invalid,
    Bool,
    Int,
    Int64,
    Uint8,
    Uint64,
    Float64,
    Complex128,
    String,
    Slice,
    Map,
    Struct,
    /// A pointer to a struct.
    Ptr,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Uint8 => "uint8",
            Self::Uint64 => "uint64",
            Self::Float64 => "float64",
            Self::Complex128 => "complex128",
            Self::String => "string",
            Self::Slice => "slice",
            Self::Map => "map",
            Self::Struct => "struct",
            Self::Ptr => "ptr",
        }
    }
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// `interface {}`: any value.
    Any,
    /// `reflect.Value`: any value, as Go's built-in functions accept it.
    Reflect,
    Bool,
    Int,
    Int64,
    /// Only literals are assigned to it; they arrive as a [`Value::Uint64`].
    Uint32,
    Float64,
    String,
    /// `[]interface {}`.
    List,
    /// `map[string]interface {}` and named types over it.
    Map,
    /// A named map type such as `chartutil.Values`.
    NamedMap(&'static str),
    /// A host type.
    Object(&'static str),
}

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Int64 => "int64",
            Self::Uint32 => "uint32",
            Self::Float64 => "float64",
            Self::String => "string",
            Self::List => "[]interface {}",
            Self::Map => "map[string]interface {}",
            Self::NamedMap(name) | Self::Object(name) => name,
        }
    }

    /// Whether nil can be assigned to the type.
    pub fn accepts_nil(self) -> bool {
        match self {
            Self::Any | Self::Reflect | Self::List | Self::Map | Self::NamedMap(_) => true,
            // Pointers, and the only interface type.
            Self::Object(name) => name.starts_with('*') || name == "io.Writer",
            _ => false,
        }
    }

    /// Whether Go allows assigning the value. A named and an unnamed map type are assignable to each other.
    pub fn accepts(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Any | Self::Reflect, _)
            | (Self::Bool, Value::Bool(_))
            | (Self::Int, Value::Int(_))
            | (Self::Int64, Value::Int64(_))
            | (Self::Float64, Value::Float(_))
            | (Self::String, Value::String(_) | Value::Raw(_)) => true,
            (Self::List, Value::List(list)) => list.is_any(),
            (Self::Map, Value::Map(map)) => map.is_any(),
            (Self::NamedMap(name), Value::Map(map)) => {
                map.is_any() && (!map.is_named() || map.type_name() == name)
            }
            (Self::Object(name), Value::Object(object)) => object.type_name() == name,
            _ => false,
        }
    }
}
