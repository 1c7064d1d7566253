//! YAML emitter with the layout of go-yaml.
//!
//! go-yaml v2 and v3 share one emitter except for a few rules, which [`Dialect`] names. The state that decides line breaks (column,
//! indentation, whether the line holds only indentation) is that of go-yaml, because its quirks are visible in the output.
//!
//! See also: [`scalar`] (scalar styles), [`plain`] (plain text that would decode as another type), [`order`] (key order).

mod order;
mod plain;
mod scalar;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt::Write;

use crate::go::time::RFC3339;
use crate::nesting::{EncodeError, Nesting, check_length};
use crate::stack::grow_for_value;
use crate::value::time::as_time;
use crate::value::{Field, Json, Map, Value, field};
use scalar::{AllowedStyles, ScalarStyle};

/// Maximum length in bytes of a key that shares a line with its value.
const MAX_SIMPLE_KEY_LEN: usize = 128;

/// The go-yaml version to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Lists in maps are not indented; long text is folded; text with tabs is double-quoted.
    V2,
    /// Lists in maps are indented; text is never folded; text with tabs can be a block scalar.
    V3,
}

impl Dialect {
    /// The column after which a text is folded at its next space.
    fn width(self) -> usize {
        match self {
            Self::V2 => 80,
            Self::V3 => usize::MAX,
        }
    }
}

/// Conversion of leaf values to text, per dialect.
pub(super) trait LeafEncoder {
    const DIALECT: Dialect;

    /// Writes a number.
    fn number(&self, out: &mut String, number: f64);

    /// Converts a value that is neither a string nor a plain list or map into one that is.
    fn to_plain(&self, value: &Value) -> Result<Value, EncodeError>;

    /// Converts or rejects a string before it is written.
    fn text<'t>(&self, text: &'t str, is_key: bool) -> Result<Cow<'t, str>, EncodeError>;
}

/// The position of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NodePosition {
    Root,
    Sequence,
    Mapping,
}

/// The emitter: its output and layout state.
pub(super) struct Emitter<L> {
    leaves: L,
    out: String,
    column: usize,
    /// Indentation of the current node; `None` before the first.
    indent: Option<usize>,
    /// The output ends in white space, so no separating space is needed.
    is_whitespace: bool,
    /// The line holds only indentation and indicators.
    is_indention: bool,
}

impl<L: LeafEncoder> Emitter<L> {
    pub fn new(leaves: L) -> Self {
        Self { leaves, out: String::new(), column: 0, indent: None, is_whitespace: true, is_indention: true }
    }

    /// Emits a document, with a trailing newline.
    pub fn document(mut self, value: &Value) -> Result<String, EncodeError> {
        self.node(value, NodePosition::Root, &Nesting::default())?;
        self.start_line();
        Ok(self.out)
    }

    fn node(&mut self, value: &Value, place: NodePosition, around: &Nesting<'_>) -> Result<(), EncodeError> {
        check_length(&self.out)?;
        match value {
            // The round trip through JSON turns nil maps and lists into null.
            Value::Map(map) if map.is_nil() && L::DIALECT == Dialect::V2 => self.bare("null"),
            Value::List(list) if list.is_nil() && L::DIALECT == Dialect::V2 => self.bare("null"),
            Value::Map(map) if map.is_empty() => self.empty("{}"),
            Value::List(list) if list.is_empty() => self.empty("[]"),
            Value::Map(map) => return grow_for_value(|| self.mapping(map, around)),
            Value::List(list) => {
                return grow_for_value(|| self.sequence(list.iter().map(Cow::Borrowed), place, around));
            }
            // Emitted one by one, to avoid allocating a list as long as the bytes.
            Value::Bytes(bytes) if L::DIALECT == Dialect::V3 && !bytes.is_empty() => {
                let bytes = bytes.iter().map(|byte| Cow::Owned(Value::Uint8(*byte)));
                return self.sequence(bytes, place, around);
            }
            Value::String(text) => self.string(text)?,
            Value::Nil | Value::Null => self.bare("null"),
            Value::Bool(truth) => self.bare(if *truth { "true" } else { "false" }),
            Value::Int(n) | Value::Int64(n) => self.number(|_, out| {
                // Writing to a String cannot fail.
                let _ = write!(out, "{n}");
            }),
            Value::Uint8(n) => self.number(|_, out| {
                let _ = write!(out, "{n}");
            }),
            Value::Uint64(n) => self.number(|_, out| {
                let _ = write!(out, "{n}");
            }),
            Value::Float(n) if n.is_finite() => self.number(|leaves, out| leaves.number(out, *n)),
            value
                if L::DIALECT == Dialect::V3
                    && let Some(time) = as_time(value) =>
            {
                self.bare(&time.format(RFC3339));
            }
            Value::Object(object)
                if L::DIALECT == Dialect::V3
                    && object.fields().iter().any(|field| field.json != Json::Private) =>
            {
                return self.structure(object.fields(), around);
            }
            other => {
                let plain = self.leaves.to_plain(other)?;
                return match plain {
                    // A converted value is not converted again.
                    Value::Float(n) => {
                        self.number(|leaves, out| leaves.number(out, n));
                        Ok(())
                    }
                    Value::Raw(bytes) => {
                        self.binary(&bytes);
                        Ok(())
                    }
                    plain => self.node(&plain, place, around),
                };
            }
        }
        Ok(())
    }

    fn sequence<'v>(
        &mut self,
        items: impl Iterator<Item = Cow<'v, Value>>,
        place: NodePosition,
        around: &Nesting<'_>,
    ) -> Result<(), EncodeError> {
        let inside = around.inside_list()?;
        let outer = self.indent;
        let beside_its_key =
            L::DIALECT == Dialect::V2 && place == NodePosition::Mapping && !self.is_indention;
        self.indent = match outer {
            None => Some(0),
            Some(indent) if beside_its_key => Some(indent),
            Some(indent) => Some(indent + 2),
        };
        for item in items {
            self.start_line();
            self.indicator("-", true, false, true);
            self.node(&item, NodePosition::Sequence, &inside)?;
        }
        self.indent = outer;
        Ok(())
    }

    fn mapping(&mut self, map: &Map, around: &Nesting<'_>) -> Result<(), EncodeError> {
        let inside = around.inside_map(map)?;
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |indent| indent + 2));
        let entries = map.entries();
        if order::is_natural(&entries, L::DIALECT) {
            for (key, value) in entries.iter() {
                self.entry(key, value, &inside)?;
            }
        } else {
            for (key, value) in order::natural(&entries, L::DIALECT) {
                self.entry(key, value, &inside)?;
            }
        }
        self.indent = outer;
        Ok(())
    }

    /// Writes a struct; fields without a YAML name have their lower-case Go name, as in go-yaml.
    fn structure(&mut self, fields: Vec<Field>, around: &Nesting<'_>) -> Result<(), EncodeError> {
        let inside = around.inside_list()?;
        let outer = self.indent;
        self.indent = Some(outer.map_or(0, |indent| indent + 2));
        for field in field::visible(fields) {
            self.entry(&field.name.to_lowercase(), &field.value, &inside)?;
        }
        self.indent = outer;
        Ok(())
    }

    fn entry(&mut self, key: &str, value: &Value, around: &Nesting<'_>) -> Result<(), EncodeError> {
        self.start_line();
        let key = self.leaves.text(key, true)?;
        let look = AllowedStyles::from_text(&key, L::DIALECT);
        if !look.multiline && key.len() <= MAX_SIMPLE_KEY_LEN {
            self.scalar(&key, look, ScalarStyle::preferred(&key, L::DIALECT), true);
            self.indicator(":", false, false, false);
        } else {
            self.indicator("?", true, false, true);
            self.scalar(&key, look, ScalarStyle::preferred(&key, L::DIALECT), false);
            self.start_line();
            self.indicator(":", true, false, true);
        }
        self.node(value, NodePosition::Mapping, around)
    }

    fn string(&mut self, text: &str) -> Result<(), EncodeError> {
        let text = self.leaves.text(text, false)?;
        self.scalar(
            &text,
            AllowedStyles::from_text(&text, L::DIALECT),
            ScalarStyle::preferred(&text, L::DIALECT),
            false,
        );
        Ok(())
    }

    /// Writes bytes that are not valid UTF-8.
    fn binary(&mut self, bytes: &[u8]) {
        self.space_unless(self.is_whitespace);
        self.push("!!binary");
        self.is_whitespace = false;
        self.is_indention = false;
        let text = in_lines(&crate::go::base64(bytes));
        let style = if text.contains('\n') { ScalarStyle::Literal } else { ScalarStyle::Plain };
        self.scalar(&text, AllowedStyles::from_text(&text, L::DIALECT), style, false);
    }

    fn empty(&mut self, brackets: &str) {
        self.indicator(brackets, true, false, false);
    }

    /// Writes plain ASCII that needs no quoting.
    fn bare(&mut self, word: &str) {
        self.number(|_, out| out.push_str(word));
    }

    fn number(&mut self, write: impl FnOnce(&L, &mut String)) {
        self.space_unless(self.is_whitespace);
        let before = self.out.len();
        write(&self.leaves, &mut self.out);
        self.column += self.out.len() - before;
        self.is_whitespace = false;
        self.is_indention = false;
    }

    fn indicator(&mut self, text: &str, after_space: bool, is_whitespace: bool, is_indention: bool) {
        self.space_unless(!after_space || self.is_whitespace);
        self.push(text);
        self.is_whitespace = is_whitespace;
        self.is_indention &= is_indention;
    }

    fn space_unless(&mut self, spaced: bool) {
        if !spaced {
            self.push(" ");
        }
    }

    /// Writes ASCII text.
    fn push(&mut self, text: &str) {
        self.out.push_str(text);
        self.column += text.len();
    }

    fn push_char(&mut self, c: char) {
        self.out.push(c);
        self.column += 1;
    }

    fn end_line(&mut self) {
        self.out.push('\n');
        self.column = 0;
        self.is_indention = true;
    }

    /// Moves to the current indentation, on a new line unless this line holds no more than that.
    fn start_line(&mut self) {
        let indent = self.indent.unwrap_or(0);
        if !self.is_indention || self.column > indent || (self.column == indent && !self.is_whitespace) {
            self.end_line();
        }
        for _ in self.column..indent {
            self.out.push(' ');
        }
        self.column = self.column.max(indent);
        self.is_whitespace = true;
        self.is_indention = true;
    }
}

/// Breaks base64 text after every 70 characters, as go-yaml does; text that fits on one line is unchanged.
fn in_lines(base64: &str) -> String {
    const LINE: usize = 70;
    if base64.len() < LINE {
        return base64.to_owned();
    }
    let mut out = String::with_capacity(base64.len() + base64.len() / LINE + 1);
    for (at, c) in base64.chars().enumerate() {
        if at > 0 && at % LINE == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    out.push('\n');
    out
}
