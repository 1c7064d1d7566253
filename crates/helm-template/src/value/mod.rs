//! Template values with the semantics of Go values.
//!
//! Maps are shared: a change through one holder is visible to all holders, as in Go. No function changes a list in place, so
//! sharing of lists is not observable. A value knows its Go type, because templates can inspect it and error messages name it.

mod compare;
mod extent;
pub(crate) mod field;
mod iterative_drop;
mod list;
mod map;
mod object;
pub(crate) mod time;
mod types;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

pub use compare::deep_equal;
pub(crate) use compare::deep_equal_counted;
pub(crate) use extent::MAX_PRINTED;
pub use field::{Field, Json};
pub use list::{List, ListMethod, NamedList};
pub use map::Map;
pub(crate) use map::WeakMap;
pub use object::{Method, Object, negligible_cost};
pub use types::{Kind, Type};

/// Shared text. The reference count is atomic, because parsed templates are shared between threads.
pub type Str = Arc<str>;

/// A Go value, as templates see it.
#[derive(Clone, Default)]
pub enum Value {
    /// No value: the result of a pipeline for a missing value.
    #[default]
    Nil,
    /// A nil in an `interface {}` location, such as a map entry or list element. Field access on it is an error; on [`Value::Nil`] it
    /// is not.
    Null,
    Bool(bool),
    /// Go's `int`: integer literals, lengths.
    Int(i64),
    Int64(i64),
    /// A byte of a string or of a `[]byte`.
    Uint8(u8),
    Uint64(u64),
    /// Go's `float64`: every number from YAML or JSON.
    Float(f64),
    /// Only from literals such as `1+2i`.
    Complex(f64, f64),
    String(Str),
    /// A Go string that is not valid UTF-8, such as a binary file or a cut character. Invariant: never valid UTF-8.
    Raw(Arc<[u8]>),
    /// `[]byte`.
    Bytes(Arc<[u8]>),
    List(List),
    Map(Map),
    /// A value of a host type: a time, a version, the files of a chart.
    Object(Rc<dyn Object>),
}

impl Value {
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// A Go string of arbitrary bytes.
    pub fn string_from_bytes(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::String(text.into()),
            Err(not) => Self::Raw(not.into_bytes().into()),
        }
    }

    /// Whether the value is neither form of nil.
    pub fn is_some(&self) -> bool {
        !self.is_nil()
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil | Self::Null)
    }

    /// The value after a pipeline: a nil loses its interface type.
    #[must_use]
    pub fn unboxed(self) -> Self {
        match self {
            Self::Null => Self::Nil,
            other => other,
        }
    }

    /// The value as a map entry or list element.
    #[must_use]
    pub fn boxed(self) -> Self {
        match self {
            Self::Nil => Self::Null,
            other => other,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The string, with U+FFFD for invalid UTF-8; `None` for other types.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(text) => Some(Cow::Borrowed(text)),
            Self::Raw(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }

    /// The bytes of the string; `None` for other types.
    pub fn string_bytes(&self) -> Option<&[u8]> {
        match self {
            Self::String(text) => Some(text.as_bytes()),
            Self::Raw(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map> {
        match self {
            Self::Map(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&List> {
        match self {
            Self::List(list) => Some(list),
            _ => None,
        }
    }

    /// Truth as in `if`: nil, zero and empty values are false.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Nil | Self::Null => false,
            Self::Bool(truth) => *truth,
            Self::Int(n) | Self::Int64(n) => *n != 0,
            Self::Uint8(n) => *n != 0,
            Self::Uint64(n) => *n != 0,
            Self::Float(n) => *n != 0.0,
            Self::Complex(re, im) => *re != 0.0 || *im != 0.0,
            Self::String(text) => !text.is_empty(),
            Self::Raw(bytes) | Self::Bytes(bytes) => !bytes.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Object(object) => object.is_true(),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Self::Nil | Self::Null => Kind::Invalid,
            Self::Bool(_) => Kind::Bool,
            Self::Int(_) => Kind::Int,
            Self::Int64(_) => Kind::Int64,
            Self::Uint8(_) => Kind::Uint8,
            Self::Uint64(_) => Kind::Uint64,
            Self::Float(_) => Kind::Float64,
            Self::Complex(..) => Kind::Complex128,
            Self::String(_) | Self::Raw(_) => Kind::String,
            Self::Bytes(_) | Self::List(_) => Kind::Slice,
            Self::Map(_) => Kind::Map,
            Self::Object(object) => object.kind(),
        }
    }

    /// The name of the Go type.
    pub fn type_name(&self) -> &str {
        match self {
            Self::Nil | Self::Null => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Int64(_) => "int64",
            Self::Uint8(_) => "uint8",
            Self::Uint64(_) => "uint64",
            Self::Float(_) => "float64",
            Self::Complex(..) => "complex128",
            Self::String(_) | Self::Raw(_) => "string",
            Self::Bytes(_) => "[]uint8",
            Self::List(list) => list.type_name(),
            Self::Map(map) => map.type_name(),
            Self::Object(object) => object.type_name(),
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<List> for Value {
    fn from(list: List) -> Self {
        Self::List(list)
    }
}
