//! The controller runtime: work queue, reconcile loop, retries.
//!
//! A key is queued at most once; a change during its reconcile queues it again afterwards. A reconcile may request a repetition at a
//! time of the cluster's clock. A failed one is retried after a real-time backoff that doubles up to [`MAX_BACKOFF`], or to
//! [`MAX_CLUSTER_BACKOFF`] if the cause may end without a change of the object. A change triggers a reconcile at once and shortens
//! the following backoff. Nothing polls. Namespaces take turns, so that the objects of one do not delay the objects of another; keys
//! of one namespace are reconciled first in, first out.
//!
//! A panic is an error of the reconciled key: it is logged, counted, recorded as an Event and retried with
//! backoff. It does not end the controller.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::events::InvolvedObject;
use super::health::panic_message;
use super::idle::IdleHandle;
use super::{Context, ReconcileError};
use crate::store::{Event, Key};

/// Maximum number of concurrent reconciles of one controller, so that their writes share a commit.
const MAX_CONCURRENT_RECONCILES: usize = 64;
const MIN_BACKOFF: Duration = Duration::from_millis(5);
/// Maximum backoff for failures caused by the object itself: it panics, is invalid or takes too long.
const MAX_BACKOFF: Duration = Duration::from_mins(5);
/// Maximum backoff for failures that other changes may resolve: the store, a quota, a conflict.
const MAX_CLUSTER_BACKOFF: Duration = Duration::from_secs(30);
/// The failure count after a change: the next backoff is about a second.
const FAILURES_AFTER_CHANGE: u32 = 8;

/// When to reconcile a key again (kube-rs: `Action`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// On the next change.
    AwaitChange,
    /// At this time at the latest.
    RequeueAt(Timestamp),
    RequeueAfter(Duration),
}

impl Action {
    /// Returns the earlier of two times.
    pub(crate) fn or_at(self, at: Option<Timestamp>, now: Timestamp) -> Self {
        match (self.requeue_time(now), at) {
            (Some(a), Some(b)) => Self::RequeueAt(a.min(b)),
            (Some(at), None) | (None, Some(at)) => Self::RequeueAt(at),
            (None, None) => Self::AwaitChange,
        }
    }

    fn requeue_time(self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::AwaitChange => None,
            Self::RequeueAt(at) => Some(at),
            Self::RequeueAfter(pause) => Some(
                SignedDuration::try_from(pause)
                    .map_or(Timestamp::MAX, |p| now.saturating_add(p).unwrap_or(Timestamp::MAX)),
            ),
        }
    }
}

pub(crate) trait Controller: Send + Sync + 'static {
    /// Returns all keys that may need work: called at the start, and when changes were missed.
    fn initial_keys(&self, context: &Context) -> Vec<Key>;

    /// Adds the keys that a change may affect.
    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>);

    /// Reconciles one key: brings it one step closer to its desired state.
    fn reconcile(
        &self,
        context: &Context,
        key: &Key,
    ) -> impl Future<Output = Result<Action, ReconcileError>> + Send;
}

/// The name of a controller in logs, metrics and health reports: `workloads/job/Jobs`.
pub(crate) fn controller_name<C: Controller>() -> String {
    let path = std::any::type_name::<C>();
    let path = path.strip_prefix("kube_embedded::").unwrap_or(path);
    path.strip_prefix("control::").unwrap_or(path).replace("::", "/")
}

/// Runs a controller. `idle_handle` is updated with the observed version and whether the controller is idle.
pub(crate) async fn run<C: Controller>(
    context: Arc<Context>,
    controller: Arc<C>,
    idle_handle: Arc<IdleHandle>,
) {
    let mut feed = context.store.watch_all();
    let mut queue = WorkQueue::default();
    let mut running = FuturesUnordered::new();
    let mut keys = controller.initial_keys(&context);
    loop {
        let now = context.clock.now();
        keys.drain(..).for_each(|key| queue.add(key));
        while running.len() < MAX_CONCURRENT_RECONCILES
            && let Some(key) = queue.take(Instant::now(), now)
        {
            let (controller, context) = (controller.as_ref(), context.as_ref());
            running.push(async move {
                let outcome = reconcile_catching_panics(controller, context, &key).await;
                (key, outcome)
            });
        }
        let free = running.len() < MAX_CONCURRENT_RECONCILES;
        let (retry, planned) = (queue.next_retry().filter(|_| free), queue.next_scheduled().filter(|_| free));
        if running.is_empty() && !queue.has_early_retry() {
            idle_handle.set_idle(feed.position(), planned);
        } else {
            idle_handle.set_busy();
        }
        tokio::select! {
            changes = feed.next() => {
                let known = if let Ok(changes) = changes {
                    enqueue_affected(controller.as_ref(), &context, &changes, &mut keys)
                } else {
                    feed = context.store.watch_all();
                    false
                };
                if !known {
                    keys = controller.initial_keys(&context);
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

/// Reconciles one key. A panic becomes [`ReconcileError::Panic`].
async fn reconcile_catching_panics<C: Controller>(
    controller: &C,
    context: &Context,
    key: &Key,
) -> Result<Action, ReconcileError> {
    let caught = AssertUnwindSafe(async { controller.reconcile(context, key).await }).catch_unwind().await;
    caught.unwrap_or_else(|panic| {
        let (name, reason) = (controller_name::<C>(), panic_message(panic.as_ref()));
        tracing::error!(controller = name, ?key, reason, "reconcile panicked");
        context.metrics.record_panic(&name);
        if let Some(object) = context.store.get(&key.storage, &key.namespace, &key.name) {
            let about = InvolvedObject::from_object(&object);
            let message = format!("Internal error in {name}; the object is retried with backoff");
            context.events.warning("controllermanager", about, "ReconcilePanic", message);
        }
        Err(ReconcileError::Panic(reason))
    })
}

/// Adds the keys that `changes` affect. Returns `false` if that is unknown because a handler panicked.
fn enqueue_affected<C: Controller>(
    controller: &C,
    context: &Context,
    changes: &[(Arc<str>, Event)],
    keys: &mut Vec<Key>,
) -> bool {
    let mut known = true;
    for (storage, event) in changes {
        let touched = || controller.keys_for_event(context, storage, event, keys);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(touched)) {
            let (name, reason) = (controller_name::<C>(), panic_message(panic.as_ref()));
            let object = &event.object;
            tracing::error!(controller = name, %storage, %object.namespace, %object.name, reason, "event handler panicked");
            context.metrics.record_panic(&name);
            known = false;
        }
    }
    known
}

/// The work queue: which keys are due, now or later.
#[derive(Default)]
struct WorkQueue {
    due: DueKeys,
    /// Failed keys, by the time of the next attempt.
    retries: DelayQueue<Instant>,
    /// Keys by the time that their reconcile requested.
    scheduled: DelayQueue<Timestamp>,
    /// Keys that are being reconciled; `true` if they have changed since.
    reconciling: HashMap<Key, bool>,
    failures: HashMap<Key, u32>,
}

/// Keys that are due, each once. Namespaces take turns; keys of one namespace are first in, first out.
#[derive(Default)]
struct DueKeys {
    /// The namespaces of `keys`, in the order of their turns.
    namespaces: VecDeque<Box<str>>,
    /// No queue is empty.
    keys: HashMap<Box<str>, VecDeque<Key>>,
    /// All keys in `keys`.
    queued: HashSet<Key>,
}

impl DueKeys {
    fn push(&mut self, key: Key) {
        if !self.queued.insert(key.clone()) {
            return;
        }
        let of_namespace = self.keys.entry(key.namespace.clone()).or_default();
        if of_namespace.is_empty() {
            self.namespaces.push_back(key.namespace.clone());
        }
        of_namespace.push_back(key);
    }

    fn pop(&mut self) -> Option<Key> {
        let namespace = self.namespaces.pop_front()?;
        let of_namespace = self.keys.get_mut(&namespace)?;
        let key = of_namespace.pop_front()?;
        if of_namespace.is_empty() {
            self.keys.remove(&namespace);
        } else {
            self.namespaces.push_back(namespace);
        }
        self.queued.remove(&key);
        Some(key)
    }
}

/// Keys by the time at which they are due; at most one entry per key.
struct DelayQueue<T> {
    times: BTreeSet<(T, Key)>,
    entries: HashMap<Key, T>,
}

impl<T> Default for DelayQueue<T> {
    fn default() -> Self {
        Self { times: BTreeSet::new(), entries: HashMap::new() }
    }
}

impl<T: Ord + Copy> DelayQueue<T> {
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

impl WorkQueue {
    /// Adds a key after a change.
    fn add(&mut self, key: Key) {
        if let Some(again) = self.reconciling.get_mut(&key) {
            *again = true;
            return;
        }
        if self.retries.entries.contains_key(&key)
            && let Some(failures) = self.failures.get_mut(&key)
        {
            *failures = (*failures).min(FAILURES_AFTER_CHANGE);
        }
        self.due.push(key);
    }

    fn take(&mut self, moment: Instant, now: Timestamp) -> Option<Key> {
        // A key in these queues is not busy: it is removed when it is taken.
        while let Some(key) = self.retries.take(moment) {
            self.due.push(key);
        }
        while let Some(key) = self.scheduled.take(now) {
            self.due.push(key);
        }
        let key = self.due.pop()?;
        // The key is reconciled early; the reconcile requests its next time again.
        self.retries.remove(&key);
        self.scheduled.remove(&key);
        self.reconciling.insert(key.clone(), false);
        Some(key)
    }

    fn next_retry(&self) -> Option<Instant> {
        self.retries.next()
    }

    fn next_scheduled(&self) -> Option<Timestamp> {
        self.scheduled.next()
    }

    /// Whether a key with only a few failures waits for a retry that may succeed soon.
    fn has_early_retry(&self) -> bool {
        self.retries.entries.keys().any(|key| self.failures.get(key).is_some_and(|times| *times < 6))
    }

    fn finish(
        &mut self,
        key: Key,
        outcome: &Result<Action, ReconcileError>,
        moment: Instant,
        now: Timestamp,
    ) {
        let again = self.reconciling.remove(&key).unwrap_or(false);
        if outcome.is_ok() {
            self.failures.remove(&key);
        }
        match outcome {
            // A failed key waits even if it has changed: otherwise two writers could spin.
            Err(failure) => {
                let failures = self.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                let pause = backoff_after(*failures, max_backoff(failure));
                self.retries.put(key, moment + pause);
            }
            Ok(_) if again => self.due.push(key),
            Ok(next) => {
                if let Some(at) = next.requeue_time(now) {
                    self.scheduled.put(key, at);
                }
            }
        }
    }
}

fn backoff_after(failures: u32, longest: Duration) -> Duration {
    MIN_BACKOFF.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(longest)
}

fn max_backoff(failure: &ReconcileError) -> Duration {
    match failure {
        ReconcileError::Commit(_) => MAX_CLUSTER_BACKOFF,
        // Quota exceeded, conflict, or the cluster cannot serve.
        ReconcileError::Api(error) if matches!(error.code, 403 | 409 | 429 | 500 | 503 | 507) => {
            MAX_CLUSTER_BACKOFF
        }
        ReconcileError::Api(_) | ReconcileError::Panic(_) => MAX_BACKOFF,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_reconciled_once_at_a_time_and_backoff_grows() {
        let key = Key::new(&"configmaps".into(), "n", "a");
        let mut queue = WorkQueue::default();
        let (moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        queue.add(key.clone());
        queue.add(key.clone());
        assert_eq!(queue.take(moment, now), Some(key.clone()));
        queue.add(key.clone());
        assert_eq!(queue.take(moment, now), None, "it is being looked at");
        queue.finish(key.clone(), &Ok(Action::AwaitChange), moment, now);
        assert_eq!(queue.take(moment, now), Some(key.clone()), "it changed meanwhile");
        let failed = || Err(ReconcileError::Api(crate::error::ApiError::internal("no")));
        queue.finish(key.clone(), &failed(), moment, now);
        assert_eq!((queue.take(moment, now), queue.next_retry()), (None, Some(moment + MIN_BACKOFF)));
        assert_eq!(queue.take(moment + MIN_BACKOFF, now), Some(key.clone()));
        queue.finish(key.clone(), &failed(), moment, now);
        assert_eq!(queue.next_retry(), Some(moment + MIN_BACKOFF * 2));
        queue.add(key.clone());
        assert_eq!(queue.take(moment, now), Some(key.clone()), "a change does not wait for the pause to end");
        assert_eq!(queue.next_retry(), None);
        queue.finish(key.clone(), &Ok(Action::RequeueAfter(Duration::from_secs(1))), moment, now);
        let later = now + SignedDuration::from_secs(1);
        assert_eq!((queue.take(moment, now), queue.next_scheduled()), (None, Some(later)));
        assert_eq!(queue.take(moment, later), Some(key));
    }

    #[test]
    fn keys_are_taken_in_the_order_in_which_they_became_due() {
        let key = |name: &str| Key::new(&"configmaps".into(), "n", name);
        let mut queue = WorkQueue::default();
        for name in ["z", "a", "m", "z"] {
            queue.add(key(name));
        }
        let (moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let mut taken = || queue.take(moment, now).map(|key| key.name.to_string());
        assert_eq!([taken(), taken(), taken(), taken()].map(Option::unwrap_or_default), ["z", "a", "m", ""]);
    }

    #[test]
    fn queue_of_one_namespace_does_not_delay_the_key_of_another() {
        let key = |namespace: &str, name: String| Key::new(&"deployments.apps".into(), namespace, &name);
        let mut queue = WorkQueue::default();
        (0..10_000).for_each(|n| queue.add(key("greedy", n.to_string())));
        queue.add(key("other", "a".to_owned()));
        queue.add(key("other", "b".to_owned()));
        let (moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let mut taken = || queue.take(moment, now).map(|key| format!("{}/{}", key.namespace, key.name));
        let first: Vec<String> = (0..6).filter_map(|_| taken()).collect();
        assert_eq!(first, ["greedy/0", "other/a", "greedy/1", "other/b", "greedy/2", "greedy/3"]);
        assert_eq!((0..20_000).filter(|_| taken().is_some()).count(), 10_002 - 6);
        assert!(queue.due.keys.is_empty() && queue.due.namespaces.is_empty() && queue.due.queued.is_empty());
    }

    #[test]
    fn backoff_of_failing_key_grows_to_minutes_and_shrinks_after_a_change() {
        let key = Key::new(&"configmaps".into(), "n", "a");
        let mut queue = WorkQueue::default();
        let (mut moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let panicked = || Err(ReconcileError::Panic("no".to_owned()));
        queue.add(key.clone());
        let mut fail = |queue: &mut WorkQueue, outcome: &Result<Action, ReconcileError>| {
            moment = queue.next_retry().unwrap_or(moment);
            let key = queue.take(moment, now).expect("it is due");
            queue.finish(key, outcome, moment, now);
            queue.next_retry().expect("it failed").duration_since(moment)
        };
        for _ in 0..30 {
            fail(&mut queue, &panicked());
        }
        assert_eq!(fail(&mut queue, &panicked()), MAX_BACKOFF);
        let refused = Err(ReconcileError::Api(crate::error::ApiError::internal("no")));
        assert_eq!(fail(&mut queue, &refused), MAX_CLUSTER_BACKOFF);
        queue.add(key);
        assert!(fail(&mut queue, &panicked()) < Duration::from_secs(2));
    }

    #[test]
    fn key_is_taken_at_the_earlier_time() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(Action::AwaitChange.or_at(None, at(0)), Action::AwaitChange);
        assert_eq!(Action::AwaitChange.or_at(Some(at(5)), at(0)), Action::RequeueAt(at(5)));
        assert_eq!(
            Action::RequeueAfter(Duration::from_secs(3)).or_at(Some(at(5)), at(0)),
            Action::RequeueAt(at(3))
        );
    }
}
