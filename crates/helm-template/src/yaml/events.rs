//! Parser: from tokens to events.
//!
//! Events borrow from the source and nothing is retained, so documents of any size can be scanned. The grammar and its errors are
//! those of libyaml as ported in go-yaml v2.

use std::borrow::Cow;

use super::problem::Problem;
use super::scan::{Scanner, Token, What};
use super::source::Source;

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
    pub implicit: bool,
    /// The text was omitted; see [`Events::skim`].
    pub skimmed: bool,
    pub properties: Properties<'a>,
    /// Zero-based.
    pub line: usize,
}

/// The state of the parser: the production that it expects next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
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

/// The context of a node, which decides what may start there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Block,
    BlockOrIndentless,
    Flow,
}

/// The event stream of a source.
pub struct Events<'a> {
    pub(super) scanner: Scanner<'a>,
    pub(super) state: State,
    /// States to return to when open collections end.
    states: Vec<State>,
    /// Tag handles and their prefixes.
    tags: Vec<(Cow<'a, str>, Box<str>)>,
}

pub(super) type Step<'a> = Result<Event<'a>, Problem>;

impl Source<'_> {
    /// The event stream of this source.
    pub fn events(&self) -> Events<'_> {
        Events {
            scanner: Scanner::new(self),
            state: State::StreamStart,
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
    pub fn read(&mut self) -> Step<'a> {
        match self.state {
            State::StreamStart => {
                self.scanner.peek()?;
                self.scanner.skip_token();
                self.state = State::ImplicitDocumentStart;
                self.document_start(true)
            }
            State::ImplicitDocumentStart => self.document_start(true),
            State::DocumentStart => self.document_start(false),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.node(Place::Block),
            State::BlockSequenceFirst => {
                self.open()?;
                self.block_sequence()
            }
            State::BlockSequence => self.block_sequence(),
            State::IndentlessSequence => self.indentless_sequence(),
            State::BlockMappingFirst => {
                self.open()?;
                self.block_mapping_key()
            }
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceFirst => {
                self.open()?;
                self.flow_sequence(true)
            }
            State::FlowSequence => self.flow_sequence(false),
            State::FlowPairKey => self.flow_pair_key(),
            State::FlowPairValue => self.flow_pair_value(),
            State::FlowPairEnd => {
                self.scanner.peek()?;
                self.state = State::FlowSequence;
                Ok(Event::MappingEnd)
            }
            State::FlowMappingFirst => {
                self.open()?;
                self.flow_mapping_key(true)
            }
            State::FlowMappingKey => self.flow_mapping_key(false),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let (_, line) = self.scanner.peek()?;
                Ok(self.empty(State::FlowMappingKey, line))
            }
            State::End => Ok(Event::StreamEnd),
        }
    }

    /// Consumes the token that opens a collection.
    fn open(&mut self) -> Result<(), Problem> {
        self.scanner.peek()?;
        self.scanner.skip_token();
        Ok(())
    }

    /// Consumes the peeked token and peeks at the next one.
    pub(super) fn after(&mut self) -> Result<(What, usize), Problem> {
        self.scanner.skip_token();
        self.scanner.peek()
    }

    pub(super) fn pop(&mut self) {
        self.state = self.states.pop().unwrap_or(State::End);
    }

    pub(super) fn node_then(&mut self, next: State, place: Place) -> Step<'a> {
        self.states.push(next);
        self.node(place)
    }

    /// An event for an absent node: an empty scalar.
    pub(super) fn empty(&mut self, next: State, line: usize) -> Event<'a> {
        self.state = next;
        Event::Scalar(Scalar {
            text: Cow::Borrowed(""),
            implicit: true,
            skimmed: false,
            properties: Properties::default(),
            line,
        })
    }

    fn document_start(&mut self, implicit: bool) -> Step<'a> {
        let (mut what, _) = self.scanner.peek()?;
        while !implicit && what == What::DocumentEnd {
            (what, _) = self.after()?;
        }
        match what {
            What::StreamEnd => {
                self.state = State::End;
                self.scanner.skip_token();
                Ok(Event::StreamEnd)
            }
            What::Version { .. } | What::TagDirective | What::DocumentStart => self.explicit_document(),
            _ if implicit => {
                self.directives()?;
                self.states.push(State::DocumentEnd);
                self.state = State::BlockNode;
                Ok(Event::DocumentStart)
            }
            _ => self.explicit_document(),
        }
    }

    fn explicit_document(&mut self) -> Step<'a> {
        self.directives()?;
        let (what, line) = self.scanner.peek()?;
        if what != What::DocumentStart {
            return Err(Problem { line, text: "did not find expected <document start>" });
        }
        self.scanner.skip_token();
        self.states.push(State::DocumentEnd);
        self.state = State::DocumentContent;
        Ok(Event::DocumentStart)
    }

    fn document_content(&mut self) -> Step<'a> {
        let (what, line) = self.scanner.peek()?;
        match what {
            What::Version { .. }
            | What::TagDirective
            | What::DocumentStart
            | What::DocumentEnd
            | What::StreamEnd => {
                self.pop();
                Ok(self.empty(self.state, line))
            }
            _ => self.node(Place::Block),
        }
    }

    fn document_end(&mut self) -> Step<'a> {
        if self.scanner.peek()?.0 == What::DocumentEnd {
            self.scanner.skip_token();
        }
        self.tags.clear();
        self.state = State::DocumentStart;
        Ok(Event::DocumentEnd)
    }

    fn directives(&mut self) -> Result<(), Problem> {
        let mut versioned = false;
        loop {
            let (what, line) = self.scanner.peek()?;
            match what {
                What::Version { .. } if versioned => {
                    return Err(Problem { line, text: "found duplicate %YAML directive" });
                }
                What::Version { known: false } => {
                    return Err(Problem { line, text: "found incompatible YAML document" });
                }
                What::Version { known: true } => {
                    versioned = true;
                    self.scanner.skip_token();
                }
                What::TagDirective => {
                    let Token { text: handle, suffix, .. } = self.scanner.take();
                    if self.tags.iter().any(|(known, _)| *known == handle) {
                        return Err(Problem { line, text: "found duplicate %TAG directive" });
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

    fn node(&mut self, place: Place) -> Step<'a> {
        let (mut what, line) = self.scanner.peek()?;
        if what == What::Alias {
            self.pop();
            return Ok(Event::Alias { name: self.scanner.take().text, line });
        }
        let mut properties = Properties::default();
        // At most one anchor and one tag, in either order.
        let mut content_line = line;
        if matches!(what, What::Anchor | What::Tag) {
            let second = if what == What::Anchor { What::Tag } else { What::Anchor };
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
            What::BlockEntry if place == Place::BlockOrIndentless => State::IndentlessSequence,
            What::Scalar { plain, skimmed } => {
                self.pop();
                let text = self.scanner.take().text;
                let implicit = match properties.tag.as_deref() {
                    None => plain,
                    Some(tag) => tag == "!",
                };
                return Ok(Event::Scalar(Scalar { text, implicit, skimmed, properties, line }));
            }
            What::FlowSequenceStart => State::FlowSequenceFirst,
            What::FlowMappingStart => State::FlowMappingFirst,
            What::BlockSequenceStart if place != Place::Flow => State::BlockSequenceFirst,
            What::BlockMappingStart if place != Place::Flow => State::BlockMappingFirst,
            _ if properties != Properties::default() => {
                self.pop();
                let implicit = properties.tag.is_none();
                let text = Cow::Borrowed("");
                return Ok(Event::Scalar(Scalar { text, implicit, skimmed: false, properties, line }));
            }
            _ => return Err(Problem { line: content_line, text: "did not find expected node content" }),
        };
        self.state = next;
        Ok(match next {
            State::FlowMappingFirst | State::BlockMappingFirst => Event::MappingStart { properties, line },
            _ => Event::SequenceStart { properties, line },
        })
    }

    /// Consumes an anchor into the properties, or returns a tag.
    fn property(&mut self, properties: &mut Properties<'a>) -> Option<Token<'a>> {
        let token = self.scanner.take();
        if token.what == What::Tag {
            return Some(token);
        }
        properties.anchor = Some(token.text);
        None
    }

    fn full_tag(&self, tag: &Token<'a>) -> Result<Box<str>, Problem> {
        let suffix = tag.suffix.as_deref().unwrap_or_default();
        if tag.text.is_empty() {
            return Ok(suffix.into());
        }
        match self.tags.iter().find(|(handle, _)| *handle == tag.text) {
            Some((_, prefix)) if !prefix.is_empty() || !suffix.is_empty() => {
                Ok([&**prefix, suffix].concat().into())
            }
            _ => Err(Problem { line: tag.line, text: "found undefined tag handle" }),
        }
    }

    fn block_sequence(&mut self) -> Step<'a> {
        match self.scanner.peek()? {
            (What::BlockEntry, line) => match self.after()?.0 {
                What::BlockEntry | What::BlockEnd => Ok(self.empty(State::BlockSequence, line)),
                _ => self.node_then(State::BlockSequence, Place::Block),
            },
            (What::BlockEnd, _) => {
                self.pop();
                self.scanner.skip_token();
                Ok(Event::SequenceEnd)
            }
            (_, line) => Err(Problem { line, text: "did not find expected '-' indicator" }),
        }
    }

    fn indentless_sequence(&mut self) -> Step<'a> {
        let (What::BlockEntry, line) = self.scanner.peek()? else {
            self.pop();
            return Ok(Event::SequenceEnd);
        };
        match self.after()?.0 {
            What::BlockEntry | What::Key | What::Value | What::BlockEnd => {
                Ok(self.empty(State::IndentlessSequence, line))
            }
            _ => self.node_then(State::IndentlessSequence, Place::Block),
        }
    }

    fn block_mapping_key(&mut self) -> Step<'a> {
        match self.scanner.peek()? {
            (What::Key, line) => match self.after()?.0 {
                What::Key | What::Value | What::BlockEnd => Ok(self.empty(State::BlockMappingValue, line)),
                _ => self.node_then(State::BlockMappingValue, Place::BlockOrIndentless),
            },
            (What::BlockEnd, _) => {
                self.pop();
                self.scanner.skip_token();
                Ok(Event::MappingEnd)
            }
            (_, line) => Err(Problem { line, text: "did not find expected key" }),
        }
    }

    fn block_mapping_value(&mut self) -> Step<'a> {
        match self.scanner.peek()? {
            (What::Value, line) => match self.after()?.0 {
                What::Key | What::Value | What::BlockEnd => Ok(self.empty(State::BlockMappingKey, line)),
                _ => self.node_then(State::BlockMappingKey, Place::BlockOrIndentless),
            },
            (_, line) => Ok(self.empty(State::BlockMappingKey, line)),
        }
    }
}
