//! `fmt.Print` and its kin: values in their plain form.

use std::fmt::Write;

use super::float::{Form, format};
use crate::value::Value;

/// In place of a value that cannot be gone through. Go would come to the end of its stack.
pub(super) const ENDLESS: &str = "%!v(ENDLESS)";

/// The plain form of a value: what `%v` gives.
pub fn print(value: &Value) -> String {
    let mut out = String::new();
    write_checked(&mut out, value);
    out
}

/// `fmt.Sprint`: a space between two operands neither of which is a string.
pub fn print_all(values: &[Value]) -> String {
    let mut out = String::new();
    let is_string = |value: &Value| value.string_bytes().is_some();
    for (at, value) in values.iter().enumerate() {
        if at > 0 && !is_string(value) && !is_string(&values[at - 1]) {
            out.push(' ');
        }
        write_checked(&mut out, value);
    }
    out
}

/// For a whole value, of which nobody has looked yet whether it has an end.
pub(super) fn write_checked(out: &mut String, value: &Value) {
    if value.is_endless() {
        return out.push_str(ENDLESS);
    }
    write_plain(out, value);
}

pub(super) fn write_plain(out: &mut String, value: &Value) {
    match value {
        Value::Nil | Value::Null => out.push_str("<nil>"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Int(n) | Value::Int64(n) => {
            // A String takes whatever is written to it.
            let _ = write!(out, "{n}");
        }
        Value::Uint64(n) => {
            let _ = write!(out, "{n}");
        }
        Value::Float(n) => out.push_str(&format(*n, Form::General, None)),
        Value::Complex(re, im) => out.push_str(&complex(*re, *im, |part| format(part, Form::General, None))),
        Value::String(text) => out.push_str(text),
        Value::Raw(bytes) => out.push_str(&String::from_utf8_lossy(bytes)),
        Value::Bytes(bytes) => list(out, bytes.iter(), |out, byte| {
            let _ = write!(out, "{byte}");
        }),
        Value::List(items) => list(out, items.iter(), write_plain),
        Value::Map(map) => {
            out.push_str("map");
            list(out, map.entries().iter(), |out, (key, value)| {
                out.push_str(key);
                out.push(':');
                write_plain(out, value);
            });
        }
        Value::Object(object) => out.push_str(&object.print()),
    }
}

pub(super) fn complex(re: f64, im: f64, part: impl Fn(f64) -> String) -> String {
    let im = part(im);
    let sign = if im.starts_with(['-', '+']) { "" } else { "+" };
    format!("({}{sign}{im}i)", part(re))
}

/// `[a b c]`
pub(super) fn list<T>(
    out: &mut String,
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(' ');
        }
        write(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{List, Map};

    #[test]
    fn plain_forms() {
        let map = Map::from_entries([("b".into(), Value::Nil), ("a".into(), Value::Float(1e6))]);
        assert_eq!(print(&map.into()), "map[a:1e+06 b:<nil>]");
        let list = List::any([Value::Int(1), "x".into(), Value::Bool(true)]);
        assert_eq!(print(&list.into()), "[1 x true]");
        assert_eq!(print(&Value::Complex(1.0, -2.0)), "(1-2i)");
        let all =
            ["a".into(), Value::Int(1), Value::Int(2), "b".into(), "c".into(), Value::Float(3.0), Value::Nil];
        assert_eq!(print_all(&all), "a1 2bc3 <nil>");
    }
}
