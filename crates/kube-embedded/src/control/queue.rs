//! The controller runtime: work queue, reconcile loop, retries.
//!
//! A key is queued at most once; a change during its reconcile queues it again afterwards. A reconcile may request a repetition at a
//! time of the cluster's clock. A failed one is retried after a real-time backoff that doubles up to [`MAX_BACKOFF`], or to
//! [`MAX_CLUSTER_BACKOFF`] if the cause may end without a change of the object. A change triggers a reconcile at once and shortens
//! the following backoff. Nothing polls. Namespaces share slots and time ([`super::due_keys`]).
//!
//! A panic is an error of the reconciled key, and so is an exceeded deadline: it is logged, counted, recorded as an Event and retried with
//! backoff. It does not end the controller. A key that fails so [`QUARANTINE_THRESHOLD`] times in a row is quarantined: changes no longer
//! trigger it at once.
//!
//! All reconciles of a controller share one task. The deadline therefore ends a reconcile only where it awaits something. A computation over
//! many objects yields; the time of one that does not is charged to its namespace.

use std::collections::{BTreeSet, HashMap};
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use super::due_keys::{DueKeys, MAX_CONCURRENT_RECONCILES};
use super::events::InvolvedObject;
use super::health::panic_message;
use super::idle::IdleHandle;
use super::{Context, ReconcileError};
use crate::store::{Event, Key};

/// The default of [`Controller::DEADLINE`]: far above the time for tens of thousands of writes.
const RECONCILE_DEADLINE: Duration = Duration::from_mins(5);
/// Number of consecutive panics and exceeded deadlines after which a key is quarantined.
const QUARANTINE_THRESHOLD: u32 = 5;
/// Minimum time between reconciles of a quarantined key, however often it changes.
const QUARANTINE_INTERVAL: Duration = Duration::from_secs(30);
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
    /// After this real time a reconcile is cancelled and counts as failed.
    const DEADLINE: Duration = RECONCILE_DEADLINE;

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
        keys.drain(..).for_each(|key| queue.add(key, Instant::now()));
        while let Some(key) = queue.take(Instant::now(), now) {
            let (controller, context) = (controller.as_ref(), context.as_ref());
            running.push(async move {
                let (outcome, busy) = measure_busy(reconcile_isolated(controller, context, &key)).await;
                (key, outcome, busy)
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
            Some((key, outcome, busy)) = running.next(), if !running.is_empty() => {
                if let Err(error) = &outcome {
                    tracing::debug!(%error, ?key, "a controller will try again");
                }
                queue.finish(key, busy, &outcome, Instant::now(), context.clock.now());
            }
            () = tokio::time::sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {}
            () = context.clock.wait_until(planned.unwrap_or_default()), if planned.is_some() => {}
        }
    }
}

/// Returns the output of a future, and the time that its polls took.
async fn measure_busy<F: Future>(future: F) -> (F::Output, Duration) {
    let (mut future, mut busy) = (pin!(future), Duration::ZERO);
    let output = poll_fn(|task| {
        let began = Instant::now();
        let polled = future.as_mut().poll(task);
        busy = busy.saturating_add(began.elapsed());
        polled
    });
    (output.await, busy)
}

/// Reconciles one key. A panic becomes [`ReconcileError::Panic`], an exceeded deadline [`ReconcileError::DeadlineExceeded`].
async fn reconcile_isolated<C: Controller>(
    controller: &C,
    context: &Context,
    key: &Key,
) -> Result<Action, ReconcileError> {
    let reconcile = AssertUnwindSafe(async { controller.reconcile(context, key).await }).catch_unwind();
    let name = controller_name::<C>();
    let (reason, message, error) = match tokio::time::timeout(C::DEADLINE, reconcile).await {
        Ok(Ok(outcome)) => return outcome,
        Ok(Err(panic)) => {
            let cause = panic_message(panic.as_ref());
            tracing::error!(controller = name, ?key, reason = cause, "reconcile panicked");
            context.metrics.record_panic(&name);
            let message = format!("Internal error in {name}; the object is retried with backoff");
            ("ReconcilePanic", message, ReconcileError::Panic(cause))
        }
        Err(_) => {
            let seconds = C::DEADLINE.as_secs();
            tracing::error!(controller = name, ?key, seconds, "reconcile exceeded its deadline");
            context.metrics.record_deadline_exceeded(&name);
            let message =
                format!("{name} did not finish within {seconds} s; the object is retried with backoff");
            ("ReconcileDeadlineExceeded", message, ReconcileError::DeadlineExceeded(seconds))
        }
    };
    if let Some(object) = context.store.get(&key.storage, &key.namespace, &key.name) {
        let about = InvolvedObject::from_object(&object);
        context.events.warning("controllermanager", about, reason, message);
    }
    Err(error)
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
    failures: HashMap<Key, Failures>,
}

/// Consecutive failures of a key.
#[derive(Clone, Copy, Default)]
struct Failures {
    count: u32,
    /// Consecutive panics and exceeded deadlines.
    crashes: u32,
    /// A quarantined key is not reconciled before.
    not_before: Option<Instant>,
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
    fn add(&mut self, key: Key, moment: Instant) {
        if let Some(again) = self.reconciling.get_mut(&key) {
            *again = true;
            return;
        }
        if self.retries.entries.contains_key(&key)
            && let Some(failures) = self.failures.get_mut(&key)
        {
            failures.count = failures.count.min(FAILURES_AFTER_CHANGE);
            if let Some(at) = failures.not_before.filter(|at| *at > moment) {
                return self.retries.put(key, at);
            }
        }
        self.due.push(key, moment);
    }

    fn take(&mut self, moment: Instant, now: Timestamp) -> Option<Key> {
        // A key in these queues is not busy: it is removed when it is taken.
        while let Some(key) = self.retries.take(moment) {
            self.due.push(key, moment);
        }
        while let Some(key) = self.scheduled.take(now) {
            self.due.push(key, moment);
        }
        let key = self.due.pop(moment)?;
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
        self.retries
            .entries
            .keys()
            .any(|key| self.failures.get(key).is_some_and(|failures| failures.count < 6))
    }

    /// Ends the reconcile of a key, which has computed for `busy`.
    fn finish(
        &mut self,
        key: Key,
        busy: Duration,
        outcome: &Result<Action, ReconcileError>,
        moment: Instant,
        now: Timestamp,
    ) {
        self.due.release(&key.namespace, busy, moment);
        let again = self.reconciling.remove(&key).unwrap_or(false);
        if outcome.is_ok() {
            self.failures.remove(&key);
        }
        match outcome {
            // A failed key waits even if it has changed: otherwise two writers could spin.
            Err(failure) => {
                let failures = self.failures.entry(key.clone()).or_default();
                failures.count = failures.count.saturating_add(1);
                failures.crashes = if failure.is_crash() { failures.crashes.saturating_add(1) } else { 0 };
                let is_quarantined = failures.crashes >= QUARANTINE_THRESHOLD;
                failures.not_before = is_quarantined.then(|| moment + QUARANTINE_INTERVAL);
                let pause = backoff_after(failures.count, max_backoff(failure));
                let retry = failures.not_before.map_or(moment + pause, |at| at.max(moment + pause));
                self.retries.put(key, retry);
            }
            Ok(_) if again => self.due.push(key, moment),
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
        ReconcileError::Api(_) | ReconcileError::Panic(_) | ReconcileError::DeadlineExceeded(_) => {
            MAX_BACKOFF
        }
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
        queue.add(key.clone(), moment);
        queue.add(key.clone(), moment);
        assert_eq!(queue.take(moment, now), Some(key.clone()));
        queue.add(key.clone(), moment);
        assert_eq!(queue.take(moment, now), None, "it is being looked at");
        queue.finish(key.clone(), Duration::ZERO, &Ok(Action::AwaitChange), moment, now);
        assert_eq!(queue.take(moment, now), Some(key.clone()), "it changed meanwhile");
        let failed = || Err(ReconcileError::Api(crate::error::ApiError::internal("no")));
        queue.finish(key.clone(), Duration::ZERO, &failed(), moment, now);
        assert_eq!((queue.take(moment, now), queue.next_retry()), (None, Some(moment + MIN_BACKOFF)));
        assert_eq!(queue.take(moment + MIN_BACKOFF, now), Some(key.clone()));
        queue.finish(key.clone(), Duration::ZERO, &failed(), moment, now);
        assert_eq!(queue.next_retry(), Some(moment + MIN_BACKOFF * 2));
        queue.add(key.clone(), moment);
        assert_eq!(queue.take(moment, now), Some(key.clone()), "a change does not wait for the pause to end");
        assert_eq!(queue.next_retry(), None);
        queue.finish(
            key.clone(),
            Duration::ZERO,
            &Ok(Action::RequeueAfter(Duration::from_secs(1))),
            moment,
            now,
        );
        let later = now + SignedDuration::from_secs(1);
        assert_eq!((queue.take(moment, now), queue.next_scheduled()), (None, Some(later)));
        assert_eq!(queue.take(moment, later), Some(key));
    }

    #[test]
    fn keys_are_taken_in_the_order_in_which_they_became_due() {
        let key = |name: &str| Key::new(&"configmaps".into(), "n", name);
        let mut queue = WorkQueue::default();
        let (moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        for name in ["z", "a", "m", "z"] {
            queue.add(key(name), moment);
        }
        let mut taken = || queue.take(moment, now).map(|key| key.name.to_string());
        assert_eq!([taken(), taken(), taken(), taken()].map(Option::unwrap_or_default), ["z", "a", "m", ""]);
    }

    #[test]
    fn queue_of_one_namespace_does_not_delay_the_key_of_another() {
        let key = |namespace: &str, name: String| Key::new(&"deployments.apps".into(), namespace, &name);
        let mut queue = WorkQueue::default();
        let (moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        (0..10_000).for_each(|n| queue.add(key("greedy", n.to_string()), moment));
        queue.add(key("other", "a".to_owned()), moment);
        queue.add(key("other", "b".to_owned()), moment);
        let mut taken = || {
            let key = queue.take(moment, now)?;
            queue.finish(key.clone(), Duration::ZERO, &Ok(Action::AwaitChange), moment, now);
            Some(format!("{}/{}", key.namespace, key.name))
        };
        let first: Vec<String> = (0..6).filter_map(|_| taken()).collect();
        assert_eq!(first, ["greedy/0", "other/a", "greedy/1", "other/b", "greedy/2", "greedy/3"]);
        assert_eq!((0..20_000).filter(|_| taken().is_some()).count(), 10_002 - 6);
    }

    #[test]
    fn backoff_of_failing_key_grows_to_minutes_and_shrinks_after_a_change() {
        let key = Key::new(&"configmaps".into(), "n", "a");
        let mut queue = WorkQueue::default();
        let (mut moment, now) = (Instant::now(), Timestamp::UNIX_EPOCH);
        let panicked = || Err(ReconcileError::Panic("no".to_owned()));
        queue.add(key.clone(), moment);
        let mut fail = |queue: &mut WorkQueue, outcome: &Result<Action, ReconcileError>| {
            moment = queue.next_retry().unwrap_or(moment);
            let key = queue.take(moment, now).expect("it is due");
            queue.finish(key, Duration::ZERO, outcome, moment, now);
            queue.next_retry().expect("it failed").duration_since(moment)
        };
        for _ in 0..30 {
            fail(&mut queue, &panicked());
        }
        assert_eq!(fail(&mut queue, &panicked()), MAX_BACKOFF);
        let refused = Err(ReconcileError::Api(crate::error::ApiError::internal("no")));
        assert_eq!(fail(&mut queue, &refused), MAX_CLUSTER_BACKOFF);
        // `fail` takes the key at its next retry.
        queue.add(key, Instant::now());
        assert!(fail(&mut queue, &panicked()) < Duration::from_secs(2));
    }

    #[test]
    fn key_that_keeps_exceeding_its_deadline_is_quarantined() {
        let key = Key::new(&"configmaps".into(), "n", "a");
        let (mut queue, now) = (WorkQueue::default(), Timestamp::UNIX_EPOCH);
        let mut moment = Instant::now();
        let exceeded = Err(ReconcileError::DeadlineExceeded(300));
        for _ in 0..QUARANTINE_THRESHOLD {
            // Before that, a change triggers a reconcile at once.
            queue.add(key.clone(), moment);
            assert_eq!(queue.take(moment, now), Some(key.clone()));
            queue.finish(key.clone(), Duration::ZERO, &exceeded, moment, now);
        }
        for _ in 0..10 {
            moment += Duration::from_secs(1);
            queue.add(key.clone(), moment);
            assert_eq!(queue.take(moment, now), None, "it is quarantined");
        }
        moment += QUARANTINE_INTERVAL;
        assert_eq!(queue.take(moment, now), Some(key.clone()));
        // A failure of another cause ends the quarantine.
        let refused = Err(ReconcileError::Api(crate::error::ApiError::internal("no")));
        queue.finish(key.clone(), Duration::ZERO, &refused, moment, now);
        queue.add(key.clone(), moment);
        assert_eq!(queue.take(moment, now), Some(key));
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
