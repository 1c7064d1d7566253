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
    wire::{WireValue, packed, records},
};

const MAGIC: &[u8] = b"k8s\0";

/// Maximum nesting of messages: as deep as JSON, and far beyond any real object.
const MAX_MESSAGE_DEPTH: usize = 120;

/// Decodes a body: the envelope with the kind, and the message in it.
pub fn decode(body: &[u8]) -> Result<Value, String> {
    decode_object(body, 0)
}

fn decode_object(body: &[u8], depth: usize) -> Result<Value, String> {
    let envelope = body
        .strip_prefix(MAGIC)
        .ok_or("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    for record in records(envelope) {
        match record? {
            (1, WireValue::Bytes(type_meta)) => {
                for record in records(type_meta) {
                    match record? {
                        (1, wire) => api_version = lossy_text(bytes(wire)?),
                        (2, wire) => kind = lossy_text(bytes(wire)?),
                        _ => {}
                    }
                }
            }
            (2, WireValue::Bytes(message)) => raw = message,
            (3, WireValue::Bytes(encoding)) if !encoding.is_empty() => {
                return Err(format!("content encoding {:?} is not supported", lossy_text(encoding)));
            }
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let ty = builtin::type_of(group, version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = decode_message(ty, raw, depth)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// Decodes a message of struct type.
fn decode_message(ty: TypeRef<'_>, raw: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    let mut object = Map::new();
    if let Shape::Struct(body) = ty.shape() {
        decode_fields(ty, body, &mut Vec::new(), raw, depth, &mut object)?;
    }
    Ok(object)
}

/// Decodes the fields of a message, or of one embedded in it at `path`, whose fields belong to the same object.
fn decode_fields(
    ty: TypeRef<'_>,
    body: &Struct,
    path: &mut Vec<u32>,
    raw: &[u8],
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    if depth > MAX_MESSAGE_DEPTH {
        return Err(format!("exceeded max depth of {MAX_MESSAGE_DEPTH} messages"));
    }
    for record in records(raw) {
        let (number, wire) = record?;
        path.push(number);
        if let Some(field) = body.fields.iter().find(|field| field.numbers.starts_with(path)) {
            if field.numbers.len() == path.len() {
                decode_record(field, ty.with_id(field.ty), wire, depth, into)?;
            } else {
                decode_fields(ty, body, path, bytes(wire)?, depth + 1, into)?;
            }
        }
        path.pop();
    }
    Ok(())
}

/// Adds a record to its field.
fn decode_record(
    field: &Field,
    ty: TypeRef<'_>,
    wire: WireValue<'_>,
    depth: usize,
    into: &mut Map<String, Value>,
) -> Result<(), String> {
    match ty.shape() {
        Shape::List(list) if ty.name().is_empty() => {
            let values = into.entry(&*field.name).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(values) = values {
                decode_elements(ty, list, wire, depth, values)?;
            }
        }
        Shape::Map(map) => {
            let (key, value) = decode_map_entry(ty.with_id(map.value), bytes(wire)?, depth)?;
            let entries = into.entry(&*field.name).or_insert_with(|| Value::Object(Map::new()));
            if let Value::Object(entries) = entries {
                entries.insert(key, value);
            }
        }
        _ => {
            let value = decode_value(ty, wire, depth)?;
            if field.pointer || !field.omitempty || !is_zero(&value) {
                into.insert(field.name.to_string(), value);
            }
        }
    }
    Ok(())
}

/// Adds a record of a repeated field: an element, or many packed numbers.
fn decode_elements(
    ty: TypeRef<'_>,
    list: &List,
    wire: WireValue<'_>,
    depth: usize,
    into: &mut Vec<Value>,
) -> Result<(), String> {
    let element = ty.with_id(list.element);
    match (element.shape(), wire) {
        (Shape::Int32 | Shape::Int64 | Shape::Bool, WireValue::Bytes(many)) => {
            for number in packed(many)? {
                into.push(decode_value(element, WireValue::Varint(number), depth)?);
            }
        }
        _ => into.push(decode_value(element, wire, depth)?),
    }
    Ok(())
}

/// Decodes a map entry: maps are repeated messages of key and value.
fn decode_map_entry(ty: TypeRef<'_>, raw: &[u8], depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut value) = (String::new(), None);
    for record in records(raw) {
        match record? {
            (1, wire) => key = lossy_text(bytes(wire)?),
            (2, wire) => value = Some(decode_value(ty, wire, depth)?),
            _ => {}
        }
    }
    // A missing value is an empty one; all value types of maps are bytes on the wire.
    let value = value.map_or_else(|| decode_value(ty, WireValue::Bytes(&[]), depth), Ok)?;
    Ok((key, value))
}

/// Decodes a value from one record.
fn decode_value(ty: TypeRef<'_>, wire: WireValue<'_>, depth: usize) -> Result<Value, String> {
    Ok(match ty.shape() {
        Shape::String => lossy_text(bytes(wire)?).into(),
        Shape::Bytes => BASE64_STANDARD.encode(bytes(wire)?).into(),
        Shape::Bool => (varint(wire)? != 0).into(),
        Shape::Int32 => int32(varint(wire)?).into(),
        Shape::Int64 => varint(wire)?.cast_signed().into(),
        Shape::Double => decode_double(wire)?,
        Shape::Time => decode_time(bytes(wire)?, 0)?,
        Shape::MicroTime => decode_time(bytes(wire)?, 6)?,
        Shape::Quantity => decode_quantity(bytes(wire)?)?,
        Shape::IntOrString => decode_int_or_string(bytes(wire)?)?,
        Shape::Struct(_) => Value::Object(decode_message(ty, bytes(wire)?, depth + 1)?),
        Shape::Any => decode_any(ty, bytes(wire)?, depth + 1)?,
        Shape::List(list) => {
            let mut values = Vec::new();
            for record in records(bytes(wire)?) {
                if let (1, wire) = record? {
                    decode_elements(ty, list, wire, depth + 1, &mut values)?;
                }
            }
            Value::Array(values)
        }
        Shape::Duration | Shape::Map(_) => return Err("is not a protobuf field by itself".to_owned()),
    })
}

/// Types with free-form JSON: raw JSON, or one of the alternatives in a CRD's schema.
fn decode_any(ty: TypeRef<'_>, raw: &[u8], depth: usize) -> Result<Value, String> {
    let schema = || ty.sibling("JSONSchemaProps").ok_or("is not a protobuf field");
    let alternatives = ty.short_name().strip_prefix("JSONSchemaPropsOr");
    let mut value = Value::Null;
    let mut list = Vec::new();
    for record in records(raw) {
        let (number, wire) = record?;
        match (alternatives, number) {
            (None, 1) => value = decode_embedded(bytes(wire)?, depth)?,
            (Some("Bool"), 1) if !value.is_object() => value = (varint(wire)? != 0).into(),
            (Some("Bool"), 2) | (Some("Array" | "StringArray"), 1) => {
                value = decode_value(schema()?, wire, depth)?;
            }
            (Some("Array"), 2) => list.push(decode_value(schema()?, wire, depth)?),
            (Some("StringArray"), 2) => list.push(lossy_text(bytes(wire)?).into()),
            _ => {}
        }
    }
    Ok(if list.is_empty() { value } else { Value::Array(list) })
}

/// Raw bytes inside an object: JSON, or an envelope.
fn decode_embedded(raw: &[u8], depth: usize) -> Result<Value, String> {
    if depth > MAX_MESSAGE_DEPTH {
        return Err(format!("exceeded max depth of {MAX_MESSAGE_DEPTH} messages"));
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    if raw.starts_with(MAGIC) {
        return decode_object(raw, depth + 1);
    }
    serde_json::from_slice(raw).map_err(|error| error.to_string())
}

/// Seconds and nanoseconds; an empty message is null.
fn decode_time(raw: &[u8], digits: usize) -> Result<Value, String> {
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

fn decode_quantity(raw: &[u8]) -> Result<Value, String> {
    let mut value = "0".to_owned();
    for record in records(raw) {
        if let (1, wire) = record? {
            value = lossy_text(bytes(wire)?);
        }
    }
    Ok(value.into())
}

fn decode_int_or_string(raw: &[u8]) -> Result<Value, String> {
    let (mut is_string, mut number, mut string) = (false, 0, String::new());
    for record in records(raw) {
        match record? {
            (1, wire) => is_string = varint(wire)? != 0,
            (2, wire) => number = int32(varint(wire)?),
            (3, wire) => string = lossy_text(bytes(wire)?),
            _ => {}
        }
    }
    Ok(if is_string { string.into() } else { number.into() })
}

/// Go formats a whole number without a decimal point, so it becomes an integer.
fn decode_double(wire: WireValue<'_>) -> Result<Value, String> {
    let WireValue::Fixed64(bits) = wire else { return Err(wire_type_error(wire)) };
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

fn bytes(wire: WireValue<'_>) -> Result<&[u8], String> {
    if let WireValue::Bytes(bytes) = wire { Ok(bytes) } else { Err(wire_type_error(wire)) }
}

fn varint(wire: WireValue<'_>) -> Result<u64, String> {
    if let WireValue::Varint(value) = wire { Ok(value) } else { Err(wire_type_error(wire)) }
}

/// Negative numbers have 64 bits on the wire; the low half counts.
fn int32(value: u64) -> i32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

fn lossy_text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn wire_type_error(wire: WireValue<'_>) -> String {
    let found = match wire {
        WireValue::Varint(_) => 0,
        WireValue::Fixed64(_) => 1,
        WireValue::Bytes(_) => 2,
        WireValue::Fixed32(_) => 5,
    };
    format!("proto: wrong wireType = {found}")
}

#[cfg(test)]
mod tests;
