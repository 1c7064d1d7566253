//! Plain data: the value model of YAML, JSON and TOML.
//!
//! Unlike a [`Value`], `Data` is owned, `Send`, and has no Go types apart from the number types. The values of a chart are stored
//! as data and converted to [`Value`] for each rendering.

use std::collections::BTreeMap;

use crate::value::{List, Map, Str, Value};

/// The members of an object, by key.
pub type Members = BTreeMap<Str, Data>;

/// An owned value of the JSON data model.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Data {
    #[default]
    Null,
    Bool(bool),
    /// An integer from `--set`. All numbers from YAML and JSON are [`Data::Float`].
    Int(i64),
    Float(f64),
    String(Str),
    List(Vec<Data>),
    Map(Members),
}

impl Data {
    pub fn string(text: impl Into<Str>) -> Self {
        Self::String(text.into())
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&[Data]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Members> {
        match self {
            Self::Map(members) => Some(members),
            _ => None,
        }
    }

    pub fn as_map_mut(&mut self) -> Option<&mut Members> {
        match self {
            Self::Map(members) => Some(members),
            _ => None,
        }
    }

    /// A member of a map; `None` for any other value.
    pub fn get(&self, key: &str) -> Option<&Data> {
        self.as_map()?.get(key)
    }
}

impl From<&Data> for Value {
    fn from(data: &Data) -> Self {
        match data {
            Data::Null => Self::Null,
            Data::Bool(truth) => Self::Bool(*truth),
            Data::Int(n) => Self::Int64(*n),
            Data::Float(n) => Self::Float(*n),
            Data::String(text) => Self::String(text.clone()),
            Data::List(items) => List::any(items.iter().map(Value::from)).into(),
            Data::Map(members) => {
                Map::sorted(members.iter().map(|(key, value)| (key.clone(), value.into())).collect()).into()
            }
        }
    }
}

impl TryFrom<&Value> for Data {
    type Error = Str;

    /// Converts as Go's `encoding/json` does. Values without a JSON form fail with Go's error message.
    fn try_from(value: &Value) -> Result<Self, Str> {
        Self::from_nested(value, 0)
    }
}

/// Maximum nesting of values that are converted to data. Parsed values are far shallower.
const MAX_DEPTH: usize = 1_000;

impl Data {
    fn from_nested(value: &Value, depth: usize) -> Result<Self, Str> {
        if depth > MAX_DEPTH {
            return Err(format!("the value is nested more than {MAX_DEPTH} deep").into());
        }
        Ok(match value {
            Value::Nil | Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(n) | Value::Int64(n) => Self::Int(*n),
            Value::Uint8(n) => Self::Int(i64::from(*n)),
            #[expect(clippy::cast_precision_loss, reason = "beyond an i64 there is only the float")]
            Value::Uint64(n) => i64::try_from(*n).map_or(Self::Float(*n as f64), Self::Int),
            Value::Float(n) if n.is_finite() => Self::Float(*n),
            Value::Float(_) => {
                return Err(format!("json: unsupported value: {}", crate::go::print(value)).into());
            }
            Value::Complex(..) => return Err("json: unsupported type: complex128".into()),
            Value::String(text) => Self::String(text.clone()),
            Value::Raw(bytes) => Self::string(String::from_utf8_lossy(bytes)),
            Value::Bytes(bytes) => Self::string(crate::go::base64(bytes)),
            Value::List(items) if items.is_nil() => Self::Null,
            Value::List(items) => Self::List(
                items.iter().map(|item| Self::from_nested(item, depth + 1)).collect::<Result<_, _>>()?,
            ),
            Value::Map(map) if map.is_nil() => Self::Null,
            Value::Map(map) => {
                let mut members = Members::new();
                for (key, value) in map.entries().iter() {
                    members.insert(key.clone(), Self::from_nested(value, depth + 1)?);
                }
                Self::Map(members)
            }
            Value::Object(object) => object.data()?,
        })
    }
}
