//! A bounded pool for CPU-heavy work: validation, patches, unpacking, rendering.
//!
//! A [`WorkPool`] admits work by slots and bytes, fairly per flow (a workspace or a user), and runs it on blocking threads of low
//! [`priority`], so that async workers stay free. The work gets a [`WorkContext`], through which it reserves memory before it allocates,
//! and checks at intervals whether it should stop because its deadline has passed or its caller has disconnected.
//!
//! Invariants:
//! - Slot and bytes are held until the work has ended, not only until its caller stops waiting.
//! - A flow never holds more than its share.
//! - Waiting for a slot is bounded.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::spawn_blocking;

use crate::bytes::{ByteBudget, ByteReservation, ByteUsage};
use crate::seats::{Seat, SeatUsage, Seats};
use crate::{AdmissionError, Flow, Limits, STARVATION_THRESHOLD, priority};

/// Limits of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// Maximum concurrent work.
    pub slots: usize,
    pub slots_per_flow: usize,
    /// Work waiting for a slot.
    pub queue: usize,
    pub queue_per_flow: usize,
    /// Maximum wait for a slot.
    pub wait: Duration,
    /// Maximum reserved bytes.
    pub bytes: u64,
    pub bytes_per_flow: u64,
}

/// A bounded pool for heavy work. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct WorkPool {
    seats: Arc<Seats>,
    bytes: Arc<ByteBudget>,
    hasher: RandomState,
}

/// Why work did not finish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    #[error(transparent)]
    Rejected(#[from] AdmissionError),
    #[error("the work took longer than {} s", .0.as_secs())]
    DeadlineExceeded(Duration),
    #[error("the work panicked")]
    Panicked,
    #[error(transparent)]
    Interrupted(#[from] InterruptReason),
}

/// Why work should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InterruptReason {
    #[error("cancelled by the caller")]
    Cancelled,
    #[error("the deadline has passed")]
    DeadlineExceeded,
}

/// A slot and reserved bytes, for work that [`WorkPool::run`] does not run (a download, for example). Returned on drop.
#[must_use]
pub struct Permit {
    pub reserved: ByteReservation,
    _seat: Seat,
}

/// Interval at which work that waits for a future checks whether it should stop.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The admission of running work: its interrupt, reserved bytes and slot.
pub struct WorkContext {
    interrupt: Interrupt,
    reserved: Mutex<ByteReservation>,
    seats: Arc<Seats>,
    flow: Flow,
    /// `None` while the work waits for a future.
    seat: Mutex<Option<Seat>>,
}

impl WorkContext {
    /// Fails if the work should stop. Costs about ten nanoseconds.
    pub fn check(&self) -> Result<(), InterruptReason> {
        self.interrupt.check()
    }

    /// The same check, for code that does not have the context.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }

    /// Reserves `bytes` more until the work has ended; call it before they are allocated.
    pub fn reserve(&self, bytes: u64) -> Result<(), AdmissionError> {
        self.reserved.lock().grow(bytes)
    }

    /// Waits for `future` on the thread of the work, without its slot, so that slow remote responses occupy no slots. Reserved bytes are
    /// kept. Fails if the work should stop, or if no slot becomes free within the pool's maximum wait.
    pub fn wait<T>(&self, runtime: &Handle, future: impl Future<Output = T>) -> Result<T, WorkError> {
        drop(self.seat.lock().take());
        runtime.block_on(async {
            let stopped = async {
                loop {
                    if let Err(interrupted) = self.check() {
                        return interrupted;
                    }
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
            };
            let resumed = async {
                let done = future.await;
                let seat = self.seats.acquire(self.flow).await?;
                *self.seat.lock() = Some(seat);
                Ok(done)
            };
            tokio::select! {
                done = resumed => done,
                interrupted = stopped => Err(interrupted.into()),
            }
        })
    }
}

/// Stop signal of work, for code on any level below it. May outlive the work.
#[derive(Clone, Debug)]
pub struct Interrupt {
    cancelled: Arc<AtomicBool>,
    deadline: Instant,
}

impl Interrupt {
    /// A stop signal with a deadline only, without cancellation.
    pub fn with_deadline(deadline: Instant) -> Self {
        Self { cancelled: Arc::default(), deadline }
    }

    /// Fails if the work should stop. Costs about ten nanoseconds.
    pub fn check(&self) -> Result<(), InterruptReason> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(InterruptReason::Cancelled);
        }
        if Instant::now() >= self.deadline {
            return Err(InterruptReason::DeadlineExceeded);
        }
        Ok(())
    }
}

/// Cancels the work when the future that waits for it is dropped.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl WorkPool {
    pub fn new(limits: &WorkLimits) -> Self {
        let &WorkLimits { slots, slots_per_flow, queue, queue_per_flow, wait, bytes, bytes_per_flow } =
            limits;
        let (seats, seats_per_flow) = (slots, slots_per_flow);
        let (streams, streams_per_flow) = (0, 0);
        Self {
            seats: Arc::new(Seats::new(Limits {
                seats,
                seats_per_flow,
                queue,
                queue_per_flow,
                wait,
                bytes,
                bytes_per_flow,
                streams,
                streams_per_flow,
            })),
            bytes: Arc::new(ByteBudget::new(bytes, bytes_per_flow)),
            hasher: RandomState::new(),
        }
    }

    /// The same pool, in which each flow can always reserve this many bytes, even if others have exhausted the pool's limit. The total
    /// can therefore exceed the limit by that amount per flow. Call it before the pool is used.
    #[must_use]
    pub fn with_guarantee(self, bytes_per_flow: u64, limits: &WorkLimits) -> Self {
        let budget = ByteBudget::new(limits.bytes, limits.bytes_per_flow).with_guarantee(bytes_per_flow);
        Self { bytes: Arc::new(budget), ..self }
    }

    /// The flow of the workspace or user identified by `key`.
    pub fn flow(&self, key: impl Hash) -> Flow {
        Flow(self.hasher.hash_one(key))
    }

    /// Waits for a slot, then reserves `bytes`. Cancel-safe.
    pub async fn admit(&self, flow: Flow, bytes: u64) -> Result<Permit, AdmissionError> {
        let seat = self.seats.acquire(flow).await?;
        let reserved = self.bytes.reserve(flow, bytes)?;
        Ok(Permit { reserved, _seat: seat })
    }

    /// Reserves `bytes` without a slot, for memory that outlives the work or is filled without computation (a download).
    pub fn reserve(&self, flow: Flow, bytes: u64) -> Result<ByteReservation, AdmissionError> {
        self.bytes.reserve(flow, bytes)
    }

    /// Runs `work` on a blocking thread once it is admitted with `bytes`. Dropping the future cancels the work: it never starts if it has
    /// not started yet, and [`WorkContext::check`] fails if it is running. The deadline counts from admission.
    pub async fn run<T: Send + 'static>(
        &self,
        flow: Flow,
        bytes: u64,
        deadline: Duration,
        work: impl FnOnce(&WorkContext) -> T + Send + 'static,
    ) -> Result<T, WorkError> {
        let Permit { reserved, _seat: seat } = self.admit(flow, bytes).await?;
        let cancelled = Arc::new(AtomicBool::new(false));
        let guard = CancelOnDrop(cancelled.clone());
        let end = Instant::now().checked_add(deadline).ok_or(WorkError::DeadlineExceeded(deadline))?;
        let seats = self.seats.clone();
        let running = spawn_blocking(move || {
            priority::lower();
            let (reserved, seat) = (Mutex::new(reserved), Mutex::new(Some(seat)));
            let interrupt = Interrupt { cancelled, deadline: end };
            let ticket = WorkContext { interrupt, reserved, seats, flow, seat };
            ticket.check().is_ok().then(|| work(&ticket))
        });
        let done = tokio::time::timeout(deadline, running).await;
        drop(guard);
        match done {
            Ok(Ok(Some(done))) => Ok(done),
            Ok(Ok(None)) | Err(_) => Err(WorkError::DeadlineExceeded(deadline)),
            Ok(Err(_)) => Err(WorkError::Panicked),
        }
    }

    /// How long all slots have been taken while work was waiting and no slot became free.
    pub fn starving_for(&self) -> Option<Duration> {
        self.seats.starving_for()
    }

    /// Like [`WorkPool::starving_for`], if that is at least [`STARVATION_THRESHOLD`].
    pub fn starved(&self) -> Option<Duration> {
        self.starving_for().filter(|lasting| *lasting >= STARVATION_THRESHOLD)
    }

    pub fn slots(&self) -> SeatUsage {
        self.seats.usage()
    }

    pub fn bytes(&self) -> ByteUsage {
        self.bytes.usage()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const DEADLINE: Duration = Duration::from_mins(1);

    fn pool(slots: usize) -> WorkPool {
        WorkPool::new(&WorkLimits {
            slots,
            slots_per_flow: 1,
            queue: 10,
            queue_per_flow: 10,
            wait: DEADLINE,
            bytes: 100,
            bytes_per_flow: 60,
        })
    }

    #[tokio::test]
    async fn flow_waits_for_its_slots_while_others_run() {
        let pool = pool(2);
        let (greedy, other) = (pool.flow("greedy"), pool.flow("other"));
        let (release, blocked) = mpsc::channel::<()>();
        let first = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(greedy, 0, DEADLINE, move |_| blocked.recv().is_ok()).await }
        });
        let second = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(greedy, 0, DEADLINE, |_| ()).await }
        });
        while pool.slots().queued == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(other, 0, DEADLINE, |_| 7).await, Ok(7));
        assert!(!second.is_finished());
        release.send(()).unwrap();
        assert_eq!(first.await.unwrap(), Ok(true));
        assert_eq!(second.await.unwrap(), Ok(()));
        assert_eq!((pool.slots().used, pool.bytes().held), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn pool_starves_while_its_slots_are_stuck() {
        let pool = pool(1);
        let stuck = pool.admit(pool.flow("stuck"), 0).await.unwrap();
        // Waits for the pool's maximum of one minute.
        assert!(pool.admit(pool.flow("other"), 0).await.is_err());
        assert!(pool.starved() >= Some(DEADLINE));
        drop(stuck);
        assert_eq!((pool.starving_for(), pool.starved()), (None, None));
    }

    #[tokio::test]
    async fn dropped_caller_cancels_and_the_slot_is_held_until_the_work_ends() {
        let pool = pool(1);
        let flow = pool.flow("a");
        let (started, start) = tokio::sync::oneshot::channel();
        let (ended, end) = tokio::sync::oneshot::channel();
        let (release, blocked) = mpsc::channel::<()>();
        let running = tokio::spawn({
            let pool = pool.clone();
            async move {
                let work = move |ticket: &WorkContext| {
                    started.send(()).unwrap();
                    blocked.recv().unwrap();
                    ended.send(ticket.check()).unwrap();
                };
                pool.run(flow, 10, DEADLINE, work).await
            }
        });
        start.await.unwrap();
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        assert_eq!((pool.slots().used, pool.bytes().held), (1, 10));
        release.send(()).unwrap();
        assert_eq!(end.await.unwrap(), Err(InterruptReason::Cancelled));
        while pool.slots().used > 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.bytes().held, 0);
    }

    #[tokio::test]
    async fn work_stops_waiting_at_its_deadline_and_reserves_within_its_share() {
        let pool = pool(1);
        let flow = pool.flow("a");
        let deadline = Duration::from_millis(20);
        let (release, blocked) = mpsc::channel::<()>();
        let late = pool.run(flow, 0, deadline, move |_| blocked.recv().is_ok()).await;
        assert_eq!(late, Err(WorkError::DeadlineExceeded(deadline)));
        release.send(()).unwrap();
        let stopped = |ticket: &WorkContext| loop {
            if let Err(interrupted) = ticket.check() {
                return interrupted;
            }
        };
        let stopped = pool.run(flow, 0, deadline, stopped).await;
        assert!(
            matches!(stopped, Ok(InterruptReason::DeadlineExceeded) | Err(WorkError::DeadlineExceeded(_))),
            "{stopped:?}"
        );
        let refused = pool.run(flow, 50, DEADLINE, |ticket| (ticket.reserve(10), ticket.reserve(1))).await;
        assert_eq!(refused, Ok((Ok(()), Err(AdmissionError::FlowBytes(60)))));
        assert_eq!(pool.run(flow, 0, DEADLINE, |_| panic!("boom")).await, Err::<(), _>(WorkError::Panicked));
        assert_eq!((pool.slots().used, pool.bytes().held), (0, 0));
    }

    #[tokio::test]
    async fn work_that_waits_gives_its_slot_to_others_and_is_cancelled_while_waiting() {
        let pool = pool(1);
        let (waiting, other) = (pool.flow("waiting"), pool.flow("other"));
        let (release, blocked) = tokio::sync::oneshot::channel::<u8>();
        let (runtime, began) = (Handle::current(), Arc::new(AtomicBool::new(false)));
        let first = tokio::spawn({
            let (pool, began) = (pool.clone(), began.clone());
            let work = move |ticket: &WorkContext| {
                began.store(true, Ordering::Relaxed);
                ticket.wait(&runtime, blocked)
            };
            async move { pool.run(waiting, 10, DEADLINE, work).await }
        });
        while !began.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        assert_eq!(pool.run(other, 0, DEADLINE, |_| 7).await, Ok(7));
        assert_eq!(pool.bytes().held, 10);
        release.send(3).unwrap();
        assert_eq!(first.await.unwrap(), Ok(Ok(Ok(3))));

        let (runtime, (started_tx, started)) = (Handle::current(), tokio::sync::oneshot::channel());
        let (ended_tx, ended) = tokio::sync::oneshot::channel();
        let running = tokio::spawn({
            let pool = pool.clone();
            let work = move |ticket: &WorkContext| {
                started_tx.send(()).unwrap();
                ended_tx.send(ticket.wait(&runtime, std::future::pending::<()>())).unwrap();
            };
            async move { pool.run(waiting, 0, DEADLINE, work).await }
        });
        started.await.unwrap();
        running.abort();
        assert_eq!(ended.await.unwrap(), Err(WorkError::Interrupted(InterruptReason::Cancelled)));
    }
}
