//! Work by key: what is due, once; what failed, again after a pause.
//!
//! A controller hands in the keys of what changed and a pass over one of them. A key waits at most once however often
//! it is handed in, and is never worked on twice at the same time; handed in during its pass, it is due again after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Display;
use std::pin::pin;
use std::time::Duration;

use futures::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::time::{Instant, sleep_until};

use super::runtime::{isolate, runtime};

/// The pause after a first failure; each further one of the same key doubles it.
pub const PAUSE: Duration = Duration::from_millis(200);
pub const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Upper bound of every delay. A key that asks for a longer one is reconciled earlier, which is always correct.
const MAX_DELAY: Duration = Duration::from_hours(24 * 30);

/// When a key is due again after a pass that succeeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When it is handed in again.
    Rest,
    /// After so long, or when it is handed in again.
    After(Duration),
}

/// Passes over every key that is handed in, over so many at once. Ends when the keys do and all that was due is done.
///
/// A panic in `sync` is an error of that key: it is logged, counted for `controller`, and tried again with backoff, and the other keys go on.
pub async fn run<K, E>(
    controller: &'static str,
    keys: impl Stream<Item = K>,
    at_once: usize,
    sync: impl AsyncFn(&K) -> Result<Next, E>,
) where
    K: Ord + Clone + Display,
    E: Display,
{
    let mut keys = pin!(keys.fuse());
    let mut due = Due::default();
    let mut passes = FuturesUnordered::new();
    loop {
        while passes.len() < at_once.max(1)
            && let Some(key) = due.begin()
        {
            passes.push(async {
                let done = isolate(sync(&key)).await;
                (key, done)
            });
        }
        if keys.is_done() && passes.is_empty() {
            return;
        }
        let wakes = due.wakes();
        tokio::select! {
            key = keys.next(), if !keys.is_done() => key.into_iter().for_each(|key| due.add(key)),
            Some((key, done)) = passes.next(), if !passes.is_empty() => {
                let done = match done {
                    Ok(Ok(next)) => Ok(next),
                    Ok(Err(error)) => {
                        runtime().count_error(controller, false);
                        Err(error.to_string())
                    }
                    Err(panicked) => {
                        runtime().count_error(controller, true);
                        Err(panicked.to_string())
                    }
                };
                due.end(controller, key, done, Instant::now());
            }
            () = sleep_until(wakes.unwrap_or_else(Instant::now)), if wakes.is_some() => due.wake(Instant::now()),
            else => {}
        }
    }
}

/// Which keys are due, under way, or due later.
struct Due<K> {
    waiting: VecDeque<K>,
    states: BTreeMap<K, State>,
    timers: BTreeSet<(Instant, K)>,
}

#[derive(Default)]
struct State {
    waits: bool,
    under_way: bool,
    timer: Option<Instant>,
    failures: u32,
}

impl<K> Default for Due<K> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), states: BTreeMap::new(), timers: BTreeSet::new() }
    }
}

impl<K: Ord + Clone + Display> Due<K> {
    fn add(&mut self, key: K) {
        let state = self.states.entry(key.clone()).or_default();
        if let Some(at) = state.timer.take() {
            self.timers.remove(&(at, key.clone()));
        }
        if !state.waits {
            state.waits = true;
            if !state.under_way {
                self.waiting.push_back(key);
            }
        }
    }

    /// The next key to pass over.
    fn begin(&mut self) -> Option<K> {
        let key = self.waiting.pop_front()?;
        let state = self.states.entry(key.clone()).or_default();
        (state.waits, state.under_way) = (false, true);
        Some(key)
    }

    fn end(&mut self, controller: &'static str, key: K, done: Result<Next, String>, now: Instant) {
        let state = self.states.entry(key.clone()).or_default();
        state.under_way = false;
        let later = match done {
            Ok(next) => {
                state.failures = 0;
                match next {
                    Next::Rest => None,
                    Next::After(pause) => Some(pause),
                }
            }
            Err(error) => {
                let backoff = pause(state.failures);
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
            _ if state.waits => self.waiting.push_back(key),
            Some(pause) => {
                let at = now + pause.min(MAX_DELAY);
                state.timer = Some(at);
                self.timers.insert((at, key));
            }
            None => drop(self.states.remove(&key)),
        }
    }

    /// When the first timer is over.
    fn wakes(&self) -> Option<Instant> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn wake(&mut self, now: Instant) {
        while let Some((at, key)) = self.timers.pop_first() {
            if at > now {
                self.timers.insert((at, key));
                return;
            }
            self.add(key);
        }
    }
}

/// The pause after that many failures before this one.
fn pause(failures: u32) -> Duration {
    LONGEST_PAUSE.min(PAUSE.saturating_mul(2_u32.saturating_pow(failures)))
}

#[cfg(test)]
mod tests;
