//! JSON encoder.

use std::fmt::Write;

use crate::data::Data;
use crate::go::{FloatFormat, format_float};
use crate::nesting::{EncodeError, Nesting, check_length};
use crate::stack::grow_for_value;
use crate::value::{Json, Value, field};

/// Output style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonStyle {
    /// `toJson`: one line; `<`, `>` and `&` are escaped.
    Plain,
    /// `toPrettyJson`: indented by two spaces.
    Pretty,
    /// `toRawJson`: one line, without HTML escaping.
    Raw,
}

/// Encodes a value as Go does. Values without a JSON form fail with Go's message.
pub fn write_value(value: &Value, style: JsonStyle) -> Result<String, EncodeError> {
    let mut writer = JsonWriter { out: String::new(), style, depth: 0 };
    writer.value(value, &Nesting::default())?;
    Ok(writer.out)
}

/// Like [`write_value`].
pub fn write(data: &Data, style: JsonStyle) -> Result<String, EncodeError> {
    write_value(&Value::from(data), style)
}

/// The encoder's output and indentation depth.
struct JsonWriter {
    out: String,
    style: JsonStyle,
    depth: usize,
}

impl JsonWriter {
    fn value(&mut self, value: &Value, around: &Nesting<'_>) -> Result<(), EncodeError> {
        check_length(&self.out)?;
        // Writing to a String cannot fail.
        match value {
            Value::Nil | Value::Null => self.out.push_str("null"),
            Value::Bool(truth) => self.out.push_str(if *truth { "true" } else { "false" }),
            Value::Int(n) | Value::Int64(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Uint8(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Uint64(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Float(n) if n.is_finite() => number(&mut self.out, *n),
            Value::String(text) => self.string(text),
            Value::Raw(bytes) => self.raw(bytes),
            Value::List(list) if list.is_nil() => self.out.push_str("null"),
            Value::List(list) if list.is_empty() => self.out.push_str("[]"),
            Value::List(list) => {
                let inside = around.inside_list()?;
                self.open('[');
                for (at, item) in list.iter().enumerate() {
                    self.separator(at);
                    grow_for_value(|| self.value(item, &inside))?;
                }
                self.close(']');
            }
            Value::Map(map) if map.is_nil() => self.out.push_str("null"),
            Value::Map(map) => {
                let inside = around.inside_map(map)?;
                self.members(map.entries().iter().map(|(key, value)| (&**key, value)), &inside)?;
            }
            Value::Object(object) => match object.fields() {
                fields if fields.iter().any(|field| field.json != Json::Private) => {
                    let inside = around.inside_list()?;
                    let members = field::members(fields);
                    self.members(members.iter().map(|(name, value)| (*name, value)), &inside)?;
                }
                _ => self.value(&Value::from(&object.data()?), around)?,
            },
            Value::Float(_) | Value::Complex(..) | Value::Bytes(_) => {
                self.value(&Value::from(&Data::try_from(value)?), around)?;
            }
        }
        Ok(())
    }

    fn members<'v>(
        &mut self,
        members: impl ExactSizeIterator<Item = (&'v str, &'v Value)>,
        inside: &Nesting<'_>,
    ) -> Result<(), EncodeError> {
        if members.len() == 0 {
            self.out.push_str("{}");
            return Ok(());
        }
        self.open('{');
        for (at, (key, value)) in members.enumerate() {
            self.separator(at);
            self.string(key);
            self.out.push_str(if self.style == JsonStyle::Pretty { ": " } else { ":" });
            grow_for_value(|| self.value(value, inside))?;
        }
        self.close('}');
        Ok(())
    }

    fn open(&mut self, bracket: char) {
        self.depth += 1;
        self.out.push(bracket);
    }

    fn separator(&mut self, at: usize) {
        if at > 0 {
            self.out.push(',');
        }
        self.start_line();
    }

    fn close(&mut self, bracket: char) {
        self.depth -= 1;
        self.start_line();
        self.out.push(bracket);
    }

    fn start_line(&mut self) {
        if self.style == JsonStyle::Pretty {
            self.out.push('\n');
            (0..self.depth).for_each(|_| self.out.push_str("  "));
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        self.escaped(text);
        self.out.push('"');
    }

    /// Encodes bytes as a string. Invalid bytes become an escaped U+FFFD; a U+FFFD that was in the text is not escaped.
    fn raw(&mut self, bytes: &[u8]) {
        self.out.push('"');
        for chunk in bytes.utf8_chunks() {
            self.escaped(chunk.valid());
            chunk.invalid().iter().for_each(|_| self.out.push_str("\\ufffd"));
        }
        self.out.push('"');
    }

    fn escaped(&mut self, text: &str) {
        let for_html = self.style != JsonStyle::Raw;
        let mut done = 0;
        for (at, byte) in text.bytes().enumerate() {
            if !ESCAPE_CANDIDATES[usize::from(byte)] {
                continue;
            }
            let Some((escape, taken)) = escape(&text.as_bytes()[at..], for_html) else {
                continue;
            };
            self.out.push_str(&text[done..at]);
            self.out.push_str(escape);
            done = at + taken;
        }
        self.out.push_str(&text[done..]);
    }
}

/// The number of characters of the JSON string for this text, including quotes and escapes.
pub(crate) fn length(text: &str) -> usize {
    let mut writer =
        JsonWriter { out: String::with_capacity(text.len() + 2), style: JsonStyle::Plain, depth: 0 };
    writer.string(text);
    writer.out.chars().count()
}

/// Writes a number, with an exponent if it is very large or very small.
fn number(out: &mut String, number: f64) {
    const MAX_PLAIN_NUMBER: f64 = 1e15;
    let size = number.abs();
    // Writing to a String cannot fail.
    let _ = if number.fract() == 0.0 && size < MAX_PLAIN_NUMBER {
        if number.is_sign_negative() && size == 0.0 {
            out.push('-');
        }
        #[expect(clippy::cast_possible_truncation, reason = "whole, and not too large")]
        let whole = number as i64;
        write!(out, "{whole}")
    } else if (1e-6..1e21).contains(&size) {
        write!(out, "{}", format_float(number, FloatFormat::Fixed, None))
    } else {
        // JSON drops the leading zero of a one-digit negative exponent.
        let text = format_float(number, FloatFormat::Exponent, None);
        match text.split_once("e-0") {
            Some((mantissa, digit)) => write!(out, "{mantissa}e-{digit}"),
            None => write!(out, "{text}"),
        }
    };
}

/// Bytes that may start a character that needs escaping.
const ESCAPE_CANDIDATES: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = true;
        byte += 1;
    }
    table[b'"' as usize] = true;
    table[b'\\' as usize] = true;
    table[b'<' as usize] = true;
    table[b'>' as usize] = true;
    table[b'&' as usize] = true;
    table[0xE2] = true;
    table
};

/// The escape for the character at the start of `bytes`, and the character's length in bytes. Go escapes U+2028 and U+2029 for
/// compatibility with `JavaScript`.
fn escape(bytes: &[u8], for_html: bool) -> Option<(&'static str, usize)> {
    #[rustfmt::skip]
    const CONTROL: [&str; 32] = [
        "\\u0000", "\\u0001", "\\u0002", "\\u0003", "\\u0004", "\\u0005", "\\u0006", "\\u0007",
        "\\b",     "\\t",     "\\n",     "\\u000b", "\\f",     "\\r",     "\\u000e", "\\u000f",
        "\\u0010", "\\u0011", "\\u0012", "\\u0013", "\\u0014", "\\u0015", "\\u0016", "\\u0017",
        "\\u0018", "\\u0019", "\\u001a", "\\u001b", "\\u001c", "\\u001d", "\\u001e", "\\u001f",
    ];
    let escape = match bytes {
        [b'"', ..] => "\\\"",
        [b'\\', ..] => "\\\\",
        [b'<', ..] if for_html => "\\u003c",
        [b'>', ..] if for_html => "\\u003e",
        [b'&', ..] if for_html => "\\u0026",
        [0xE2, 0x80, 0xA8, ..] => return Some(("\\u2028", 3)),
        [0xE2, 0x80, 0xA9, ..] => return Some(("\\u2029", 3)),
        [control, ..] => CONTROL.get(usize::from(*control))?,
        [] => return None,
    };
    Some((escape, 1))
}
