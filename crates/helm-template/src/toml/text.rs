//! Character reader of a TOML document, with its string and number literals.

use std::cell::Cell;

use super::number;
use crate::env::Clock;
use crate::go::printf;
use crate::go::unicode::is_letter;
use crate::profile::Profile;
use crate::value::Value;

/// An error and its line.
pub(super) struct TomlError {
    pub line: usize,
    pub message: String,
}

/// The position of the decoder in its text.
pub(super) struct TomlText<'t> {
    input: &'t str,
    /// The first byte after the valid UTF-8 prefix, if any.
    invalid_byte: Option<u8>,
    at: usize,
    /// An offset and its line, for incremental line counting.
    counted_line: Cell<(usize, usize)>,
    /// The start of the current string.
    string_start: usize,
    /// Whether the end was read, not only reached.
    has_read_end: bool,
    profile: Profile,
    clock: &'t dyn Clock,
}

impl<'t> TomlText<'t> {
    pub fn new(bytes: &'t [u8], profile: Profile, clock: &'t dyn Clock) -> Self {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let (text, bad) = match bytes.utf8_chunks().next() {
            Some(chunk) => (chunk.valid(), chunk.invalid().first().copied()),
            None => ("", None),
        };
        Self {
            input: text,
            invalid_byte: bad,
            at: 0,
            counted_line: Cell::new((0, 1)),
            string_start: 0,
            has_read_end: false,
            profile,
            clock,
        }
    }

    /// Whether the document is TOML 1.1.
    pub fn is_toml_1_1(&self) -> bool {
        self.profile == Profile::Helm4
    }

    /// The current line. Counts from the position of the last call, so that calls at each key take linear time in total.
    pub fn line(&self) -> usize {
        let (at, line) = self.counted_line.get();
        let newlines = |from: usize, to: usize| {
            let part = self.input.as_bytes().get(from..to).unwrap_or_default();
            memchr::memchr_iter(b'\n', part).count()
        };
        let line = if self.at < at { line - newlines(self.at, at) } else { line + newlines(at, self.at) };
        self.counted_line.set((self.at, line));
        line
    }

    fn consumed(&self) -> &'t str {
        self.input.get(..self.at).unwrap_or_default()
    }

    fn rest(&self) -> &'t str {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// An error at the current position. At the end of the text it names the last line, which Helm 3 miscounts.
    pub fn error(&self, why: impl Into<String>) -> TomlError {
        let back = self.has_read_end && (!self.is_toml_1_1() || self.consumed().ends_with('\n'));
        TomlError { line: self.line() - usize::from(back), message: why.into() }
    }

    /// An error on the line that has just ended.
    fn error_before(&self, why: impl Into<String>) -> TomlError {
        TomlError { line: self.line().saturating_sub(1), message: why.into() }
    }

    /// Like [`TomlText::error`], but in Helm 4 an error at a newline names the line that it ends.
    pub fn error_at_line_end(&self, found: Option<char>, why: String) -> TomlError {
        if found == Some('\n') && self.is_toml_1_1() { self.error_before(why) } else { self.error(why) }
    }

    /// A character as Go quotes it; the end of the text is NUL.
    pub fn quoted(found: Option<char>) -> String {
        printf("%q", &[Value::Int(i64::from(u32::from(found.unwrap_or_default())))])
    }

    pub fn quoted_or_end(found: Option<char>) -> String {
        found.map_or_else(|| "end of file".to_owned(), |c| format!("'{c}'"))
    }

    /// The next character; `None` at the end.
    pub fn next(&mut self) -> Result<Option<char>, TomlError> {
        let mut chars = self.rest().chars();
        let Some(c) = chars.next() else {
            if let Some(byte) = self.invalid_byte {
                return Err(self.error(format!("invalid UTF-8 byte: 0x{byte:02x}")));
            }
            self.has_read_end = true;
            return Ok(None);
        };
        let lone_return = c == '\r' && chars.next() != Some('\n');
        if lone_return || (c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r')) {
            let code = u32::from(c);
            return Err(self.error(format!("TOML files cannot contain control characters: '0x{code:02x}'")));
        }
        self.at += c.len_utf8();
        Ok(Some(c))
    }

    /// Unreads the last character.
    pub fn push_back(&mut self) {
        if !std::mem::take(&mut self.has_read_end) {
            self.at -= self.consumed().chars().next_back().map_or(0, char::len_utf8);
        }
    }

    pub fn peek(&mut self) -> Result<Option<char>, TomlError> {
        let next = self.next()?;
        self.push_back();
        Ok(next)
    }

    pub fn accept(&mut self, wanted: char) -> Result<bool, TomlError> {
        let is = self.next()? == Some(wanted);
        if !is {
            self.push_back();
        }
        Ok(is)
    }

    pub fn take_while(&mut self, is: impl Fn(char) -> bool) -> Result<&'t str, TomlError> {
        let start = self.at;
        while self.next()?.is_some_and(&is) {}
        self.push_back();
        Ok(self.input.get(start..self.at).unwrap_or_default())
    }

    pub fn skip_blanks(&mut self) -> Result<(), TomlError> {
        self.take_while(|c| matches!(c, ' ' | '\t')).map(drop)
    }

    pub fn skip_comment(&mut self) -> Result<(), TomlError> {
        self.take_while(|c| !matches!(c, '\n' | '\r')).map(drop)
    }

    /// Skips blanks, newlines and comments.
    pub fn skip_lines(&mut self) -> Result<(), TomlError> {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r'))?;
            if !self.accept('#')? {
                return Ok(());
            }
            self.skip_comment()?;
        }
    }

    /// Skips blanks between the pairs of an inline table, and newlines and comments where allowed.
    pub fn skip_inside_table(&mut self) -> Result<(), TomlError> {
        if self.is_toml_1_1() {
            return self.skip_lines();
        }
        loop {
            self.skip_blanks()?;
            match self.next()? {
                Some('\n' | '\r') => {
                    return Err(self.error_before("newlines not allowed within inline tables"));
                }
                Some('#') => self.skip_comment()?,
                _ => {
                    self.push_back();
                    return Ok(());
                }
            }
        }
    }

    /// Checks that only blanks or a comment follow a header or value on its line.
    pub fn end_of_item(&mut self) -> Result<(), TomlError> {
        self.skip_blanks()?;
        match self.next()? {
            None | Some('\n' | '\r') => Ok(()),
            Some('#') => self.skip_comment(),
            other => {
                let found = Self::quoted(other);
                Err(self.error(format!(
                    "expected a top-level item to end with a newline, comment, or EOF, but got {found} instead"
                )))
            }
        }
    }

    /// Parses a value other than an array or table; `first` is its first character.
    pub fn scalar(&mut self, first: Option<char>) -> Result<Value, TomlError> {
        let text = match first {
            Some('"') if self.rest().starts_with("\"\"") => self.long_string()?,
            Some('"') => self.string()?,
            Some('\'') if self.rest().starts_with("''") => self.long_raw_string()?,
            Some('\'') => self.raw_string()?,
            Some('.') => return Err(self.error("floats must start with a digit, not '.'")),
            Some('0'..='9' | '+' | '-') => {
                self.push_back();
                return self.number();
            }
            Some(c) if is_letter(c) => {
                self.push_back();
                return self.bare_word();
            }
            None => return Err(self.error("unexpected EOF; expected value")),
            other => {
                let why = format!("expected value but found {} instead", Self::quoted(other));
                return Err(self.error_at_line_end(other, why));
            }
        };
        Ok(Value::string(text))
    }

    fn bare_word(&mut self) -> Result<Value, TomlError> {
        match self.take_while(is_letter)? {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "nan" => Ok(Value::Float(f64::NAN)),
            other => Err(self.error(format!("expected value but found {} instead", crate::go::quote(other)))),
        }
    }

    fn number(&mut self) -> Result<Value, TomlError> {
        let (literal, problem) = number::literal(self.rest());
        self.at += literal.len();
        if let Some(why) = problem {
            return Err(self.error(why));
        }
        number::value(literal, self.is_toml_1_1(), self.clock).map_err(|why| self.error(why))
    }

    /// Parses a string after its opening quote.
    pub fn string(&mut self) -> Result<String, TomlError> {
        self.string_start = self.at;
        let mut out = String::new();
        loop {
            match self.next()? {
                Some('"') => return Ok(out),
                Some('\\') => self.escape(&mut out)?,
                Some('\n' | '\r') => return Err(self.error_before("strings cannot contain newlines")),
                Some(c) => out.push(c),
                None => return Err(self.error("unexpected EOF; expected '\"'")),
            }
        }
    }

    pub fn raw_string(&mut self) -> Result<String, TomlError> {
        let mut out = String::new();
        loop {
            match self.next()? {
                Some('\'') => return Ok(out),
                Some('\n' | '\r') => return Err(self.error_before("strings cannot contain newlines")),
                Some(c) => out.push(c),
                None => return Err(self.error("unexpected EOF; expected \"'\"")),
            }
        }
    }

    fn long_string(&mut self) -> Result<String, TomlError> {
        self.open_long();
        let mut out = String::new();
        loop {
            match self.next()? {
                Some('"') => {
                    if self.close_long(&mut out, '"')? {
                        return Ok(out);
                    }
                }
                Some('\\') => {
                    let white = |c| matches!(c, ' ' | '\t' | '\r' | '\n');
                    let after = self.rest().trim_start_matches(white);
                    let skipped = self.rest().len() - after.len();
                    if self.rest().get(..skipped).is_some_and(|white| white.contains('\n')) {
                        self.at += skipped;
                    } else {
                        self.escape(&mut out)?;
                    }
                }
                Some(c) => out.push(c),
                None => return Err(self.error("unexpected EOF; expected '\"\"\"'")),
            }
        }
    }

    fn long_raw_string(&mut self) -> Result<String, TomlError> {
        self.open_long();
        let mut out = String::new();
        loop {
            match self.next()? {
                Some('\'') => {
                    if self.close_long(&mut out, '\'')? {
                        return Ok(out);
                    }
                }
                Some(c) => out.push(c),
                None => return Err(self.error("unexpected EOF; expected \"'''\"")),
            }
        }
    }

    /// Skips the other two opening quotes and a newline directly after them.
    fn open_long(&mut self) {
        self.at += 2;
        let newline = ["\n", "\r\n"].into_iter().find(|newline| self.rest().starts_with(newline));
        self.string_start = self.at;
        self.at += newline.map_or(0, str::len);
    }

    /// Handles quotes after the first one was read: three end the string, and up to two quotes before them belong to it.
    fn close_long(&mut self, out: &mut String, quote: char) -> Result<bool, TomlError> {
        let more = self.rest().chars().take_while(|c| *c == quote).count();
        let count = more + 1;
        match count {
            1 | 2 => (0..count).for_each(|_| out.push(quote)),
            3..=5 => (3..count).for_each(|_| out.push(quote)),
            _ if quote == '"' => return Err(self.error("unexpected '\"\"\"\"\"\"'")),
            _ => return Err(self.error("unexpected \"''''''\"")),
        }
        self.at += more;
        Ok(count >= 3)
    }

    /// Parses an escape after its backslash.
    fn escape(&mut self, out: &mut String) -> Result<(), TomlError> {
        let c = match self.next()? {
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            Some('e') if self.is_toml_1_1() => '\u{1b}',
            Some(c @ ('"' | '\\')) => c,
            Some(c @ (' ' | '\t')) => return Err(self.error(format!("invalid escape: '\\{c}'"))),
            Some('x') if self.is_toml_1_1() => self.code(2, "two", 'x')?,
            Some('u') => self.code(4, "four", 'u')?,
            Some('U') => self.code(8, "eight", 'U')?,
            other => {
                let c = other.unwrap_or_default();
                return Err(self.error(format!("invalid escape in string '\\{c}'")));
            }
        };
        out.push(c);
        Ok(())
    }

    fn code(&mut self, count: usize, in_words: &str, kind: char) -> Result<char, TomlError> {
        let start = self.at;
        for _ in 0..count {
            if !self.next()?.is_some_and(|c| c.is_ascii_hexdigit()) {
                let found = crate::go::quote(self.input.get(self.string_start..self.at).unwrap_or_default());
                return Err(self.error(format!(
                    "expected {in_words} hexadecimal digits after '\\{kind}', but got {found} instead"
                )));
            }
        }
        let digits = self.input.get(start..self.at).unwrap_or_default();
        u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32)
            .ok_or_else(|| self.error(format!("Escaped character '\\u{digits}' is not valid UTF-8.")))
    }
}
