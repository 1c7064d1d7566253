//! TOML encoder.
//!
//! Within a table, other values precede nested tables; both are sorted by key. Tables are indented by depth. An empty line precedes
//! each first-level table and each element of an array of tables.

use std::fmt::Write;

use super::{key, number};
use crate::go::{FloatFormat, format_float, print};
use crate::nesting::{EncodeError, Nesting, check_length};
use crate::profile::Profile;
use crate::stack::grow_for_value;
use crate::value::time::{as_duration, as_time};
use crate::value::{Field, Json, Kind, List, Object, Str, Value, field};

/// Encodes a value as `toToml` does. Values without a TOML form fail with the message of Go's library.
pub fn write(value: &Value, profile: Profile) -> Result<String, EncodeError> {
    // The shapes of values are examined before anything is written, so endless values must be refused first.
    if value.is_cyclic_or_too_deep() {
        return Err(EncodeError::TooLong);
    }
    let mut writer = TomlWriter { out: String::new(), profile };
    writer.item(&mut Vec::new(), value, &Nesting::default())?;
    Ok(writer.out)
}

fn unsupported(why: impl Into<String>) -> EncodeError {
    EncodeError::Unsupported(why.into().into())
}

/// The TOML form of a value, as far as it decides the order within its table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TomlForm {
    Omitted,
    Plain,
    Table,
    Tables,
}

impl TomlForm {
    fn from_value(value: &Value, around: &Nesting<'_>) -> Result<Self, EncodeError> {
        Ok(match value {
            Value::Nil | Value::Null => Self::Omitted,
            Value::Map(map) if map.is_nil() => Self::Omitted,
            Value::List(list) if list.is_nil() => Self::Omitted,
            Value::Map(_) => Self::Table,
            Value::List(list) => {
                let inside = around.inside_list()?;
                let mut all_tables = !list.is_empty();
                for item in list.iter() {
                    match Self::from_value(item, &inside)? {
                        Self::Omitted => {
                            return Err(unsupported("toml: cannot encode array with nil element"));
                        }
                        shape => all_tables &= shape == Self::Table,
                    }
                }
                if all_tables { Self::Tables } else { Self::Plain }
            }
            Value::Complex(..) => return Err(unsupported("unsupported type: complex128")),
            Value::Object(object) if as_time(value).is_none() => match fields(object.as_ref()) {
                Some(_) => Self::Table,
                None => Self::from_value(&to_plain(value, object.as_ref())?, around)?,
            },
            _ => Self::Plain,
        })
    }
}

/// The public fields of a struct, with embedded structs flattened, or the entries of a map.
fn fields(object: &dyn Object) -> Option<Entries> {
    fn add(fields: Vec<Field>, to: &mut Entries) {
        for Field { name, json, value } in field::visible(fields) {
            match value {
                Value::Object(inner) if json == Json::Embedded => add(inner.fields(), to),
                value => to.push((name.into(), value)),
            }
        }
    }
    if object.kind() == Kind::Map {
        let entries = object.entries()?.into_iter();
        return Some(entries.map(|(key, value)| (print(&key).into(), value)).collect());
    }
    let mut all = Vec::new();
    add(object.fields(), &mut all);
    (!all.is_empty()).then_some(all)
}

/// A plain value for an object that is not a table.
fn to_plain(value: &Value, object: &dyn Object) -> Result<Value, EncodeError> {
    // Go's library supports durations.
    if as_duration(value).is_some() { Ok(print(value).into()) } else { Ok(Value::from(&object.data()?)) }
}

type Entries = Vec<(Str, Value)>;

/// The entries of a table: first other values, then tables.
fn partition_entries<'n>(
    table: &'n Value,
    around: &'n Nesting<'n>,
) -> Result<([Entries; 2], Nesting<'n>), EncodeError> {
    let (entries, inside) = match table {
        Value::Map(map) => (map.snapshot(), around.inside_map(map)?),
        Value::Object(object) => (fields(object.as_ref()).unwrap_or_default(), around.inside_list()?),
        _ => (Vec::new(), around.inside_list()?),
    };
    let mut parts = [Vec::new(), Vec::new()];
    for entry in entries {
        let is_later = matches!(TomlForm::from_value(&entry.1, &inside)?, TomlForm::Table | TomlForm::Tables);
        parts[usize::from(is_later)].push(entry);
    }
    Ok((parts, inside))
}

/// The encoder's output.
struct TomlWriter {
    out: String,
    profile: Profile,
}

impl TomlWriter {
    /// Writes a value under its key, or a top-level value.
    fn item(
        &mut self,
        path: &mut Vec<String>,
        value: &Value,
        around: &Nesting<'_>,
    ) -> Result<(), EncodeError> {
        check_length(&self.out)?;
        match value {
            Value::Nil | Value::Null => Ok(()),
            Value::Map(map) if map.is_nil() => Ok(()),
            Value::List(list) if list.is_nil() && !path.is_empty() => Ok(()),
            Value::List(list) if TomlForm::from_value(value, around)? == TomlForm::Tables => {
                self.tables(path, list, around)
            }
            Value::Map(_) | Value::Object(_) if TomlForm::from_value(value, around)? == TomlForm::Table => {
                if path.len() == 1 {
                    self.new_line();
                }
                if !path.is_empty() {
                    self.header(path, "[", "]");
                }
                grow_for_value(|| self.table(path, value, around))
            }
            Value::Complex(..) => {
                Err(unsupported(format!("unsupported type for key '{}': complex128", key::path(path))))
            }
            Value::Object(object) if as_time(value).is_none() => {
                self.item(path, &to_plain(value, object.as_ref())?, around)
            }
            value => {
                if let Some(last) = path.last() {
                    self.indent(path);
                    key::write(&mut self.out, last);
                    self.out.push_str(" = ");
                }
                self.element(value, around)?;
                if !path.is_empty() {
                    self.new_line();
                }
                Ok(())
            }
        }
    }

    fn tables(
        &mut self,
        path: &mut Vec<String>,
        list: &List,
        around: &Nesting<'_>,
    ) -> Result<(), EncodeError> {
        if path.is_empty() {
            return Err(unsupported("toml: top-level values must be Go maps or structs"));
        }
        let inside = around.inside_list()?;
        for table in list.iter() {
            self.new_line();
            self.header(path, "[[", "]]");
            self.table(path, table, &inside)?;
        }
        Ok(())
    }

    fn header(&mut self, path: &[String], open: &str, close: &str) {
        self.indent(path);
        self.out.push_str(open);
        self.out.push_str(&key::path(path));
        self.out.push_str(close);
        self.new_line();
    }

    fn table(
        &mut self,
        path: &mut Vec<String>,
        table: &Value,
        around: &Nesting<'_>,
    ) -> Result<(), EncodeError> {
        let (parts, inside) = partition_entries(table, around)?;
        for (key, value) in parts.iter().flatten() {
            path.push(key.to_string());
            self.item(path, value, &inside)?;
            path.pop();
        }
        Ok(())
    }

    fn element(&mut self, value: &Value, around: &Nesting<'_>) -> Result<(), EncodeError> {
        check_length(&self.out)?;
        // Writing to a String cannot fail.
        match value {
            Value::String(text) => key::quote(&mut self.out, text),
            Value::Raw(bytes) => key::quote(&mut self.out, &crate::go::lossy_text(bytes)),
            Value::Bool(truth) => {
                let _ = write!(self.out, "{truth}");
            }
            Value::Int(n) | Value::Int64(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Uint8(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Uint64(n) => {
                let _ = write!(self.out, "{n}");
            }
            Value::Float(n) => self.float(*n),
            Value::Bytes(bytes) => self.array(bytes.iter(), |writer, byte| {
                let _ = write!(writer.out, "{byte}");
                Ok(())
            })?,
            Value::List(list) => {
                let inside = around.inside_list()?;
                self.array(list.iter(), |writer, item| writer.element(item, &inside))?;
            }
            Value::Map(_) => self.inline(value, around)?,
            Value::Object(object) => match as_time(value) {
                Some(time) => self.out.push_str(&number::format_time(time)),
                None if fields(object.as_ref()).is_some() => self.inline(value, around)?,
                None => self.element(&to_plain(value, object.as_ref())?, around)?,
            },
            Value::Nil | Value::Null => {
                return Err(unsupported("toml: cannot encode array with nil element"));
            }
            Value::Complex(..) => return Err(unsupported("unexpected type: complex128")),
        }
        Ok(())
    }

    fn array<T>(
        &mut self,
        items: impl Iterator<Item = T>,
        write: impl Fn(&mut Self, T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.out.push('[');
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push_str(", ");
            }
            check_length(&self.out)?;
            write(self, item)?;
        }
        self.out.push(']');
        Ok(())
    }

    /// Writes a table inside a mixed array. A trailing nil entry leaves its comma behind, as in Go's library.
    fn inline(&mut self, table: &Value, around: &Nesting<'_>) -> Result<(), EncodeError> {
        let (parts, inside) = partition_entries(table, around)?;
        self.out.push('{');
        let mut left = parts.iter().map(Vec::len).sum::<usize>();
        for (key, value) in parts.iter().flatten() {
            left -= 1;
            if TomlForm::from_value(value, &inside)? == TomlForm::Omitted {
                continue;
            }
            key::write(&mut self.out, key);
            self.out.push_str(" = ");
            self.element(value, &inside)?;
            if left > 0 {
                self.out.push_str(", ");
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn float(&mut self, number: f64) {
        if number.is_nan() || number.is_infinite() {
            if number.is_sign_negative() {
                self.out.push('-');
            }
            self.out.push_str(if number.is_nan() { "nan" } else { "inf" });
            return;
        }
        let form = if self.profile == Profile::Helm3 { FloatFormat::Fixed } else { FloatFormat::General };
        let text = format_float(number, form, None);
        self.out.push_str(&text);
        if !text.contains(['.', 'e']) {
            self.out.push_str(".0");
        }
    }

    fn indent(&mut self, path: &[String]) {
        (1..path.len()).for_each(|_| self.out.push_str("  "));
    }

    /// Writes a line break, except at the start of the output.
    fn new_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push('\n');
        }
    }
}
