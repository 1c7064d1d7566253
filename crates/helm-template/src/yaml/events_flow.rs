//! Grammar of flow collections.

use super::events::{Event, EventResult, Events, NodeContext, Properties, YamlParserState};
use super::problem::YamlSyntaxError;
use super::scan::YamlTokenKind;

impl<'a> Events<'a> {
    pub(super) fn flow_sequence(&mut self, first: bool) -> EventResult<'a> {
        let (mut what, line) = self.scanner.peek()?;
        if what != YamlTokenKind::FlowSequenceEnd {
            if !first {
                if what != YamlTokenKind::FlowEntry {
                    return Err(YamlSyntaxError { line, text: "did not find expected ',' or ']'" });
                }
                (what, _) = self.advance()?;
            }
            match what {
                YamlTokenKind::Key => {
                    let (_, line) = self.scanner.peek()?;
                    self.state = YamlParserState::FlowPairKey;
                    self.scanner.skip_token();
                    return Ok(Event::MappingStart { properties: Properties::default(), line });
                }
                YamlTokenKind::FlowSequenceEnd => {}
                _ => return self.node_then(YamlParserState::FlowSequence, NodeContext::Flow),
            }
        }
        self.pop();
        self.scanner.skip_token();
        Ok(Event::SequenceEnd)
    }

    pub(super) fn flow_pair_key(&mut self) -> EventResult<'a> {
        match self.scanner.peek()? {
            // go-yaml also consumes the `:`, `,` or `]` here, so an empty key is not possible.
            (YamlTokenKind::Value | YamlTokenKind::FlowEntry | YamlTokenKind::FlowSequenceEnd, line) => {
                self.scanner.skip_token();
                Ok(self.empty(YamlParserState::FlowPairValue, line))
            }
            _ => self.node_then(YamlParserState::FlowPairValue, NodeContext::Flow),
        }
    }

    pub(super) fn flow_pair_value(&mut self) -> EventResult<'a> {
        let (what, line) = self.scanner.peek()?;
        if what == YamlTokenKind::Value
            && !matches!(self.advance()?.0, YamlTokenKind::FlowEntry | YamlTokenKind::FlowSequenceEnd)
        {
            return self.node_then(YamlParserState::FlowPairEnd, NodeContext::Flow);
        }
        Ok(self.empty(YamlParserState::FlowPairEnd, line))
    }

    pub(super) fn flow_mapping_key(&mut self, first: bool) -> EventResult<'a> {
        let (mut what, line) = self.scanner.peek()?;
        if what != YamlTokenKind::FlowMappingEnd {
            if !first {
                if what != YamlTokenKind::FlowEntry {
                    return Err(YamlSyntaxError { line, text: "did not find expected ',' or '}'" });
                }
                (what, _) = self.advance()?;
            }
            match what {
                YamlTokenKind::Key => {
                    return match self.advance()? {
                        (
                            YamlTokenKind::Value | YamlTokenKind::FlowEntry | YamlTokenKind::FlowMappingEnd,
                            line,
                        ) => Ok(self.empty(YamlParserState::FlowMappingValue, line)),
                        _ => self.node_then(YamlParserState::FlowMappingValue, NodeContext::Flow),
                    };
                }
                YamlTokenKind::FlowMappingEnd => {}
                _ => return self.node_then(YamlParserState::FlowMappingEmptyValue, NodeContext::Flow),
            }
        }
        self.pop();
        self.scanner.skip_token();
        Ok(Event::MappingEnd)
    }

    pub(super) fn flow_mapping_value(&mut self) -> EventResult<'a> {
        let (what, mut line) = self.scanner.peek()?;
        if what == YamlTokenKind::Value {
            let after = self.advance()?;
            if !matches!(after.0, YamlTokenKind::FlowEntry | YamlTokenKind::FlowMappingEnd) {
                return self.node_then(YamlParserState::FlowMappingKey, NodeContext::Flow);
            }
            line = after.1;
        }
        Ok(self.empty(YamlParserState::FlowMappingKey, line))
    }
}
