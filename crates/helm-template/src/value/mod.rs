//! Values as Go's templates see them.
//!
//! Maps are shared: who changes one changes it for everybody who holds it, as in Go. Lists are not changed in place
//! (no function does), so that sharing them cannot be seen. A value knows its Go type, because templates can ask for
//! it and errors name it.

mod compare;
mod extent;
pub(crate) mod field;
mod free;
mod list;
mod map;
pub(crate) mod moments;
mod object;
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
pub(crate) use map::Trace;
pub use object::{Method, Object, light};
pub use types::{Kind, Type};

/// Text. Counted across threads, because parsed templates are shared between them.
pub type Str = Arc<str>;

#[derive(Clone, Default)]
pub enum Value {
    /// No value at all: what a missing thing becomes once it has passed through a pipeline.
    #[default]
    Nil,
    /// A nil that stands in a place for values of any type: the entry of a map, the element of a list. Asking it for
    /// a field is an error, where asking [`Value::Nil`] is not.
    Null,
    Bool(bool),
    /// Go's `int`: literals in templates, lengths.
    Int(i64),
    Int64(i64),
    /// A byte of a string or of a `[]byte`.
    Uint8(u8),
    Uint64(u64),
    /// Every number that comes from YAML or JSON.
    Float(f64),
    /// Only a literal can be one: `1+2i`.
    Complex(f64, f64),
    String(Str),
    /// A Go string whose bytes are not UTF-8: a binary file, a cut through a character. Never one that is.
    Raw(Arc<[u8]>),
    /// `[]byte`.
    Bytes(Arc<[u8]>),
    List(List),
    Map(Map),
    /// What the host gives: a time, a version, the files of a chart.
    Object(Rc<dyn Object>),
}

impl Value {
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    /// A Go string of these bytes, whatever they are.
    pub fn string_of(bytes: Vec<u8>) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::String(text.into()),
            Err(not) => Self::Raw(not.into_bytes().into()),
        }
    }

    /// Neither form of nil.
    pub fn is_some(&self) -> bool {
        !self.is_nil()
    }

    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Nil | Self::Null)
    }

    /// What is left of it after a pipeline: a nil no longer knows where it stood.
    #[must_use]
    pub fn unboxed(self) -> Self {
        match self {
            Self::Null => Self::Nil,
            other => other,
        }
    }

    /// What it is as the entry of a map or the element of a list.
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

    /// A string, with U+FFFD where its bytes are no character.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        match self {
            Self::String(text) => Some(Cow::Borrowed(text)),
            Self::Raw(bytes) => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        }
    }

    /// The bytes of a string.
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

    /// What `if` thinks of it: nothing, zero and the empty are false.
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

    /// The name of its Go type.
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
