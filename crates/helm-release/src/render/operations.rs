//! Memory budget of running operations, for parsed values and rendered objects.
//!
//! An operation may wait an hour for hooks or pods. Its memory counts against a separate budget, so that hanging
//! operations do not block renderings. Part of the budget is reserved for flows that hold little.

use std::time::Duration;

use governor::AdmissionError;
use governor::bytes::ByteReservation;
use governor::work::{WorkLimits, WorkPool};

/// Bytes each operation may hold without a reservation. The controller's slots bound the number of operations.
pub const FREE_BYTES: u64 = 16 << 10;

/// Guarantee per flow, and the part of the budget that is reserved for flows within their guarantee.
const GUARANTEED_BYTES: u64 = 1 << 20;
const RESERVE_BYTES: u64 = 16 << 20;
/// Total budget, including the reserve.
pub const TOTAL_BYTES: u64 = 64 << 20;

/// Limits of the budget without the reserve. Only the byte limits are used.
fn limits() -> WorkLimits {
    WorkLimits {
        slots: 1,
        slots_per_flow: 1,
        queue: 1,
        queue_per_flow: 1,
        wait: Duration::ZERO,
        bytes: TOTAL_BYTES - RESERVE_BYTES,
        bytes_per_flow: 32 << 20,
    }
}

/// Memory budget of running operations. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct OperationBudget(WorkPool);

impl Default for OperationBudget {
    fn default() -> Self {
        let limits = limits();
        Self(WorkPool::new(&limits).with_guarantee(GUARANTEED_BYTES, &limits))
    }
}

impl OperationBudget {
    /// The underlying pool, for metrics.
    pub fn pool(&self) -> &WorkPool {
        &self.0
    }

    /// Reserves memory for an operation of a flow. Fails if the flow exceeds its share.
    pub fn reserve(&self, flow: &str, bytes: u64) -> Result<ByteReservation, AdmissionError> {
        let reserved = self.0.reserve(self.0.flow(flow), bytes.saturating_sub(FREE_BYTES))?;
        // The pool never rejects flows within their guarantee, so the total is checked here.
        if self.0.bytes().held > TOTAL_BYTES {
            return Err(AdmissionError::Bytes(TOTAL_BYTES));
        }
        Ok(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_that_holds_its_share_waits_and_others_go_on() {
        let operations = OperationBudget::default();
        let WorkLimits { bytes, bytes_per_flow, .. } = limits();
        let first = operations.reserve("greedy", bytes_per_flow + FREE_BYTES).unwrap();
        assert_eq!(operations.pool().bytes().held, bytes_per_flow);
        assert_eq!(
            operations.reserve("greedy", FREE_BYTES + 1).err(),
            Some(AdmissionError::FlowBytes(bytes_per_flow))
        );
        let _small = operations.reserve("greedy", FREE_BYTES).unwrap();
        let _second = operations.reserve("other", bytes - bytes_per_flow + FREE_BYTES).unwrap();
        assert_eq!(
            operations.reserve("third", 2 * GUARANTEED_BYTES).err(),
            Some(AdmissionError::Bytes(bytes))
        );
        let _guaranteed = operations.reserve("third", GUARANTEED_BYTES).unwrap();
        drop(first);
        assert!(operations.reserve("fourth", bytes_per_flow / 2).is_ok());
    }

    #[test]
    fn operation_that_holds_more_than_is_counted_is_refused() {
        let operations = OperationBudget::default();
        let WorkLimits { bytes_per_flow, .. } = limits();
        let refused = operations.reserve("greedy", bytes_per_flow + FREE_BYTES + 1).err();
        assert_eq!(refused, Some(AdmissionError::FlowBytes(bytes_per_flow)));
        assert_eq!(
            operations.reserve("greedy", u64::MAX).err(),
            Some(AdmissionError::FlowBytes(bytes_per_flow))
        );
    }

    #[test]
    fn guarantees_of_many_flows_stay_within_the_budget() {
        let operations = OperationBudget::default();
        let held: Vec<_> =
            (0..1_000).filter_map(|n| operations.reserve(&n.to_string(), GUARANTEED_BYTES).ok()).collect();
        assert!(operations.pool().bytes().held <= TOTAL_BYTES, "{} flows", held.len());
    }
}
