//! Seats: a concurrency limit for the requests of a level, fair among flows.
//!
//! A request takes a free seat immediately, unless its flow already holds its share. Otherwise it waits in its flow's FIFO queue. A
//! seat that becomes free goes to the waiting flow that holds the fewest seats; among equals, to the flow whose first request has
//! waited longest.
//!
//! Invariant: while a flow that holds less than its share is waiting, no seat is free.
//!
//! A level starves while all its seats are taken, requests are waiting or rejected, and no seat becomes free. A flow that waits for
//! its own share starves no other flow and does not count.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::{AdmissionError, Flow, Limits};

/// The seats of one level.
pub struct Seats {
    /// Maximum number of concurrent requests.
    limit: usize,
    per_flow: usize,
    queue: usize,
    queue_per_flow: usize,
    wait: Duration,
    state: Mutex<SeatState>,
}

/// Totals of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeatUsage {
    pub used: usize,
    pub queued: usize,
    pub rejected: u64,
}

/// Seats and queues of one level.
#[derive(Default)]
struct SeatState {
    usage: SeatUsage,
    arrivals: u64,
    /// The time since which all seats have been taken, requests were waiting or rejected, and no seat became free.
    starving_since: Option<Instant>,
    /// Flows that hold or wait for a seat.
    flows: HashMap<Flow, FlowState>,
}

/// Seats held by a flow, and its queue.
#[derive(Default)]
struct FlowState {
    held: usize,
    waiting: VecDeque<Waiter>,
}

/// A queued request.
struct Waiter {
    arrival: u64,
    grant: oneshot::Sender<()>,
}

/// A seat; released on drop.
#[must_use]
pub struct Seat {
    seats: Arc<Seats>,
    flow: Flow,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.release(self.flow);
    }
}

impl Seats {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limit: limits.seats,
            per_flow: limits.seats_per_flow,
            queue: limits.queue,
            queue_per_flow: limits.queue_per_flow,
            wait: limits.wait,
            state: Mutex::default(),
        }
    }

    pub fn usage(&self) -> SeatUsage {
        self.state.lock().usage
    }

    /// How long the level has been starving.
    pub fn starving_for(&self) -> Option<Duration> {
        self.state.lock().starving_since.map(|since| since.elapsed())
    }

    pub(crate) async fn acquire(self: &Arc<Self>, flow: Flow) -> Result<Seat, AdmissionError> {
        let Some(mut place) = self.take_or_queue(flow)? else {
            return Ok(Seat { seats: self.clone(), flow });
        };
        if tokio::time::timeout(self.wait, &mut place.granted).await.is_ok() {
            place.is_settled = true;
            return Ok(Seat { seats: self.clone(), flow });
        }
        drop(place);
        self.state.lock().usage.rejected += 1;
        Err(AdmissionError::Timeout(self.wait))
    }

    /// Takes a free seat and returns `None`, or queues the request.
    fn take_or_queue(self: &Arc<Self>, flow: Flow) -> Result<Option<QueuedRequest>, AdmissionError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let (held, waiting) = state.flows.get(&flow).map_or((0, 0), |f| (f.held, f.waiting.len()));
        if state.usage.used < self.limit && held < self.per_flow && waiting == 0 {
            state.usage.used += 1;
            state.flows.entry(flow).or_default().held += 1;
            return Ok(None);
        }
        if state.usage.used >= self.limit {
            state.starving_since.get_or_insert_with(Instant::now);
        }
        let full = if waiting >= self.queue_per_flow {
            Some(AdmissionError::FlowQueueFull(self.queue_per_flow))
        } else {
            (state.usage.queued >= self.queue).then_some(AdmissionError::QueueFull(self.queue))
        };
        if let Some(rejected) = full {
            state.usage.rejected += 1;
            return Err(rejected);
        }
        let (sender, granted) = oneshot::channel();
        state.arrivals += 1;
        state.usage.queued += 1;
        let arrival = state.arrivals;
        state.flows.entry(flow).or_default().waiting.push_back(Waiter { arrival, grant: sender });
        Ok(Some(QueuedRequest { seats: self.clone(), flow, arrival, granted, is_settled: false }))
    }

    fn release(&self, flow: Flow) {
        let mut state = self.state.lock();
        state.usage.used -= 1;
        let freed = state.flows.get_mut(&flow).expect("a flow that holds a seat is known");
        freed.held -= 1;
        if freed.held == 0 && freed.waiting.is_empty() {
            state.flows.remove(&flow);
        }
        self.dispatch(&mut state);
        let is_starving = state.usage.queued > 0 && state.usage.used >= self.limit;
        state.starving_since = is_starving.then(Instant::now);
    }

    fn dispatch(&self, state: &mut SeatState) {
        while state.usage.queued > 0 && state.usage.used < self.limit {
            let eligible =
                state.flows.values_mut().filter(|f| f.held < self.per_flow && !f.waiting.is_empty());
            let Some(next) = eligible.min_by_key(|f| (f.held, f.waiting[0].arrival)) else { return };
            let waiter = next.waiting.pop_front().expect("a flow without waiters was filtered out");
            next.held += 1;
            state.usage.used += 1;
            state.usage.queued -= 1;
            // The receiver is alive: a dropped one removes its waiter under the lock first.
            let _ = waiter.grant.send(());
        }
    }
}

/// A request in the queue. If dropped before it is settled, it leaves the queue or returns the granted seat.
struct QueuedRequest {
    seats: Arc<Seats>,
    flow: Flow,
    arrival: u64,
    granted: oneshot::Receiver<()>,
    is_settled: bool,
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        if self.is_settled {
            return;
        }
        let mut state = self.seats.state.lock();
        let flow = state.flows.get_mut(&self.flow).expect("a flow that waits or holds a seat is known");
        let Some(at) = flow.waiting.iter().position(|waiter| waiter.arrival == self.arrival) else {
            drop(state);
            return self.seats.release(self.flow);
        };
        flow.waiting.remove(at);
        if flow.held == 0 && flow.waiting.is_empty() {
            state.flows.remove(&self.flow);
        }
        state.usage.queued -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Governor, LevelLimits, PriorityLevel};

    fn seats(seats: usize, per_flow: usize, queue: usize, queue_per_flow: usize) -> Arc<Seats> {
        let limits = LevelLimits::default().0[1];
        let wait = Duration::from_secs(1);
        Arc::new(Seats::new(Limits {
            seats,
            seats_per_flow: per_flow,
            queue,
            queue_per_flow,
            wait,
            ..limits
        }))
    }

    /// Runs all spawned tasks until they wait.
    async fn run_until_idle() {
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn flow_never_holds_more_than_its_share() {
        let seats = seats(4, 2, 10, 10);
        let (greedy, other) = (Flow(1), Flow(2));
        let held = [seats.acquire(greedy).await.unwrap(), seats.acquire(greedy).await.unwrap()];
        let third = tokio::spawn({
            let seats = seats.clone();
            async move { seats.acquire(greedy).await }
        });
        run_until_idle().await;
        assert_eq!(seats.usage(), SeatUsage { used: 2, queued: 1, rejected: 0 });
        // Seats are free, and another flow gets one although a request is waiting.
        drop(seats.acquire(other).await.unwrap());
        drop(held);
        drop(third.await.unwrap().unwrap());
        assert_eq!(seats.usage(), SeatUsage::default());
    }

    #[tokio::test(start_paused = true)]
    async fn free_seat_goes_to_the_flow_that_holds_fewest() {
        let seats = seats(2, 2, 10, 10);
        let (first, second) = (Flow(1), Flow(2));
        let mut held = vec![seats.acquire(first).await.unwrap(), seats.acquire(first).await.unwrap()];
        let order = Arc::new(Mutex::new(Vec::new()));
        let wait = |flow: Flow, name: &'static str| {
            let (seats, order) = (seats.clone(), order.clone());
            tokio::spawn(async move {
                let seat = seats.acquire(flow).await.unwrap();
                order.lock().push(name);
                std::mem::forget(seat);
            })
        };
        let mut waiting = Vec::new();
        for (flow, name) in [(first, "first"), (first, "first"), (second, "second")] {
            waiting.push(wait(flow, name));
            run_until_idle().await;
        }
        // `first` has waited longer, but still holds a seat.
        drop(held.pop());
        run_until_idle().await;
        drop(held.pop());
        run_until_idle().await;
        assert_eq!(*order.lock(), ["second", "first"]);
        for task in waiting {
            task.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn queue_is_bounded_per_flow_and_in_total_and_waiting_times_out() {
        let seats = seats(1, 1, 3, 2);
        let _held = seats.acquire(Flow(1)).await.unwrap();
        let wait = |flow: u64| {
            let seats = seats.clone();
            tokio::spawn(async move { seats.acquire(Flow(flow)).await.map(drop) })
        };
        let waiting = [wait(1), wait(1)];
        run_until_idle().await;
        assert_eq!(seats.acquire(Flow(1)).await.err(), Some(AdmissionError::FlowQueueFull(2)));
        let last = wait(2);
        run_until_idle().await;
        assert_eq!(seats.acquire(Flow(3)).await.err(), Some(AdmissionError::QueueFull(3)));
        for task in waiting.into_iter().chain([last]) {
            assert_eq!(task.await.unwrap(), Err(AdmissionError::Timeout(Duration::from_secs(1))));
        }
        assert_eq!(seats.usage(), SeatUsage { used: 1, queued: 0, rejected: 5 });
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_waiter_leaves_no_trace() {
        let seats = seats(1, 1, 10, 10);
        let held = seats.acquire(Flow(1)).await.unwrap();
        let waiting = tokio::spawn({
            let seats = seats.clone();
            async move { seats.acquire(Flow(2)).await }
        });
        run_until_idle().await;
        waiting.abort();
        let _ = waiting.await;
        drop(held);
        assert_eq!(seats.usage(), SeatUsage::default());
        assert!(seats.state.lock().flows.is_empty());

        // Granted and cancelled before it was polled again: the seat is returned.
        let held = seats.acquire(Flow(1)).await.unwrap();
        let mut late = Box::pin(seats.acquire(Flow(2)));
        assert!(poll_once(&mut late).await.is_none());
        drop(held);
        assert_eq!(seats.usage().used, 1);
        drop(late);
        assert_eq!(seats.usage(), SeatUsage::default());
    }

    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        std::future::poll_fn(|context| {
            std::task::Poll::Ready(match std::pin::Pin::new(&mut *future).poll(context) {
                std::task::Poll::Ready(output) => Some(output),
                std::task::Poll::Pending => None,
            })
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn level_starves_from_the_first_waiter_until_a_seat_is_free() {
        let seats = seats(2, 2, 10, 10);
        let mut held = vec![seats.acquire(Flow(1)).await.unwrap()];
        assert_eq!(seats.starving_for(), None);
        held.push(seats.acquire(Flow(1)).await.unwrap());
        assert_eq!(seats.starving_for(), None, "nobody waits");
        // The wait ends after a second; the seats are still taken.
        assert!(seats.acquire(Flow(2)).await.is_err());
        tokio::time::advance(Duration::from_secs(9)).await;
        assert!(seats.acquire(Flow(3)).await.is_err());
        let lasting = seats.starving_for().unwrap();
        assert!((11..12).contains(&lasting.as_secs()), "{lasting:?}");
        let waiting = tokio::spawn({
            let seats = seats.clone();
            async move { seats.acquire(Flow(2)).await }
        });
        run_until_idle().await;
        drop(held.pop());
        assert_eq!(seats.starving_for(), None, "a seat became free, and nobody else waits");
        drop((waiting.await.unwrap().unwrap(), held));
        assert_eq!(seats.starving_for(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn flow_that_waits_for_its_own_share_does_not_starve_its_level() {
        let seats = seats(2, 1, 10, 10);
        let _held = seats.acquire(Flow(1)).await.unwrap();
        assert!(seats.acquire(Flow(1)).await.is_err());
        assert_eq!(seats.starving_for(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn governor_names_levels_that_starve_for_longer_than_the_threshold() {
        let governor = Governor::default();
        let limits = LevelLimits::default().0;
        for level in [PriorityLevel::Authenticated, PriorityLevel::Anonymous] {
            let limits = limits[level.index()];
            for user in 0..limits.seats {
                std::mem::forget(governor.acquire_seat(level, governor.flow(user)).await.unwrap());
            }
            assert!(governor.acquire_seat(level, governor.flow("late")).await.is_err());
        }
        assert_eq!(governor.starved_levels(), []);
        tokio::time::advance(crate::STARVATION_THRESHOLD).await;
        let starved: Vec<PriorityLevel> =
            governor.starved_levels().into_iter().map(|(level, _)| level).collect();
        assert_eq!(
            starved,
            [PriorityLevel::Authenticated],
            "callers without credentials cannot end readiness"
        );
    }

    #[tokio::test]
    async fn levels_do_not_starve_each_other() {
        let governor = Governor::default();
        let flow = governor.flow("tenant");
        let limits = LevelLimits::default().0;
        let mut held = Vec::new();
        for user in 0..limits[1].seats {
            held.push(
                governor.acquire_seat(PriorityLevel::Authenticated, governor.flow(user)).await.unwrap(),
            );
        }
        for address in 0..limits[2].seats {
            held.push(governor.acquire_seat(PriorityLevel::Anonymous, governor.flow(address)).await.unwrap());
        }
        drop(governor.acquire_seat(PriorityLevel::Platform, flow).await.unwrap());
    }
}
