//! Fields of Go structs.

use super::{Str, Value};
use crate::data::{Data, Members};

/// A field of a Go struct.
#[derive(Clone)]
pub struct Field {
    pub name: &'static str,
    pub json: Json,
    pub value: Value,
}

/// The JSON encoding of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Json {
    Always(&'static str),
    /// Omitted if empty.
    OmitEmpty(&'static str),
    /// Replaced by its own fields.
    Embedded,
    /// Unexported: printed, but not encoded.
    Private,
}

/// The JSON members of a struct, in the order of its fields.
pub(crate) fn members(fields: Vec<Field>) -> Vec<(&'static str, Value)> {
    let mut members = Vec::with_capacity(fields.len());
    for Field { json, value, .. } in fields {
        match json {
            Json::Always(name) => members.push((name, value)),
            Json::OmitEmpty(name) if value.is_true() => members.push((name, value)),
            Json::OmitEmpty(_) | Json::Private => {}
            Json::Embedded => {
                if let Value::Object(inner) = value {
                    members.extend(self::members(inner.fields()));
                }
            }
        }
    }
    members
}

/// The exported fields of a struct, by their Go names.
pub(crate) fn visible(fields: Vec<Field>) -> impl Iterator<Item = Field> {
    fields.into_iter().filter(|field| field.json != Json::Private)
}

pub(super) fn data(fields: Vec<Field>) -> Result<Data, Str> {
    let members = members(fields).into_iter();
    let members = members.map(|(name, value)| Data::try_from(&value).map(|data| (name.into(), data)));
    Ok(Data::Map(members.collect::<Result<Members, _>>()?))
}
