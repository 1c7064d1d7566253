//! Character reader of a TOML document, with its string and number literals.

use std::cell::Cell;

use super::number;
use crate::go::letters::is_letter;
use crate::go::printf;
use crate::outside::Clock;
use crate::profile::Profile;
use crate::value::Value;

/// An error and its line.
pub(super) struct Fault {
    pub line: usize,
    pub why: String,
}

/// The position of the decoder in its text.
pub(super) struct Text<'t> {
    all: &'t str,
    /// The first byte after the valid UTF-8 prefix, if any.
    bad: Option<u8>,
    at: usize,
    /// An offset and its line, for incremental line counting.
    counted: Cell<(usize, usize)>,
    /// The start of the current string.
    string_at: usize,
    /// Whether the end was read, not only reached.
    ended: bool,
    profile: Profile,
    clock: &'t dyn Clock,
}

impl<'t> Text<'t> {
    pub fn new(bytes: &'t [u8], profile: Profile, clock: &'t dyn Clock) -> Self {
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let (text, bad) = match bytes.utf8_chunks().next() {
            Some(chunk) => (chunk.valid(), chunk.invalid().first().copied()),
            None => ("", None),
        };
        Self { all: text, bad, at: 0, counted: Cell::new((0, 1)), string_at: 0, ended: false, profile, clock }
    }

    /// Whether the document is TOML 1.1.
    pub fn is_new(&self) -> bool {
        self.profile == Profile::Helm4
    }

    /// The current line. Counts from the position of the last call, so that calls at each key take linear time in total.
    pub fn line(&self) -> usize {
        let (at, line) = self.counted.get();
        let newlines = |from: usize, to: usize| {
            let part = self.all.as_bytes().get(from..to).unwrap_or_default();
            memchr::memchr_iter(b'\n', part).count()
        };
        let line = if self.at < at { line - newlines(self.at, at) } else { line + newlines(at, self.at) };
        self.counted.set((self.at, line));
        line
    }

    fn read(&self) -> &'t str {
        self.all.get(..self.at).unwrap_or_default()
    }

    fn rest(&self) -> &'t str {
        self.all.get(self.at..).unwrap_or_default()
    }

    /// An error at the current position. At the end of the text it names the last line, which Helm 3 miscounts.
    pub fn fault(&self, why: impl Into<String>) -> Fault {
        let back = self.ended && (!self.is_new() || self.read().ends_with('\n'));
        Fault { line: self.line() - usize::from(back), why: why.into() }
    }

    /// An error on the line that has just ended.
    fn fault_before(&self, why: impl Into<String>) -> Fault {
        Fault { line: self.line().saturating_sub(1), why: why.into() }
    }

    /// Like [`Text::fault`], but in Helm 4 an error at a newline names the line that it ends.
    pub fn fault_at_line_end(&self, found: Option<char>, why: String) -> Fault {
        if found == Some('\n') && self.is_new() { self.fault_before(why) } else { self.fault(why) }
    }

    /// A character as Go quotes it; the end of the text is NUL.
    pub fn quoted(found: Option<char>) -> String {
        printf("%q", &[Value::Int(i64::from(u32::from(found.unwrap_or_default())))])
    }

    pub fn or_end(found: Option<char>) -> String {
        found.map_or_else(|| "end of file".to_owned(), |c| format!("'{c}'"))
    }

    /// The next character; `None` at the end.
    pub fn next(&mut self) -> Result<Option<char>, Fault> {
        let mut chars = self.rest().chars();
        let Some(c) = chars.next() else {
            if let Some(byte) = self.bad {
                return Err(self.fault(format!("invalid UTF-8 byte: 0x{byte:02x}")));
            }
            self.ended = true;
            return Ok(None);
        };
        let lone_return = c == '\r' && chars.next() != Some('\n');
        if lone_return || (c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r')) {
            let code = u32::from(c);
            return Err(self.fault(format!("TOML files cannot contain control characters: '0x{code:02x}'")));
        }
        self.at += c.len_utf8();
        Ok(Some(c))
    }

    /// Unreads the last character.
    pub fn back(&mut self) {
        if !std::mem::take(&mut self.ended) {
            self.at -= self.read().chars().next_back().map_or(0, char::len_utf8);
        }
    }

    pub fn peek(&mut self) -> Result<Option<char>, Fault> {
        let next = self.next()?;
        self.back();
        Ok(next)
    }

    pub fn accept(&mut self, wanted: char) -> Result<bool, Fault> {
        let is = self.next()? == Some(wanted);
        if !is {
            self.back();
        }
        Ok(is)
    }

    pub fn while_it(&mut self, is: impl Fn(char) -> bool) -> Result<&'t str, Fault> {
        let start = self.at;
        while self.next()?.is_some_and(&is) {}
        self.back();
        Ok(self.all.get(start..self.at).unwrap_or_default())
    }

    pub fn skip_blanks(&mut self) -> Result<(), Fault> {
        self.while_it(|c| matches!(c, ' ' | '\t')).map(drop)
    }

    pub fn skip_comment(&mut self) -> Result<(), Fault> {
        self.while_it(|c| !matches!(c, '\n' | '\r')).map(drop)
    }

    /// Skips blanks, newlines and comments.
    pub fn skip_lines(&mut self) -> Result<(), Fault> {
        loop {
            self.while_it(|c| matches!(c, ' ' | '\t' | '\n' | '\r'))?;
            if !self.accept('#')? {
                return Ok(());
            }
            self.skip_comment()?;
        }
    }

    /// Skips blanks between the pairs of an inline table, and newlines and comments where allowed.
    pub fn skip_inside_table(&mut self) -> Result<(), Fault> {
        if self.is_new() {
            return self.skip_lines();
        }
        loop {
            self.skip_blanks()?;
            match self.next()? {
                Some('\n' | '\r') => {
                    return Err(self.fault_before("newlines not allowed within inline tables"));
                }
                Some('#') => self.skip_comment()?,
                _ => {
                    self.back();
                    return Ok(());
                }
            }
        }
    }

    /// Checks that only blanks or a comment follow a header or value on its line.
    pub fn end_of_item(&mut self) -> Result<(), Fault> {
        self.skip_blanks()?;
        match self.next()? {
            None | Some('\n' | '\r') => Ok(()),
            Some('#') => self.skip_comment(),
            other => {
                let found = Self::quoted(other);
                Err(self.fault(format!(
                    "expected a top-level item to end with a newline, comment, or EOF, but got {found} instead"
                )))
            }
        }
    }

    /// Parses a value other than an array or table; `first` is its first character.
    pub fn scalar(&mut self, first: Option<char>) -> Result<Value, Fault> {
        let text = match first {
            Some('"') if self.rest().starts_with("\"\"") => self.long_string()?,
            Some('"') => self.string()?,
            Some('\'') if self.rest().starts_with("''") => self.long_raw_string()?,
            Some('\'') => self.raw_string()?,
            Some('.') => return Err(self.fault("floats must start with a digit, not '.'")),
            Some('0'..='9' | '+' | '-') => {
                self.back();
                return self.number();
            }
            Some(c) if is_letter(c) => {
                self.back();
                return self.word();
            }
            None => return Err(self.fault("unexpected EOF; expected value")),
            other => {
                let why = format!("expected value but found {} instead", Self::quoted(other));
                return Err(self.fault_at_line_end(other, why));
            }
        };
        Ok(Value::string(text))
    }

    fn word(&mut self) -> Result<Value, Fault> {
        match self.while_it(is_letter)? {
            "true" => Ok(Value::Bool(true)),
            "false" => Ok(Value::Bool(false)),
            "inf" => Ok(Value::Float(f64::INFINITY)),
            "nan" => Ok(Value::Float(f64::NAN)),
            other => Err(self.fault(format!("expected value but found {} instead", crate::go::quote(other)))),
        }
    }

    fn number(&mut self) -> Result<Value, Fault> {
        let (literal, problem) = number::literal(self.rest());
        self.at += literal.len();
        if let Some(why) = problem {
            return Err(self.fault(why));
        }
        number::value(literal, self.is_new(), self.clock).map_err(|why| self.fault(why))
    }

    /// Parses a string after its opening quote.
    pub fn string(&mut self) -> Result<String, Fault> {
        self.string_at = self.at;
        let mut out = String::new();
        loop {
            match self.next()? {
                Some('"') => return Ok(out),
                Some('\\') => self.escape(&mut out)?,
                Some('\n' | '\r') => return Err(self.fault_before("strings cannot contain newlines")),
                Some(c) => out.push(c),
                None => return Err(self.fault("unexpected EOF; expected '\"'")),
            }
        }
    }

    pub fn raw_string(&mut self) -> Result<String, Fault> {
        let mut out = String::new();
        loop {
            match self.next()? {
                Some('\'') => return Ok(out),
                Some('\n' | '\r') => return Err(self.fault_before("strings cannot contain newlines")),
                Some(c) => out.push(c),
                None => return Err(self.fault("unexpected EOF; expected \"'\"")),
            }
        }
    }

    fn long_string(&mut self) -> Result<String, Fault> {
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
                None => return Err(self.fault("unexpected EOF; expected '\"\"\"'")),
            }
        }
    }

    fn long_raw_string(&mut self) -> Result<String, Fault> {
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
                None => return Err(self.fault("unexpected EOF; expected \"'''\"")),
            }
        }
    }

    /// Skips the other two opening quotes and a newline directly after them.
    fn open_long(&mut self) {
        self.at += 2;
        let newline = ["\n", "\r\n"].into_iter().find(|newline| self.rest().starts_with(newline));
        self.string_at = self.at;
        self.at += newline.map_or(0, str::len);
    }

    /// Handles quotes after the first one was read: three end the string, and up to two quotes before them belong to it.
    fn close_long(&mut self, out: &mut String, quote: char) -> Result<bool, Fault> {
        let more = self.rest().chars().take_while(|c| *c == quote).count();
        let count = more + 1;
        match count {
            1 | 2 => (0..count).for_each(|_| out.push(quote)),
            3..=5 => (3..count).for_each(|_| out.push(quote)),
            _ if quote == '"' => return Err(self.fault("unexpected '\"\"\"\"\"\"'")),
            _ => return Err(self.fault("unexpected \"''''''\"")),
        }
        self.at += more;
        Ok(count >= 3)
    }

    /// Parses an escape after its backslash.
    fn escape(&mut self, out: &mut String) -> Result<(), Fault> {
        let c = match self.next()? {
            Some('b') => '\u{8}',
            Some('t') => '\t',
            Some('n') => '\n',
            Some('f') => '\u{c}',
            Some('r') => '\r',
            Some('e') if self.is_new() => '\u{1b}',
            Some(c @ ('"' | '\\')) => c,
            Some(c @ (' ' | '\t')) => return Err(self.fault(format!("invalid escape: '\\{c}'"))),
            Some('x') if self.is_new() => self.code(2, "two", 'x')?,
            Some('u') => self.code(4, "four", 'u')?,
            Some('U') => self.code(8, "eight", 'U')?,
            other => {
                let c = other.unwrap_or_default();
                return Err(self.fault(format!("invalid escape in string '\\{c}'")));
            }
        };
        out.push(c);
        Ok(())
    }

    fn code(&mut self, count: usize, in_words: &str, kind: char) -> Result<char, Fault> {
        let start = self.at;
        for _ in 0..count {
            if !self.next()?.is_some_and(|c| c.is_ascii_hexdigit()) {
                let found = crate::go::quote(self.all.get(self.string_at..self.at).unwrap_or_default());
                return Err(self.fault(format!(
                    "expected {in_words} hexadecimal digits after '\\{kind}', but got {found} instead"
                )));
            }
        }
        let digits = self.all.get(start..self.at).unwrap_or_default();
        u32::from_str_radix(digits, 16)
            .ok()
            .and_then(char::from_u32)
            .ok_or_else(|| self.fault(format!("Escaped character '\\u{digits}' is not valid UTF-8.")))
    }
}
