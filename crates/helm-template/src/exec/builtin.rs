//! Built-in functions of Go's `text/template`.

use std::borrow::Cow;
use std::fmt::Write;

use super::Machine;
use super::compare::{Incomparable, equal, less, less_or_equal};
use super::functions::{Row, Run};
use super::walk::NO_VALUE;
use crate::go::{is_printable, print, print_all, print_line, printf_within};
use crate::profile::Profile;
use crate::value::{Kind, Str, Type, Value};

type Done = Result<Value, Str>;

const ANY: &[Type] = &[Type::Any];
const ONE: &[Type] = &[Type::Reflect];
const TWO: &[Type] = &[Type::Reflect, Type::Reflect];

#[rustfmt::skip]
pub(super) const FUNCTIONS: &[Row] = &[
    ("and",      TWO,                         true,  Run::And),
    ("or",       TWO,                         true,  Run::Or),
    ("not",      ONE,                         false, Run::Plain(|args| Ok((!args[0].is_true()).into()))),
    ("call",     TWO,                         true,  Run::Call),
    ("html",     ANY,                         true,  Run::Plain(|args| Ok(html(&text_of(args)).into()))),
    ("js",       ANY,                         true,  Run::Plain(|args| Ok(js(&text_of(args)).into()))),
    ("urlquery", ANY,                         true,  Run::Plain(|args| Ok(url_query(&text_of(args)).into()))),
    ("index",    TWO,                         true,  Run::Plain(index)),
    ("slice",    TWO,                         true,  Run::Plain(slice)),
    ("len",      ONE,                         false, Run::Plain(len)),
    ("print",    ANY,                         true,  Run::Plain(|args| Ok(Value::string_of(print_all(args))))),
    ("printf",   &[Type::String, Type::Any],  true,  Run::Machine(format)),
    ("println",  ANY,                         true,  Run::Plain(|args| Ok(Value::string_of(print_line(args))))),
    ("eq",       TWO,                         true,  Run::Machine(|machine, args| compared(machine, equal(args)))),
    ("ne",       TWO,                         false, Run::Machine(|machine, args| compared(machine, equal(args).map(|is| !is)))),
    ("lt",       TWO,                         false, Run::Machine(|machine, args| compared(machine, less(args)))),
    ("le",       TWO,                         false, Run::Machine(|machine, args| compared(machine, less_or_equal(args)))),
    ("gt",       TWO,                         false, Run::Machine(|machine, args| compared(machine, less_or_equal(args).map(|is| !is)))),
    ("ge",       TWO,                         false, Run::Machine(|machine, args| compared(machine, less(args).map(|is| !is)))),
];

/// Formats a comparison error. The Go version of Helm 3 does not name the incompatible types.
fn compared(machine: &mut Machine<'_>, result: Result<bool, Incomparable>) -> Done {
    result.map(Value::from).map_err(|why| match (machine.functions.profile, why) {
        (Profile::Helm3, Incomparable::Types(..)) => "incompatible types for comparison".into(),
        (_, why) => why.to_string().into(),
    })
}

fn format(machine: &mut Machine<'_>, args: &[Value]) -> Done {
    let room = machine.room();
    match printf_within(room, args[0].string_bytes().unwrap_or_default(), &args[1..]) {
        Some(text) => Ok(Value::string_of(text)),
        None => machine.room_for(room + 1).map(|()| Value::Nil),
    }
}

/// The text that an escaping function escapes: strings unchanged, other values printed, nil as an action prints it.
fn text_of(args: &[Value]) -> String {
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

fn len(args: &[Value]) -> Done {
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
fn place(index: &Value, length: usize) -> Result<usize, Str> {
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

fn index(args: &[Value]) -> Done {
    let mut item = args[0].clone();
    if item.is_nil() {
        return Err("index of untyped nil".into());
    }
    for index in &args[1..] {
        item = match &item {
            Value::Nil | Value::Null => return Err("index of nil pointer".into()),
            Value::List(list) => {
                let at = place(index, list.len())?;
                list.get(at).cloned().ok_or("reflect: slice index out of range")?
            }
            Value::Bytes(bytes) => {
                let at = place(index, bytes.len())?;
                Value::Uint8(*bytes.get(at).ok_or("reflect: slice index out of range")?)
            }
            Value::String(_) | Value::Raw(_) => {
                let bytes = item.string_bytes().unwrap_or_default();
                let at = place(index, bytes.len())?;
                Value::Uint8(*bytes.get(at).ok_or("reflect: string index out of range")?)
            }
            Value::Map(map) => match index {
                Value::String(key) => map.get(key).unwrap_or_else(|| map.absent()),
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

fn slice(args: &[Value]) -> Done {
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
        *bound = place(index, length)?;
    }
    let [from, to, end] = bounds;
    for (a, b) in [(from, to), (to, end)] {
        if a > b {
            return Err(format!("invalid slice index: {a} > {b}").into());
        }
    }
    Ok(match item {
        Value::String(text) => Value::string_of(text.as_bytes()[from..to].to_vec()),
        Value::Raw(bytes) => Value::string_of(bytes[from..to].to_vec()),
        Value::Bytes(bytes) => Value::Bytes(bytes[from..to].into()),
        Value::List(list) => Value::List(list.slice(from, to)),
        other => other.clone(),
    })
}
