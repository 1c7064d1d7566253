//! Validation failures as a tree, and their text form.

use helm_template::data::Data;
use helm_template::go::{print, quote};
use helm_template::value::{Str, Value};

/// Form of a failure's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureForm {
    Plain,
    /// Several failures of one value. At the root only the causes are written.
    Group,
    /// Failure behind a reference; not printed if it has a single cause.
    Reference,
}

/// Failure of a value at a path.
#[derive(Debug)]
pub struct Failure {
    pub form: FailureForm,
    pub pointer: String,
    pub text: String,
    pub causes: Vec<Failure>,
}

impl Failure {
    /// A failure without details.
    pub fn without_details() -> Self {
        Self { form: FailureForm::Plain, pointer: String::new(), text: String::new(), causes: vec![] }
    }

    /// Writes the lines of the failure and its causes, each preceded by a line break.
    pub fn write(&self, into: &mut String, indent: usize) {
        let is_written = !(self.form == FailureForm::Reference && self.causes.len() == 1);
        if is_written {
            into.push('\n');
            into.push_str(&"  ".repeat(indent));
            into.push_str("- at ");
            into.push_str(&single_quoted(&self.pointer));
            into.push_str(": ");
            into.push_str(&self.text);
        }
        for cause in &self.causes {
            cause.write(into, indent + usize::from(is_written));
        }
    }
}

/// Quotes in single quotes, with Go's escapes for double quotes.
pub fn single_quoted(text: &str) -> String {
    let quoted = quote(text).replace("\\\"", "\"").replace('\'', "\\'");
    let inside = quoted.get(1..quoted.len() - 1).unwrap_or_default();
    format!("'{inside}'")
}

pub fn quote_all(names: &[Str]) -> String {
    names.iter().map(|name| single_quoted(name)).collect::<Vec<_>>().join(", ")
}

/// Formats a schema value. Numbers appear as in the schema as far as their notation is still known.
pub fn format_value(data: &Data) -> String {
    match data {
        Data::String(text) => single_quoted(text),
        Data::List(_) | Data::Map(_) => "value".to_owned(),
        #[expect(clippy::cast_possible_truncation, reason = "whole and small")]
        Data::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => (*n as i64).to_string(),
        Data::Float(n) => n.to_string(),
        other => print(&Value::from(other)),
    }
}
