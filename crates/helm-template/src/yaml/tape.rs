//! A parsed document as a flat list of nodes in pre-order.
//!
//! go-yaml parses a whole document before it resolves anything, so syntax errors precede all others. The tape is the intermediate
//! form.

use std::borrow::Cow;
use std::collections::HashMap;

use super::events::{Event, Events};
use super::problem::YamlSyntaxError;
use crate::value::Str;

/// Maximum nesting of collections. go-yaml allows ten thousand of each kind; code that walks the data later uses the stack.
pub const MAX_DEPTH: usize = 500;
pub(super) const TOO_DEEP: &str = "exceeded max depth of 500";

/// A node of the document.
#[derive(Debug)]
pub(super) struct Node<'a> {
    /// The index of the first node after this node's descendants.
    pub next: usize,
    /// Zero-based.
    pub line: usize,
    pub content: Content<'a>,
}

/// The content of a node. Children of a collection follow it on the tape.
#[derive(Debug)]
pub(super) enum Content<'a> {
    Scalar {
        text: Cow<'a, str>,
        implicit: bool,
        tag: Option<Box<str>>,
    },
    Sequence,
    /// Alternating keys and values.
    Mapping,
    Alias {
        name: Cow<'a, str>,
        target: usize,
    },
}

/// The nodes of one document; empty at the end of the stream.
#[derive(Debug, Default)]
pub(super) struct Tape<'a> {
    pub nodes: Vec<Node<'a>>,
    pub has_aliases: bool,
}

impl<'a> Tape<'a> {
    /// Reads the next document of the stream.
    pub(super) fn read(events: &mut Events<'a>) -> Result<Self, Str> {
        let mut tape = Self::default();
        let mut open = Vec::new();
        let mut anchors = HashMap::new();
        loop {
            let at = tape.nodes.len();
            match events.next_event().map_err(error_message)? {
                Event::StreamEnd | Event::DocumentEnd => return Ok(tape),
                Event::DocumentStart => {}
                Event::Scalar(scalar) => {
                    if let Some(anchor) = scalar.properties.anchor {
                        anchors.insert(anchor, at);
                    }
                    let (text, implicit, tag) = (scalar.text, scalar.is_implicit, scalar.properties.tag);
                    tape.push(scalar.line, Content::Scalar { text, implicit, tag });
                }
                Event::Alias { name, line } => {
                    let Some(target) = anchors.get(&name).copied() else {
                        return Err(format!("yaml: unknown anchor '{name}' referenced").into());
                    };
                    tape.has_aliases = true;
                    tape.push(line, Content::Alias { name, target });
                }
                Event::SequenceStart { properties, line } => {
                    properties.anchor.and_then(|anchor| anchors.insert(anchor, at));
                    tape.open(line, Content::Sequence, &mut open)?;
                }
                Event::MappingStart { properties, line } => {
                    properties.anchor.and_then(|anchor| anchors.insert(anchor, at));
                    tape.open(line, Content::Mapping, &mut open)?;
                }
                Event::SequenceEnd | Event::MappingEnd => {
                    if let Some(node) = open.pop().and_then(|opened: usize| tape.nodes.get_mut(opened)) {
                        node.next = at;
                    }
                }
            }
        }
    }

    fn push(&mut self, line: usize, content: Content<'a>) {
        let next = self.nodes.len() + 1;
        self.nodes.push(Node { next, line, content });
    }

    fn open(&mut self, line: usize, content: Content<'a>, open: &mut Vec<usize>) -> Result<(), Str> {
        open.push(self.nodes.len());
        if open.len() > MAX_DEPTH {
            return Err(error_message(YamlSyntaxError { line: line + 1, text: TOO_DEEP }));
        }
        self.push(line, content);
        Ok(())
    }

    /// The indexes of the children of a node.
    pub(super) fn children(&self, at: usize) -> Children<'_, 'a> {
        Children { tape: self, at: at + 1, end: self.nodes.get(at).map_or(0, |node| node.next) }
    }
}

/// Iterator over the indexes of a node's children.
pub(super) struct Children<'t, 'a> {
    tape: &'t Tape<'a>,
    at: usize,
    end: usize,
}

impl Iterator for Children<'_, '_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let at = self.at;
        if at >= self.end {
            return None;
        }
        self.at = self.tape.nodes.get(at)?.next;
        Some(at)
    }
}

pub(super) fn error_message(problem: YamlSyntaxError) -> Str {
    problem.to_string().into()
}
