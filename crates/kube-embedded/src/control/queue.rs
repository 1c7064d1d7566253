//! The loop that every controller has: wake on a change, look again at what it may concern.
//!
//! A key waits at most once; while it is looked at, a further change makes it due again afterwards.
//! A pass that fails is repeated after a pause that doubles up to [`LONGEST_PAUSE`]. Nothing polls.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use super::{Context, Failure};
use crate::store::{Event, Key};

/// How many keys one controller looks at together, so that their writes share a commit.
const AT_ONCE: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// When to look at a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// When something changes.
    Rest,
    After(Duration),
}

pub(super) trait Controller: Send + Sync + 'static {
    /// All keys that may need work: asked at the start, and when changes were missed.
    fn everything(&self, context: &Context) -> Vec<Key>;

    /// The keys that a change may concern.
    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>);

    /// Looks at one key and brings it one step nearer to what it should be.
    fn sync(&self, context: &Context, key: &Key) -> impl Future<Output = Result<Next, Failure>> + Send;
}

pub(super) async fn run(context: Arc<Context>, controller: impl Controller) {
    let mut feed = context.store.follow_all();
    let mut queue = Queue::default();
    let mut running = FuturesUnordered::new();
    let mut keys = controller.everything(&context);
    loop {
        keys.drain(..).for_each(|key| queue.add(key));
        while running.len() < AT_ONCE
            && let Some(key) = queue.take(Instant::now())
        {
            let (controller, context) = (&controller, &context);
            running.push(async move {
                let outcome = controller.sync(context, &key).await;
                (key, outcome)
            });
        }
        let wake = queue.next_due().filter(|_| running.len() < AT_ONCE);
        tokio::select! {
            changes = feed.next() => {
                if let Ok(changes) = changes {
                    for (storage, event) in &changes {
                        controller.touched(&context, storage, event, &mut keys);
                    }
                } else {
                    feed = context.store.follow_all();
                    keys = controller.everything(&context);
                }
            }
            Some((key, outcome)) = running.next(), if !running.is_empty() => {
                if let Err(error) = &outcome {
                    tracing::debug!(%error, ?key, "a controller will try again");
                }
                queue.finish(key, &outcome, Instant::now());
            }
            () = tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => {}
        }
    }
}

/// Which keys are due, now or later.
#[derive(Default)]
struct Queue {
    due: BTreeSet<Key>,
    later: BTreeSet<(Instant, Key)>,
    /// The entry of each key in `later`; it has one at most.
    pauses: HashMap<Key, Instant>,
    /// Being looked at; `true` when changed meanwhile.
    busy: HashMap<Key, bool>,
    failures: HashMap<Key, u32>,
}

impl Queue {
    fn add(&mut self, key: Key) {
        match self.busy.get_mut(&key) {
            Some(again) => *again = true,
            None => drop(self.due.insert(key)),
        }
    }

    fn take(&mut self, now: Instant) -> Option<Key> {
        while self.next_due().is_some_and(|at| at <= now) {
            let Some((_, key)) = self.later.pop_first() else { break };
            self.pauses.remove(&key);
            self.add(key);
        }
        let key = self.due.pop_first()?;
        // It is looked at before its pause is over, and will say anew when to look again.
        if let Some(at) = self.pauses.remove(&key) {
            self.later.remove(&(at, key.clone()));
        }
        self.busy.insert(key.clone(), false);
        Some(key)
    }

    fn next_due(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    fn finish(&mut self, key: Key, outcome: &Result<Next, Failure>, now: Instant) {
        let again = self.busy.remove(&key).unwrap_or(false);
        if outcome.is_ok() {
            self.failures.remove(&key);
        }
        match outcome {
            // One that fails waits even if it changed meanwhile: else two writers could spin.
            Err(_) => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let pause = pause_after(*failures);
                self.put_off(key, now + pause);
            }
            Ok(_) if again => drop(self.due.insert(key)),
            Ok(Next::After(pause)) => self.put_off(key, now + *pause),
            Ok(Next::Rest) => {}
        }
    }

    fn put_off(&mut self, key: Key, at: Instant) {
        self.pauses.insert(key.clone(), at);
        self.later.insert((at, key));
    }
}

fn pause_after(failures: u32) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_looked_at_once_at_a_time_and_pauses_grow() {
        let key = Key::new(&"configmaps".into(), "n", "a");
        let mut queue = Queue::default();
        let now = Instant::now();
        queue.add(key.clone());
        queue.add(key.clone());
        assert_eq!(queue.take(now), Some(key.clone()));
        queue.add(key.clone());
        assert_eq!(queue.take(now), None, "it is being looked at");
        queue.finish(key.clone(), &Ok(Next::Rest), now);
        assert_eq!(queue.take(now), Some(key.clone()), "it changed meanwhile");
        let failed = || Err(Failure::Api(crate::error::ApiError::internal("no")));
        queue.finish(key.clone(), &failed(), now);
        assert_eq!((queue.take(now), queue.next_due()), (None, Some(now + FIRST_PAUSE)));
        assert_eq!(queue.take(now + FIRST_PAUSE), Some(key.clone()));
        queue.finish(key.clone(), &failed(), now);
        assert_eq!(queue.next_due(), Some(now + FIRST_PAUSE * 2));
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
        queue.add(key.clone());
        assert_eq!(queue.take(now), Some(key.clone()), "a change does not wait for the pause to end");
        assert_eq!(queue.next_due(), None);
        queue.finish(key.clone(), &Ok(Next::After(FIRST_PAUSE)), now);
        assert_eq!(queue.take(now + FIRST_PAUSE), Some(key));
    }
}
