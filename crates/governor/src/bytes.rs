//! Byte budgets per level and per flow, for memory held on behalf of callers.
//!
//! A reservation is made before the memory is allocated and never waits. A reservation over budget is rejected immediately, because
//! the holders of bytes may themselves be waiting for more.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{AdmissionError, Flow};

/// The byte budget of one level.
pub struct ByteBudget {
    limit: u64,
    per_flow: u64,
    /// A flow that holds no more than this is admitted even if the level's limit is exhausted.
    guaranteed: u64,
    state: Mutex<ByteState>,
}

/// Totals of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ByteUsage {
    pub held: u64,
    pub rejected: u64,
}

/// Bytes held in total and per flow.
#[derive(Default)]
struct ByteState {
    usage: ByteUsage,
    flows: HashMap<Flow, u64>,
}

/// Reserved bytes; returned when dropped.
#[must_use]
pub struct ByteReservation {
    budget: Arc<ByteBudget>,
    flow: Flow,
    held: u64,
}

impl ByteBudget {
    pub(crate) fn new(limit: u64, per_flow: u64) -> Self {
        Self { limit, per_flow, guaranteed: 0, state: Mutex::default() }
    }

    pub(crate) fn with_guarantee(self, guaranteed: u64) -> Self {
        Self { guaranteed, ..self }
    }

    pub fn usage(&self) -> ByteUsage {
        self.state.lock().usage
    }

    pub(crate) fn reserve(
        self: &Arc<Self>,
        flow: Flow,
        bytes: u64,
    ) -> Result<ByteReservation, AdmissionError> {
        self.charge(flow, bytes)?;
        Ok(ByteReservation { budget: self.clone(), flow, held: bytes })
    }

    fn charge(&self, flow: Flow, bytes: u64) -> Result<(), AdmissionError> {
        let mut state = self.state.lock();
        let total = state.usage.held.saturating_add(bytes);
        let of_flow = state.flows.get(&flow).copied().unwrap_or(0).saturating_add(bytes);
        let exceeded = if of_flow > self.per_flow {
            Some(AdmissionError::FlowBytes(self.per_flow))
        } else {
            (total > self.limit && of_flow > self.guaranteed).then_some(AdmissionError::Bytes(self.limit))
        };
        if let Some(rejected) = exceeded {
            state.usage.rejected += 1;
            return Err(rejected);
        }
        state.usage.held = total;
        if of_flow > 0 {
            state.flows.insert(flow, of_flow);
        }
        Ok(())
    }
}

impl ByteReservation {
    /// Reserves `bytes` more. If rejected, the reservation is unchanged.
    pub fn grow(&mut self, bytes: u64) -> Result<(), AdmissionError> {
        self.budget.charge(self.flow, bytes)?;
        self.held += bytes;
        Ok(())
    }

    pub fn held(&self) -> u64 {
        self.held
    }
}

impl Drop for ByteReservation {
    fn drop(&mut self) {
        let mut state = self.budget.state.lock();
        state.usage.held -= self.held;
        if let Some(held) = state.flows.get_mut(&self.flow) {
            *held -= self.held;
            if *held == 0 {
                state.flows.remove(&self.flow);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budget_is_bounded_per_flow_and_in_total_and_returned() {
        let budget = Arc::new(ByteBudget::new(100, 60));
        let mut first = budget.reserve(Flow(1), 50).unwrap();
        assert_eq!(first.grow(20), Err(AdmissionError::FlowBytes(60)));
        first.grow(10).unwrap();
        assert_eq!(budget.reserve(Flow(2), 41).err(), Some(AdmissionError::Bytes(100)));
        let second = budget.reserve(Flow(2), 40).unwrap();
        assert_eq!(budget.usage(), ByteUsage { held: 100, rejected: 2 });
        assert_eq!(budget.reserve(Flow(3), u64::MAX).err(), Some(AdmissionError::FlowBytes(60)));
        drop((first, second));
        assert_eq!(budget.usage().held, 0);
        assert!(budget.state.lock().flows.is_empty());
    }
    #[test]
    fn flow_within_its_guarantee_is_not_refused_because_of_others() {
        let budget = Arc::new(ByteBudget::new(100, 60).with_guarantee(10));
        let _others = (budget.reserve(Flow(1), 60).unwrap(), budget.reserve(Flow(2), 40).unwrap());
        let mut small = budget.reserve(Flow(3), 10).unwrap();
        assert_eq!(small.grow(1), Err(AdmissionError::Bytes(100)));
        assert_eq!(budget.usage().held, 110);
    }
}
