//! Memory budget of running operations, for parsed values and rendered objects.
//!
//! An operation may wait an hour for hooks or pods. Its memory counts against a separate budget, so that hanging
//! operations do not block renderings. Part of the budget is reserved for flows that hold little.

use std::time::Duration;

use governor::Rejected;
use governor::bytes::Reserved;
use governor::work::{WorkLimits, WorkPool};

/// Bytes each operation may hold without a reservation. The controller's slots bound the number of operations.
pub const FREE_BYTES: u64 = 16 << 10;

/// Guarantee per flow, and the part of the budget that is reserved for flows within their guarantee.
const GUARANTEED_BYTES: u64 = 1 << 20;
const RESERVE_BYTES: u64 = 16 << 20;
/// Total budget, including the reserve.
pub const BYTES: u64 = 64 << 20;

/// Limits of the budget without the reserve. Only the byte limits are used.
fn limits() -> WorkLimits {
    WorkLimits {
        slots: 1,
        slots_per_flow: 1,
        queue: 1,
        queue_per_flow: 1,
        wait: Duration::ZERO,
        bytes: BYTES - RESERVE_BYTES,
        bytes_per_flow: 32 << 20,
    }
}

/// Memory budget of running operations. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Operations(WorkPool);

impl Default for Operations {
    fn default() -> Self {
        let limits = limits();
        Self(WorkPool::new(&limits).guaranteeing(GUARANTEED_BYTES, &limits))
    }
}

impl Operations {
    /// The underlying pool, for metrics.
    pub fn pool(&self) -> &WorkPool {
        &self.0
    }

    /// Reserves memory for an operation of a flow. Fails if the flow exceeds its share.
    pub fn hold(&self, flow: &str, bytes: u64) -> Result<Reserved, Rejected> {
        let reserved = self.0.reserve(self.0.flow(flow), bytes.saturating_sub(FREE_BYTES))?;
        // The pool never rejects flows within their guarantee, so the total is checked here.
        if self.0.bytes().held > BYTES {
            return Err(Rejected::Bytes(BYTES));
        }
        Ok(reserved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_that_holds_its_share_waits_and_others_go_on() {
        let operations = Operations::default();
        let WorkLimits { bytes, bytes_per_flow, .. } = limits();
        let first = operations.hold("greedy", bytes_per_flow + FREE_BYTES).unwrap();
        assert_eq!(operations.pool().bytes().held, bytes_per_flow);
        assert_eq!(
            operations.hold("greedy", FREE_BYTES + 1).err(),
            Some(Rejected::FlowBytes(bytes_per_flow))
        );
        let _small = operations.hold("greedy", FREE_BYTES).unwrap();
        let _second = operations.hold("other", bytes - bytes_per_flow + FREE_BYTES).unwrap();
        assert_eq!(operations.hold("third", 2 * GUARANTEED_BYTES).err(), Some(Rejected::Bytes(bytes)));
        let _guaranteed = operations.hold("third", GUARANTEED_BYTES).unwrap();
        drop(first);
        assert!(operations.hold("fourth", bytes_per_flow / 2).is_ok());
    }

    #[test]
    fn operation_that_holds_more_than_is_counted_is_refused() {
        let operations = Operations::default();
        let WorkLimits { bytes_per_flow, .. } = limits();
        let refused = operations.hold("greedy", bytes_per_flow + FREE_BYTES + 1).err();
        assert_eq!(refused, Some(Rejected::FlowBytes(bytes_per_flow)));
        assert_eq!(operations.hold("greedy", u64::MAX).err(), Some(Rejected::FlowBytes(bytes_per_flow)));
    }

    #[test]
    fn guarantees_of_many_flows_stay_within_the_budget() {
        let operations = Operations::default();
        let held: Vec<_> =
            (0..1_000).filter_map(|n| operations.hold(&n.to_string(), GUARANTEED_BYTES).ok()).collect();
        assert!(operations.pool().bytes().held <= BYTES, "{} flows", held.len());
    }
}
