//! Grammar of flow collections.

use super::events::{Event, Events, Place, Properties, State, Step};
use super::problem::Problem;
use super::scan::What;

impl<'a> Events<'a> {
    pub(super) fn flow_sequence(&mut self, first: bool) -> Step<'a> {
        let (mut what, line) = self.scanner.peek()?;
        if what != What::FlowSequenceEnd {
            if !first {
                if what != What::FlowEntry {
                    return Err(Problem { line, text: "did not find expected ',' or ']'" });
                }
                (what, _) = self.after()?;
            }
            match what {
                What::Key => {
                    let (_, line) = self.scanner.peek()?;
                    self.state = State::FlowPairKey;
                    self.scanner.skip_token();
                    return Ok(Event::MappingStart { properties: Properties::default(), line });
                }
                What::FlowSequenceEnd => {}
                _ => return self.node_then(State::FlowSequence, Place::Flow),
            }
        }
        self.pop();
        self.scanner.skip_token();
        Ok(Event::SequenceEnd)
    }

    pub(super) fn flow_pair_key(&mut self) -> Step<'a> {
        match self.scanner.peek()? {
            // go-yaml also consumes the `:`, `,` or `]` here, so an empty key is not possible.
            (What::Value | What::FlowEntry | What::FlowSequenceEnd, line) => {
                self.scanner.skip_token();
                Ok(self.empty(State::FlowPairValue, line))
            }
            _ => self.node_then(State::FlowPairValue, Place::Flow),
        }
    }

    pub(super) fn flow_pair_value(&mut self) -> Step<'a> {
        let (what, line) = self.scanner.peek()?;
        if what == What::Value && !matches!(self.after()?.0, What::FlowEntry | What::FlowSequenceEnd) {
            return self.node_then(State::FlowPairEnd, Place::Flow);
        }
        Ok(self.empty(State::FlowPairEnd, line))
    }

    pub(super) fn flow_mapping_key(&mut self, first: bool) -> Step<'a> {
        let (mut what, line) = self.scanner.peek()?;
        if what != What::FlowMappingEnd {
            if !first {
                if what != What::FlowEntry {
                    return Err(Problem { line, text: "did not find expected ',' or '}'" });
                }
                (what, _) = self.after()?;
            }
            match what {
                What::Key => {
                    return match self.after()? {
                        (What::Value | What::FlowEntry | What::FlowMappingEnd, line) => {
                            Ok(self.empty(State::FlowMappingValue, line))
                        }
                        _ => self.node_then(State::FlowMappingValue, Place::Flow),
                    };
                }
                What::FlowMappingEnd => {}
                _ => return self.node_then(State::FlowMappingEmptyValue, Place::Flow),
            }
        }
        self.pop();
        self.scanner.skip_token();
        Ok(Event::MappingEnd)
    }

    pub(super) fn flow_mapping_value(&mut self) -> Step<'a> {
        let (what, mut line) = self.scanner.peek()?;
        if what == What::Value {
            let after = self.after()?;
            if !matches!(after.0, What::FlowEntry | What::FlowMappingEnd) {
                return self.node_then(State::FlowMappingKey, Place::Flow);
            }
            line = after.1;
        }
        Ok(self.empty(State::FlowMappingKey, line))
    }
}
