//! Admission control of heavy work (downloads, unpacking, indexing), fair among workspaces.
//!
//! Computation runs in a [`WorkPool`] that the server shares with rendering. Memory is reserved before it is allocated: for a download as
//! its bytes arrive, for an archive or index by an upper bound of its decoded size. Downloads have slots of their own instead of pool
//! slots, so that a slow server blocks no computation.
//!
//! Work waits for memory for a bounded time, without a pool slot. Only a few jobs of each flow wait at once, so that one flow does not take
//! all the memory that becomes free.

use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use governor::bytes::ByteReservation;
use governor::work::{Permit, WorkContext, WorkError, WorkLimits, WorkPool};
use governor::{AdmissionError, Flow};
use parking_lot::Mutex;
use tokio::time::Instant;

const MIB: u64 = 1 << 20;
/// Deadline of a job, above the time that the largest archive or index takes on a busy machine.
const JOB_TIMEOUT: Duration = Duration::from_mins(1);

/// Limits of the pool that fetching, unpacking, indexing and rendering share. Three flows together leave a slot for others, whatever the
/// number of cores: the system divides CPU time among the slots, memory is bounded in bytes.
pub fn pool_limits() -> WorkLimits {
    let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
    WorkLimits {
        slots: cores.saturating_mul(4),
        slots_per_flow: cores,
        queue: 256,
        queue_per_flow: 32,
        wait: Duration::from_secs(30),
        bytes: 384 * MIB,
        bytes_per_flow: 192 * MIB,
    }
}

/// Limits of concurrent downloads. Their memory counts in the pool.
const DOWNLOAD_LIMITS: WorkLimits = WorkLimits {
    slots: 128,
    slots_per_flow: 16,
    queue: 256,
    queue_per_flow: 32,
    wait: Duration::from_secs(30),
    bytes: 0,
    bytes_per_flow: 0,
};

/// Limits of jobs that wait for memory or run.
fn job_limits() -> WorkLimits {
    let WorkLimits { slots, slots_per_flow, .. } = pool_limits();
    WorkLimits {
        slots: slots.saturating_mul(2),
        slots_per_flow,
        bytes: 0,
        bytes_per_flow: 0,
        ..pool_limits()
    }
}

/// Maximum wait for memory, and the polling interval.
const MEMORY_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Admission for one flow: a workspace, an account, or the platform. Cheap to clone; clones share the pools.
#[derive(Clone)]
pub struct WorkBudget {
    pool: WorkPool,
    downloads: WorkPool,
    jobs: WorkPool,
    pool_flow: Flow,
    download_flow: Flow,
    job_flow: Flow,
    /// Whether the server's limits on charts and indexes apply, which fit into its memory budget, instead of Helm's.
    bounded: bool,
}

/// An admitted download. Its bytes are reserved as they arrive and released when it is dropped.
#[must_use]
pub struct Download {
    reserved: Mutex<ByteReservation>,
    _slot: Permit,
}

impl outbound::MemoryBudget for Download {
    fn reserve(&self, bytes: usize) -> Result<(), String> {
        self.reserved.lock().grow(bytes as u64).map_err(|rejected| rejected.to_string())
    }
}

impl Download {
    /// Ends the download and keeps the reservation of its bytes.
    pub fn into_reserved(self) -> ByteReservation {
        self.reserved.into_inner()
    }
}

impl WorkBudget {
    /// Admission for the platform's own work in this pool.
    pub fn new(pool: WorkPool) -> Self {
        let (downloads, turns) = (WorkPool::new(&DOWNLOAD_LIMITS), WorkPool::new(&job_limits()));
        let (in_pool, in_downloads, in_turns) = (pool.flow(""), downloads.flow(""), turns.flow(""));
        Self {
            pool,
            downloads,
            jobs: turns,
            pool_flow: in_pool,
            download_flow: in_downloads,
            job_flow: in_turns,
            bounded: true,
        }
    }

    /// Admission for a single-user program, such as the command line.
    pub fn unbounded() -> Self {
        let bytes = u64::MAX / 2;
        let pool = WorkPool::new(&WorkLimits { bytes, bytes_per_flow: bytes, ..pool_limits() });
        Self { bounded: false, ..Self::new(pool) }
    }

    pub fn is_bounded(&self) -> bool {
        self.bounded
    }

    /// The same pools for the flow `key`.
    #[must_use]
    pub fn for_flow(&self, key: impl Hash) -> Self {
        let (in_pool, in_downloads) = (self.pool.flow(&key), self.downloads.flow(&key));
        Self {
            pool_flow: in_pool,
            download_flow: in_downloads,
            job_flow: self.jobs.flow(&key),
            ..self.clone()
        }
    }

    pub fn pool(&self) -> &WorkPool {
        &self.pool
    }

    /// The pools other than [`WorkBudget::pool`], with their names in metrics: downloads, and jobs that wait for memory.
    pub fn queues(&self) -> [(&'static str, WorkPool); 2] {
        [("chart_downloads", self.downloads.clone()), ("chart_turns", self.jobs.clone())]
    }

    /// Waits until a download may start.
    pub async fn download(&self) -> Result<Download, AdmissionError> {
        let slot = self.downloads.admit(self.download_flow, 0).await?;
        Ok(Download { reserved: Mutex::new(self.reserve(0)?), _slot: slot })
    }

    /// Reserves memory that is about to be allocated.
    pub fn reserve(&self, bytes: u64) -> Result<ByteReservation, AdmissionError> {
        self.pool.reserve(self.pool_flow, bytes)
    }

    /// Runs `work` on a blocking thread with `bytes` reserved until it ends. `held` is the reservation of its input.
    pub async fn run<T: Send + 'static>(
        &self,
        bytes: u64,
        held: Option<Arc<ByteReservation>>,
        work: impl FnOnce(&WorkContext) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        let _turn = self.jobs.admit(self.job_flow, 0).await?;
        let reserved = self.reserve_when_available(bytes).await?;
        let work = move |ticket: &WorkContext| {
            let done = work(ticket);
            drop((reserved, held));
            done
        };
        self.pool.run(self.pool_flow, 0, JOB_TIMEOUT, work).await
    }

    /// Waits until the memory can be reserved, up to [`MEMORY_TIMEOUT`].
    async fn reserve_when_available(&self, bytes: u64) -> Result<ByteReservation, AdmissionError> {
        let until = Instant::now() + MEMORY_TIMEOUT;
        loop {
            match self.reserve(bytes) {
                Err(AdmissionError::Bytes(_) | AdmissionError::FlowBytes(_)) if Instant::now() < until => {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
                done => return done,
            }
        }
    }
}
