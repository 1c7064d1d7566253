//! The share of a flow of the renderer's pool, for heavy work on manifests and records. A flow is an account's or, where a workspace
//! has budgets of its own, the workspace's.
//!
//! Small inputs are worked on at once, because a slot of the pool would cost more than the work. Never wait for a share from work
//! that itself runs on the pool: it would hold a slot while it waits for another.

use std::time::Duration;

use governor::Flow;
pub use governor::work::WorkError;
use governor::work::WorkPool;
use tokio::task::spawn_blocking;

/// Inputs below this size are worked on at once.
pub const INLINE_BYTES: usize = 64 << 10;

/// Reserved for work on a large input: its text, and what is made of it.
const RESERVED_PER_BYTE: u64 = 4;

/// The longest time for work on one input.
const DEADLINE: Duration = Duration::from_mins(1);

/// A flow's share of a pool.
#[derive(Clone)]
pub struct Share {
    pool: WorkPool,
    flow: Flow,
}

impl Share {
    pub(super) fn new(pool: &WorkPool, flow: &str) -> Self {
        Self { pool: pool.clone(), flow: pool.flow(flow) }
    }

    /// Does `work` on an input of so many bytes: at once, or on the pool where it is large. Cancel-safe: work that has not begun
    /// when the future is dropped never runs.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        if bytes < INLINE_BYTES {
            return Ok(work());
        }
        let reserved = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(RESERVED_PER_BYTE);
        self.pool.run(self.flow, reserved, DEADLINE, |_| work()).await
    }

    /// The same for work that cannot be refused, because what it follows from is done already: the record of objects that are in
    /// the cluster. Where the pool refuses it, it runs on a thread of its own; operations under way bound how many there are.
    pub async fn finish<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        if bytes < INLINE_BYTES {
            return Ok(work());
        }
        let permit = self.pool.admit(self.flow, 0).await.ok();
        let running = spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        running.await.map_err(|_| WorkError::Panicked)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use governor::Rejected;
    use governor::work::WorkLimits;

    use super::*;

    #[tokio::test]
    async fn only_large_inputs_wait_for_the_pool() {
        let wait = Duration::from_millis(50);
        let (slots, queue, bytes) = (1, 10, 64 << 20);
        let pool = WorkPool::new(&WorkLimits {
            slots,
            slots_per_flow: slots,
            queue,
            queue_per_flow: queue,
            wait,
            bytes,
            bytes_per_flow: bytes,
        });
        let share = Share::new(&pool, "shop");
        let (release, blocked) = mpsc::channel::<()>();
        let running = tokio::spawn({
            let share = share.clone();
            async move { share.run(INLINE_BYTES, move || blocked.recv().is_ok()).await }
        });
        while pool.slots().used == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(share.run(INLINE_BYTES - 1, || 1).await, Ok(1));
        let refused = share.run(INLINE_BYTES, || 2).await;
        assert!(matches!(refused, Err(WorkError::Rejected(Rejected::Timeout(_)))), "{refused:?}");
        assert_eq!(share.finish(INLINE_BYTES, || 3).await, Ok(3), "what is done already is recorded");
        release.send(()).unwrap();
        assert_eq!(running.await.unwrap(), Ok(true));
        assert_eq!(share.run(INLINE_BYTES, || 4).await, Ok(4));
        assert_eq!(share.run(usize::MAX, || 5).await, Err(WorkError::Rejected(Rejected::FlowBytes(bytes))));
        assert_eq!(pool.bytes().held, 0);
    }
}
