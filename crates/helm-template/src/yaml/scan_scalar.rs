//! Scalar contents: plain, quoted and block scalars.

use std::borrow::Cow;

use super::problem::YamlSyntaxError;
use super::scan::{Scanner, Token, YamlTokenKind};
use super::scan_tag::hex;

/// Builds a text from slices of the source. A single contiguous slice is borrowed, not copied.
struct TextBuilder<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    owned: Option<String>,
    skim: bool,
    skimmed: bool,
}

impl<'a> TextBuilder<'a> {
    fn new(scanner: &Scanner<'a>) -> Self {
        let at = scanner.at;
        Self { text: scanner.text, start: at, end: at, owned: None, skim: scanner.skim, skimmed: false }
    }

    fn slice(&mut self, start: usize, end: usize) {
        if start == end {
            return;
        }
        if start == self.end {
            self.end = end;
        } else if self.start == self.end && self.owned.is_none() {
            (self.start, self.end) = (start, end);
        } else {
            self.close();
            (self.start, self.end) = (start, end);
        }
    }

    /// Appends text that is not part of the source.
    fn add(&mut self, text: &str) {
        if !text.is_empty() {
            self.close();
            if let Some(owned) = &mut self.owned {
                owned.push_str(text);
            }
        }
    }

    fn close(&mut self) {
        if self.skim {
            self.skimmed = true;
        } else {
            let slice = self.text.get(self.start..self.end).unwrap_or_default();
            self.owned.get_or_insert_with(|| String::with_capacity(slice.len() + 64)).push_str(slice);
        }
        // No slice is open, and no position continues one.
        (self.start, self.end) = (usize::MAX, usize::MAX);
    }

    fn token(mut self, plain: bool, line: usize) -> Token<'a> {
        let text = if self.skimmed {
            Cow::Borrowed("")
        } else if self.owned.is_some() {
            if self.start != usize::MAX {
                self.close();
            }
            Cow::Owned(self.owned.unwrap_or_default())
        } else {
            Cow::Borrowed(self.text.get(self.start..self.end).unwrap_or_default())
        };
        Token { kind: YamlTokenKind::Scalar { plain, skimmed: self.skimmed }, line, text, suffix: None }
    }
}

/// Line breaks between two lines that are folded into one.
#[derive(Default)]
struct LineFold {
    /// Whether a line break was found; blanks after it are ignored.
    open: bool,
    first: &'static str,
    more: String,
}

impl LineFold {
    /// Folds line breaks: a single one becomes a space, further ones are kept. Unicode separators are always kept.
    fn append_to(&mut self, text: &mut TextBuilder<'_>) {
        if self.first == "\n" {
            text.add(if self.more.is_empty() { " " } else { &self.more });
        } else {
            text.add(self.first);
            text.add(&self.more);
        }
        self.open = false;
        self.first = "";
        self.more.clear();
    }
}

/// Bytes at which a plain scalar run stops: blanks, end of text, possible line breaks, `:`.
const STOP: u8 = 1;
/// Additional stops in flow collections.
const FLOW_STOP: u8 = 2;

/// For each byte, whether it stops a plain scalar run.
static STOP_TABLE: [u8; 256] = {
    let mut table = [0; 256];
    let mut each = 0;
    let stops = [0, b' ', b'\t', b'\r', b'\n', b':', 0xC2, 0xE2];
    while each < stops.len() {
        table[stops[each] as usize] = STOP | FLOW_STOP;
        each += 1;
    }
    let stops = [b',', b'?', b'[', b']', b'{', b'}'];
    each = 0;
    while each < stops.len() {
        table[stops[each] as usize] = FLOW_STOP;
        each += 1;
    }
    table
};

impl<'a> Scanner<'a> {
    pub(super) fn scan_plain(&mut self) -> Result<Token<'a>, YamlSyntaxError> {
        let (line, indent) = (self.line, self.indent + 1);
        let mut text = TextBuilder::new(self);
        let mut fold = LineFold::default();
        // The start of blanks that belong to the scalar if it continues on the same line.
        let mut blanks = self.at;
        loop {
            self.require(4)?;
            if self.at_document_indicator() || self.byte(0) == b'#' {
                break;
            }
            let start = self.at;
            self.skip_plain_run();
            if self.at > start {
                if fold.open {
                    fold.append_to(&mut text);
                } else {
                    text.slice(blanks, start);
                }
                text.slice(start, self.at);
                blanks = self.at;
                self.require(2)?;
            }
            if !self.is_blank(0) && !self.is_break(0) {
                break;
            }
            self.require(1)?;
            self.fold_blanks(&mut fold, Some(indent))?;
            if self.flow_level == 0 && self.level_is_below(indent) {
                break;
            }
        }
        if fold.open {
            self.key_allowed = true;
        }
        Ok(text.token(true, line))
    }

    /// Skips blanks and line breaks. Rejects a tab before column `indent` after a line break.
    fn fold_blanks(&mut self, fold: &mut LineFold, indent: Option<isize>) -> Result<(), YamlSyntaxError> {
        loop {
            if self.is_blank(0) {
                if fold.open
                    && self.byte(0) == b'\t'
                    && indent.is_some_and(|indent| self.level_is_below(indent))
                {
                    return Err(self.problem("found a tab character that violates indentation"));
                }
                self.skip();
            } else if self.is_break(0) {
                self.require(2)?;
                if fold.open {
                    fold.more.push_str(self.take_break());
                } else {
                    fold.first = self.take_break();
                    fold.open = true;
                }
            } else {
                return Ok(());
            }
            self.require(1)?;
        }
    }

    fn level_is_below(&self, indent: isize) -> bool {
        isize::try_from(self.column()).is_ok_and(|column| column < indent)
    }

    /// Advances over characters that neither are blank nor end a plain scalar.
    fn skip_plain_run(&mut self) {
        let in_flow = self.flow_level > 0;
        let mask = if in_flow { FLOW_STOP } else { STOP };
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let Some(run) = rest.iter().position(|byte| STOP_TABLE[usize::from(*byte)] & mask != 0) else {
                at = bytes.len();
                break;
            };
            at += run;
            let goes_on = match bytes.get(at) {
                Some(b':') => !self.is_blank_or_end(at + 1 - self.at),
                Some(0xC2 | 0xE2) => !self.is_break(at - self.at),
                _ => false,
            };
            if !goes_on {
                break;
            }
            at += 1;
        }
        self.advance_to(at);
    }

    pub(super) fn scan_quoted(&mut self, single: bool) -> Result<Token<'a>, YamlSyntaxError> {
        let line = self.line;
        let quote = if single { b'\'' } else { b'"' };
        self.skip();
        let mut text = TextBuilder::new(self);
        loop {
            self.require(4)?;
            if self.at_document_indicator() {
                return Err(self.problem("found unexpected document indicator"));
            }
            if self.byte(0) == 0 {
                return Err(self.problem("found unexpected end of stream"));
            }
            let mut fold = LineFold { open: self.scan_quoted_run(&mut text, single)?, ..LineFold::default() };
            self.require(1)?;
            if self.byte(0) == quote {
                break;
            }
            let blanks = self.at;
            self.fold_blanks(&mut fold, None)?;
            if fold.open {
                fold.append_to(&mut text);
            } else {
                text.slice(blanks, self.at);
            }
        }
        self.skip();
        Ok(text.token(false, line))
    }

    /// Scans quoted text up to the next blank. Returns true after an escaped line break, after which blanks are ignored.
    fn scan_quoted_run(&mut self, text: &mut TextBuilder<'a>, single: bool) -> Result<bool, YamlSyntaxError> {
        loop {
            let start = self.at;
            self.advance_to(self.quoted_run_end(single));
            text.slice(start, self.at);
            match self.byte(0) {
                b'\'' if single && self.byte(1) == b'\'' => {
                    self.skip();
                    text.slice(self.at, self.at + 1);
                    self.skip();
                }
                b'\\' if !single && self.is_break(1) => {
                    self.require(3)?;
                    self.skip();
                    self.take_break();
                    return Ok(true);
                }
                b'\\' if !single => self.scan_escape(text)?,
                _ => {
                    // go-yaml requests two more characters for each one that it passes.
                    if self.at > start {
                        self.require(2)?;
                    }
                    return Ok(false);
                }
            }
            self.require(2)?;
        }
    }

    /// The offset of the next blank, quote or escape.
    fn quoted_run_end(&self, single: bool) -> usize {
        let bytes = self.text.as_bytes();
        let special = if single { b'\'' } else { b'\\' };
        let mut at = self.at;
        loop {
            match bytes.get(at) {
                None | Some(b' ' | b'\t' | b'\r' | b'\n') => return at,
                Some(b'"') if !single => return at,
                Some(byte) if *byte == special => return at,
                Some(0xC2 | 0xE2) if self.is_break(at - self.at) => return at,
                Some(_) => at += 1,
            }
        }
    }

    fn scan_escape(&mut self, text: &mut TextBuilder<'_>) -> Result<(), YamlSyntaxError> {
        let digits = match self.byte(1) {
            b'x' => 2,
            b'u' => 4,
            b'U' => 8,
            other => {
                let plain = match other {
                    b'0' => "\0",
                    b'a' => "\x07",
                    b'b' => "\x08",
                    b't' | b'\t' => "\t",
                    b'n' => "\n",
                    b'v' => "\x0B",
                    b'f' => "\x0C",
                    b'r' => "\r",
                    b'e' => "\x1B",
                    b' ' => " ",
                    b'"' => "\"",
                    b'\'' => "'",
                    b'\\' => "\\",
                    b'N' => "\u{85}",
                    b'_' => "\u{A0}",
                    b'L' => "\u{2028}",
                    b'P' => "\u{2029}",
                    _ => return Err(self.problem("found unknown escape character")),
                };
                text.add(plain);
                self.advance_to(self.at + 2);
                return Ok(());
            }
        };
        self.advance_to(self.at + 2);
        self.require(digits)?;
        let mut code = 0_u32;
        for digit in 0..digits {
            let Some(value) = hex(self.byte(digit)) else {
                return Err(self.problem("did not find expected hexdecimal number"));
            };
            code = code << 4 | u32::from(value);
        }
        let Some(c) = char::from_u32(code) else {
            return Err(self.problem("found invalid Unicode character escape code"));
        };
        text.add(c.encode_utf8(&mut [0; 4]));
        self.advance_to(self.at + digits);
        Ok(())
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Result<Token<'a>, YamlSyntaxError> {
        let line = self.line;
        self.skip();
        self.require(1)?;
        let (chomping, increment) = self.scan_block_head()?;
        self.skip_rest_of_line()?;
        let mut indent = match increment {
            0 => 0,
            _ => usize::try_from(self.indent).unwrap_or(0) + increment,
        };
        let mut text = TextBuilder::new(self);
        let mut leading = "";
        // Trailing line breaks.
        let mut trailing = String::new();
        self.scan_block_breaks(&mut indent, &mut trailing)?;
        self.require(1)?;
        let mut after_blank = false;
        while self.column() == indent && self.byte(0) != 0 {
            let blank = self.is_blank(0);
            if !literal && !after_blank && !blank && leading == "\n" {
                if trailing.is_empty() {
                    text.add(" ");
                }
            } else {
                text.add(leading);
            }
            text.add(&trailing);
            trailing.clear();
            after_blank = blank;
            let start = self.at;
            self.advance_to(self.line_end());
            text.slice(start, self.at);
            self.require(2)?;
            leading = self.take_break();
            self.scan_block_breaks(&mut indent, &mut trailing)?;
        }
        if chomping != Chomping::Strip {
            text.add(leading);
        }
        if chomping == Chomping::Keep {
            text.add(&trailing);
        }
        Ok(text.token(false, line))
    }

    /// Scans the header of a block scalar: chomping (`+` or `-`) and an indentation digit, in either order.
    fn scan_block_head(&mut self) -> Result<(Chomping, usize), YamlSyntaxError> {
        let (mut chomping, mut increment) = (None, None);
        loop {
            match self.byte(0) {
                b'+' if chomping.is_none() => chomping = Some(Chomping::Keep),
                b'-' if chomping.is_none() => chomping = Some(Chomping::Strip),
                b'0' if increment.is_none() => {
                    return Err(self.problem("found an indentation indicator equal to 0"));
                }
                digit @ b'1'..=b'9' if increment.is_none() => increment = Some(usize::from(digit - b'0')),
                _ => return Ok((chomping.unwrap_or(Chomping::Clip), increment.unwrap_or(0))),
            }
            self.skip();
            self.require(1)?;
        }
    }

    /// Skips indentation and empty lines. Determines the indentation if the header did not specify it.
    fn scan_block_breaks(&mut self, indent: &mut usize, breaks: &mut String) -> Result<(), YamlSyntaxError> {
        let mut deepest = 0;
        loop {
            self.require(1)?;
            while (*indent == 0 || self.column() < *indent) && self.byte(0) == b' ' {
                self.skip();
            }
            self.require(1)?;
            deepest = deepest.max(self.column());
            if (*indent == 0 || self.column() < *indent) && self.byte(0) == b'\t' {
                return Err(self.problem("found a tab character where an indentation space is expected"));
            }
            if !self.is_break(0) {
                break;
            }
            self.require(2)?;
            breaks.push_str(self.take_break());
        }
        if *indent == 0 {
            *indent = deepest.max(usize::try_from(self.indent + 1).unwrap_or(0)).max(1);
        }
        Ok(())
    }
}

/// Treatment of the line breaks at the end of a block scalar.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}
