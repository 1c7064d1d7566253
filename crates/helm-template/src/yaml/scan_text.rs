//! Character access and movement of the scanner.

use super::problem::YamlSyntaxError;
use super::scan::{ScanResult, Scanner};

impl Scanner<'_> {
    pub(super) fn byte(&self, offset: usize) -> u8 {
        self.bytes.get(self.at + offset).copied().unwrap_or(0)
    }

    /// Requires `count` characters in the buffer. Go's reader refills its buffer here and may find a character that it rejects.
    pub(super) fn require(&mut self, count: usize) -> ScanResult {
        match &mut self.read_blocks {
            Some(pieces) => pieces.require(self.text, self.at, count),
            None => Ok(()),
        }
    }

    pub(super) fn index(&self) -> usize {
        self.at - self.trailing
    }

    pub(super) fn column(&self) -> usize {
        self.index() - self.line_start
    }

    /// The current column as an indentation level.
    pub(super) fn level(&self) -> isize {
        isize::try_from(self.column()).unwrap_or(isize::MAX)
    }

    pub(super) fn advance_to(&mut self, at: usize) {
        if !self.ascii {
            let passed = self.bytes.get(self.at..at).unwrap_or_default();
            self.trailing += passed.iter().filter(|byte| **byte & 0xC0 == 0x80).count();
        }
        self.at = at;
    }

    /// Advances by one character.
    pub(super) fn skip(&mut self) {
        let width = match self.byte(0) {
            0..=0xBF => 1,
            0xC0..=0xDF => 2,
            0xE0..=0xEF => 3,
            _ => 4,
        };
        self.advance_to((self.at + width).min(self.bytes.len()));
    }

    pub(super) fn is_blank(&self, offset: usize) -> bool {
        matches!(self.byte(offset), b' ' | b'\t')
    }

    /// The line break at this offset, if any: its length and its normalised text.
    pub(super) fn line_break(&self, offset: usize) -> Option<(usize, &'static str)> {
        match self.byte(offset) {
            b'\r' if self.byte(offset + 1) == b'\n' => Some((2, "\n")),
            b'\n' | b'\r' => Some((1, "\n")),
            0xC2 if self.byte(offset + 1) == 0x85 => Some((2, "\n")),
            0xE2 if self.byte(offset + 1) == 0x80 => match self.byte(offset + 2) {
                0xA8 => Some((3, "\u{2028}")),
                0xA9 => Some((3, "\u{2029}")),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn is_break(&self, offset: usize) -> bool {
        self.line_break(offset).is_some()
    }

    pub(super) fn is_break_or_end(&self, offset: usize) -> bool {
        self.byte(offset) == 0 || self.is_break(offset)
    }

    pub(super) fn is_blank_or_end(&self, offset: usize) -> bool {
        match self.byte(offset) {
            0 | b' ' | b'\t' | b'\r' | b'\n' => true,
            0xC2 | 0xE2 => self.is_break(offset),
            _ => false,
        }
    }

    /// Consumes a line break, if there is one, and returns its normalised text.
    pub(super) fn take_break(&mut self) -> &'static str {
        let Some((width, text)) = self.line_break(0) else { return "" };
        self.advance_to(self.at + width);
        self.line += 1;
        self.line_start = self.index();
        text
    }

    /// The offset of the end of the current line.
    pub(super) fn line_end(&self) -> usize {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        if self.ascii {
            return memchr::memchr2(b'\n', b'\r', rest).map_or(self.bytes.len(), |found| self.at + found);
        }
        let mut offset = 0;
        while let Some(found) = rest
            .get(offset..)
            .and_then(|rest| rest.iter().position(|byte| matches!(byte, b'\n' | b'\r' | 0xC2 | 0xE2)))
        {
            offset += found;
            if self.is_break(offset) {
                return self.at + offset;
            }
            offset += 1;
        }
        self.bytes.len()
    }

    pub(super) fn problem(&self, text: &'static str) -> YamlSyntaxError {
        YamlSyntaxError { line: if self.line == 0 { 0 } else { self.line + 1 }, text }
    }

    /// Whether `---` or `...` stands alone at the start of a line.
    pub(super) fn at_document_indicator(&self) -> bool {
        let mark = self.byte(0);
        self.column() == 0
            && matches!(mark, b'-' | b'.')
            && self.byte(1) == mark
            && self.byte(2) == mark
            && self.is_blank_or_end(3)
    }
}
