//! Memory that operations hold while they last, such as parsed values and rendered objects.
//!
//! An operation may wait for hooks or pods for an hour. What it holds meanwhile has a budget of its own, so that operations that
//! hang do not keep others from being rendered. A flow that holds little is never refused because of others.

use std::time::Duration;

use governor::Rejected;
use governor::bytes::Reserved;
use governor::work::{WorkLimits, WorkPool};

/// Each operation holds this much without a reservation. The slots of the controller bound how many there are.
const FREE_BYTES: u64 = 64 << 10;

/// What a flow can hold even if others hold all of the budget.
pub const GUARANTEED_BYTES: u64 = 4 << 20;

/// Limits of the budget. Only the bytes are used.
pub fn limits() -> WorkLimits {
    WorkLimits {
        slots: 1,
        slots_per_flow: 1,
        queue: 1,
        queue_per_flow: 1,
        wait: Duration::ZERO,
        bytes: 64 << 20,
        bytes_per_flow: 32 << 20,
    }
}

/// The budget of memory held by operations. Clones share it.
#[derive(Clone)]
pub struct Operations(WorkPool);

impl Default for Operations {
    fn default() -> Self {
        let limits = limits();
        Self(WorkPool::new(&limits).guaranteeing(GUARANTEED_BYTES, &limits))
    }
}

impl Operations {
    /// The pool whose bytes these are, for metrics.
    pub fn pool(&self) -> &WorkPool {
        &self.0
    }

    /// Reserves what an operation of a flow holds. One that holds more than the share of its flow takes all of it.
    pub fn hold(&self, flow: &str, bytes: u64) -> Result<Reserved, Rejected> {
        let counted = bytes.saturating_sub(FREE_BYTES).min(limits().bytes_per_flow);
        self.0.reserve(self.0.flow(flow), counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_that_holds_its_share_waits_and_others_go_on() {
        let operations = Operations::default();
        let WorkLimits { bytes, bytes_per_flow, .. } = limits();
        let first = operations.hold("greedy", u64::MAX).unwrap();
        assert_eq!(operations.pool().bytes().held, bytes_per_flow);
        assert_eq!(
            operations.hold("greedy", FREE_BYTES + 1).err(),
            Some(Rejected::FlowBytes(bytes_per_flow))
        );
        let _small = operations.hold("greedy", FREE_BYTES).unwrap();
        let _second = operations.hold("other", u64::MAX).unwrap();
        let _guaranteed = operations.hold("third", GUARANTEED_BYTES).unwrap();
        assert_eq!(operations.hold("fourth", bytes_per_flow).err(), Some(Rejected::Bytes(bytes)));
        drop(first);
        assert!(operations.hold("fourth", bytes_per_flow / 2).is_ok());
    }
}
