//! Scanner: from text to tokens. Indentation becomes block start and end tokens, and simple keys get a key token.
//!
//! The rules, their order and their errors match libyaml as ported in go-yaml v2, including its quirks. Scalars borrow from the
//! text where possible.
//!
//! See also: `scan_text` (characters), `scan_key` (simple keys and indentation), `scan_scalar` (scalar contents), `scan_tag`
//! (directives, anchors and tags).

use std::borrow::Cow;
use std::collections::VecDeque;

use super::problem::YamlSyntaxError;
use super::scan_key::SimpleKey;
use super::source::{ReadBlocks, YamlSource};

/// go-yaml's maximum nesting of brackets and of indentation.
pub(super) const MAX_LEVELS: usize = 10_000;

/// The kind of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum YamlTokenKind {
    StreamStart,
    #[default]
    StreamEnd,
    Version {
        known: bool,
    },
    TagDirective,
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias,
    Anchor,
    Tag,
    Scalar {
        plain: bool,
        skimmed: bool,
    },
}

/// A scanner token.
#[derive(Clone, Debug, Default)]
pub(super) struct Token<'a> {
    pub kind: YamlTokenKind,
    /// Zero-based.
    pub line: usize,
    /// The content of a scalar, the name of an anchor, or the handle of a tag.
    pub text: Cow<'a, str>,
    /// For a tag, the part after its handle; for a `%TAG` directive, the prefix.
    pub suffix: Option<Box<str>>,
}

/// The scanner: its position in the text, pending tokens, indentation and simple keys.
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own to the grammar")]
pub(super) struct Scanner<'a> {
    pub(super) text: &'a str,
    pub(super) bytes: &'a [u8],
    pub(super) read_blocks: Option<ReadBlocks>,
    pub(super) ascii: bool,
    pub(super) at: usize,
    /// The number of UTF-8 continuation bytes before `at`.
    pub(super) trailing: usize,
    pub(super) line: usize,
    /// The number of characters before the current line.
    pub(super) line_start: usize,
    pub(super) tokens: VecDeque<Token<'a>>,
    /// Whether the first token is final.
    is_ready: bool,
    pub(super) tokens_taken: usize,
    has_started: bool,
    pub(super) indent: isize,
    pub(super) indents: Vec<isize>,
    pub(super) flow_level: usize,
    pub(super) keys: Vec<SimpleKey>,
    pub(super) key_allowed: bool,
    /// Allows omitting scalars that cannot borrow from the text.
    pub(super) skim: bool,
}

pub(super) type ScanResult = Result<(), YamlSyntaxError>;

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a YamlSource<'_>) -> Self {
        Self {
            text: &source.text,
            bytes: source.text.as_bytes(),
            read_blocks: source.read_blocks.clone(),
            ascii: source.text.is_ascii(),
            at: 0,
            trailing: 0,
            line: 0,
            line_start: 0,
            tokens: VecDeque::new(),
            is_ready: false,
            tokens_taken: 0,
            has_started: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            keys: vec![SimpleKey::default()],
            key_allowed: true,
            skim: false,
        }
    }

    /// Peeks at the next token.
    pub(super) fn peek(&mut self) -> Result<(YamlTokenKind, usize), YamlSyntaxError> {
        if !self.is_ready {
            while self.tokens.is_empty() || self.first_awaits_key()? {
                self.fetch()?;
            }
            self.is_ready = true;
        }
        Ok(self
            .tokens
            .front()
            .map_or((YamlTokenKind::StreamEnd, self.line), |token| (token.kind, token.line)))
    }

    /// Removes and returns the peeked token.
    pub(super) fn take(&mut self) -> Token<'a> {
        self.is_ready = false;
        self.tokens_taken += 1;
        self.tokens.pop_front().unwrap_or_default()
    }

    /// Like [`Self::take`], for a token without content.
    pub(super) fn skip_token(&mut self) {
        self.take();
    }

    fn fetch(&mut self) -> ScanResult {
        self.require(1)?;
        if !self.has_started {
            self.has_started = true;
            self.push(YamlTokenKind::StreamStart, self.line);
            return Ok(());
        }
        self.skip_blanks_and_comments()?;
        self.unroll_indent(self.level());
        self.require(4)?;
        let in_flow = self.flow_level > 0;
        match self.byte(0) {
            0 => self.fetch_stream_end(),
            b'%' if self.column() == 0 => self.fetch_directive(),
            b'-' if self.at_document_indicator() => {
                self.fetch_document_indicator(YamlTokenKind::DocumentStart)
            }
            b'.' if self.at_document_indicator() => self.fetch_document_indicator(YamlTokenKind::DocumentEnd),
            b'[' => self.fetch_flow_start(YamlTokenKind::FlowSequenceStart),
            b'{' => self.fetch_flow_start(YamlTokenKind::FlowMappingStart),
            b']' => self.fetch_flow_end(YamlTokenKind::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(YamlTokenKind::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if in_flow || self.is_blank_or_end(1) => self.fetch_key(),
            b':' if in_flow || self.is_blank_or_end(1) => self.fetch_value(),
            b'*' => self.fetch_anchor(YamlTokenKind::Alias),
            b'&' => self.fetch_anchor(YamlTokenKind::Anchor),
            b'!' => self.fetch_tag(),
            b'|' if !in_flow => self.fetch_block_scalar(true),
            b'>' if !in_flow => self.fetch_block_scalar(false),
            b'\'' => self.fetch_quoted(true),
            b'"' => self.fetch_quoted(false),
            b' ' | b'\t' | b'#' | b'|' | b'>' | b'%' | b'@' | b'`' => {
                Err(self.problem("found character that cannot start any token"))
            }
            // Not blank, because otherwise it would have matched an indicator above.
            _ => self.fetch_plain(),
        }
    }

    pub(super) fn push(&mut self, what: YamlTokenKind, line: usize) {
        self.tokens.push_back(Token { kind: what, line, ..Token::default() });
    }

    /// Inserts a token before the token of this number, or at the end if that one was already taken.
    pub(super) fn insert(&mut self, number: usize, what: YamlTokenKind, line: usize) {
        let place = number.checked_sub(self.tokens_taken).unwrap_or(self.tokens.len());
        let token = Token { kind: what, line, ..Token::default() };
        self.tokens.insert(place.min(self.tokens.len()), token);
    }

    /// Adds a token of one character.
    fn push_indicator(&mut self, what: YamlTokenKind) {
        self.push(what, self.line);
        self.skip();
    }

    fn skip_blanks_and_comments(&mut self) -> ScanResult {
        loop {
            self.require(1)?;
            if self.column() == 0
                && self
                    .read_blocks
                    .as_ref()
                    .is_some_and(|pieces| pieces.starts_with_byte_order_mark(self.text))
            {
                self.skip();
            }
            self.require(1)?;
            // At the start of a line, a tab would be indentation.
            let tabs = self.flow_level > 0 || !self.key_allowed;
            let blanks = self.bytes.get(self.at..).unwrap_or_default();
            let passed = blanks.iter().take_while(|byte| **byte == b' ' || (tabs && **byte == b'\t')).count();
            self.advance_to(self.at + passed);
            self.require(1)?;
            if self.byte(0) == b'#' {
                self.advance_to(self.line_end());
                self.require(1)?;
            }
            if !self.is_break(0) {
                return Ok(());
            }
            self.require(2)?;
            self.take_break();
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn fetch_stream_end(&mut self) -> ScanResult {
        if self.column() != 0 {
            self.line += 1;
            self.line_start = self.index();
        }
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.push(YamlTokenKind::StreamEnd, self.line);
        Ok(())
    }

    fn fetch_directive(&mut self) -> ScanResult {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        let token = self.scan_directive()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_document_indicator(&mut self, what: YamlTokenKind) -> ScanResult {
        self.unroll_indent(-1);
        self.remove_key()?;
        self.key_allowed = false;
        self.push(what, self.line);
        self.advance_to(self.at + 3);
        Ok(())
    }

    fn fetch_flow_start(&mut self, what: YamlTokenKind) -> ScanResult {
        self.save_key()?;
        let number = self.tokens_taken + self.tokens.len();
        self.keys.push(SimpleKey { number, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVELS {
            return Err(self.problem("exceeded max depth of 10000"));
        }
        self.key_allowed = true;
        self.push_indicator(what);
        Ok(())
    }

    fn fetch_flow_end(&mut self, what: YamlTokenKind) -> ScanResult {
        self.remove_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            // If nothing inside was ever a key, go-yaml finds the bracket itself under this number and no longer waits to see whether the
            // collection is a key.
            if let Some(inner) = self.keys.pop()
                && let Some(outer) = self.keys.last_mut()
                && outer.number == inner.number
            {
                outer.is_awaited = false;
            }
        }
        self.key_allowed = false;
        self.push_indicator(what);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> ScanResult {
        self.remove_key()?;
        self.key_allowed = true;
        self.push_indicator(YamlTokenKind::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> ScanResult {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("block sequence entries are not allowed in this context"));
            }
            self.roll_indent(self.level(), None, YamlTokenKind::BlockSequenceStart, self.line)?;
        }
        self.remove_key()?;
        self.key_allowed = true;
        self.push_indicator(YamlTokenKind::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> ScanResult {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("mapping keys are not allowed in this context"));
            }
            self.roll_indent(self.level(), None, YamlTokenKind::BlockMappingStart, self.line)?;
        }
        self.remove_key()?;
        self.key_allowed = self.flow_level == 0;
        self.push_indicator(YamlTokenKind::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> ScanResult {
        let last = self.keys.len() - 1;
        if self.is_valid(last)? {
            let key = self.keys[last];
            self.insert(key.number, YamlTokenKind::Key, key.line);
            let column = isize::try_from(key.column).unwrap_or(isize::MAX);
            self.roll_indent(column, Some(key.number), YamlTokenKind::BlockMappingStart, key.line)?;
            self.keys[last].is_possible = false;
            self.keys[last].is_awaited = false;
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return Err(self.problem("mapping values are not allowed in this context"));
                }
                self.roll_indent(self.level(), None, YamlTokenKind::BlockMappingStart, self.line)?;
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.push_indicator(YamlTokenKind::Value);
        Ok(())
    }

    fn fetch_anchor(&mut self, what: YamlTokenKind) -> ScanResult {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_anchor(what)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_tag(&mut self) -> ScanResult {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_tag()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> ScanResult {
        self.remove_key()?;
        self.key_allowed = true;
        let token = self.scan_block_scalar(literal)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_quoted(&mut self, single: bool) -> ScanResult {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_quoted(single)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_plain(&mut self) -> ScanResult {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_plain()?;
        self.tokens.push_back(token);
        Ok(())
    }
}
