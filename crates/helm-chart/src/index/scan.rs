//! Recognises an index in Helm's layout and builds only a table of positions.
//!
//! This is not a YAML parser. It knows the single form in which Helm writes mappings, sequences and scalars, checks
//! every line and value against it, and gives up when unsure; the parser then decides. Invariant: it accepts only
//! texts that the parser accepts.

use std::collections::HashSet;
use std::ops::Range;

use helm_template::profile::Profile;
use helm_template::semver::Version;
use helm_template::value::Str;
use memchr::memchr;

use super::entry::{CHART_VERSION, INDEX_FILE};
use crate::timestamp;
use crate::typed::{Shape, Struct};

pub(super) struct ScannedIndex<'a> {
    pub api_version: &'a str,
    pub generated: Str,
    pub charts: Vec<ScannedChart<'a>>,
}

pub(super) struct ScannedChart<'a> {
    pub name: &'a str,
    pub versions: Vec<ScannedEntry<'a>>,
}

/// Fields of an entry that determine its validity.
#[derive(Default)]
pub(super) struct ScannedEntry<'a> {
    pub name: &'a str,
    pub version: &'a str,
    kind: &'a str,
    /// The validity of the entry could not be determined here.
    is_uncertain: bool,
    pub span: Range<usize>,
}

impl ScannedEntry<'_> {
    pub fn is_plainly_valid(&self, profile: Profile) -> bool {
        !self.is_uncertain
            && !matches!(self.name, "" | "." | "..")
            && !self.name.contains('/')
            && matches!(self.kind, "" | "application" | "library")
            && Version::parse(self.version, profile).is_ok()
    }
}

/// Returns `None` if the text is not, or may not be, in Helm's layout.
pub(super) fn scan(text: &[u8]) -> Option<ScannedIndex<'_>> {
    let text = std::str::from_utf8(text).ok()?;
    if !text.ends_with('\n')
        || !text.bytes().enumerate().all(|(at, byte)| is_unambiguous(text.as_bytes(), at, byte))
    {
        return None;
    }
    let mut scan = IndexScanner {
        text,
        at: 0,
        depth: 0,
        index: ScannedIndex { api_version: "", generated: Str::default(), charts: Vec::new() },
        entry: ScannedEntry::default(),
    };
    scan.mapping(0, &INDEX_FILE)?;
    (scan.at == text.len()).then_some(scan.index)
}

/// Characters without special meaning in any position: no control characters and no non-ASCII line breaks of YAML.
fn is_unambiguous(text: &[u8], at: usize, byte: u8) -> bool {
    match byte {
        b'\n' | b' '..=b'~' => true,
        0..0x20 | 0x7f => false,
        0xc2 => text.get(at + 1).is_some_and(|next| *next >= 0xa0),
        0xe2 => !matches!(text.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])),
        0xef => !matches!(text.get(at + 1..at + 3), Some([0xbb, 0xbf] | [0xbf, 0xbe | 0xbf])),
        _ => true,
    }
}

/// Value of a key.
enum Scalar<'a> {
    /// Not a scalar but a collection.
    Collection,
    Text(&'a str),
    /// With escapes, or over several lines.
    Complex,
}

struct IndexScanner<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    index: ScannedIndex<'a>,
    entry: ScannedEntry<'a>,
}

impl<'a> IndexScanner<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// The rest of this line, without the line break.
    fn line(&self) -> &'a str {
        let rest = self.rest();
        memchr(b'\n', rest.as_bytes()).map_or(rest, |end| &rest[..end])
    }

    fn next_line(&mut self) {
        self.at = (self.at + self.line().len() + 1).min(self.text.len());
    }

    /// Indentation of the current line; the position is at its beginning.
    fn indentation(&self) -> usize {
        self.rest().bytes().take_while(|b| *b == b' ').count()
    }

    /// Whether the current line continues the collection at `column`; if so, moves to that column. `None` if it
    /// neither continues nor ends the collection.
    fn continues_collection(&mut self, column: usize, sequence: bool) -> Option<bool> {
        let rest = self.rest();
        if rest.is_empty() {
            return Some(false);
        }
        let indentation = self.indentation();
        let dash = rest[indentation..].starts_with("- ");
        if indentation == column && dash == sequence {
            self.at += column;
            return Some(true);
        }
        // A sequence may be followed by a key of its parent at the same column, and a mapping by the next item.
        (indentation < column || (indentation == column && sequence && !dash)).then_some(false)
    }

    fn mapping(&mut self, column: usize, of: &'static Struct) -> Option<()> {
        let mut taken = 0_u64;
        loop {
            let key = self.key()?;
            let (index, shape) = of.canonical_field(key)?;
            if taken & (1 << index) != 0 {
                return None;
            }
            taken |= 1 << index;
            let scalar = self.value(column, shape)?;
            self.record_field(of, key, &scalar);
            if !self.continues_collection(column, false)? {
                return Some(());
            }
        }
    }

    fn record_field(&mut self, of: &'static Struct, key: &str, scalar: &Scalar<'a>) {
        let place = if std::ptr::eq(of, &raw const CHART_VERSION) {
            match key {
                "name" => &mut self.entry.name,
                "version" => &mut self.entry.version,
                "type" => &mut self.entry.kind,
                _ => return,
            }
        } else if std::ptr::eq(of, &raw const INDEX_FILE) {
            match (key, scalar) {
                ("apiVersion", Scalar::Text(text)) => self.index.api_version = text,
                ("generated", Scalar::Text(text)) => {
                    self.index.generated = timestamp::normalize(text).unwrap_or_default().into();
                }
                _ => {}
            }
            return;
        } else {
            // Aliases follow their own rules.
            self.entry.is_uncertain |= key == "alias";
            return;
        };
        match scalar {
            Scalar::Text(text) => *place = text,
            _ => self.entry.is_uncertain = true,
        }
    }

    fn map(&mut self, column: usize, of: Shape) -> Option<()> {
        let charts = column == 2 && matches!(of, Shape::Named(..));
        let mut keys = HashSet::new();
        loop {
            let key = self.key()?;
            if !is_certainly_string(key) || !keys.insert(key) {
                return None;
            }
            if charts {
                self.index.charts.push(ScannedChart { name: key, versions: Vec::new() });
            }
            self.value(column, of)?;
            if !self.continues_collection(column, false)? {
                return Some(());
            }
        }
    }

    fn sequence(&mut self, column: usize, of: Shape) -> Option<()> {
        let entries = matches!(of, Shape::Struct(of) if std::ptr::eq(of, &raw const CHART_VERSION));
        loop {
            let start = self.at - column;
            self.at += 2;
            if entries {
                self.entry = ScannedEntry::default();
            }
            match of {
                Shape::Text => {
                    self.scalar(column, of)?;
                }
                _ => self.block(column + 2, of)?,
            }
            if entries {
                let seen = ScannedEntry { span: start..self.at, ..std::mem::take(&mut self.entry) };
                self.index.charts.last_mut()?.versions.push(seen);
            }
            if !self.continues_collection(column, true)? {
                return Some(());
            }
        }
    }

    fn block(&mut self, column: usize, shape: Shape) -> Option<()> {
        // Declared shapes are not nested deeper; values of arbitrary shape are left to the parser.
        if self.depth > 8 {
            return None;
        }
        self.depth += 1;
        match shape {
            Shape::Named(_, inner) => self.block(column, *inner)?,
            Shape::List(of) if self.rest().starts_with("- ") => self.sequence(column, *of)?,
            Shape::Map(of) => self.map(column, *of)?,
            Shape::Struct(of) => self.mapping(column, of)?,
            _ => return None,
        }
        self.depth -= 1;
        Some(())
    }

    /// Reads an unquoted key; the position is then behind its colon.
    fn key(&mut self) -> Option<&'a str> {
        let line = self.line();
        let colon = memchr(b':', line.as_bytes())?;
        let key = &line[..colon];
        let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/');
        if !key.starts_with(|c: char| c.is_ascii_alphanumeric()) || !key.bytes().all(plain) {
            return None;
        }
        self.at += colon + 1;
        Some(key)
    }

    /// Reads the value of a key of a mapping at `column`.
    fn value(&mut self, column: usize, shape: Shape) -> Option<Scalar<'a>> {
        if let Some(rest) = self.rest().strip_prefix(' ') {
            let empty = match shape {
                Shape::Named(_, Shape::List(_)) | Shape::List(_) => "[]\n",
                Shape::Map(_) => "{}\n",
                _ => {
                    self.at += 1;
                    return self.scalar(column, shape);
                }
            };
            if !rest.starts_with(empty) {
                return None;
            }
            self.at += 1 + empty.len();
            return Some(Scalar::Collection);
        }
        if !self.rest().starts_with('\n') {
            return None;
        }
        self.next_line();
        let indentation = self.indentation();
        let column = match shape {
            // Helm does not indent the items of a sequence.
            Shape::List(_) | Shape::Named(..) if indentation == column => column,
            Shape::Map(_) | Shape::Struct(_) if indentation == column + 2 => column + 2,
            _ => return None,
        };
        self.at += column;
        self.block(column, shape)?;
        Some(Scalar::Collection)
    }

    /// Reads a scalar whose continuation lines are indented by more than `column`.
    fn scalar(&mut self, column: usize, shape: Shape) -> Option<Scalar<'a>> {
        let scalar = match self.rest().as_bytes().first()? {
            quote @ (b'"' | b'\'') => self.quoted(*quote, column)?,
            b'|' | b'>' => self.block_scalar(column)?,
            _ => return self.plain(column, shape),
        };
        match (shape, &scalar) {
            (Shape::Text, _) => Some(scalar),
            (Shape::Time, Scalar::Text(text)) if timestamp::normalize(text).is_ok() => Some(scalar),
            _ => None,
        }
    }

    fn plain(&mut self, column: usize, shape: Shape) -> Option<Scalar<'a>> {
        let first = self.line();
        let mut scalar = Scalar::Text(first);
        if !first.starts_with(|c: char| c.is_alphanumeric() || PLAIN_START_PUNCTUATION.contains(c))
            || !is_plain(first)
        {
            return None;
        }
        self.next_line();
        while self.indentation() > column {
            let line = self.line().trim_start_matches(' ');
            if line.is_empty() || line.starts_with('#') || !is_plain(line) {
                return None;
            }
            scalar = Scalar::Complex;
            self.next_line();
        }
        // An empty line would belong to the scalar.
        if self.rest().starts_with('\n') {
            return None;
        }
        let fits = match (shape, &scalar) {
            (Shape::Text, Scalar::Complex) => true,
            (Shape::Text, Scalar::Text(text)) => is_certainly_string(text),
            (Shape::Flag, Scalar::Text(text)) => matches!(*text, "true" | "false"),
            (Shape::Time, Scalar::Text(text)) => timestamp::normalize(text).is_ok(),
            _ => false,
        };
        fits.then_some(scalar)
    }

    fn quoted(&mut self, quote: u8, column: usize) -> Option<Scalar<'a>> {
        let text = self.rest().get(1..)?;
        let bytes = text.as_bytes();
        let (mut at, mut plain) = (0, true);
        loop {
            let long = match bytes.get(at)? {
                b'\'' if quote == b'\'' && bytes.get(at + 1) == Some(&b'\'') => 2,
                byte if *byte == quote => break,
                b'\\' if quote == b'"' => escape_len(text, at)?,
                b'\n' => continuation_len(bytes.get(at + 1..)?, column)?,
                _ => {
                    at += 1;
                    continue;
                }
            };
            plain = false;
            at += long;
        }
        // The line must end with the quote.
        if bytes.get(at + 1) != Some(&b'\n') {
            return None;
        }
        self.at += 1 + at + 2;
        Some(if plain { Scalar::Text(&text[..at]) } else { Scalar::Complex })
    }

    fn block_scalar(&mut self, column: usize) -> Option<Scalar<'a>> {
        let header = self.line()[1..].trim_end_matches(['-', '+']);
        let mut indentation = match header.as_bytes() {
            [] => None,
            [digit @ b'1'..=b'9'] => Some(column + usize::from(digit - b'0')),
            _ => return None,
        };
        if self.line().len() - header.len() > 2 {
            return None;
        }
        self.next_line();
        loop {
            if self.rest().starts_with('\n') {
                self.next_line();
                continue;
            }
            let found = self.indentation();
            if self.rest().is_empty() || found <= column {
                return Some(Scalar::Complex);
            }
            if found == self.line().len() || found < *indentation.get_or_insert(found) {
                return None;
            }
            self.next_line();
        }
    }
}

/// Length of the escape sequence in a quoted scalar, if valid. For an escaped line break it excludes the break.
fn escape_len(text: &str, at: usize) -> Option<usize> {
    let digits = match text.as_bytes().get(at + 1)? {
        b'0' | b'a' | b'b' | b't' | b'n' | b'v' | b'f' | b'r' | b'e' | b' ' | b'"' | b'\\' | b'N' | b'_'
        | b'L' | b'P' => return Some(2),
        b'\n' => return Some(1),
        b'x' => 2,
        b'u' => 4,
        b'U' => 8,
        _ => return None,
    };
    let number = text.get(at + 2..at + 2 + digits)?;
    if !number.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    u32::from_str_radix(number, 16).ok().and_then(char::from_u32)?;
    Some(2 + digits)
}

/// Length of the line break in a quoted scalar, if its next line is empty or indented by more than the parent.
fn continuation_len(line: &[u8], column: usize) -> Option<usize> {
    let indentation = line.iter().take_while(|b| **b == b' ').count();
    (line.first() == Some(&b'\n') || indentation > column).then_some(1)
}

/// Punctuation that a plain scalar may begin with.
const PLAIN_START_PUNCTUATION: &str = "/(^~<$";

/// Whether a line is only a plain scalar, without a key or comment.
fn is_plain(line: &str) -> bool {
    let bytes = line.as_bytes();
    !line.ends_with([':', ' '])
        && memchr::memchr_iter(b':', bytes).all(|at| bytes.get(at + 1) != Some(&b' '))
        && memchr::memchr_iter(b'#', bytes).all(|at| at > 0 && bytes.get(at - 1) != Some(&b' '))
}

/// Whether a plain scalar is certainly a string: not a number, boolean, null or time.
pub(super) fn is_certainly_string(text: &str) -> bool {
    let bytes = text.as_bytes();
    match bytes.first() {
        Some(b'0'..=b'9') => {
            let (digits, digit): (_, fn(&u8) -> bool) = match bytes {
                [b'0', b'x' | b'X', rest @ ..] => (rest, |b| b.is_ascii_hexdigit() || *b == b'_'),
                [b'0', b'o' | b'O', rest @ ..] => (rest, |b| matches!(b, b'0'..=b'7' | b'_')),
                [b'0', b'b' | b'B', rest @ ..] => (rest, |b| matches!(b, b'0' | b'1' | b'_')),
                all => (all, |b| matches!(b, b'0'..=b'9' | b'_' | b'e' | b'E' | b'+' | b'-' | b':' | b'.')),
            };
            !digits.iter().all(digit) || memchr::memchr_iter(b'.', bytes).count() > 1
        }
        Some(first) if first.is_ascii_alphabetic() => {
            // The longest word with another meaning is `false`.
            bytes.len() > 5
                || !["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"]
                    .iter()
                    .any(|word| text.eq_ignore_ascii_case(word))
        }
        // `~` alone is null, `<<` merges.
        Some(first) => {
            !first.is_ascii()
                || (PLAIN_START_PUNCTUATION.contains(char::from(*first)) && bytes.len() > 1 && text != "<<")
        }
        None => false,
    }
}
