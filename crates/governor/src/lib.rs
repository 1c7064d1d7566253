//! Admission control: concurrent requests, bytes of memory, and open streams.
//!
//! Every request belongs to a [`PriorityLevel`] and, inside it, to a [`Flow`] (a user, or the address of an anonymous caller). A
//! level has its own limits, so that no level can starve another. Inside a level, flows are served fairly: a flow never exceeds its
//! share, and a free seat goes to the waiting flow that holds the fewest. This is the model of API Priority and Fairness in
//! kube-apiserver, with one queue per flow instead of shuffle sharding.
//!
//! Modules:
//! - [`seats`]: concurrency limits for requests.
//! - [`bytes`]: memory held on behalf of callers.
//! - [`streams`]: long-running requests.
//! - [`work`]: CPU-heavy work on a bounded pool.
//! - [`priority`]: priority of the threads of that pool.
//! - [`metrics`]: totals per level.
//!
//! Invariants:
//! - Everything acquired is a guard that returns its share when dropped.
//! - Uncontended acquisition takes one short lock.
//! - This crate is independent of HTTP, Kubernetes and tenants.

pub mod bytes;
pub mod metrics;
pub mod priority;
pub mod seats;
pub mod streams;
pub mod work;

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::time::Duration;

use bytes::{ByteBudget, ByteReservation};
use seats::{Seat, Seats};
use streams::{StreamSlot, Streams};

/// Priority levels, each with its own limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PriorityLevel {
    /// The platform's own controllers, and cluster administrators.
    Platform,
    /// Users, ServiceAccounts and nodes with valid credentials.
    Authenticated,
    /// Callers without credentials.
    Anonymous,
}

impl PriorityLevel {
    pub const ALL: [Self; 3] = [Self::Platform, Self::Authenticated, Self::Anonymous];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Platform => "platform",
            Self::Authenticated => "authenticated",
            Self::Anonymous => "anonymous",
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Platform => 0,
            Self::Authenticated => 1,
            Self::Anonymous => 2,
        }
    }
}

/// A caller inside a level, as a keyed hash. It is cheap to compare and store, and callers cannot choose a key that collides with
/// another caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow(u64);

/// Threshold after which a starving level or pool is unhealthy. No single request or piece of work takes this long.
pub const STARVATION_THRESHOLD: Duration = Duration::from_mins(1);

/// Limits of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Concurrently executed requests.
    pub seats: usize,
    pub seats_per_flow: usize,
    /// Requests waiting for a seat.
    pub queue: usize,
    pub queue_per_flow: usize,
    /// Maximum wait for a seat.
    pub wait: Duration,
    /// Bytes held at once.
    pub bytes: u64,
    pub bytes_per_flow: u64,
    /// Concurrent long-running requests.
    pub streams: usize,
    pub streams_per_flow: usize,
}

/// Limits of all levels, in the order of [`PriorityLevel::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelLimits(pub [Limits; 3]);

const MIB: u64 = 1 << 20;
/// A quarter of kube-apiserver's request timeout of 60 s, as in its API Priority and Fairness.
const MAX_QUEUE_WAIT: Duration = Duration::from_secs(15);

impl Default for LevelLimits {
    fn default() -> Self {
        let platform = Limits {
            seats: 200,
            seats_per_flow: 200,
            queue: 4_000,
            queue_per_flow: 4_000,
            wait: MAX_QUEUE_WAIT,
            bytes: 128 * MIB,
            bytes_per_flow: 128 * MIB,
            streams: 20_000,
            streams_per_flow: 20_000,
        };
        let authenticated = Limits {
            seats: 200,
            seats_per_flow: 100,
            queue: 2_000,
            queue_per_flow: 500,
            wait: MAX_QUEUE_WAIT,
            bytes: 192 * MIB,
            bytes_per_flow: 48 * MIB,
            streams: 20_000,
            streams_per_flow: 500,
        };
        let anonymous = Limits {
            seats: 16,
            seats_per_flow: 8,
            queue: 64,
            queue_per_flow: 16,
            wait: Duration::from_secs(2),
            bytes: 4 * MIB,
            bytes_per_flow: MIB,
            streams: 16,
            streams_per_flow: 4,
        };
        Self([platform, authenticated, anonymous])
    }
}

/// Why a request was not admitted. The caller may retry after [`AdmissionError::retry_after`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    #[error("too many requests of this user or workspace are waiting (limit {0})")]
    FlowQueueFull(usize),
    #[error("too many requests are waiting (limit {0})")]
    QueueFull(usize),
    #[error("no request could be executed within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("memory held for this user or workspace is over its budget (limit {0} bytes)")]
    FlowBytes(u64),
    #[error("memory held for all callers is over its budget (limit {0} bytes)")]
    Bytes(u64),
    #[error("too many open watches of this user (limit {0})")]
    FlowStreams(usize),
    #[error("too many open watches (limit {0})")]
    Streams(usize),
}

impl AdmissionError {
    pub const fn retry_after(&self) -> Duration {
        match self {
            Self::FlowStreams(_) | Self::Streams(_) => Duration::from_secs(5),
            _ => Duration::from_secs(1),
        }
    }
}

/// The budgets of one process. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Governor {
    levels: Arc<[Budgets; 3]>,
    hasher: RandomState,
}

/// The budgets of one level.
struct Budgets {
    seats: Arc<Seats>,
    bytes: Arc<ByteBudget>,
    streams: Arc<Streams>,
}

impl Governor {
    pub fn new(limits: &LevelLimits) -> Self {
        let levels = limits.0.map(|limits| Budgets {
            seats: Arc::new(Seats::new(limits)),
            bytes: Arc::new(ByteBudget::new(limits.bytes, limits.bytes_per_flow)),
            streams: Arc::new(Streams::new(limits.streams, limits.streams_per_flow)),
        });
        Self { levels: Arc::new(levels), hasher: RandomState::new() }
    }

    /// The flow of the caller identified by `key`.
    pub fn flow(&self, key: impl Hash) -> Flow {
        Flow(self.hasher.hash_one(key))
    }

    /// Waits for a seat. Cancel-safe: a dropped future leaves the queue.
    pub async fn acquire_seat(&self, level: PriorityLevel, flow: Flow) -> Result<Seat, AdmissionError> {
        self.budgets(level).seats.acquire(flow).await
    }

    /// Reserves `bytes`; call it before they are allocated.
    pub fn reserve(
        &self,
        level: PriorityLevel,
        flow: Flow,
        bytes: u64,
    ) -> Result<ByteReservation, AdmissionError> {
        self.budgets(level).bytes.reserve(flow, bytes)
    }

    /// Counts a long-running request until the guard is dropped.
    pub fn open_stream(&self, level: PriorityLevel, flow: Flow) -> Result<StreamSlot, AdmissionError> {
        self.budgets(level).streams.open(flow)
    }

    /// How long a level has been starving: all its seats are taken, requests are waiting, and no seat becomes free.
    pub fn starving_for(&self, level: PriorityLevel) -> Option<Duration> {
        self.budgets(level).seats.starving_for()
    }

    /// The levels that have been starving for [`STARVATION_THRESHOLD`] or longer, except [`PriorityLevel::Anonymous`]: callers without
    /// credentials must not be able to make the process unready.
    pub fn starved_levels(&self) -> Vec<(PriorityLevel, Duration)> {
        let levels = [PriorityLevel::Platform, PriorityLevel::Authenticated].into_iter();
        let starving = levels.filter_map(|level| Some((level, self.starving_for(level)?)));
        starving.filter(|(_, lasting)| *lasting >= STARVATION_THRESHOLD).collect()
    }

    fn budgets(&self, level: PriorityLevel) -> &Budgets {
        &self.levels[level.index()]
    }
}

impl Default for Governor {
    fn default() -> Self {
        Self::new(&LevelLimits::default())
    }
}
