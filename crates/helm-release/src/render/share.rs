//! A flow's share of the renderer's pool, for heavy work on manifests and records. A flow is an account or, where a
//! workspace has its own budgets, the workspace.
//!
//! Small inputs are processed inline, because a pool slot would cost more than the work. Never wait for a share from
//! work that runs on the pool itself: it would hold one slot while waiting for another.

use std::ops::Deref;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use governor::bytes::ByteReservation;
pub use governor::work::WorkError;
use governor::work::WorkPool;
use governor::{Flow, priority};
use kube_apply::{Compute, ComputePool, Object, ParseError};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Inputs below this size are processed inline.
pub const INLINE_BYTES: usize = 64 << 10;

/// Bytes reserved per byte of a large input: its text and the result.
const RESERVED_PER_BYTE: u64 = 4;

/// Bytes reserved per byte of a manifest while its objects are in memory, up to [`MAX_OBJECT_BYTES`]. That cap is
/// below the share of one flow, so that the largest manifest can be processed.
const OBJECT_BYTES_PER_BYTE: u64 = 16;
const MAX_OBJECT_BYTES: u64 = 160 << 20;

/// Pause after the pool rejected work that is part of an operation.
const READMISSION_DELAY: Duration = Duration::from_millis(100);

/// Maximum time of work on one input.
const WORK_TIMEOUT: Duration = Duration::from_mins(1);

/// A flow's share of a pool. Cheap to clone.
#[derive(Clone)]
pub struct PoolShare {
    pool: WorkPool,
    flow: Flow,
}

/// Parsed objects of a manifest. Their memory stays reserved on the pool until they are dropped.
pub struct ParsedObjects {
    objects: Vec<Object>,
    _reserved: Option<ByteReservation>,
}

impl Deref for ParsedObjects {
    type Target = [Object];

    fn deref(&self) -> &[Object] {
        &self.objects
    }
}

/// Error of parsing a manifest on the pool.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Parse(#[from] ParseError),
}

/// Memory of the objects of manifests of `bytes` length.
fn object_bytes(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(OBJECT_BYTES_PER_BYTE).min(MAX_OBJECT_BYTES)
}

impl PoolShare {
    pub(super) fn new(pool: &WorkPool, flow: &str) -> Self {
        Self { pool: pool.clone(), flow: pool.flow(flow) }
    }

    /// Runs `work` on an input of `bytes` length: inline, or on the pool if it is large. Cancel-safe: work that has
    /// not started when the future is dropped never runs.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        let reserved = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(RESERVED_PER_BYTE);
        self.run_reserving(bytes, reserved, work).await
    }

    /// Runs `work` that parses manifests of `bytes` length: inline, or on the pool if they are large. Cancel-safe.
    pub async fn run_on_objects<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        self.run_reserving(bytes, object_bytes(bytes), work).await
    }

    /// Like [`PoolShare::run_on_objects`], for work whose memory is already reserved.
    pub async fn run_on_reserved<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        self.run_reserving(bytes, 0, work).await
    }

    /// Runs `work` on an input of `bytes` length inline, or on the pool with `reserved` bytes of memory if it is large.
    async fn run_reserving<T: Send + 'static>(
        &self,
        bytes: usize,
        reserved: u64,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        if bytes < INLINE_BYTES {
            return Ok(work());
        }
        self.pool.run(self.flow, reserved, WORK_TIMEOUT, |_| work()).await
    }

    /// Reserves memory for the objects of manifests of `bytes` length, until dropped. Small ones need no reservation.
    pub fn reserve_objects(&self, bytes: usize) -> Result<Option<ByteReservation>, WorkError> {
        if bytes < INLINE_BYTES {
            return Ok(None);
        }
        Ok(Some(self.pool.reserve(self.flow, object_bytes(bytes))?))
    }

    /// Parses a manifest whose objects are held while waiting for the cluster.
    pub async fn parse(&self, manifest: String) -> Result<ParsedObjects, ManifestError> {
        let bytes = manifest.len();
        let reserved = self.reserve_objects(bytes)?;
        let parse = move || Object::parse_all(&manifest);
        let objects = match reserved {
            None => parse()?,
            Some(_) => self.run_on_reserved(bytes, parse).await??,
        };
        Ok(ParsedObjects { objects, _reserved: reserved })
    }

    /// Like [`PoolShare::run`], for work that must not be rejected because its cause already happened, such as recording
    /// objects that are in the cluster. If the pool rejects it, it runs on a blocking thread; the number of
    /// operations bounds these.
    pub async fn run_guaranteed<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        if bytes < INLINE_BYTES {
            return Ok(work());
        }
        let permit = self.pool.admit(self.flow, 0).await.ok();
        let running = spawn_blocking(move || {
            priority::lower();
            let _permit = permit;
            work()
        });
        running.await.map_err(|_| WorkError::Panicked)
    }

    /// Executor for merges and comparisons of large objects.
    pub fn compute(&self) -> Compute {
        Compute::on_pool(self.clone())
    }
}

/// Work on objects is part of an operation that has begun, so it is not rejected: it waits for a slot until the operation
/// ends.
impl ComputePool for PoolShare {
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()> {
        async move {
            let permit = loop {
                match self.pool.admit(self.flow, 0).await {
                    Ok(permit) => break permit,
                    Err(_) => sleep(READMISSION_DELAY).await,
                }
            };
            let running = spawn_blocking(move || {
                priority::lower();
                let _permit = permit;
                work();
            });
            // The caller gets the result, or the panic, from the work itself.
            drop(running.await);
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    use governor::AdmissionError;
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
        let share = PoolShare::new(&pool, "shop");
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
        assert!(matches!(refused, Err(WorkError::Rejected(AdmissionError::Timeout(_)))), "{refused:?}");
        assert_eq!(share.run_guaranteed(INLINE_BYTES, || 3).await, Ok(3), "what is done already is recorded");
        release.send(()).unwrap();
        assert_eq!(running.await.unwrap(), Ok(true));
        assert_eq!(share.run(INLINE_BYTES, || 4).await, Ok(4));
        assert_eq!(
            share.run(usize::MAX, || 5).await,
            Err(WorkError::Rejected(AdmissionError::FlowBytes(bytes)))
        );
        assert_eq!(pool.bytes().held, 0);
    }

    #[tokio::test]
    async fn merges_of_one_flow_leave_slots_to_others_and_are_not_rejected() {
        let pool = WorkPool::new(&WorkLimits {
            slots: 2,
            slots_per_flow: 1,
            queue: 10,
            queue_per_flow: 1,
            wait: Duration::from_millis(1),
            bytes: 0,
            bytes_per_flow: 0,
        });
        let greedy = PoolShare::new(&pool, "greedy");
        let merges = Arc::new(AtomicUsize::new(0));
        let run = |share: &PoolShare, work: Box<dyn FnOnce() + Send>| {
            let share = share.clone();
            tokio::spawn(async move { ComputePool::run(&share, work).await })
        };
        let (release, blocked) = mpsc::channel::<()>();
        let mut running = vec![run(&greedy, Box::new(move || _ = blocked.recv()))];
        while pool.slots().used == 0 {
            tokio::task::yield_now().await;
        }
        running.extend((0..5).map(|_| {
            let merges = merges.clone();
            run(&greedy, Box::new(move || _ = merges.fetch_add(1, Ordering::Relaxed)))
        }));
        run(&PoolShare::new(&pool, "other"), Box::new(|| ())).await.unwrap();
        assert_eq!(merges.load(Ordering::Relaxed), 0, "they exceed the share of the flow");
        release.send(()).unwrap();
        for merge in running {
            merge.await.unwrap();
        }
        assert_eq!(
            merges.load(Ordering::Relaxed),
            5,
            "none was rejected, although the queue of the flow was full"
        );
        assert_eq!(pool.slots().used, 0);
    }

    fn pool() -> WorkPool {
        let (slots, queue, bytes) = (1, 10, 4 << 20);
        WorkPool::new(&WorkLimits {
            slots,
            slots_per_flow: slots,
            queue,
            queue_per_flow: queue,
            wait: Duration::from_secs(10),
            bytes,
            bytes_per_flow: bytes,
        })
    }

    /// A manifest of at least `bytes` length.
    fn manifest(bytes: usize) -> String {
        let mut text = String::new();
        for n in 0.. {
            if text.len() >= bytes {
                break;
            }
            write!(text, "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{n}}}\n").unwrap();
        }
        text
    }

    #[tokio::test]
    async fn objects_of_large_manifest_are_parsed_on_pool_and_reserved_until_dropped() {
        let pool = pool();
        let share = PoolShare::new(&pool, "shop");
        let text = manifest(INLINE_BYTES);
        let expected = text.len() as u64 * OBJECT_BYTES_PER_BYTE;
        let parsed = share.parse(text).await.unwrap();
        assert!(!parsed.is_empty());
        assert_eq!(pool.bytes().held, expected);
        drop(parsed);
        assert_eq!(pool.bytes().held, 0);

        let small = share.parse(manifest(100)).await.unwrap();
        assert_eq!((small.is_empty(), pool.bytes().held), (false, 0));
        let broken = share.parse(format!("{}---\nkind: [\n", manifest(INLINE_BYTES))).await;
        assert!(matches!(broken, Err(ManifestError::Parse(_))));
        assert_eq!(pool.bytes().held, 0, "a manifest that is not read holds nothing");

        let here = thread::current().id();
        let there = share.run_on_objects(INLINE_BYTES, || thread::current().id()).await.unwrap();
        assert_ne!(here, there, "large manifests are not parsed on workers");
    }

    #[tokio::test]
    async fn manifests_held_by_one_flow_are_bounded() {
        let pool = pool();
        let share = PoolShare::new(&pool, "shop");
        let text = manifest(150 << 10);
        let held = share.parse(text.clone()).await.unwrap();
        let refused = share.parse(text).await.err();
        assert!(matches!(
            refused,
            Some(ManifestError::Work(WorkError::Rejected(AdmissionError::FlowBytes(_))))
        ));
        drop(held);
        assert_eq!(pool.bytes().held, 0);
    }
}
