//! Parser of the `--set` flags: `name=value,list[0].key={a,b}`.
//!
//! Each key is parsed and written directly into the existing values. Oddities are Helm's: a line may end inside a
//! name, an empty name sets nothing, and `{}` is a list of one empty string.

mod cursor;
mod json;
#[cfg(test)]
mod tests;

use helm_template::data::{Data, Members};
use helm_template::go::{printf, quote};
use helm_template::profile::Profile;
use helm_template::value::{Str, Value};

use cursor::Cursor;

/// Maximum index of a list.
const MAX_INDEX: i64 = 65_536;
/// Maximum number of names joined by dots.
const MAX_NAMES: usize = 30;
/// Maximum number of indexes in one name. Helm has no such limit; it protects the stack.
const MAX_INDEXES: usize = 250;
/// Maximum number of list elements created by one line. Helm has no such limit.
const MAX_ELEMENTS: usize = 1 << 20;

/// A flag of the family, in the order in which Helm applies them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetFlag {
    /// `--set-json`: values are JSON.
    Json,
    /// `--set`: numbers, booleans and nulls are recognised.
    Typed,
    /// `--set-string`: all values are strings.
    Text,
    /// `--set-file`: values are file names, replaced by the content of the files.
    File,
    /// `--set-literal`: one value, taken literally.
    Literal,
}

impl SetFlag {
    pub fn flag(self) -> &'static str {
        match self {
            Self::Json => "--set-json",
            Self::Typed => "--set",
            Self::Text => "--set-string",
            Self::File => "--set-file",
            Self::Literal => "--set-literal",
        }
    }
}

/// Parses a line into `values`. `open` reads a file named by the line.
pub fn apply(
    kind: SetFlag,
    line: &str,
    values: &mut Members,
    profile: Profile,
    open: &mut dyn FnMut(&str) -> Result<Str, Str>,
) -> Result<(), Str> {
    let mut parser = Parser { kind, profile, open, cursor: Cursor::new(line), elements: 0 };
    loop {
        match parser.key(values, 0, 0) {
            Ok(()) => {}
            Err(ParseStop::End) => return Ok(()),
            Err(ParseStop::Error(error)) => return Err(error),
        }
    }
}

/// Reason why parsing stops.
enum ParseStop {
    /// End of the line.
    End,
    Error(Str),
}

fn error<T>(text: impl Into<Str>) -> Result<T, ParseStop> {
    Err(ParseStop::Error(text.into()))
}

struct Parser<'p, 'o> {
    kind: SetFlag,
    profile: Profile,
    open: &'p mut (dyn FnMut(&str) -> Result<Str, Str> + 'o),
    cursor: Cursor<'p>,
    /// Number of list elements created so far.
    elements: usize,
}

impl Parser<'_, '_> {
    /// Parses one name and its value into `table`.
    fn key(&mut self, table: &mut Members, names: usize, indexes: usize) -> Result<(), ParseStop> {
        let stops: &[char] =
            if self.kind == SetFlag::Literal { &['=', '[', '.'] } else { &['=', '[', ',', '.'] };
        let (key, stop) = self.read_until(stops);
        match stop {
            None if key.is_empty() => Err(ParseStop::End),
            None => error(format!("key {} has no value", quote(&key))),
            Some('[') => {
                let index = self.index()?;
                let mut list = match table.get_mut(&*key) {
                    None => Vec::new(),
                    Some(Data::List(list)) if key.is_empty() => list.clone(),
                    Some(Data::List(list)) => std::mem::take(list),
                    Some(other) => return type_error(other, "[]interface {}"),
                };
                let result = self.element(&mut list, index, names, indexes);
                put(table, key, Data::List(list));
                result
            }
            Some('=') => {
                let value = self.value()?;
                let result = if value.is_some() { Ok(()) } else { Err(ParseStop::End) };
                put(table, key, value.unwrap_or_else(|| Data::string("")));
                result
            }
            Some('.') => {
                if names == MAX_NAMES {
                    return error(format!(
                        "value name nested level is greater than maximum supported nested level of {MAX_NAMES}"
                    ));
                }
                let mut fresh = Members::new();
                let inner = match table.get_mut(&*key) {
                    None => &mut fresh,
                    Some(Data::Map(inner)) => inner,
                    Some(other) => return type_error(other, "map[string]interface {}"),
                };
                let result = self.key(inner, names + 1, indexes);
                if result.is_ok() && inner.is_empty() {
                    return error(format!("key map {} has no value", quote(&key)));
                }
                if !fresh.is_empty() {
                    put(table, key, Data::Map(fresh));
                }
                result
            }
            Some(_) => error(format!("key {} has no value (cannot end with ,)", quote(&key))),
        }
    }

    /// Parses the part after `[index]`.
    fn element(
        &mut self,
        list: &mut Vec<Data>,
        index: i64,
        names: usize,
        indexes: usize,
    ) -> Result<(), ParseStop> {
        if indexes == MAX_INDEXES {
            return error(format!("value name has more than {MAX_INDEXES} indexes"));
        }
        if index < 0 {
            return error(format!("negative {index} index not allowed"));
        }
        let (stray, stop) = self.read_until(&['[', '.', '=']);
        if !stray.is_empty() {
            let stray: Vec<_> =
                stray.chars().map(|c| printf("%q", &[Value::Int(i64::from(u32::from(c)))])).collect();
            return error(format!("unexpected data at end of array index: [{}]", stray.join(" ")));
        }
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        match stop {
            None => Err(ParseStop::End),
            Some('=') => {
                let value = self.value()?.unwrap_or_else(|| Data::string(""));
                self.put_at(list, index, value)
            }
            Some('[') => {
                let next = self.index()?;
                let mut fresh = Vec::new();
                match list.get_mut(at) {
                    None | Some(Data::Null) => {}
                    Some(Data::List(inner)) => return self.element(inner, next, names, indexes + 1),
                    Some(other) => return type_error(other, "[]interface {}"),
                }
                self.element(&mut fresh, next, names, indexes + 1)?;
                self.put_at(list, index, Data::List(fresh))
            }
            Some(_) => {
                let mut fresh = Members::new();
                if let Some(Data::Map(inner)) = list.get_mut(at) {
                    return self.key(inner, names, indexes + 1);
                }
                let result = self.key(&mut fresh, names, indexes + 1);
                match list.get_mut(at) {
                    // The previous value is replaced even if the rest fails.
                    Some(there) => *there = Data::Map(fresh),
                    None if result.is_ok() => self.put_at(list, index, Data::Map(fresh))?,
                    None => {}
                }
                result
            }
        }
    }

    fn put_at(&mut self, list: &mut Vec<Data>, index: i64, value: Data) -> Result<(), ParseStop> {
        if index > MAX_INDEX {
            return error(format!("index of {index} is greater than maximum supported index of {MAX_INDEX}"));
        }
        let at = usize::try_from(index).unwrap_or_default();
        if list.len() <= at {
            self.elements += at + 1 - list.len();
            if self.elements > MAX_ELEMENTS {
                return error(format!("lists have more than {MAX_ELEMENTS} elements"));
            }
            list.resize(at + 1, Data::Null);
        }
        if let Some(there) = list.get_mut(at) {
            *there = value;
        }
        Ok(())
    }

    /// Parses the number between `[` and `]`.
    fn index(&mut self) -> Result<i64, ParseStop> {
        let (text, stop) = self.read_until(&[']']);
        if stop.is_none() {
            // Helm 4 wraps the end of the line so that it is still recognised as one.
            return match self.profile {
                Profile::Helm3 => error("error parsing index: EOF"),
                Profile::Helm4 => Err(ParseStop::End),
            };
        }
        text.parse().or_else(|_| {
            let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
            let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let why = if is_number { "value out of range" } else { "invalid syntax" };
            error(format!("error parsing index: strconv.Atoi: parsing {}: {why}", quote(&text)))
        })
    }

    /// Parses the part after `=`; `None` at the end of the line.
    fn value(&mut self) -> Result<Option<Data>, ParseStop> {
        match self.kind {
            SetFlag::Json => return self.json().map(Some),
            SetFlag::Literal => return Ok(Some(Data::string(self.cursor.take_all()))),
            _ => {}
        }
        match self.cursor.peek() {
            None => Ok(None),
            Some('{') => {
                self.cursor.next();
                self.list().map(|list| Some(Data::List(list)))
            }
            Some(_) => {
                let (text, _) = self.read_until(&[',']);
                self.one(text).map(Some)
            }
        }
    }

    /// Parses the strings of a list, up to `}` and an optional comma.
    fn list(&mut self) -> Result<Vec<Data>, ParseStop> {
        let mut list = Vec::new();
        loop {
            let (text, stop) = self.read_until(&[',', '}']);
            if stop.is_none() {
                return error("list must terminate with '}'");
            }
            if stop == Some('}') && self.cursor.peek() == Some(',') {
                self.cursor.next();
            }
            list.push(self.one(text)?);
            if stop == Some('}') {
                return Ok(list);
            }
        }
    }

    fn one(&mut self, text: String) -> Result<Data, ParseStop> {
        match self.kind {
            SetFlag::Typed => Ok(infer_type(text)),
            SetFlag::File => (self.open)(&text).map(Data::String).map_err(ParseStop::Error),
            SetFlag::Json | SetFlag::Text | SetFlag::Literal => Ok(Data::string(text)),
        }
    }

    /// Parses a JSON value with following blanks and a comma. An empty value is null.
    fn json(&mut self) -> Result<Data, ParseStop> {
        if self.cursor.skip_blanks_and_comma() {
            return Ok(Data::Null);
        }
        let value = json::take_value(&mut self.cursor).map_err(ParseStop::Error)?;
        self.cursor.skip_blanks_and_comma();
        Ok(value)
    }

    /// Reads text up to one of `stops` and returns both. A backslash escapes the next character.
    fn read_until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        while let Some(c) = self.cursor.next() {
            if stops.contains(&c) {
                return (text, Some(c));
            }
            if c == '\\' && self.kind != SetFlag::Literal {
                text.extend(self.cursor.next());
            } else {
                text.push(c);
            }
        }
        (text, None)
    }
}

/// An empty key sets nothing.
fn put(table: &mut Members, key: String, value: Data) {
    if !key.is_empty() {
        table.insert(key.into(), value);
    }
}

fn type_error<T>(data: &Data, wanted: &str) -> Result<T, ParseStop> {
    let is = match data {
        Data::Null => "nil",
        Data::Bool(_) => "bool",
        Data::Int(_) => "int64",
        Data::Float(_) => "float64",
        Data::String(_) => "string",
        Data::List(_) => "[]interface {}",
        Data::Map(_) => "map[string]interface {}",
    };
    error(format!("unable to parse key: interface conversion: interface {{}} is {is}, not {wanted}"))
}

/// Infers the type of a text. Numbers with a leading zero are strings, such as versions and telephone numbers.
fn infer_type(text: String) -> Data {
    // Go's case folding includes the long s.
    let is = |word: &str| {
        text.chars().map(|c| if c == 'ſ' { 's' } else { c.to_ascii_lowercase() }).eq(word.chars())
    };
    if is("true") {
        Data::Bool(true)
    } else if is("false") {
        Data::Bool(false)
    } else if is("null") {
        Data::Null
    } else if text == "0" {
        Data::Int(0)
    } else if text.starts_with('0') {
        Data::string(text)
    } else {
        text.parse().map_or_else(|_| Data::string(text), Data::Int)
    }
}
