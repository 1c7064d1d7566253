//! Limits on long-running requests (watches, followed logs), per level and per flow.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{AdmissionError, Flow};

/// The streams of one level.
pub struct Streams {
    limit: usize,
    per_flow: usize,
    state: Mutex<StreamState>,
}

/// Totals of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamUsage {
    pub open: usize,
    pub rejected: u64,
}

/// Open streams in total and per flow.
#[derive(Default)]
struct StreamState {
    usage: StreamUsage,
    flows: HashMap<Flow, usize>,
}

/// An open stream; counted until it is dropped.
#[must_use]
pub struct StreamSlot {
    streams: Arc<Streams>,
    flow: Flow,
}

impl Streams {
    pub(crate) fn new(limit: usize, per_flow: usize) -> Self {
        Self { limit, per_flow, state: Mutex::default() }
    }

    pub fn usage(&self) -> StreamUsage {
        self.state.lock().usage
    }

    /// Counts a stream until the guard is dropped.
    pub(crate) fn open(self: &Arc<Self>, flow: Flow) -> Result<StreamSlot, AdmissionError> {
        let mut state = self.state.lock();
        let of_flow = state.flows.get(&flow).copied().unwrap_or(0);
        let exceeded = if of_flow >= self.per_flow {
            Some(AdmissionError::FlowStreams(self.per_flow))
        } else {
            (state.usage.open >= self.limit).then_some(AdmissionError::Streams(self.limit))
        };
        if let Some(rejected) = exceeded {
            state.usage.rejected += 1;
            return Err(rejected);
        }
        state.usage.open += 1;
        state.flows.insert(flow, of_flow + 1);
        Ok(StreamSlot { streams: self.clone(), flow })
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut state = self.streams.state.lock();
        state.usage.open -= 1;
        let open = state.flows.get_mut(&self.flow).expect("a flow with an open stream is known");
        *open -= 1;
        if *open == 0 {
            state.flows.remove(&self.flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_bounded_per_flow_and_in_total() {
        let streams = Arc::new(Streams::new(3, 2));
        let first = [streams.open(Flow(1)).unwrap(), streams.open(Flow(1)).unwrap()];
        assert_eq!(streams.open(Flow(1)).err(), Some(AdmissionError::FlowStreams(2)));
        let second = streams.open(Flow(2)).unwrap();
        assert_eq!(streams.open(Flow(2)).err(), Some(AdmissionError::Streams(3)));
        drop(first);
        assert_eq!(streams.usage(), StreamUsage { open: 1, rejected: 2 });
        drop(second);
        assert!(streams.state.lock().flows.is_empty());
    }
}
