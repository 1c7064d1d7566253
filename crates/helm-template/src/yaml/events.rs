//! Parser: from tokens to events.
//!
//! Events borrow from the source and nothing is retained, so documents of any size can be scanned. The grammar and its errors
//! match libyaml as ported in go-yaml v2.

use std::borrow::Cow;

use super::problem::YamlSyntaxError;
use super::scan::{Scanner, Token, YamlTokenKind};
use super::source::YamlSource;

/// The anchor and tag of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties<'a> {
    pub anchor: Option<Cow<'a, str>>,
    /// In expanded form.
    pub tag: Option<Box<str>>,
}

/// A parser event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    DocumentStart,
    DocumentEnd,
    /// Returned by every further call.
    StreamEnd,
    Alias {
        name: Cow<'a, str>,
        line: usize,
    },
    Scalar(Scalar<'a>),
    SequenceStart {
        properties: Properties<'a>,
        line: usize,
    },
    SequenceEnd,
    MappingStart {
        properties: Properties<'a>,
        line: usize,
    },
    MappingEnd,
}

/// A scalar node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scalar<'a> {
    pub text: Cow<'a, str>,
    /// Plain and untagged: the type is resolved from the text.
    pub is_implicit: bool,
    /// The text was omitted; see [`Events::skim`].
    pub is_skimmed: bool,
    pub properties: Properties<'a>,
    /// Zero-based.
    pub line: usize,
}

/// The state of the parser: the production that it expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum YamlParserState {
    StreamStart,
    ImplicitDocumentStart,
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceFirst,
    BlockSequence,
    IndentlessSequence,
    BlockMappingFirst,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceFirst,
    FlowSequence,
    FlowPairKey,
    FlowPairValue,
    FlowPairEnd,
    FlowMappingFirst,
    FlowMappingKey,
    FlowMappingValue,
    FlowMappingEmptyValue,
    End,
}

/// The context of a node, which determines the kinds of nodes that may start there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeContext {
    Block,
    BlockOrIndentless,
    Flow,
}

/// The event stream of a source.
pub struct Events<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) state: YamlParserState,
    /// States to return to when open collections end.
    states: Vec<YamlParserState>,
    /// Tag handles and their prefixes.
    tags: Vec<(Cow<'a, str>, Box<str>)>,
}

pub(super) type EventResult<'a> = Result<Event<'a>, YamlSyntaxError>;

impl YamlSource<'_> {
    /// The event stream of this source.
    pub fn events(&self) -> Events<'_> {
        Events {
            scanner: Scanner::new(self),
            state: YamlParserState::StreamStart,
            states: Vec::with_capacity(16),
            tags: Vec::new(),
        }
    }
}

impl<'a> Events<'a> {
    /// Allows omitting texts that cannot be slices of the source. Such scalars are marked as skimmed.
    pub fn skim(&mut self, skim: bool) {
        self.scanner.skim = skim;
    }

    /// The next event. Must not be called again after an error.
    pub fn next_event(&mut self) -> EventResult<'a> {
        match self.state {
            YamlParserState::StreamStart => {
                self.scanner.peek()?;
                self.scanner.skip_token();
                self.state = YamlParserState::ImplicitDocumentStart;
                self.document_start(true)
            }
            YamlParserState::ImplicitDocumentStart => self.document_start(true),
            YamlParserState::DocumentStart => self.document_start(false),
            YamlParserState::DocumentContent => self.document_content(),
            YamlParserState::DocumentEnd => self.document_end(),
            YamlParserState::BlockNode => self.node(NodeContext::Block),
            YamlParserState::BlockSequenceFirst => {
                self.open()?;
                self.block_sequence()
            }
            YamlParserState::BlockSequence => self.block_sequence(),
            YamlParserState::IndentlessSequence => self.indentless_sequence(),
            YamlParserState::BlockMappingFirst => {
                self.open()?;
                self.block_mapping_key()
            }
            YamlParserState::BlockMappingKey => self.block_mapping_key(),
            YamlParserState::BlockMappingValue => self.block_mapping_value(),
            YamlParserState::FlowSequenceFirst => {
                self.open()?;
                self.flow_sequence(true)
            }
            YamlParserState::FlowSequence => self.flow_sequence(false),
            YamlParserState::FlowPairKey => self.flow_pair_key(),
            YamlParserState::FlowPairValue => self.flow_pair_value(),
            YamlParserState::FlowPairEnd => {
                self.scanner.peek()?;
                self.state = YamlParserState::FlowSequence;
                Ok(Event::MappingEnd)
            }
            YamlParserState::FlowMappingFirst => {
                self.open()?;
                self.flow_mapping_key(true)
            }
            YamlParserState::FlowMappingKey => self.flow_mapping_key(false),
            YamlParserState::FlowMappingValue => self.flow_mapping_value(),
            YamlParserState::FlowMappingEmptyValue => {
                let (_, line) = self.scanner.peek()?;
                Ok(self.empty(YamlParserState::FlowMappingKey, line))
            }
            YamlParserState::End => Ok(Event::StreamEnd),
        }
    }

    /// Consumes the token that opens a collection.
    fn open(&mut self) -> Result<(), YamlSyntaxError> {
        self.scanner.peek()?;
        self.scanner.skip_token();
        Ok(())
    }

    /// Consumes the peeked token and peeks at the next one.
    pub(super) fn advance(&mut self) -> Result<(YamlTokenKind, usize), YamlSyntaxError> {
        self.scanner.skip_token();
        self.scanner.peek()
    }

    pub(super) fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(YamlParserState::End);
    }

    pub(super) fn node_then(&mut self, next: YamlParserState, place: NodeContext) -> EventResult<'a> {
        self.states.push(next);
        self.node(place)
    }

    /// An event for an absent node: an empty scalar.
    pub(super) fn empty(&mut self, next: YamlParserState, line: usize) -> Event<'a> {
        self.state = next;
        Event::Scalar(Scalar {
            text: Cow::Borrowed(""),
            is_implicit: true,
            is_skimmed: false,
            properties: Properties::default(),
            line,
        })
    }

    fn document_start(&mut self, implicit: bool) -> EventResult<'a> {
        let (mut what, _) = self.scanner.peek()?;
        while !implicit && what == YamlTokenKind::DocumentEnd {
            (what, _) = self.advance()?;
        }
        match what {
            YamlTokenKind::StreamEnd => {
                self.state = YamlParserState::End;
                self.scanner.skip_token();
                Ok(Event::StreamEnd)
            }
            YamlTokenKind::Version { .. } | YamlTokenKind::TagDirective | YamlTokenKind::DocumentStart => {
                self.explicit_document()
            }
            _ if implicit => {
                self.directives()?;
                self.states.push(YamlParserState::DocumentEnd);
                self.state = YamlParserState::BlockNode;
                Ok(Event::DocumentStart)
            }
            _ => self.explicit_document(),
        }
    }

    fn explicit_document(&mut self) -> EventResult<'a> {
        self.directives()?;
        let (what, line) = self.scanner.peek()?;
        if what != YamlTokenKind::DocumentStart {
            return Err(YamlSyntaxError { line, text: "did not find expected <document start>" });
        }
        self.scanner.skip_token();
        self.states.push(YamlParserState::DocumentEnd);
        self.state = YamlParserState::DocumentContent;
        Ok(Event::DocumentStart)
    }

    fn document_content(&mut self) -> EventResult<'a> {
        let (what, line) = self.scanner.peek()?;
        match what {
            YamlTokenKind::Version { .. }
            | YamlTokenKind::TagDirective
            | YamlTokenKind::DocumentStart
            | YamlTokenKind::DocumentEnd
            | YamlTokenKind::StreamEnd => {
                self.pop();
                Ok(self.empty(self.state, line))
            }
            _ => self.node(NodeContext::Block),
        }
    }

    fn document_end(&mut self) -> EventResult<'a> {
        if self.scanner.peek()?.0 == YamlTokenKind::DocumentEnd {
            self.scanner.skip_token();
        }
        self.tags.clear();
        self.state = YamlParserState::DocumentStart;
        Ok(Event::DocumentEnd)
    }

    fn directives(&mut self) -> Result<(), YamlSyntaxError> {
        let mut versioned = false;
        loop {
            let (what, line) = self.scanner.peek()?;
            match what {
                YamlTokenKind::Version { .. } if versioned => {
                    return Err(YamlSyntaxError { line, text: "found duplicate %YAML directive" });
                }
                YamlTokenKind::Version { known: false } => {
                    return Err(YamlSyntaxError { line, text: "found incompatible YAML document" });
                }
                YamlTokenKind::Version { known: true } => {
                    versioned = true;
                    self.scanner.skip_token();
                }
                YamlTokenKind::TagDirective => {
                    let Token { text: handle, suffix, .. } = self.scanner.take();
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Err(YamlSyntaxError { line, text: "found duplicate %TAG directive" });
                    }
                    self.tags.push((handle, suffix.unwrap_or_default()));
                }
                _ => break,
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tags.iter().any(|(known, _)| known == handle) {
                self.tags.push((handle.into(), prefix.into()));
            }
        }
        Ok(())
    }

    fn node(&mut self, place: NodeContext) -> EventResult<'a> {
        let (mut what, line) = self.scanner.peek()?;
        if what == YamlTokenKind::Alias {
            self.pop();
            return Ok(Event::Alias { name: self.scanner.take().text, line });
        }
        let mut properties = Properties::default();
        // At most one anchor and one tag, in either order.
        let mut content_line = line;
        if matches!(what, YamlTokenKind::Anchor | YamlTokenKind::Tag) {
            let second =
                if what == YamlTokenKind::Anchor { YamlTokenKind::Tag } else { YamlTokenKind::Anchor };
            let mut tag = self.property(&mut properties);
            (what, content_line) = self.scanner.peek()?;
            if what == second {
                tag = self.property(&mut properties).or(tag);
                (what, content_line) = self.scanner.peek()?;
            }
            if let Some(tag) = tag {
                properties.tag = Some(self.full_tag(&tag)?);
            }
        }
        let next = match what {
            YamlTokenKind::BlockEntry if place == NodeContext::BlockOrIndentless => {
                YamlParserState::IndentlessSequence
            }
            YamlTokenKind::Scalar { plain, skimmed } => {
                self.pop();
                let text = self.scanner.take().text;
                let implicit = match properties.tag.as_deref() {
                    None => plain,
                    Some(tag) => tag == "!",
                };
                return Ok(Event::Scalar(Scalar {
                    text,
                    is_implicit: implicit,
                    is_skimmed: skimmed,
                    properties,
                    line,
                }));
            }
            YamlTokenKind::FlowSequenceStart => YamlParserState::FlowSequenceFirst,
            YamlTokenKind::FlowMappingStart => YamlParserState::FlowMappingFirst,
            YamlTokenKind::BlockSequenceStart if place != NodeContext::Flow => {
                YamlParserState::BlockSequenceFirst
            }
            YamlTokenKind::BlockMappingStart if place != NodeContext::Flow => {
                YamlParserState::BlockMappingFirst
            }
            _ if properties != Properties::default() => {
                self.pop();
                let implicit = properties.tag.is_none();
                let text = Cow::Borrowed("");
                return Ok(Event::Scalar(Scalar {
                    text,
                    is_implicit: implicit,
                    is_skimmed: false,
                    properties,
                    line,
                }));
            }
            _ => {
                return Err(YamlSyntaxError {
                    line: content_line,
                    text: "did not find expected node content",
                });
            }
        };
        self.state = next;
        Ok(match next {
            YamlParserState::FlowMappingFirst | YamlParserState::BlockMappingFirst => {
                Event::MappingStart { properties, line }
            }
            _ => Event::SequenceStart { properties, line },
        })
    }

    /// Consumes an anchor into the properties, or returns a tag.
    fn property(&mut self, properties: &mut Properties<'a>) -> Option<Token<'a>> {
        let token = self.scanner.take();
        if token.kind == YamlTokenKind::Tag {
            return Some(token);
        }
        properties.anchor = Some(token.text);
        None
    }

    fn full_tag(&self, tag: &Token<'a>) -> Result<Box<str>, YamlSyntaxError> {
        let suffix = tag.suffix.as_deref().unwrap_or_default();
        if tag.text.is_empty() {
            return Ok(suffix.into());
        }
        match self.tags.iter().find(|(handle, _)| *handle == tag.text) {
            Some((_, prefix)) if !prefix.is_empty() || !suffix.is_empty() => {
                Ok([&**prefix, suffix].concat().into())
            }
            _ => Err(YamlSyntaxError { line: tag.line, text: "found undefined tag handle" }),
        }
    }

    fn block_sequence(&mut self) -> EventResult<'a> {
        match self.scanner.peek()? {
            (YamlTokenKind::BlockEntry, line) => match self.advance()?.0 {
                YamlTokenKind::BlockEntry | YamlTokenKind::BlockEnd => {
                    Ok(self.empty(YamlParserState::BlockSequence, line))
                }
                _ => self.node_then(YamlParserState::BlockSequence, NodeContext::Block),
            },
            (YamlTokenKind::BlockEnd, _) => {
                self.pop();
                self.scanner.skip_token();
                Ok(Event::SequenceEnd)
            }
            (_, line) => Err(YamlSyntaxError { line, text: "did not find expected '-' indicator" }),
        }
    }

    fn indentless_sequence(&mut self) -> EventResult<'a> {
        let (YamlTokenKind::BlockEntry, line) = self.scanner.peek()? else {
            self.pop();
            return Ok(Event::SequenceEnd);
        };
        match self.advance()?.0 {
            YamlTokenKind::BlockEntry
            | YamlTokenKind::Key
            | YamlTokenKind::Value
            | YamlTokenKind::BlockEnd => Ok(self.empty(YamlParserState::IndentlessSequence, line)),
            _ => self.node_then(YamlParserState::IndentlessSequence, NodeContext::Block),
        }
    }

    fn block_mapping_key(&mut self) -> EventResult<'a> {
        match self.scanner.peek()? {
            (YamlTokenKind::Key, line) => match self.advance()?.0 {
                YamlTokenKind::Key | YamlTokenKind::Value | YamlTokenKind::BlockEnd => {
                    Ok(self.empty(YamlParserState::BlockMappingValue, line))
                }
                _ => self.node_then(YamlParserState::BlockMappingValue, NodeContext::BlockOrIndentless),
            },
            (YamlTokenKind::BlockEnd, _) => {
                self.pop();
                self.scanner.skip_token();
                Ok(Event::MappingEnd)
            }
            (_, line) => Err(YamlSyntaxError { line, text: "did not find expected key" }),
        }
    }

    fn block_mapping_value(&mut self) -> EventResult<'a> {
        match self.scanner.peek()? {
            (YamlTokenKind::Value, line) => match self.advance()?.0 {
                YamlTokenKind::Key | YamlTokenKind::Value | YamlTokenKind::BlockEnd => {
                    Ok(self.empty(YamlParserState::BlockMappingKey, line))
                }
                _ => self.node_then(YamlParserState::BlockMappingKey, NodeContext::BlockOrIndentless),
            },
            (_, line) => Ok(self.empty(YamlParserState::BlockMappingKey, line)),
        }
    }
}
