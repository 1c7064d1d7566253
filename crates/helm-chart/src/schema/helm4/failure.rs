//! What is wrong with a value, as a tree, and how it is written down.

use helm_template::data::Data;
use helm_template::go::{print, quote};
use helm_template::value::{Str, Value};

/// What kind of line a failure is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    Plain,
    /// Several things are wrong with one value; above them, they stand for themselves.
    Group,
    /// Wrong by what a reference leads to; not written where it has one cause.
    Reference,
}

/// Something wrong with the value at a place.
#[derive(Debug)]
pub struct Failure {
    pub line: Line,
    pub at: String,
    pub text: String,
    pub causes: Vec<Failure>,
}

impl Failure {
    /// Says only that something is wrong.
    pub fn unsaid() -> Self {
        Self { line: Line::Plain, at: String::new(), text: String::new(), causes: vec![] }
    }

    /// The lines of it and its causes, each begun by a newline.
    pub fn write(&self, into: &mut String, indent: usize) {
        let is_written = !(self.line == Line::Reference && self.causes.len() == 1);
        if is_written {
            into.push('\n');
            into.push_str(&"  ".repeat(indent));
            into.push_str("- at ");
            into.push_str(&single_quoted(&self.at));
            into.push_str(": ");
            into.push_str(&self.text);
        }
        for cause in &self.causes {
            cause.write(into, indent + usize::from(is_written));
        }
    }
}

/// In single quotes, escaped as Go would in double ones.
pub fn single_quoted(text: &str) -> String {
    let quoted = quote(text).replace("\\\"", "\"").replace('\'', "\\'");
    let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    format!("'{inside}'")
}

pub fn all_quoted(names: &[Str]) -> String {
    names.iter().map(|name| single_quoted(name)).collect::<Vec<_>>().join(", ")
}

/// A value of the schema. Numbers are as they were written there, as far as we still know.
pub fn shown(data: &Data) -> String {
    match data {
        Data::String(text) => single_quoted(text),
        Data::List(_) | Data::Map(_) => "value".to_owned(),
        #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
        Data::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => (*n as i64).to_string(),
        Data::Float(n) => n.to_string(),
        other => print(&Value::from(other)),
    }
}
