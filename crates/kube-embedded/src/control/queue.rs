//! The loop that every controller has: wake on a change, look again at what it may concern.
//!
//! A key waits at most once; while it is looked at, a further change makes it due again afterwards. A pass may ask
//! to be repeated at a time of the cluster's clock; one that fails is repeated after a real pause that doubles up to
//! [`LONGEST_PAUSE`]. Nothing polls.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::rest::Post;
use super::{Context, Failure};
use crate::store::{Event, Key};

/// How many keys one controller looks at together, so that their writes share a commit.
const AT_ONCE: usize = 64;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// When to look at a key again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// When something changes.
    Rest,
    /// Then at the latest.
    At(Timestamp),
    After(Duration),
}

impl Next {
    /// The earlier of two reasons to look again.
    pub(crate) fn or_at(self, at: Option<Timestamp>, now: Timestamp) -> Self {
        match (self.time(now), at) {
            (Some(a), Some(b)) => Self::At(a.min(b)),
            (Some(at), None) | (None, Some(at)) => Self::At(at),
            (None, None) => Self::Rest,
        }
    }

    fn time(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Rest => None,
            Self::At(at) => Some(at),
            Self::After(pause) => Some(
                SignedDuration::try_from(pause)
                    .map_or(Timestamp::MAX, |p| now.saturating_add(p).unwrap_or(Timestamp::MAX)),
            ),
        }
    }
}

pub(crate) trait Controller: Send + Sync + 'static {
    /// All keys that may need work: asked at the start, and when changes were missed.
    fn everything(&self, context: &Context) -> Vec<Key>;

    /// The keys that a change may concern.
    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>);

    /// Looks at one key and brings it one step nearer to what it should be.
    fn sync(&self, context: &Context, key: &Key) -> impl Future<Output = Result<Next, Failure>> + Send;
}

/// `post` is told what the controller has seen and whether it rests.
pub(crate) async fn run(context: Arc<Context>, controller: impl Controller, post: Post) {
    let mut feed = context.store.follow_all();
    let mut queue = Queue::default();
    let mut running = FuturesUnordered::new();
    let mut keys = controller.everything(&context);
    loop {
        let now = context.clock.now();
        keys.drain(..).for_each(|key| queue.add(key));
        while running.len() < AT_ONCE
            && let Some(key) = queue.take(Instant::now(), now)
        {
            let (controller, context) = (&controller, &context);
            running.push(async move {
                let outcome = controller.sync(context, &key).await;
                (key, outcome)
            });
        }
        let free = running.len() < AT_ONCE;
        let (retry, planned) = (queue.next_retry().filter(|_| free), queue.next_planned().filter(|_| free));
        if running.is_empty() && !queue.retries_soon() {
            post.rests(feed.position(), planned);
        } else {
            post.works();
        }
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
                queue.finish(key, &outcome, Instant::now(), context.clock.now());
            }
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
            () = context.clock.wait_until(planned.unwrap_or_default()), if planned.is_some() => {}
        }
    }
}

/// Which keys are due, now or later.
#[derive(Default)]
struct Queue {
    due: BTreeSet<Key>,
    /// Failed, and tried again then.
    retries: Agenda<Instant>,
    /// Asked to be looked at then.
    planned: Agenda<Timestamp>,
    /// Being looked at; `true` when changed meanwhile.
    busy: HashMap<Key, bool>,
    failures: HashMap<Key, u32>,
}

/// Keys by the time at which they are due; each has one entry at most.
struct Agenda<T> {
    times: BTreeSet<(T, Key)>,
    entries: HashMap<Key, T>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Self { times: BTreeSet::new(), entries: HashMap::new() }
    }
}

impl<T: Ord + Copy> Agenda<T> {
    fn put(&mut self, key: Key, at: T) {
        self.remove(&key);
        self.entries.insert(key.clone(), at);
        self.times.insert((at, key));
    }

    fn remove(&mut self, key: &Key) {
        if let Some(at) = self.entries.remove(key) {
            self.times.remove(&(at, key.clone()));
        }
    }

    fn next(&self) -> Option<T> {
        self.times.first().map(|(at, _)| *at)
    }

    fn take(&mut self, now: T) -> Option<Key> {
        if self.next()? > now {
            return None;
        }
        let (_, key) = self.times.pop_first()?;
        self.entries.remove(&key);
        Some(key)
    }
}

impl Queue {
    fn add(&mut self, key: Key) {
        match self.busy.get_mut(&key) {
            Some(again) => *again = true,
            None => drop(self.due.insert(key)),
        }
    }

    fn take(&mut self, moment: Instant, now: Timestamp) -> Option<Key> {
        while let Some(key) = self.retries.take(moment) {
            self.add(key);
        }
        while let Some(key) = self.planned.take(now) {
            self.add(key);
        }
        let key = self.due.pop_first()?;
        // It is looked at before its time, and will say anew when to look again.
        self.retries.remove(&key);
        self.planned.remove(&key);
        self.busy.insert(key.clone(), false);
        Some(key)
    }

    fn next_retry(&self) -> Option<Instant> {
        self.retries.next()
    }

    fn next_planned(&self) -> Option<Timestamp> {
        self.planned.next()
    }

    /// A key that has failed a few times only may get through at the next attempt.
    fn retries_soon(&self) -> bool {
        self.retries.entries.keys().any(|key| self.failures.get(key).is_some_and(|times| *times < 6))
    }

    fn finish(&mut self, key: Key, outcome: &Result<Next, Failure>, moment: Instant, now: Timestamp) {
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
                self.retries.put(key, moment + pause);
            }
            Ok(_) if again => drop(self.due.insert(key)),
            Ok(next) => {
                if let Some(at) = next.time(now) {
                    self.planned.put(key, at);
                }
            }
        }
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
        let (moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        queue.add(key.clone());
        queue.add(key.clone());
        assert_eq!(queue.take(moment, now), Some(key.clone()));
        queue.add(key.clone());
        assert_eq!(queue.take(moment, now), None, "it is being looked at");
        queue.finish(key.clone(), &Ok(Next::Rest), moment, now);
        assert_eq!(queue.take(moment, now), Some(key.clone()), "it changed meanwhile");
        let failed = || Err(Failure::Api(crate::error::ApiError::internal("no")));
        queue.finish(key.clone(), &failed(), moment, now);
        assert_eq!((queue.take(moment, now), queue.next_retry()), (None, Some(moment + FIRST_PAUSE)));
        assert_eq!(queue.take(moment + FIRST_PAUSE, now), Some(key.clone()));
        queue.finish(key.clone(), &failed(), moment, now);
        assert_eq!(queue.next_retry(), Some(moment + FIRST_PAUSE * 2));
        assert_eq!(pause_after(u32::MAX), LONGEST_PAUSE);
        queue.add(key.clone());
        assert_eq!(queue.take(moment, now), Some(key.clone()), "a change does not wait for the pause to end");
        assert_eq!(queue.next_retry(), None);
        queue.finish(key.clone(), &Ok(Next::After(Duration::from_secs(1))), moment, now);
        let later = now + SignedDuration::from_secs(1);
        assert_eq!((queue.take(moment, now), queue.next_planned()), (None, Some(later)));
        assert_eq!(queue.take(moment, later), Some(key));
    }

    #[test]
    fn the_earlier_reason_wins() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(Next::Rest.or_at(None, at(0)), Next::Rest);
        assert_eq!(Next::Rest.or_at(Some(at(5)), at(0)), Next::At(at(5)));
        assert_eq!(Next::After(Duration::from_secs(3)).or_at(Some(at(5)), at(0)), Next::At(at(3)));
    }
}
