//! Lexer: from text to tokens.
//!
//! Outside of actions there is only text. Inside, spaces are tokens, because they separate arguments. Trim markers (`{{-`, `-}}`) are
//! applied here: the parser never sees the trimmed white space.

use memchr::memmem::Finder;

use crate::go::{is_printable, quote};

const LEFT_DELIM: &str = "{{";
const RIGHT_DELIM: &str = "}}";

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token {
    /// A lexical error; the item's text is the message.
    Error,
    Bool,
    /// Any other printable character.
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    End_,
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    // Keywords.
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Token {
    fn keyword(word: &str) -> Option<Self> {
        Some(match word {
            "block" => Self::Block,
            "break" => Self::Break,
            "continue" => Self::Continue,
            "define" => Self::Define,
            "else" => Self::Else,
            "end" => Self::End,
            "if" => Self::If,
            "nil" => Self::Nil,
            "range" => Self::Range,
            "template" => Self::Template,
            "with" => Self::With,
            _ => return None,
        })
    }

    fn is_keyword(self) -> bool {
        !matches!(self, Self::Dot) && (self as u8) >= (Self::Block as u8)
    }
}

/// A token and its position.
#[derive(Clone, Debug)]
pub struct LexItem<'s> {
    pub token: Token,
    pub at: usize,
    pub line: usize,
    pub text: std::borrow::Cow<'s, str>,
}

impl LexItem<'_> {
    /// The token as it appears in error messages.
    pub fn display(&self) -> String {
        match self.token {
            Token::End_ => "EOF".to_owned(),
            Token::Error => self.text.clone().into_owned(),
            token if token.is_keyword() => format!("<{}>", self.text),
            _ if self.text.len() > 10 => {
                // Go truncates by bytes and shows a truncated character as invalid.
                let cut = String::from_utf8_lossy(&self.text.as_bytes()[..10]).into_owned();
                format!("{}...", quote(&cut))
            }
            _ => quote(&self.text),
        }
    }
}

/// The lexer: its position in the text and whether it is inside an action.
pub struct Lexer<'s> {
    input: &'s str,
    /// Searches for the next action. Created once, because creating it costs more than most searches.
    left_delim_finder: Finder<'static>,
    at: usize,
    start: usize,
    /// The line of `start`, counted from 1.
    line: usize,
    is_in_action: bool,
    parens: usize,
    has_failed: bool,
}

impl<'s> Lexer<'s> {
    pub fn new(input: &'s str) -> Self {
        let left = Finder::new(LEFT_DELIM);
        Self {
            input,
            left_delim_finder: left,
            at: 0,
            start: 0,
            line: 1,
            is_in_action: false,
            parens: 0,
            has_failed: false,
        }
    }

    pub fn next(&mut self) -> LexItem<'s> {
        if self.has_failed {
            return self.item(Token::End_);
        }
        if self.is_in_action { self.inside_action() } else { self.text() }
    }

    fn rest(&self) -> &'s str {
        &self.input[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The next byte. All syntax is ASCII, so a byte of a longer character matches nothing.
    fn peek_byte(&self) -> Option<u8> {
        self.input.as_bytes().get(self.at).copied()
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn item(&mut self, token: Token) -> LexItem<'s> {
        let text = &self.input[self.start..self.at];
        let item = LexItem { token, at: self.start, line: self.line, text: text.into() };
        self.discard();
        item
    }

    /// Discards the text up to the current position.
    fn discard(&mut self) {
        self.line += newlines(&self.input.as_bytes()[self.start..self.at]);
        self.start = self.at;
    }

    fn fail(&mut self, why: impl Into<String>) -> LexItem<'s> {
        self.has_failed = true;
        let (at, line) = (self.start, self.line);
        self.start = self.at;
        LexItem { token: Token::Error, at, line, text: why.into().into() }
    }

    fn text(&mut self) -> LexItem<'s> {
        loop {
            let Some(found) = self.left_delim_finder.find(self.rest().as_bytes()) else {
                self.at = self.input.len();
                return if self.at > self.start { self.item(Token::Text) } else { self.item(Token::End_) };
            };
            let delim = self.at + found;
            let trims = has_left_marker(&self.input[delim + LEFT_DELIM.len()..]);
            let text = &self.input[self.start..delim];
            let kept = if trims { text.trim_end_matches(is_space).len() } else { text.len() };
            if kept > 0 {
                self.at = self.start + kept;
                let item = self.item(Token::Text);
                self.at = delim;
                self.discard();
                return item;
            }
            self.at = delim;
            self.discard();
            self.at += LEFT_DELIM.len();
            let marker = if trims { 2 } else { 0 };
            if self.rest()[marker..].starts_with("/*") {
                self.at += marker;
                self.discard();
                match self.comment() {
                    Ok(()) => continue,
                    Err(why) => return self.fail(why),
                }
            }
            let item = self.item(Token::LeftDelim);
            self.is_in_action = true;
            self.at += marker;
            self.discard();
            self.parens = 0;
            return item;
        }
    }

    /// Skips a comment, from `/*` to the end of the closing delimiter.
    fn comment(&mut self) -> Result<(), &'static str> {
        self.at += 2;
        let length = memchr::memmem::find(self.rest().as_bytes(), b"*/").ok_or("unclosed comment")?;
        self.at += length + 2;
        let trims = self.closing_delimiter().ok_or("comment ends before closing delimiter")?;
        self.close(trims);
        Ok(())
    }

    /// Skips the closing delimiter and the white space that it trims.
    fn close(&mut self, trims: bool) {
        if trims {
            self.at += 2;
        }
        self.at += RIGHT_DELIM.len();
        if trims {
            self.at += self.rest().len() - self.rest().trim_start_matches(is_space).len();
        }
        self.discard();
    }

    /// Whether a closing delimiter starts here: `None` if not, otherwise whether it trims.
    fn closing_delimiter(&self) -> Option<bool> {
        let rest = &self.input.as_bytes()[self.at..];
        match rest {
            [b'}', b'}', ..] => Some(false),
            [b' ' | b'\t' | b'\r' | b'\n', b'-', b'}', b'}', ..] => Some(true),
            _ => None,
        }
    }

    fn right_delim(&mut self, trims: bool) -> LexItem<'s> {
        if trims {
            self.at += 2;
            self.discard();
        }
        self.at += RIGHT_DELIM.len();
        let item = self.item(Token::RightDelim);
        if trims {
            self.at += self.rest().len() - self.rest().trim_start_matches(is_space).len();
            self.discard();
        }
        self.is_in_action = false;
        item
    }

    fn inside_action(&mut self) -> LexItem<'s> {
        if let Some(trims) = self.closing_delimiter() {
            if self.parens > 0 {
                return self.fail("unclosed left paren");
            }
            return self.right_delim(trims);
        }
        let Some(c) = self.bump() else { return self.fail("unclosed action") };
        match c {
            c if is_space(c) => self.space(),
            '=' => self.item(Token::Assign),
            ':' => match self.bump() {
                Some('=') => self.item(Token::Declare),
                _ => self.fail("expected :="),
            },
            '|' => self.item(Token::Pipe),
            '"' => self.quoted(b'"', Token::String, "unterminated quoted string"),
            '\'' => self.quoted(b'\'', Token::CharConstant, "unterminated character constant"),
            '`' => match memchr::memchr(b'`', self.rest().as_bytes()) {
                Some(length) => {
                    self.at += length + 1;
                    self.item(Token::RawString)
                }
                None => self.fail("unterminated raw quoted string"),
            },
            '$' => self.name(Token::Variable, Token::Variable),
            '.' if !self.peek().is_some_and(|c| c.is_ascii_digit()) => self.name(Token::Field, Token::Dot),
            '.' | '+' | '-' | '0'..='9' => {
                self.at -= 1;
                self.number()
            }
            c if is_word(c) => self.identifier(),
            '(' => {
                self.parens += 1;
                self.item(Token::LeftParen)
            }
            ')' => match self.parens.checked_sub(1) {
                Some(parens) => {
                    self.parens = parens;
                    self.item(Token::RightParen)
                }
                None => self.fail("unexpected right paren"),
            },
            ' '..='~' => self.item(Token::Char),
            c => self.fail(format!("unrecognized character in action: {}", code_point(Some(c)))),
        }
    }

    /// A run of spaces, excluding the space that belongs to a trimming delimiter.
    fn space(&mut self) -> LexItem<'s> {
        while self.peek_byte().is_some_and(|byte| is_space(char::from(byte))) {
            self.at += 1;
        }
        let last = &self.input[self.at - 1..];
        if has_right_marker(last) && last[2..].starts_with(RIGHT_DELIM) {
            self.at -= 1;
            if self.at == self.start {
                return match self.closing_delimiter() {
                    Some(trims) if self.parens == 0 => self.right_delim(trims),
                    _ => self.right_delim(true),
                };
            }
        }
        self.item(Token::Space)
    }

    fn identifier(&mut self) -> LexItem<'s> {
        self.skip_word();
        if !self.at_terminator() {
            return self.fail(format!("bad character {}", code_point(self.peek())));
        }
        let word = &self.input[self.start..self.at];
        let token = match word {
            "true" | "false" => Token::Bool,
            word => Token::keyword(word).unwrap_or(Token::Identifier),
        };
        self.item(token)
    }

    /// A name after `.` or `$`, or the sign alone.
    fn name(&mut self, named: Token, alone: Token) -> LexItem<'s> {
        if self.at_terminator() {
            return self.item(alone);
        }
        self.skip_word();
        if !self.at_terminator() {
            return self.fail(format!("bad character {}", code_point(self.peek())));
        }
        self.item(named)
    }

    fn skip_word(&mut self) {
        loop {
            match self.peek_byte() {
                Some(b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z') => self.at += 1,
                Some(0x80..) if self.peek().is_some_and(is_word) => {
                    self.bump();
                }
                _ => return,
            }
        }
    }

    fn at_terminator(&self) -> bool {
        match self.peek_byte() {
            None | Some(b'.' | b',' | b'|' | b':' | b')' | b'(' | b' ' | b'\t' | b'\r' | b'\n') => true,
            Some(b'}') => self.rest().starts_with(RIGHT_DELIM),
            Some(_) => false,
        }
    }

    fn quoted(&mut self, end: u8, token: Token, unterminated: &'static str) -> LexItem<'s> {
        loop {
            // The searched bytes are ASCII, so the search never stops inside a character.
            let length = memchr::memchr3(b'\\', b'\n', end, &self.input.as_bytes()[self.at..]);
            self.at = length.map_or(self.input.len(), |length| self.at + length);
            match self.bump() {
                Some('\\') => {
                    if matches!(self.bump(), None | Some('\n')) {
                        return self.fail(unterminated);
                    }
                }
                None | Some('\n') => return self.fail(unterminated),
                Some(_) => return self.item(token),
            }
        }
    }

    fn number(&mut self) -> LexItem<'s> {
        let bad = |lexer: &mut Self| {
            let text = quote(&lexer.input[lexer.start..lexer.at]);
            lexer.fail(format!("bad number syntax: {text}"))
        };
        if !self.scan_number() {
            return bad(self);
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || !self.input[..self.at].ends_with('i') {
                return bad(self);
            }
            return self.item(Token::Complex);
        }
        self.item(Token::Number)
    }

    fn accept(&mut self, valid: &str) -> bool {
        let found = self.peek().is_some_and(|c| valid.contains(c));
        if found {
            self.at += 1;
        }
        found
    }

    fn accept_run(&mut self, valid: &str) {
        while self.accept(valid) {}
    }

    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        self.accept("+-");
        let (mut digits, mut exponent) = (DECIMAL, "eE");
        if self.accept("0") {
            if self.accept("xX") {
                (digits, exponent) = ("0123456789abcdefABCDEF_", "pP");
            } else if self.accept("oO") {
                (digits, exponent) = ("01234567_", "");
            } else if self.accept("bB") {
                (digits, exponent) = ("01_", "");
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if self.accept(exponent) {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_word) {
            self.bump();
            return false;
        }
        true
    }
}

/// Formats a character for errors: `U+0021 '!'`.
fn code_point(c: Option<char>) -> String {
    match c {
        // Go represents the end of the input as -1.
        None => "U+FFFFFFFFFFFFFFFF".to_owned(),
        Some(c) if is_printable(c) => format!("U+{:04X} '{c}'", u32::from(c)),
        Some(c) => format!("U+{:04X}", u32::from(c)),
    }
}

/// Most tokens are a few bytes long, for which a plain loop is fastest.
#[expect(clippy::naive_bytecount, reason = "a crate for a handful of bytes would not be faster")]
fn newlines(bytes: &[u8]) -> usize {
    match bytes.len() {
        ..32 => bytes.iter().filter(|byte| **byte == b'\n').count(),
        _ => memchr::memchr_iter(b'\n', bytes).count(),
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

fn has_left_marker(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first() == Some(&b'-') && bytes.get(1).is_some_and(|c| is_space(char::from(*c)))
}

fn has_right_marker(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|c| is_space(char::from(*c))) && bytes.get(1) == Some(&b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(input: &str) -> String {
        let mut lexer = Lexer::new(input);
        let mut out = Vec::new();
        loop {
            let item = lexer.next();
            let (token, text) = (item.token, item.text);
            out.push(format!("{token:?}({text})"));
            if matches!(token, Token::End_ | Token::Error) {
                return out.join(" ");
            }
        }
    }

    #[test]
    fn lexer_tokens_match_go() {
        let table = [
            ("", "End_()"),
            ("a{{b}}c", "Text(a) LeftDelim({{) Identifier(b) RightDelim(}}) Text(c) End_()"),
            ("a \n{{- 1 -}}\n b", "Text(a) LeftDelim({{) Number(1) RightDelim(}}) Text(b) End_()"),
            ("x{{- /* c */ -}} y", "Text(x) Text(y) End_()"),
            ("{{-1}}", "LeftDelim({{) Number(-1) RightDelim(}}) End_()"),
            (
                "{{.a.b $x.c $ .}}",
                "LeftDelim({{) Field(.a) Field(.b) Space( ) Variable($x) Field(.c) Space( ) Variable($) Space( ) Dot(.) RightDelim(}}) End_()",
            ),
            ("{{`a}}`}}", "LeftDelim({{) RawString(`a}}`) RightDelim(}}) End_()"),
            (
                "{{\"\\\"\" | f}}",
                "LeftDelim({{) String(\"\\\"\") Space( ) Pipe(|) Space( ) Identifier(f) RightDelim(}}) End_()",
            ),
            ("{{1+2i 0x1p-2}}", "LeftDelim({{) Complex(1+2i) Space( ) Number(0x1p-2) RightDelim(}}) End_()"),
            ("{{a   -}} b", "LeftDelim({{) Identifier(a) Space(  ) RightDelim(}}) Text(b) End_()"),
            ("{{", "LeftDelim({{) Error(unclosed action)"),
            ("{{(}}", "LeftDelim({{) LeftParen(() Error(unclosed left paren)"),
            ("{{/* a", "Error(unclosed comment)"),
            ("{{3k}}", "LeftDelim({{) Error(bad number syntax: \"3k\")"),
            ("{{a!}}", "LeftDelim({{) Error(bad character U+0021 '!')"),
            ("{{\u{1}}}", "LeftDelim({{) Error(unrecognized character in action: U+0001)"),
        ];
        for (input, expected) in table {
            assert_eq!(tokens(input), expected, "{input}");
        }
    }
}
