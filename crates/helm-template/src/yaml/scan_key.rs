//! Simple keys, which are recognised by the `:` that follows them, and indentation, which opens and closes collections.

use super::problem::YamlSyntaxError;
use super::scan::{MAX_LEVELS, ScanResult, Scanner, YamlTokenKind};

/// Maximum length of a simple key in characters.
const MAX_KEY_LEN: usize = 1024;

/// A position that is a simple key if a `:` follows.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SimpleKey {
    pub is_possible: bool,
    pub is_required: bool,
    /// The number of the token at which the key would start.
    pub number: usize,
    /// Whether that token is held back until the key is decided.
    pub is_awaited: bool,
    pub index: usize,
    pub line: usize,
    pub column: usize,
}

impl Scanner<'_> {
    pub(super) fn first_awaits_key(&mut self) -> Result<bool, YamlSyntaxError> {
        // Token numbers ascend with the level.
        let level = self.keys.partition_point(|key| key.number < self.tokens_taken);
        match self.keys.get(level) {
            Some(key) if key.number == self.tokens_taken && key.is_awaited => self.is_valid(level),
            _ => Ok(false),
        }
    }

    /// Whether a `:` may still complete this key: on the same line and within the length limit.
    pub(super) fn is_valid(&mut self, level: usize) -> Result<bool, YamlSyntaxError> {
        let key = self.keys[level];
        if !key.is_possible {
            return Ok(false);
        }
        if key.line < self.line || key.index + MAX_KEY_LEN < self.index() {
            if key.is_required {
                return Err(self.problem("could not find expected ':'"));
            }
            self.keys[level].is_possible = false;
            return Ok(false);
        }
        Ok(true)
    }

    pub(super) fn save_key(&mut self) -> ScanResult {
        if !self.key_allowed {
            return Ok(());
        }
        let key = SimpleKey {
            is_possible: true,
            is_required: self.flow_level == 0 && self.indent == self.level(),
            number: self.tokens_taken + self.tokens.len(),
            is_awaited: true,
            index: self.index(),
            line: self.line,
            column: self.column(),
        };
        self.remove_key()?;
        if let Some(last) = self.keys.last_mut() {
            *last = key;
        }
        Ok(())
    }

    pub(super) fn remove_key(&mut self) -> ScanResult {
        let Some(key) = self.keys.last_mut() else { return Ok(()) };
        if key.is_possible {
            if key.is_required {
                return Err(self.problem("could not find expected ':'"));
            }
            key.is_possible = false;
            key.is_awaited = false;
        }
        Ok(())
    }

    pub(super) fn roll_indent(
        &mut self,
        column: isize,
        number: Option<usize>,
        what: YamlTokenKind,
        line: usize,
    ) -> ScanResult {
        if self.flow_level > 0 || self.indent >= column {
            return Ok(());
        }
        self.indents.push(self.indent);
        self.indent = column;
        if self.indents.len() > MAX_LEVELS {
            return Err(self.problem("exceeded max depth of 10000"));
        }
        match number {
            Some(number) => self.insert(number, what, line),
            None => self.push(what, line),
        }
        Ok(())
    }

    pub(super) fn unroll_indent(&mut self, column: isize) {
        if self.flow_level > 0 {
            return;
        }
        while self.indent > column {
            self.push(YamlTokenKind::BlockEnd, self.line);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }
}
