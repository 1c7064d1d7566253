//! Work queue by key: each due key is reconciled once; a failed one is retried after a backoff.
//!
//! A controller provides a stream of changed keys and a reconcile function. A key is queued at most once and never
//! reconciled concurrently; if it is added during its reconcile, it is due again afterwards. Slots are shared fairly
//! among the tenants of keys ([`super::fair`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};

use super::fair::{Limits, Slots};
use super::runtime::{isolate, runtime};

/// Backoff after the first failure of a key; doubles with each further one.
pub const PAUSE: Duration = Duration::from_millis(200);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Number of consecutive panics and exceeded deadlines after which a key is quarantined: it is then reconciled
/// rarely, however often it changes.
pub const QUARANTINED_AFTER: u32 = 5;
pub const LONGEST_QUARANTINE: Duration = Duration::from_mins(10);
/// Upper bound of every delay. A key that asks for a longer one is reconciled earlier, which is always correct.
const MAX_DELAY: Duration = Duration::from_hours(24 * 30);

/// When a key is due again after a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When it is added again.
    Rest,
    /// After this delay, or when it is added again.
    After(Duration),
}

/// Reconciles every key of the stream, at most `at_once` concurrently. Returns when the stream has ended and all due
/// keys are done.
///
/// Every key is a tenant of its own. A panic in `sync` is an error of that key: it is logged, counted for
/// `controller`, and retried with backoff; other keys are not affected. The same applies to a reconcile that exceeds
/// its deadline.
pub async fn run<K, E>(
    controller: &'static str,
    keys: impl Stream<Item = K>,
    at_once: usize,
    sync: impl AsyncFn(&K) -> Result<Next, E>,
) where
    K: Ord + Clone + Display,
    E: Display,
{
    run_fair(controller, keys, Limits::from(at_once), K::to_string, sync).await;
}

/// Like [`run`], with slots shared fairly among tenants ([`super::fair`]). `tenant_of` names the tenant of a key.
pub async fn run_fair<K, E>(
    controller: &'static str,
    keys: impl Stream<Item = K>,
    limits: Limits,
    tenant_of: impl Fn(&K) -> String,
    sync: impl AsyncFn(&K) -> Result<Next, E>,
) where
    K: Ord + Clone + Display,
    E: Display,
{
    let mut keys = pin!(keys.fuse());
    let mut due = Due::new(controller, limits);
    let health = runtime().queue(controller);
    let mut passes = FuturesUnordered::new();
    loop {
        while let Some((tenant, key)) = due.begin(Instant::now()) {
            passes.push(async {
                let done = timeout(limits.deadline, isolate(sync(&key))).await;
                (tenant, key, done)
            });
        }
        health.report(due.slots.usage(), due.quarantined);
        if keys.is_done() && passes.is_empty() {
            return;
        }
        let wakes = due.wakes();
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
                    Ok(Ok(Err(error))) => Err(Failed::Error(error.to_string())),
                    Ok(Err(panicked)) => Err(Failed::Crash(panicked.to_string())),
                    Err(_) => Err(Failed::Crash(format!("not done within {} s", limits.deadline.as_secs()))),
                };
                if let Err(failed) = &done {
                    runtime().count_error(controller, matches!(failed, Failed::Crash(_)));
                }
                due.end(&tenant, key, done, Instant::now());
            }
            () = sleep_until(wakes.unwrap_or_else(Instant::now)), if wakes.is_some() => {
                due.wake(Instant::now(), &tenant_of);
            }
            else => {}
        }
    }
}

/// Failure of a reconcile.
enum Failed {
    Error(String),
    /// A panic or an exceeded deadline.
    Crash(String),
}

impl Failed {
    fn cause(&self) -> &str {
        match self {
            Self::Error(cause) | Self::Crash(cause) => cause,
        }
    }
}

/// Keys that are due, in progress or due later.
struct Due<K> {
    controller: &'static str,
    slots: Slots<K>,
    states: BTreeMap<K, State>,
    timers: BTreeSet<(Instant, K)>,
    /// Number of quarantined keys.
    quarantined: usize,
}

#[derive(Default)]
struct State {
    waits: bool,
    under_way: bool,
    timer: Option<Instant>,
    failures: u32,
    /// Consecutive panics and exceeded deadlines.
    crashes: u32,
    /// Earliest time of the next reconcile of a quarantined key.
    not_before: Option<Instant>,
}

impl<K: Ord + Clone + Display> Due<K> {
    fn new(controller: &'static str, limits: Limits) -> Self {
        let (states, timers) = (BTreeMap::new(), BTreeSet::new());
        Self { controller, slots: Slots::new(limits), states, timers, quarantined: 0 }
    }

    fn add(&mut self, tenant: &str, key: K, now: Instant) {
        let state = self.states.entry(key.clone()).or_default();
        if let Some(at) = state.timer.take() {
            self.timers.remove(&(at, key.clone()));
        }
        // A changed quarantined object is reconciled again, but at a limited rate.
        if let Some(at) = state.not_before.filter(|at| *at > now && !state.under_way && !state.waits) {
            state.timer = Some(at);
            self.timers.insert((at, key));
            return;
        }
        if !state.waits {
            state.waits = true;
            if !state.under_way {
                self.slots.push(tenant, key, now);
            }
        }
    }

    /// The next key to reconcile, with its tenant.
    fn begin(&mut self, now: Instant) -> Option<(String, K)> {
        let (tenant, key) = self.slots.begin(now)?;
        let state = self.states.entry(key.clone()).or_default();
        (state.waits, state.under_way) = (false, true);
        Some((tenant, key))
    }

    fn end(&mut self, tenant: &str, key: K, done: Result<Next, Failed>, now: Instant) {
        self.slots.end(tenant, &key);
        let state = self.states.entry(key.clone()).or_default();
        state.under_way = false;
        let was_quarantined = state.crashes >= QUARANTINED_AFTER;
        state.crashes = match done {
            Err(Failed::Crash(_)) => state.crashes.saturating_add(1),
            _ => 0,
        };
        let is_quarantined = state.crashes >= QUARANTINED_AFTER;
        self.quarantined = self.quarantined + usize::from(is_quarantined) - usize::from(was_quarantined);
        state.not_before = is_quarantined.then(|| now + LONGEST_PAUSE);
        let later = match done {
            Ok(next) => {
                state.failures = 0;
                match next {
                    Next::Rest => None,
                    Next::After(pause) => Some(pause),
                }
            }
            Err(failed) => {
                let backoff = if is_quarantined { quarantine(state.crashes) } else { pause(state.failures) };
                let (controller, error) = (self.controller, failed.cause());
                // Once per backoff step: a key that keeps failing does not fill the log.
                if state.failures == 0 || backoff > pause(state.failures.saturating_sub(1)) {
                    tracing::warn!(controller, %key, error, ?backoff, "reconcile failed; retrying");
                } else {
                    tracing::debug!(controller, %key, error, ?backoff, "reconcile failed; retrying");
                }
                state.failures = state.failures.saturating_add(1);
                Some(backoff)
            }
        };
        match later {
            _ if state.waits && state.not_before.is_none() => self.slots.push(tenant, key, now),
            Some(pause) => {
                let pause = if state.waits { LONGEST_PAUSE } else { pause };
                state.waits = false;
                let at = now + pause.min(MAX_DELAY);
                state.timer = Some(at);
                self.timers.insert((at, key));
            }
            None => drop(self.states.remove(&key)),
        }
    }

    /// Time of the first timer.
    fn wakes(&self) -> Option<Instant> {
        let timer = self.timers.first().map(|(at, _)| *at);
        timer.into_iter().chain(self.slots.wakes()).min()
    }

    fn wake(&mut self, now: Instant, tenant_of: impl Fn(&K) -> String) {
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
fn pause(failures: u32) -> Duration {
    LONGEST_PAUSE.min(PAUSE.saturating_mul(2_u32.saturating_pow(failures)))
}

/// Delay after this many consecutive panics and exceeded deadlines.
fn quarantine(crashes: u32) -> Duration {
    let steps = crashes.saturating_sub(QUARANTINED_AFTER).saturating_add(1);
    LONGEST_QUARANTINE.min(LONGEST_PAUSE.saturating_mul(2_u32.saturating_pow(steps)))
}

#[cfg(test)]
mod tests;
