//! Work queue by key: each due key is reconciled once; a failed one is retried after a backoff.
//!
//! A controller provides a stream of changed keys and a reconcile function. A key is queued at most once and never
//! reconciled concurrently; if it is added during its reconcile, it is due again afterwards. Slots are shared fairly
//! among the tenants of keys ([`super::slots`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};

use super::runtime::{PanicError, isolate, runtime};
use super::slots::{SlotLimits, Slots};

/// Backoff after the first failure of a key; doubles with each further one.
pub const INITIAL_BACKOFF: Duration = Duration::from_millis(200);
pub const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// Number of consecutive panics and exceeded deadlines after which a key is quarantined: it is then reconciled
/// rarely, however often it changes.
pub const QUARANTINE_THRESHOLD: u32 = 5;
pub const MAX_QUARANTINE: Duration = Duration::from_mins(10);
/// Upper bound of every delay. A key that asks for a longer one is reconciled earlier, which is always correct.
const MAX_DELAY: Duration = Duration::from_hours(24 * 30);

/// When a key is due again after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// When it is added again.
    AwaitChange,
    /// After this delay, or when it is added again.
    RequeueAfter(Duration),
}

/// Reconciles every key of the stream, at most `max_concurrent` concurrently. Returns when the stream has ended and all due
/// keys are done.
///
/// Each key is its own tenant. A panic in `sync` is an error of that key: it is logged, counted for
/// `controller`, handed to `report_panic`, and retried with backoff; other keys are not affected. The same applies to a
/// reconcile that exceeds its deadline, except that it is not handed to `report_panic`.
///
/// `report_panic` publishes an event of the object ([`super::panic_event`]). The key keeps its slot until it returns.
pub async fn run<K, E>(
    controller: &'static str,
    keys: impl Stream<Item = K>,
    max_concurrent: usize,
    sync: impl AsyncFn(&K) -> Result<Action, E>,
    report_panic: impl AsyncFn(&K),
) where
    K: Ord + Clone + Display,
    E: Display,
{
    run_fair(controller, keys, SlotLimits::from(max_concurrent), K::to_string, sync, report_panic).await;
}

/// Like [`run`], with slots shared fairly among tenants ([`super::slots`]). `tenant_of` names the tenant of a key.
pub async fn run_fair<K, E>(
    controller: &'static str,
    keys: impl Stream<Item = K>,
    limits: SlotLimits,
    tenant_of: impl Fn(&K) -> String,
    sync: impl AsyncFn(&K) -> Result<Action, E>,
    report_panic: impl AsyncFn(&K),
) where
    K: Ord + Clone + Display,
    E: Display,
{
    let mut keys = pin!(keys.fuse());
    let mut due = WorkQueue::new(controller, limits);
    let health = runtime().register_queue(controller);
    let mut passes = FuturesUnordered::new();
    loop {
        while let Some((tenant, key)) = due.begin(Instant::now()) {
            passes.push(async {
                let done = timeout(limits.deadline, isolate(sync(&key))).await;
                let has_panicked = matches!(done, Ok(Err(_)));
                if has_panicked && let Err(PanicError(error)) = isolate(report_panic(&key)).await {
                    tracing::warn!(controller, %key, error, "cannot report a panic");
                }
                (tenant, key, done)
            });
        }
        health.report(due.slots.usage(), due.quarantined);
        if keys.is_done() && passes.is_empty() {
            return;
        }
        let wakes = due.next_wake();
        tokio::select! {
            key = keys.next(), if !keys.is_done() => {
                let now = Instant::now();
                if let Some(key) = key {
                    due.add(&tenant_of(&key), key, now);
                }
            }
            Some((tenant, key, done)) = passes.next(), if !passes.is_empty() => {
                let done = match done {
                    Ok(Ok(Ok(next))) => Ok(next),
                    Ok(Ok(Err(error))) => Err(ReconcileFailure::Error(error.to_string())),
                    Ok(Err(panicked)) => Err(ReconcileFailure::Crash(panicked.to_string())),
                    Err(_) => Err(ReconcileFailure::Crash(format!("not done within {} s", limits.deadline.as_secs()))),
                };
                if let Err(failed) = &done {
                    runtime().count_error(controller, matches!(failed, ReconcileFailure::Crash(_)));
                }
                due.end(&tenant, key, done, Instant::now());
            }
            () = sleep_until(wakes.unwrap_or_else(Instant::now)), if wakes.is_some() => {
                due.requeue_expired(Instant::now(), &tenant_of);
            }
            else => {}
        }
    }
}

/// Failure of a reconcile.
enum ReconcileFailure {
    Error(String),
    /// A panic or an exceeded deadline.
    Crash(String),
}

impl ReconcileFailure {
    fn message(&self) -> &str {
        match self {
            Self::Error(cause) | Self::Crash(cause) => cause,
        }
    }
}

/// Keys that are due, in progress or due later.
struct WorkQueue<K> {
    controller: &'static str,
    slots: Slots<K>,
    states: BTreeMap<K, KeyState>,
    timers: BTreeSet<(Instant, K)>,
    /// Number of quarantined keys.
    quarantined: usize,
}

#[derive(Default)]
struct KeyState {
    is_waiting: bool,
    is_running: bool,
    timer: Option<Instant>,
    failures: u32,
    /// Consecutive panics and exceeded deadlines.
    crashes: u32,
    /// Earliest time of the next reconcile of a quarantined key.
    not_before: Option<Instant>,
}

impl<K: Ord + Clone + Display> WorkQueue<K> {
    fn new(controller: &'static str, limits: SlotLimits) -> Self {
        let (states, timers) = (BTreeMap::new(), BTreeSet::new());
        Self { controller, slots: Slots::new(limits), states, timers, quarantined: 0 }
    }

    fn add(&mut self, tenant: &str, key: K, now: Instant) {
        let state = self.states.entry(key.clone()).or_default();
        if let Some(at) = state.timer.take() {
            self.timers.remove(&(at, key.clone()));
        }
        // A changed quarantined object is reconciled again, but at a limited rate.
        if let Some(at) = state.not_before.filter(|at| *at > now && !state.is_running && !state.is_waiting) {
            state.timer = Some(at);
            self.timers.insert((at, key));
            return;
        }
        if !state.is_waiting {
            state.is_waiting = true;
            if !state.is_running {
                self.slots.push(tenant, key, now);
            }
        }
    }

    /// The next key to reconcile, with its tenant.
    fn begin(&mut self, now: Instant) -> Option<(String, K)> {
        let (tenant, key) = self.slots.begin(now)?;
        let state = self.states.entry(key.clone()).or_default();
        (state.is_waiting, state.is_running) = (false, true);
        Some((tenant, key))
    }

    fn end(&mut self, tenant: &str, key: K, done: Result<Action, ReconcileFailure>, now: Instant) {
        self.slots.end(tenant, &key);
        let state = self.states.entry(key.clone()).or_default();
        state.is_running = false;
        let was_quarantined = state.crashes >= QUARANTINE_THRESHOLD;
        state.crashes = match done {
            Err(ReconcileFailure::Crash(_)) => state.crashes.saturating_add(1),
            _ => 0,
        };
        let is_quarantined = state.crashes >= QUARANTINE_THRESHOLD;
        self.quarantined = self.quarantined + usize::from(is_quarantined) - usize::from(was_quarantined);
        state.not_before = is_quarantined.then(|| now + MAX_BACKOFF);
        let later = match done {
            Ok(next) => {
                state.failures = 0;
                match next {
                    Action::AwaitChange => None,
                    Action::RequeueAfter(pause) => Some(pause),
                }
            }
            Err(failed) => {
                let backoff = if is_quarantined {
                    quarantine_delay(state.crashes)
                } else {
                    backoff_delay(state.failures)
                };
                let (controller, error) = (self.controller, failed.message());
                // Once per backoff step: a key that keeps failing does not fill the log.
                if state.failures == 0 || backoff > backoff_delay(state.failures.saturating_sub(1)) {
                    tracing::warn!(controller, %key, error, ?backoff, "reconcile failed; retrying");
                } else {
                    tracing::debug!(controller, %key, error, ?backoff, "reconcile failed; retrying");
                }
                state.failures = state.failures.saturating_add(1);
                Some(backoff)
            }
        };
        match later {
            _ if state.is_waiting && state.not_before.is_none() => self.slots.push(tenant, key, now),
            Some(pause) => {
                let pause = if state.is_waiting { MAX_BACKOFF } else { pause };
                state.is_waiting = false;
                let at = now + pause.min(MAX_DELAY);
                state.timer = Some(at);
                self.timers.insert((at, key));
            }
            None => drop(self.states.remove(&key)),
        }
    }

    /// Time of the first timer.
    fn next_wake(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.slots.next_wake()).min()
    }

    fn requeue_expired(&mut self, now: Instant, tenant_of: impl Fn(&K) -> String) {
        self.slots.demote(now, &tenant_of);
        while let Some((at, key)) = self.timers.pop_first() {
            if at > now {
                self.timers.insert((at, key));
                return;
            }
            self.add(&tenant_of(&key), key, now);
        }
    }
}

/// Backoff after this many earlier failures.
fn backoff_delay(failures: u32) -> Duration {
    MAX_BACKOFF.min(INITIAL_BACKOFF.saturating_mul(2_u32.saturating_pow(failures)))
}

/// Delay after this many consecutive panics and exceeded deadlines.
fn quarantine_delay(crashes: u32) -> Duration {
    let steps = crashes.saturating_sub(QUARANTINE_THRESHOLD).saturating_add(1);
    MAX_QUARANTINE.min(MAX_BACKOFF.saturating_mul(2_u32.saturating_pow(steps)))
}

#[cfg(test)]
mod tests;
