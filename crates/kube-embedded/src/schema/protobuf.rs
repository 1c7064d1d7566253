//! Decodes Kubernetes protobuf bodies to JSON values, by the field numbers of the type table.
//!
//! Some clients (typed kubectl commands, Helm's release records) send only protobuf and do not fall back to
//! JSON. The result is the JSON that Go would write for the same object: zero values of plain `omitempty`
//! fields are omitted, pointers and always-written fields are kept.
//!
//! Invariant: any input results in a value or an error, within a bounded depth.

use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::{
    builtin,
    types::{Field, List, Shape, Struct, TypeRef},
    wire::{Wire, packed, records},
};

const MAGIC: &[u8] = b"k8s\0";

/// Maximum nesting of messages: as deep as JSON, and far beyond any real object.
const DEEPEST: usize = 120;

/// Decodes a body: the envelope with the kind, and the message in it.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    object(body, 0)
}

fn object(body: &[u8], depth: usize) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for record in records(envelope) {
        match record? {
            (1, Wire::Bytes(type_meta)) => {
                for record in records(type_meta) {
                    match record? {
                        (1, wire) => api_version = text(bytes(wire)?),
                        (2, wire) => kind = text(bytes(wire)?),
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(message)) => raw = message,
            (3, Wire::Bytes(encoding)) if !encoding.is_empty() => {
                return Err(format!("content encoding {:?} is not supported", text(encoding)));
            }
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let ty = builtin::type_of(group, version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = message(ty, raw, depth)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// Decodes a message of struct type.
fn message(ty: TypeRef<'_>, raw: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    let mut object = Map::new();
    if let Shape::Struct(body) = ty.shape() {
        fields(ty, body, &mut Vec::new(), raw, depth, &mut object)?;
    }
    Ok(object)
}

/// Decodes the fields of a message, or of one embedded in it at `path`, whose fields belong to the same object.
fn fields(
    ty: TypeRef<'_>,
    body: &Struct,
    path: &mut Vec<u32>,
    raw: &[u8],
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("exceeded max depth of {DEEPEST} messages"));
    }
    for record in records(raw) {
        let (number, wire) = record?;
        path.push(number);
        if let Some(field) = body.fields.iter().find(|field| field.numbers.starts_with(path)) {
            if field.numbers.len() == path.len() {
                put(field, ty.follow(field.ty), wire, depth, into)?;
            } else {
                fields(ty, body, path, bytes(wire)?, depth + 1, into)?;
            }
        }
        path.pop();
    }
    Ok(())
}

/// Adds a record to its field.
fn put(
    field: &Field,
    ty: TypeRef<'_>,
    wire: Wire<'_>,
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    match ty.shape() {
        Shape::List(list) if ty.name().is_empty() => {
            let values = into.entry(&*field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(values) = values {
                elements(ty, list, wire, depth, values)?;
            }
        }
        Shape::Map(map) => {
            let (key, value) = entry(ty.follow(map.value), bytes(wire)?, depth)?;
            let entries = into.entry(&*field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = entries {
                entries.insert(key, value);
            }
        }
        _ => {
            let value = single(ty, wire, depth)?;
            if field.pointer || !field.omitempty || !is_zero(&value) {
                into.insert(field.name.to_string(), value);
            }
        }
    }
    Ok(())
}

/// Adds a record of a repeated field: an element, or many packed numbers.
fn elements(
    ty: TypeRef<'_>,
    list: &List,
    wire: Wire<'_>,
    depth: usize,
    into: &mut Vec<Value>,
) -> Result<(), String> {
    let element = ty.follow(list.element);
    match (element.shape(), wire) {
        (Shape::Int32 | Shape::Int64 | Shape::Bool, Wire::Bytes(many)) => {
            for number in packed(many)? {
                into.push(single(element, Wire::Varint(number), depth)?);
            }
        }
        _ => into.push(single(element, wire, depth)?),
    }
    Ok(())
}

/// Decodes a map entry: maps are repeated messages of key and value.
fn entry(ty: TypeRef<'_>, raw: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), None);
    for record in records(raw) {
        match record? {
            (1, wire) => key = text(bytes(wire)?),
            (2, wire) => value = Some(single(ty, wire, depth)?),
            _ => {}
        }
    }
    // A missing value is an empty one; all value types of maps are bytes on the wire.
    let value = value.map_or_else(|| single(ty, Wire::Bytes(&[]), depth), Ok)?;
    Ok((key, value))
}

/// Decodes a value from one record.
fn single(ty: TypeRef<'_>, wire: Wire<'_>, depth: usize) -> Result<Value, String> {
    Ok(match ty.shape() {
        Shape::String => text(bytes(wire)?).into(),
        Shape::Bytes => BASE64_STANDARD.encode(bytes(wire)?).into(),
        Shape::Bool => (varint(wire)? != 0).into(),
        Shape::Int32 => int32(varint(wire)?).into(),
        Shape::Int64 => varint(wire)?.cast_signed().into(),
        Shape::Double => double(wire)?,
        Shape::Time => time(bytes(wire)?, 0)?,
        Shape::MicroTime => time(bytes(wire)?, 6)?,
        Shape::Quantity => quantity(bytes(wire)?)?,
        Shape::IntOrString => int_or_string(bytes(wire)?)?,
        Shape::Struct(_) => Value::Object(message(ty, bytes(wire)?, depth + 1)?),
        Shape::Any => any(ty, bytes(wire)?, depth + 1)?,
        Shape::List(list) => {
            let mut values = Vec::new();
            for record in records(bytes(wire)?) {
                if let (1, wire) = record? {
                    elements(ty, list, wire, depth + 1, &mut values)?;
                }
            }
            Value::Array(values)
        }
        Shape::Duration | Shape::Map(_) => return Err("is not a protobuf field by itself".to_owned()),
    })
}

/// Types with free-form JSON: raw JSON, or one of the alternatives in a CRD's schema.
fn any(ty: TypeRef<'_>, raw: &[u8], depth: usize) -> Result<Value, String> {
    let schema = || ty.sibling("JSONSchemaProps").ok_or("is not a protobuf field");
    let alternatives = ty.short_name().strip_prefix("JSONSchemaPropsOr");
    let mut value = Value::Null;
    let mut list = Vec::new();
    for record in records(raw) {
        let (number, wire) = record?;
        match (alternatives, number) {
            (None, 1) => value = embedded(bytes(wire)?, depth)?,
            (Some("Bool"), 1) if !value.is_object() => value = (varint(wire)? != 0).into(),
            (Some("Bool"), 2) | (Some("Array" | "StringArray"), 1) => value = single(schema()?, wire, depth)?,
            (Some("Array"), 2) => list.push(single(schema()?, wire, depth)?),
            (Some("StringArray"), 2) => list.push(text(bytes(wire)?).into()),
            _ => {}
        }
    }
    Ok(if list.is_empty() { value } else { Value::Array(list) })
}

/// Raw bytes inside an object: JSON, or an envelope.
fn embedded(raw: &[u8], depth: usize) -> Result<Value, String> {
    if depth > DEEPEST {
        return Err(format!("exceeded max depth of {DEEPEST} messages"));
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    if raw.starts_with(MAGIC) {
        return object(raw, depth + 1);
    }
    serde_json::from_slice(raw).map_err(|error| error.to_string())
}

/// Seconds and nanoseconds; an empty message is null.
fn time(raw: &[u8], digits: usize) -> Result<Value, String> {
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0, 0);
    for record in records(raw) {
        match record? {
            (1, wire) => seconds = varint(wire)?.cast_signed(),
            (2, wire) => nanos = int32(varint(wire)?),
            _ => {}
        }
    }
    if digits == 0 {
        nanos = 0;
    }
    let time = Timestamp::new(seconds, nanos).map_err(|error| error.to_string())?;
    Ok(format!("{time:.digits$}").into())
}

fn quantity(raw: &[u8]) -> Result<Value, String> {
    let mut value = "0".to_owned();
    for record in records(raw) {
        if let (1, wire) = record? {
            value = text(bytes(wire)?);
        }
    }
    Ok(value.into())
}

fn int_or_string(raw: &[u8]) -> Result<Value, String> {
    let (mut is_string, mut number, mut string) = (false, 0, String::new());
    for record in records(raw) {
        match record? {
            (1, wire) => is_string = varint(wire)? != 0,
            (2, wire) => number = int32(varint(wire)?),
            (3, wire) => string = text(bytes(wire)?),
            _ => {}
        }
    }
    Ok(if is_string { string.into() } else { number.into() })
}

/// Go formats a whole number without a decimal point, so it becomes an integer.
fn double(wire: Wire<'_>) -> Result<Value, String> {
    let Wire::Fixed64(bits) = wire else { return Err(wrong(wire)) };
    let value = f64::from_bits(bits);
    let number = Number::from_f64(value).ok_or_else(|| format!("{value} is no JSON number"))?;
    let whole = value.fract() == 0.0 && value.abs() < 1e15;
    Ok(if whole {
        serde_json::from_str(&format!("{value:.0}")).unwrap_or(Value::Number(number))
    } else {
        number.into()
    })
}

/// Whether Go's `omitempty` and `omitzero` omit a value.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn bytes(wire: Wire<'_>) -> Result<&[u8], String> {
    if let Wire::Bytes(bytes) = wire { Ok(bytes) } else { Err(wrong(wire)) }
}

fn varint(wire: Wire<'_>) -> Result<u64, String> {
    if let Wire::Varint(value) = wire { Ok(value) } else { Err(wrong(wire)) }
}

/// Negative numbers have 64 bits on the wire; the low half counts.
fn int32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wrong(wire: Wire<'_>) -> String {
    let found = match wire {
        Wire::Varint(_) => 0,
        Wire::Fixed64(_) => 1,
        Wire::Bytes(_) => 2,
        Wire::Fixed32(_) => 5,
    };
    format!("proto: wrong wireType = {found}")
}

#[cfg(test)]
mod tests;
