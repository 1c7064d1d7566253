//! Checks a decoded object against its type: unknown fields are removed, values of a wrong type are rejected.
//!
//! Called on every write, after decoding and after patching. Errors match Go's decoder: they name the innermost struct
//! and the path of fields. Field names are case-sensitive.
//!
//! Invariants afterwards: every value has the JSON type of its shape, no struct has an unknown
//! field or a `null`. Values of an open type ([`Shape::Any`]) are unchanged, nulls included.

use base64::Engine as _;
use serde_json::{Map, Number, Value};

use super::{MAX_FINDINGS, times};
use crate::go::json_kind;
use crate::quantity::Quantity;
use crate::schema::types::{Shape, Struct, TypeRef};

/// Problems that do not reject the object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    /// Paths of the removed fields, as Kubernetes formats them: `spec.containers[0].bogus`.
    pub unknown: Vec<String>,
}

/// The decoder whose messages are used: after a patch Go converts from unstructured objects instead of parsing text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorStyle {
    #[default]
    Json,
    Unstructured,
}

/// Converts `value` to an object of type `ty`, or returns the error.
pub fn conform(ty: TypeRef<'_>, value: &mut Value, reader: ErrorStyle) -> Result<Findings, String> {
    let mut walk = TypeConformer { reader, ..TypeConformer::default() };
    walk.value(ty, value)?;
    Ok(walk.findings)
}

#[derive(Default)]
struct TypeConformer<'a> {
    /// The current path: `spec.containers[0]`.
    path: String,
    /// The same as Go names it, without indices and keys: `spec`, `containers`.
    fields: Vec<&'a str>,
    /// The enclosing structs, innermost last.
    structs: Vec<&'a str>,
    findings: Findings,
    reader: ErrorStyle,
}

impl<'a> TypeConformer<'a> {
    fn value(&mut self, ty: TypeRef<'a>, value: &mut Value) -> Result<(), String> {
        match (ty.shape(), &mut *value) {
            (Shape::Any, _)
            | (Shape::String | Shape::IntOrString, Value::String(_))
            | (Shape::Bool, Value::Bool(_))
            | (Shape::Double, Value::Number(_)) => Ok(()),
            (Shape::Int32 | Shape::IntOrString, Value::Number(number)) => {
                let fits = number.as_i64().is_some_and(|n| i32::try_from(n).is_ok());
                if fits { Ok(()) } else { Err(self.number_error(ty, number)) }
            }
            (Shape::Int64, Value::Number(number)) => {
                if number.is_i64() {
                    Ok(())
                } else {
                    Err(self.number_error(ty, number))
                }
            }
            (Shape::Bytes, Value::String(text)) => check_base64(text).map_err(|why| match self.reader {
                ErrorStyle::Json => why,
                ErrorStyle::Unstructured => format!("error decoding from json: {why}"),
            }),
            (Shape::Time, Value::String(text)) => times::check_time(text),
            (Shape::MicroTime, Value::String(text)) => times::check_micro(text),
            (Shape::Duration, Value::String(text)) => times::parse_duration(text).map(drop),
            (Shape::Quantity, given) => {
                Quantity::parse(&quantity_text(given)).map(drop).map_err(|error| error.to_string())
            }
            (Shape::Struct(body), Value::Object(members)) => self.members(ty, body, members),
            (Shape::Map(map), Value::Object(entries)) => {
                let below = ty.with_id(map.value);
                for (key, entry) in entries {
                    let outer = self.push_field(key);
                    self.element(below, entry)?;
                    self.path.truncate(outer);
                }
                Ok(())
            }
            (Shape::List(list), Value::Array(elements)) => {
                let below = ty.with_id(list.element);
                for (at, element) in elements.iter_mut().enumerate() {
                    let outer = self.path.len();
                    self.path.extend(["[", &at.to_string(), "]"]);
                    self.element(below, element)?;
                    self.path.truncate(outer);
                }
                Ok(())
            }
            (_, given) if self.reader == ErrorStyle::Unstructured => Err(conversion_error(ty, given)),
            (_, given) => Err(self.type_error(json_kind(given), &go_type(ty))),
        }
    }

    /// An element or an entry: `null` becomes the zero value, because the position itself exists.
    fn element(&mut self, ty: TypeRef<'a>, value: &mut Value) -> Result<(), String> {
        if value.is_null() {
            *value = zero(ty);
            return Ok(());
        }
        self.value(ty, value)
    }

    fn members(
        &mut self,
        ty: TypeRef<'a>,
        body: &'a Struct,
        members: &mut Map<String, Value>,
    ) -> Result<(), String> {
        members.retain(|name, value| !value.is_null() || body.field(name).is_none());
        self.structs.push(ty.short_name());
        for (name, value) in members.iter_mut() {
            let outer = self.push_field(name);
            if let Some(field) = body.field(name) {
                self.fields.push(&field.name);
                self.value(ty.with_id(field.ty), value)?;
                self.fields.pop();
            } else if !body.preserve_unknown && self.findings.unknown.len() < MAX_FINDINGS {
                self.findings.unknown.push(self.path.clone());
            }
            self.path.truncate(outer);
        }
        self.structs.pop();
        if !body.preserve_unknown {
            members.retain(|name, _| body.field(name).is_some());
        }
        Ok(())
    }

    /// Enters a field; returns the length to truncate the path to afterwards.
    fn push_field(&mut self, name: &str) -> usize {
        let outer = self.path.len();
        if outer > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        outer
    }

    fn number_error(&self, ty: TypeRef<'_>, number: &Number) -> String {
        match self.reader {
            ErrorStyle::Json => self.type_error(&format!("number {number}"), &go_type(ty)),
            ErrorStyle::Unstructured => conversion_error(ty, &Value::Number(number.clone())),
        }
    }

    fn type_error(&self, given: &str, wanted: &str) -> String {
        match self.structs.last() {
            Some(name) => format!(
                "json: cannot unmarshal {given} into Go struct field {name}.{} of type {wanted}",
                self.fields.join(".")
            ),
            None => format!("json: cannot unmarshal {given} into Go value of type {wanted}"),
        }
    }
}

/// The message of Go's unstructured converter for a value that `ty` cannot hold.
fn conversion_error(ty: TypeRef<'_>, given: &Value) -> String {
    let kind = match given {
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) | Value::Null => "int64",
    };
    let wanted = go_type(ty);
    match (ty.shape(), kind) {
        (Shape::String, "int64") | (Shape::Int32 | Shape::Int64, "float64" | "int64") => {
            format!("cannot convert {kind} to {wanted}")
        }
        (Shape::String | Shape::Int32 | Shape::Int64 | Shape::Bool | Shape::Double, _) => {
            format!("unrecognized type: {wanted}")
        }
        (Shape::Bytes | Shape::List(_), _) => format!("cannot restore slice from {kind}"),
        (Shape::Map(_), _) => format!("cannot restore map from {kind}"),
        (Shape::Struct(_), _) => format!("cannot restore struct from: {kind}"),
        _ => format!("json: cannot unmarshal {} into Go value of type {wanted}", json_kind(given)),
    }
}

/// The Go name of a type in messages.
fn go_type(ty: TypeRef<'_>) -> String {
    match ty.shape() {
        Shape::String | Shape::Time | Shape::MicroTime | Shape::Duration | Shape::Quantity => {
            "string".to_owned()
        }
        Shape::Int32 | Shape::IntOrString => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::Double => "float64".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Bytes => "[]uint8".to_owned(),
        Shape::Any => "interface {}".to_owned(),
        Shape::Struct(_) => {
            let name = ty.name();
            let package = name.rsplit('.').nth(1).unwrap_or_default();
            format!("{package}.{}", ty.short_name())
        }
        Shape::Map(map) => format!("map[string]{}", go_type(ty.with_id(map.value))),
        Shape::List(list) => format!("[]{}", go_type(ty.with_id(list.element))),
    }
}

/// The zero value of a type in Go.
pub(super) fn zero(ty: TypeRef<'_>) -> Value {
    match ty.shape() {
        Shape::String | Shape::Bytes => "".into(),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString | Shape::Double => 0.into(),
        Shape::Bool => false.into(),
        Shape::Quantity => "0".into(),
        Shape::Duration => "0s".into(),
        Shape::Struct(_) => Value::Object(Map::new()),
        Shape::Time | Shape::MicroTime | Shape::Any | Shape::Map(_) | Shape::List(_) => Value::Null,
    }
}

/// The text of a quantity: the string, or the formatted number.
pub(super) fn quantity_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => {
            match number.as_f64().filter(|_| number.is_f64()).and_then(super::json::exact_integer) {
                Some(whole) => whole.to_string(),
                None => number.to_string(),
            }
        }
        other => other.to_string(),
    }
}

fn check_base64(text: &str) -> Result<(), String> {
    use base64::DecodeError::{InvalidByte, InvalidLastSymbol, InvalidLength, InvalidPadding};
    let bytes: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    base64::engine::general_purpose::STANDARD.decode(&bytes).map(drop).map_err(|error| {
        let at = match error {
            InvalidByte(at, _) | InvalidLastSymbol(at, _) => at,
            InvalidLength(_) | InvalidPadding => bytes.len(),
        };
        format!("illegal base64 data at input byte {at}")
    })
}
