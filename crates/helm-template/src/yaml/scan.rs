//! Scanner: from text to tokens. Indentation becomes block start and end tokens, and simple keys get a key token.
//!
//! The rules, their order and their errors are those of libyaml as ported in go-yaml v2, including its quirks. Scalars borrow from
//! the text where possible.
//!
//! See also: `scan_text` (characters), `scan_key` (simple keys and indentation), `scan_scalar` (scalar contents), `scan_tag`
//! (directives, anchors and tags).

use std::borrow::Cow;
use std::collections::VecDeque;

use super::problem::Problem;
use super::scan_key::SimpleKey;
use super::source::{Pieces, Source};

/// go-yaml's maximum nesting of brackets and of indentation.
pub(super) const MAX_LEVELS: usize = 10_000;

/// The kind of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum What {
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
    pub what: What,
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
    pub(super) pieces: Option<Pieces>,
    pub(super) ascii: bool,
    pub(super) at: usize,
    /// The number of UTF-8 continuation bytes before `at`.
    pub(super) trailing: usize,
    pub(super) line: usize,
    /// The number of characters before the current line.
    pub(super) line_start: usize,
    pub(super) tokens: VecDeque<Token<'a>>,
    /// Whether the first token is final.
    ready: bool,
    pub(super) taken: usize,
    started: bool,
    pub(super) indent: isize,
    pub(super) indents: Vec<isize>,
    pub(super) flow_level: usize,
    pub(super) keys: Vec<SimpleKey>,
    pub(super) key_allowed: bool,
    /// Allows omitting scalars that cannot borrow from the text.
    pub(super) skim: bool,
}

pub(super) type Done = Result<(), Problem>;

impl<'a> Scanner<'a> {
    pub(super) fn new(source: &'a Source<'_>) -> Self {
        Self {
            text: &source.text,
            bytes: source.text.as_bytes(),
            pieces: source.pieces.clone(),
            ascii: source.text.is_ascii(),
            at: 0,
            trailing: 0,
            line: 0,
            line_start: 0,
            tokens: VecDeque::new(),
            ready: false,
            taken: 0,
            started: false,
            indent: -1,
            indents: Vec::new(),
            flow_level: 0,
            keys: vec![SimpleKey::default()],
            key_allowed: true,
            skim: false,
        }
    }

    /// Peeks at the next token.
    pub(super) fn peek(&mut self) -> Result<(What, usize), Problem> {
        if !self.ready {
            while self.tokens.is_empty() || self.first_awaits_key()? {
                self.fetch()?;
            }
            self.ready = true;
        }
        Ok(self.tokens.front().map_or((What::StreamEnd, self.line), |token| (token.what, token.line)))
    }

    /// Removes and returns the peeked token.
    pub(super) fn take(&mut self) -> Token<'a> {
        self.ready = false;
        self.taken += 1;
        self.tokens.pop_front().unwrap_or_default()
    }

    /// Like [`Self::take`], for a token without content.
    pub(super) fn skip_token(&mut self) {
        self.take();
    }

    fn fetch(&mut self) -> Done {
        self.need(1)?;
        if !self.started {
            self.started = true;
            self.push(What::StreamStart, self.line);
            return Ok(());
        }
        self.pass_blanks_and_comments()?;
        self.unroll_indent(self.level());
        self.need(4)?;
        let in_flow = self.flow_level > 0;
        match self.byte(0) {
            0 => self.fetch_stream_end(),
            b'%' if self.column() == 0 => self.fetch_directive(),
            b'-' if self.at_document_mark() => self.fetch_document_mark(What::DocumentStart),
            b'.' if self.at_document_mark() => self.fetch_document_mark(What::DocumentEnd),
            b'[' => self.fetch_flow_start(What::FlowSequenceStart),
            b'{' => self.fetch_flow_start(What::FlowMappingStart),
            b']' => self.fetch_flow_end(What::FlowSequenceEnd),
            b'}' => self.fetch_flow_end(What::FlowMappingEnd),
            b',' => self.fetch_flow_entry(),
            b'-' if self.is_blank_or_end(1) => self.fetch_block_entry(),
            b'?' if in_flow || self.is_blank_or_end(1) => self.fetch_key(),
            b':' if in_flow || self.is_blank_or_end(1) => self.fetch_value(),
            b'*' => self.fetch_anchor(What::Alias),
            b'&' => self.fetch_anchor(What::Anchor),
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

    pub(super) fn push(&mut self, what: What, line: usize) {
        self.tokens.push_back(Token { what, line, ..Token::default() });
    }

    /// Inserts a token before the token of this number, or at the end if that one was already taken.
    pub(super) fn insert(&mut self, number: usize, what: What, line: usize) {
        let place = number.checked_sub(self.taken).unwrap_or(self.tokens.len());
        let token = Token { what, line, ..Token::default() };
        self.tokens.insert(place.min(self.tokens.len()), token);
    }

    /// Adds a token of one character.
    fn push_indicator(&mut self, what: What) {
        self.push(what, self.line);
        self.skip();
    }

    fn pass_blanks_and_comments(&mut self) -> Done {
        loop {
            self.need(1)?;
            if self.column() == 0
                && self.pieces.as_ref().is_some_and(|pieces| pieces.begin_with_mark(self.text))
            {
                self.skip();
            }
            self.need(1)?;
            // At the start of a line, a tab would be indentation.
            let tabs = self.flow_level > 0 || !self.key_allowed;
            let blanks = self.bytes.get(self.at..).unwrap_or_default();
            let passed = blanks.iter().take_while(|byte| **byte == b' ' || (tabs && **byte == b'\t')).count();
            self.advance_to(self.at + passed);
            self.need(1)?;
            if self.byte(0) == b'#' {
                self.advance_to(self.line_end());
                self.need(1)?;
            }
            if !self.is_break(0) {
                return Ok(());
            }
            self.need(2)?;
            self.take_break();
            if self.flow_level == 0 {
                self.key_allowed = true;
            }
        }
    }

    fn fetch_stream_end(&mut self) -> Done {
        if self.column() != 0 {
            self.line += 1;
            self.line_start = self.index();
        }
        self.unroll_indent(-1);
        self.forget_key()?;
        self.key_allowed = false;
        self.push(What::StreamEnd, self.line);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Done {
        self.unroll_indent(-1);
        self.forget_key()?;
        self.key_allowed = false;
        let token = self.scan_directive()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_document_mark(&mut self, what: What) -> Done {
        self.unroll_indent(-1);
        self.forget_key()?;
        self.key_allowed = false;
        self.push(what, self.line);
        self.advance_to(self.at + 3);
        Ok(())
    }

    fn fetch_flow_start(&mut self, what: What) -> Done {
        self.save_key()?;
        let number = self.taken + self.tokens.len();
        self.keys.push(SimpleKey { number, ..SimpleKey::default() });
        self.flow_level += 1;
        if self.flow_level > MAX_LEVELS {
            return Err(self.problem("exceeded max depth of 10000"));
        }
        self.key_allowed = true;
        self.push_indicator(what);
        Ok(())
    }

    fn fetch_flow_end(&mut self, what: What) -> Done {
        self.forget_key()?;
        if self.flow_level > 0 {
            self.flow_level -= 1;
            // If nothing inside was ever a key, go-yaml finds the bracket itself under this number and no longer waits to see whether the
            // collection is a key.
            if let Some(inner) = self.keys.pop()
                && let Some(outer) = self.keys.last_mut()
                && outer.number == inner.number
            {
                outer.awaited = false;
            }
        }
        self.key_allowed = false;
        self.push_indicator(what);
        Ok(())
    }

    fn fetch_flow_entry(&mut self) -> Done {
        self.forget_key()?;
        self.key_allowed = true;
        self.push_indicator(What::FlowEntry);
        Ok(())
    }

    fn fetch_block_entry(&mut self) -> Done {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("block sequence entries are not allowed in this context"));
            }
            self.roll_indent(self.level(), None, What::BlockSequenceStart, self.line)?;
        }
        self.forget_key()?;
        self.key_allowed = true;
        self.push_indicator(What::BlockEntry);
        Ok(())
    }

    fn fetch_key(&mut self) -> Done {
        if self.flow_level == 0 {
            if !self.key_allowed {
                return Err(self.problem("mapping keys are not allowed in this context"));
            }
            self.roll_indent(self.level(), None, What::BlockMappingStart, self.line)?;
        }
        self.forget_key()?;
        self.key_allowed = self.flow_level == 0;
        self.push_indicator(What::Key);
        Ok(())
    }

    fn fetch_value(&mut self) -> Done {
        let last = self.keys.len() - 1;
        if self.is_valid(last)? {
            let key = self.keys[last];
            self.insert(key.number, What::Key, key.line);
            let column = isize::try_from(key.column).unwrap_or(isize::MAX);
            self.roll_indent(column, Some(key.number), What::BlockMappingStart, key.line)?;
            self.keys[last].possible = false;
            self.keys[last].awaited = false;
            self.key_allowed = false;
        } else {
            if self.flow_level == 0 {
                if !self.key_allowed {
                    return Err(self.problem("mapping values are not allowed in this context"));
                }
                self.roll_indent(self.level(), None, What::BlockMappingStart, self.line)?;
            }
            self.key_allowed = self.flow_level == 0;
        }
        self.push_indicator(What::Value);
        Ok(())
    }

    fn fetch_anchor(&mut self, what: What) -> Done {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_anchor(what)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_tag(&mut self) -> Done {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_tag()?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_block_scalar(&mut self, literal: bool) -> Done {
        self.forget_key()?;
        self.key_allowed = true;
        let token = self.scan_block_scalar(literal)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_quoted(&mut self, single: bool) -> Done {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_quoted(single)?;
        self.tokens.push_back(token);
        Ok(())
    }

    fn fetch_plain(&mut self) -> Done {
        self.save_key()?;
        self.key_allowed = false;
        let token = self.scan_plain()?;
        self.tokens.push_back(token);
        Ok(())
    }
}
