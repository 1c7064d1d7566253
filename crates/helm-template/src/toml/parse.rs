//! TOML decoder.
//!
//! Integers are `int64` here, unlike in YAML and JSON, where all numbers are floats. Errors name the line and the last key, as Go's
//! library does.

use std::collections::BTreeMap;
use std::mem;

use super::key;
use super::text::{TomlError, TomlText};
use crate::budget::Budget;
use crate::env::Clock;
use crate::profile::Profile;
use crate::value::{List, Map, NamedList, Str, Value};

/// Maximum nesting of arrays and inline tables.
const MAX_DEPTH: usize = 200;

/// Steps to follow one key of a path, and bytes of a key compared per step.
const STEPS_PER_KEY: u64 = 4;
const BYTES_PER_STEP: u64 = 128;

/// Decodes a document. Key paths are charged to the budget; if it is exceeded, the error is that of the budget, not of the document.
/// The clock determines the local offset for times without a zone.
pub fn parse(text: &[u8], profile: Profile, clock: &dyn Clock, budget: &Budget<'_>) -> Result<Map, Str> {
    let mut reader = TomlDecoder {
        text: TomlText::new(text, profile, clock),
        root: Table::new(),
        path: Vec::new(),
        key: None,
        key_line: 1,
        depth: 0,
        budget,
    };
    reader.document().map_err(|fault| reader.error_message(&fault))?;
    Ok(map(mem::take(&mut reader.root)))
}

type Table = BTreeMap<Str, TomlNode>;

/// An entry of a table while decoding.
enum TomlNode {
    Value(Value),
    /// A table. An implied table, created by a longer key, can still be defined by its own header.
    Table {
        table: Table,
        implied: bool,
    },
    Tables(Vec<Table>),
}

fn map(table: Table) -> Map {
    Map::sorted(table.into_iter().map(|(key, node)| (key, value(node))).collect())
}

fn value(node: TomlNode) -> Value {
    match node {
        TomlNode::Value(value) => value,
        TomlNode::Table { table, .. } => map(table).into(),
        TomlNode::Tables(tables) => {
            List::named(&TABLES, tables.into_iter().map(|table| map(table).into())).into()
        }
    }
}

/// The Go type of an array of tables.
static TABLES: NamedList = NamedList { name: "[]map[string]interface {}", method: |_| None };

/// The state of the decoder.
struct TomlDecoder<'t> {
    text: TomlText<'t>,
    root: Table,
    /// The path of the current table.
    path: Vec<Str>,
    /// The key whose value is being decoded.
    key: Option<Str>,
    /// The line on which the current key starts.
    key_line: usize,
    depth: usize,
    budget: &'t Budget<'t>,
}

impl TomlDecoder<'_> {
    fn error_message(&self, fault: &TomlError) -> Str {
        let mut last = key::path(&self.path);
        if let Some(key) = &self.key {
            if !last.is_empty() {
                last.push('.');
            }
            last.push_str(key);
        }
        let TomlError { line, message: why } = fault;
        if last.is_empty() {
            format!("toml: line {line}: {why}").into()
        } else {
            format!("toml: line {line} (last key {}): {why}", crate::go::quote(&last)).into()
        }
    }

    fn at_key(&self, why: String) -> TomlError {
        TomlError { line: self.key_line, message: why }
    }

    fn document(&mut self) -> Result<(), TomlError> {
        loop {
            match self.text.next()? {
                Some(' ' | '\t' | '\n' | '\r') => {}
                Some('#') => self.text.skip_comment()?,
                Some('[') => self.header()?,
                Some(_) => {
                    self.text.push_back();
                    let table = mem::take(&mut self.path);
                    self.path.clone_from(&table);
                    self.pair()?;
                    self.path = table;
                    self.key = None;
                    self.text.end_of_item()?;
                }
                None => return Ok(()),
            }
        }
    }

    /// Parses `[a.b]` or `[[a.b]]`.
    fn header(&mut self) -> Result<(), TomlError> {
        let of_array = self.text.accept('[')?;
        let mut keys = Vec::new();
        loop {
            self.text.skip_blanks()?;
            match self.text.peek()? {
                Some(']') | None => {
                    return Err(self
                        .text
                        .error("unexpected end of table name (table names cannot be empty)"));
                }
                Some('.') => {
                    return Err(self.text.error("unexpected table separator (table names cannot be empty)"));
                }
                Some(_) => self.name(&mut keys)?,
            }
            self.text.skip_blanks()?;
            match self.text.next()? {
                Some('.') => {}
                Some(']') => break,
                other => {
                    let found = TomlText::quoted(other);
                    return Err(self
                        .text
                        .error(format!("expected '.' or ']' to end table name, but got {found} instead")));
                }
            }
        }
        if of_array {
            match self.text.next()? {
                Some(']') => {}
                other => {
                    let found = TomlText::quoted(other);
                    return Err(self.text.error(format!(
                        "expected end of table array name delimiter ']', but got {found} instead"
                    )));
                }
            }
        }
        self.enter(keys, of_array)?;
        self.text.end_of_item()
    }

    /// Parses one part of a key.
    fn name(&mut self, keys: &mut Vec<Str>) -> Result<(), TomlError> {
        if self.path.len() + keys.len() > MAX_DEPTH {
            return Err(self.text.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        let name = match self.text.next()? {
            Some('"') => self.text.string()?,
            Some('\'') => self.text.raw_string()?,
            Some(_) => {
                self.text.push_back();
                self.text.take_while(key::is_bare)?.to_owned()
            }
            None => String::new(),
        };
        if keys.is_empty() {
            self.key_line = self.text.line();
        }
        keys.push(name.into());
        Ok(())
    }

    /// Charges a walk along a path: every key on it is compared and copied.
    fn charge_path(&self, path: &[Str]) -> Result<(), TomlError> {
        let steps = path.iter().map(|key| STEPS_PER_KEY + key.len() as u64 / BYTES_PER_STEP).sum();
        self.budget.charge(steps).map_err(|why| self.text.error(&*why))
    }

    /// Makes the table of a header the current one.
    fn enter(&mut self, mut keys: Vec<Str>, of_array: bool) -> Result<(), TomlError> {
        let Some(last) = keys.pop() else {
            return Ok(());
        };
        self.charge_path(&keys)?;
        let line = self.key_line;
        let whole = |keys: &[Str]| key::path(&[keys, std::slice::from_ref(&last)].concat());
        let mut table = &mut self.root;
        for (at, key) in keys.iter().enumerate() {
            let node = table
                .entry(key.clone())
                .or_insert_with(|| TomlNode::Table { table: Table::new(), implied: true });
            table = match node {
                TomlNode::Table { table, .. } => table,
                TomlNode::Tables(tables) => match tables.last_mut() {
                    Some(table) => table,
                    None => return Ok(()),
                },
                TomlNode::Value(_) => {
                    let path = key::path(keys.get(..=at).unwrap_or_default());
                    return Err(TomlError {
                        line,
                        message: format!("Key '{path}' was already created as a hash."),
                    });
                }
            };
        }
        match (table.get_mut(&last), of_array) {
            (None, true) => {
                table.insert(last.clone(), TomlNode::Tables(vec![Table::new()]));
            }
            (Some(TomlNode::Tables(tables)), true) => tables.push(Table::new()),
            (Some(_), true) => {
                let why =
                    format!("Key '{}' was already created and cannot be used as an array.", whole(&keys));
                self.path = keys;
                return Err(TomlError { line, message: why });
            }
            (None, false) => {
                table.insert(last.clone(), TomlNode::Table { table: Table::new(), implied: false });
            }
            (Some(TomlNode::Table { implied, .. }), false) if *implied => *implied = false,
            (Some(_), false) => {
                let why = format!("Key '{}' has already been defined.", whole(&keys));
                self.path = keys;
                return Err(TomlError { line, message: why });
            }
        }
        keys.push(last);
        self.path = keys;
        Ok(())
    }

    /// Parses `a.b = value` into the current table.
    fn pair(&mut self) -> Result<(), TomlError> {
        let keys = self.keys()?;
        let around = self.path.len();
        let value = self.keyed_value(keys)?;
        self.charge_path(&self.path)?;
        let mut table = &mut self.root;
        let mut path = Vec::new();
        let line = self.key_line;
        for (at, key) in self.path.iter().enumerate() {
            path.push(key.clone());
            // A table that a dotted key visits for the second time is no longer only implied.
            let is_new = !table.contains_key(key);
            let node = table
                .entry(key.clone())
                .or_insert_with(|| TomlNode::Table { table: Table::new(), implied: true });
            table = match node {
                TomlNode::Table { table, implied } => {
                    *implied &= is_new || at < around;
                    table
                }
                TomlNode::Tables(tables) => match tables.last_mut() {
                    Some(table) => table,
                    None => return Ok(()),
                },
                TomlNode::Value(_) => {
                    let why = format!("Key '{}' has already been defined.", key::path(&path));
                    return Err(TomlError { line, message: why });
                }
            };
        }
        let key = self.key.clone().unwrap_or_default();
        match table.get_mut(&key) {
            None => {
                table.insert(key, TomlNode::Value(value));
            }
            Some(TomlNode::Table { implied, .. }) if *implied => *implied = false,
            Some(_) => {
                path.push(key);
                return Err(self.at_key(format!("Key '{}' has already been defined.", key::path(&path))));
            }
        }
        Ok(())
    }

    /// Parses the parts of a key, up to and including `=`.
    fn keys(&mut self) -> Result<Vec<Str>, TomlError> {
        let mut keys = Vec::new();
        self.text.skip_blanks()?;
        match self.text.peek()? {
            Some('=') | None => return Err(self.text.error("unexpected '=': key name appears blank")),
            Some('.') => return Err(self.text.error("unexpected '.': keys cannot start with a '.'")),
            Some(_) => {}
        }
        loop {
            self.text.skip_blanks()?;
            match self.text.peek()? {
                Some('=') | None if !keys.is_empty() => return Err(self.text.error("unexpected '='")),
                Some('.') if !keys.is_empty() => return Err(self.text.error("unexpected '.'")),
                _ => self.name(&mut keys)?,
            }
            self.text.skip_blanks()?;
            match self.text.next()? {
                Some('.') => {}
                Some('=') => return Ok(keys),
                None => return Err(self.text.error("unexpected EOF; expected key separator '='")),
                other => {
                    let found = TomlText::quoted(other);
                    return Err(self
                        .text
                        .error_at_line_end(other, format!("expected '.' or '=', but got {found} instead")));
                }
            }
        }
    }

    /// Parses the value of a key, which becomes the current key.
    fn keyed_value(&mut self, mut keys: Vec<Str>) -> Result<Value, TomlError> {
        self.key = keys.pop();
        self.path.append(&mut keys);
        self.text.skip_blanks()?;
        self.value()
    }

    fn value(&mut self) -> Result<Value, TomlError> {
        match self.text.next()? {
            Some('[') => self.nested(Self::array),
            Some('{') => self.nested(Self::inline_table),
            first => self.text.scalar(first),
        }
    }

    fn nested(&mut self, read: fn(&mut Self) -> Result<Value, TomlError>) -> Result<Value, TomlError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.text.error(format!("nested more than {MAX_DEPTH} deep")));
        }
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn array(&mut self) -> Result<Value, TomlError> {
        let mut items = Vec::new();
        loop {
            self.text.skip_lines()?;
            match self.text.next()? {
                Some(',') => return Err(self.text.error("unexpected comma")),
                Some(']') => break,
                _ => self.text.push_back(),
            }
            items.push(self.value()?);
            self.text.skip_lines()?;
            match self.text.next()? {
                Some(',') => {}
                Some(']') => break,
                other => {
                    let found = TomlText::quoted_or_end(other);
                    return Err(self.text.error(format!(
                        "expected a comma (',') or array terminator (']'), but got {found}"
                    )));
                }
            }
        }
        Ok(List::any(items).into())
    }

    fn inline_table(&mut self) -> Result<Value, TomlError> {
        // Decoded as a separate document below the current key.
        let outer = (mem::take(&mut self.root), self.path.clone(), self.key.take());
        self.path.extend(outer.2.clone());
        let prefix = self.path.clone();
        let read = self.inline_pairs(&prefix);
        // On an error, the path is left unchanged, because the message names it.
        read?;
        let table = mem::replace(&mut self.root, outer.0);
        self.path = outer.1;
        self.key = outer.2;
        let mut node = TomlNode::Table { table, implied: false };
        for key in &prefix {
            node = match node {
                TomlNode::Table { mut table, .. } => {
                    table.remove(key).unwrap_or(TomlNode::Table { table: Table::new(), implied: false })
                }
                other => other,
            };
        }
        Ok(value(node))
    }

    fn inline_pairs(&mut self, prefix: &[Str]) -> Result<(), TomlError> {
        loop {
            self.text.skip_inside_table()?;
            match self.text.next()? {
                Some(',') => return Err(self.text.error("unexpected comma")),
                Some('}') => return Ok(()),
                _ => self.text.push_back(),
            }
            self.pair()?;
            self.path = prefix.to_vec();
            self.text.skip_inside_table()?;
            match self.text.next()? {
                Some(',') => {
                    self.text.skip_blanks()?;
                    if self.text.peek()? == Some('}') && !self.text.is_toml_1_1() {
                        return Err(self.text.error("trailing comma not allowed in inline tables"));
                    }
                }
                Some('}') => return Ok(()),
                other => {
                    let found = TomlText::quoted_or_end(other);
                    return Err(self.text.error(format!(
                        "expected a comma or an inline table terminator '}}', but got {found} instead"
                    )));
                }
            }
        }
    }
}
