//! Built-in functions of Go's `text/template`.

use std::borrow::Cow;
use std::fmt::Write;

use super::Machine;
use super::compare::{CompareError, equal, less, less_or_equal};
use super::functions::{FunctionBody, FunctionRow};
use super::walk::NO_VALUE;
use crate::go::{is_printable, print, print_all, print_line, printf_within};
use crate::profile::Profile;
use crate::value::{Kind, Str, Type, Value};

type BuiltinResult = Result<Value, Str>;

const ANY: &[Type] = &[Type::Any];
const ONE: &[Type] = &[Type::Reflect];
const TWO: &[Type] = &[Type::Reflect, Type::Reflect];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[FunctionRow] = &[
    ("and",      TWO,                         true,  FunctionBody::And),
    ("or",       TWO,                         true,  FunctionBody::Or),
    ("not",      ONE,                         false, FunctionBody::Plain(|args| Ok((!args[0].is_true()).into()))),
    ("call",     TWO,                         true,  FunctionBody::Call),
    ("html",     ANY,                         true,  FunctionBody::Plain(|args| Ok(html(&escape_input(args)).into()))),
    ("js",       ANY,                         true,  FunctionBody::Plain(|args| Ok(js(&escape_input(args)).into()))),
    ("urlquery", ANY,                         true,  FunctionBody::Plain(|args| Ok(url_query(&escape_input(args)).into()))),
    ("index",    TWO,                         true,  FunctionBody::Plain(index)),
    ("slice",    TWO,                         true,  FunctionBody::Plain(slice)),
    ("len",      ONE,                         false, FunctionBody::Plain(len)),
    ("print",    ANY,                         true,  FunctionBody::Plain(|args| Ok(Value::string_from_bytes(print_all(args))))),
    ("printf",   &[Type::String, Type::Any],  true,  FunctionBody::Machine(format)),
    ("println",  ANY,                         true,  FunctionBody::Plain(|args| Ok(Value::string_from_bytes(print_line(args))))),
    ("eq",       TWO,                         true,  FunctionBody::Machine(|machine, args| comparison_result(machine, equal(args)))),
    ("ne",       TWO,                         false, FunctionBody::Machine(|machine, args| comparison_result(machine, equal(args).map(|is| !is)))),
    ("lt",       TWO,                         false, FunctionBody::Machine(|machine, args| comparison_result(machine, less(args)))),
    ("le",       TWO,                         false, FunctionBody::Machine(|machine, args| comparison_result(machine, less_or_equal(args)))),
    ("gt",       TWO,                         false, FunctionBody::Machine(|machine, args| comparison_result(machine, less_or_equal(args).map(|is| !is)))),
    ("ge",       TWO,                         false, FunctionBody::Machine(|machine, args| comparison_result(machine, less(args).map(|is| !is)))),
];

/// Formats a comparison error. The Go version of Helm 3 does not name the incompatible types.
fn comparison_result(machine: &mut Machine<'_>, result: Result<bool, CompareError>) -> BuiltinResult {
    result.map(Value::from).map_err(|why| match (machine.functions.profile, why) {
        (Profile::Helm3, CompareError::Types(..)) => "incompatible types for comparison".into(),
        (_, why) => why.to_string().into(),
    })
}

fn format(machine: &mut Machine<'_>, args: &[Value]) -> BuiltinResult {
    let room = machine.remaining_bytes();
    match printf_within(room, args[0].string_bytes().unwrap_or_default(), &args[1..]) {
        Some(text) => Ok(Value::string_from_bytes(text)),
        None => machine.check_memory(room + 1).map(|()| Value::Nil),
    }
}

/// The text that an escaping function escapes: strings unchanged, other values printed, nil as an action prints it.
fn escape_input(args: &[Value]) -> String {
    match args {
        [one] if one.is_some() => one.text().map_or_else(|| print(one), Cow::into_owned),
        args => {
            let shown = |value: &Value| if value.is_some() { value.clone() } else { NO_VALUE.into() };
            let args: Vec<_> = args.iter().map(shown).collect();
            String::from_utf8_lossy(&print_all(&args)).into_owned()
        }
    }
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\0' => out.push('\u{FFFD}'),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(text: &str) -> String {
    let hex = |out: &mut String, c: char| {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\u{:04X}", u32::from(c));
    };
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' | '>' | '&' | '=' => hex(&mut out, c),
            c if c < ' ' || (!c.is_ascii() && !is_printable(c)) => hex(&mut out, c),
            c => out.push(c),
        }
    }
    out
}

fn url_query(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

fn len(args: &[Value]) -> BuiltinResult {
    let count = match &args[0] {
        Value::String(text) => text.len(),
        Value::Bytes(bytes) | Value::Raw(bytes) => bytes.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Null => return Err("len of nil pointer".into()),
        Value::Nil => return Err("reflect: call of reflect.Value.Type on zero Value".into()),
        Value::Object(object) => match object.length() {
            Some(count) => count,
            None => return Err(format!("len of type {}", object.type_name()).into()),
        },
        other => return Err(format!("len of type {}", other.type_name()).into()),
    };
    Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
}

/// Parses an index into a value of this length. `index == length` is allowed here; callers that read an element reject it.
fn checked_index(index: &Value, length: usize) -> Result<usize, Str> {
    let at = match index {
        Value::Int(n) | Value::Int64(n) => i128::from(*n),
        Value::Uint8(n) => i128::from(*n),
        Value::Uint64(n) => i128::from(*n),
        Value::Nil | Value::Null => return Err("cannot index slice/array with nil".into()),
        other => return Err(format!("cannot index slice/array with type {}", other.type_name()).into()),
    };
    match usize::try_from(at) {
        Ok(place) if place <= length => Ok(place),
        _ => Err(format!("index out of range: {at}").into()),
    }
}

fn index(args: &[Value]) -> BuiltinResult {
    let mut item = args[0].clone();
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for index in &args[1..] {
        item = match &item {
            Value::Nil | Value::Null => return Err("index of nil pointer".into()),
            Value::List(list) => {
                let at = checked_index(index, list.len())?;
                list.get(at).cloned().ok_or("reflect: slice index out of range")?
            }
            Value::Bytes(bytes) => {
                let at = checked_index(index, bytes.len())?;
                Value::Uint8(*bytes.get(at).ok_or("reflect: slice index out of range")?)
            }
            Value::String(_) | Value::Raw(_) => {
                let bytes = item.string_bytes().unwrap_or_default();
                let at = checked_index(index, bytes.len())?;
                Value::Uint8(*bytes.get(at).ok_or("reflect: string index out of range")?)
            }
            Value::Map(map) => match index {
                Value::String(key) => map.get(key).unwrap_or_else(|| map.missing_value()),
                Value::Nil | Value::Null => return Err("value is nil; should be of type string".into()),
                other => {
                    return Err(format!("value has type {}; should be string", other.type_name()).into());
                }
            },
            Value::Object(object) if object.kind() == Kind::Map => match index {
                Value::String(key) => object.field(key).unwrap_or_default(),
                Value::Nil | Value::Null => return Err("value is nil; should be of type string".into()),
                other => {
                    return Err(format!("value has type {}; should be string", other.type_name()).into());
                }
            },
            other => return Err(format!("can't index item of type {}", other.type_name()).into()),
        };
    }
    Ok(item)
}

fn slice(args: &[Value]) -> BuiltinResult {
    let (item, indexes) = (&args[0], &args[1..]);
    if item.is_nil() {
        return Err("slice of untyped nil".into());
    }
    if indexes.len() > 3 {
        return Err(format!("too many slice indexes: {}", indexes.len()).into());
    }
    let length = match item {
        Value::String(_) | Value::Raw(_) if indexes.len() == 3 => {
            return Err("cannot 3-index slice a string".into());
        }
        Value::String(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Bytes(bytes) | Value::Raw(bytes) => bytes.len(),
        other => return Err(format!("can't slice item of type {}", other.type_name()).into()),
    };
    let mut bounds = [0, length, length];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = checked_index(index, length)?;
    }
    let [from, to, end] = bounds;
    for (a, b) in [(from, to), (to, end)] {
        if a > b {
            return Err(format!("invalid slice index: {a} > {b}").into());
        }
    }
    Ok(match item {
        Value::String(text) => Value::string_from_bytes(text.as_bytes()[from..to].to_vec()),
        Value::Raw(bytes) => Value::string_from_bytes(bytes[from..to].to_vec()),
        Value::Bytes(bytes) => Value::Bytes(bytes[from..to].into()),
        Value::List(list) => Value::List(list.slice(from, to)),
        other => other.clone(),
    })
}
