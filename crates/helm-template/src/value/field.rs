//! The fields of Go's structs.

use super::{Str, Value};
use crate::data::{Data, Members};

#[derive(Clone)]
pub struct Field {
    pub name: &'static str,
    pub json: Json,
    pub value: Value,
}

/// How a field is written as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Json {
    Always(&'static str),
    /// Only where it is not empty.
    Filled(&'static str),
    /// Its own fields are written in its place.
    Embedded,
    /// Not for others to see: it is printed, no more.
    Private,
}

/// What JSON shows of a struct, in the order of its fields.
pub(crate) fn members(fields: Vec<Field>) -> Vec<(&'static str, Value)> {
    let mut members = Vec::with_capacity(fields.len());
    for Field { json, value, .. } in fields {
        match json {
            Json::Always(name) => members.push((name, value)),
            Json::Filled(name) if value.is_true() => members.push((name, value)),
            Json::Filled(_) | Json::Private => {}
            Json::Embedded => {
                if let Value::Object(inner) = value {
                    members.extend(self::members(inner.fields()));
                }
            }
        }
    }
    members
}

/// The fields of a struct that others may see, by their own names.
pub(crate) fn visible(fields: Vec<Field>) -> impl Iterator<Item = Field> {
    fields.into_iter().filter(|field| field.json != Json::Private)
}

pub(super) fn data(fields: Vec<Field>) -> Result<Data, Str> {
    let members = members(fields).into_iter();
    let members = members.map(|(name, value)| Data::try_from(&value).map(|data| (name.into(), data)));
    Ok(Data::Map(members.collect::<Result<Members, _>>()?))
}
