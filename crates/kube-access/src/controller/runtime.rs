//! Supervision of long-running tasks and isolation of panics.
//!
//! [`TaskRuntime::run`] restarts a task that ended or panicked, with exponential backoff. From the failure until the restarted task
//! has been stable for a while, [`TaskRuntime::failing_tasks`] names it; `/readyz` shows that. [`isolate`] turns a panic into an error.
//!
//! Tasks run inside the caller's future, not on a task of their own, unless they are started with [`TaskRuntime::spawn`]. So work that may
//! only be done while a Lease is held is dropped together with it.

use std::any::Any;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use super::slots::SlotUsage;

/// Backoff after the first failure of a task; each further failure doubles it.
const BACKOFF: Duration = Duration::from_millis(200);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A restarted task counts as healthy after this time, or after its last backoff if that was longer.
const STABLE_AFTER: Duration = Duration::from_secs(1);
/// A task that ran for this long starts again with the shortest backoff.
const RESET_AFTER: Duration = Duration::from_mins(1);
/// A controller that has had no slot for a tenant below its share for this long is not healthy.
const STARVED_AFTER: Duration = Duration::from_mins(1);

/// A future panicked. The message is for the log: it may quote an object.
#[derive(Debug, thiserror::Error)]
#[error("panicked: {0}")]
pub struct PanicError(pub String);

impl PanicError {
    fn new(payload: &(dyn Any + Send)) -> Self {
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Self(text.unwrap_or_else(|| "no message".to_owned()))
    }
}

/// Runs a future and returns its panic as an error.
pub async fn isolate<F: Future>(future: F) -> Result<F::Output, PanicError> {
    AssertUnwindSafe(future).catch_unwind().await.map_err(|payload| PanicError::new(&*payload))
}

/// Runs a function and returns its panic as an error.
pub fn isolate_sync<T>(function: impl FnOnce() -> T) -> Result<T, PanicError> {
    std::panic::catch_unwind(AssertUnwindSafe(function)).map_err(|payload| PanicError::new(&*payload))
}

/// The runtime of this process: what `/readyz` and `/metrics` show.
pub fn runtime() -> &'static TaskRuntime {
    static RUNTIME: LazyLock<TaskRuntime> = LazyLock::new(TaskRuntime::default);
    &RUNTIME
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ControllerLabels {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TaskLabels {
    task: &'static str,
}

/// Supervises tasks and counts failures. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub struct TaskRuntime(Arc<RuntimeInner>);

#[derive(Default)]
struct RuntimeInner {
    failing: Mutex<FailingTasks>,
    restarts: Family<TaskLabels, Counter>,
    errors: Family<ControllerLabels, Counter>,
    panics: Family<ControllerLabels, Counter>,
    /// The queues of running controllers, by an id of their own.
    queues: Mutex<BTreeMap<u64, (&'static str, QueueReport)>>,
    queue_gauges: Family<QueueLabels, Gauge>,
}

/// The last report of a queue.
#[derive(Clone, Copy, Debug, Default)]
struct QueueReport {
    usage: SlotUsage,
    quarantined: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    controller: &'static str,
    state: &'static str,
}

/// Tasks that are not healthy, by a unique id, since several may have one name.
#[derive(Default)]
struct FailingTasks {
    next_id: u64,
    tasks: BTreeMap<u64, String>,
}

impl TaskRuntime {
    pub fn register(&self, registry: &mut Registry) {
        let RuntimeInner { restarts, errors, panics, queue_gauges, .. } = &*self.0;
        registry.register("task_restarts", "Tasks restarted after they ended or panicked", restarts.clone());
        registry.register("reconcile_errors", "Reconciles that failed, panics included", errors.clone());
        registry.register(
            "reconcile_panics",
            "Reconciles that panicked or exceeded their deadline",
            panics.clone(),
        );
        registry.register(
            "reconcile_queue",
            "Keys of a controller that wait, run, run for long, or are quarantined",
            queue_gauges.clone(),
        );
    }

    /// One line for each task that ended or panicked and is not stable again, and for each controller that has no slot for a tenant below
    /// its share. The lines contain no object data except the path of a watch.
    pub fn failing_tasks(&self) -> Vec<String> {
        let mut failing: Vec<String> = self.0.failing.lock().tasks.values().cloned().collect();
        let now = Instant::now();
        for (controller, QueueReport { usage, .. }) in self.0.queues.lock().values() {
            let waited = usage.starving_since.map(|since| now.saturating_duration_since(since));
            if let Some(waited) = waited.filter(|waited| *waited >= STARVED_AFTER) {
                failing.push(format!(
                    "controller {controller}: no slot for {} s, {} keys wait",
                    waited.as_secs(),
                    usage.waiting
                ));
            }
        }
        failing
    }

    /// The entry of a controller's queue in the metrics and in [`TaskRuntime::failing_tasks`], until it is dropped.
    pub(super) fn register_queue(&self, controller: &'static str) -> QueueHealth<'_> {
        let mut failing = self.0.failing.lock();
        failing.next_id = failing.next_id.wrapping_add(1);
        QueueHealth { runtime: self, controller, id: failing.next_id }
    }

    /// Runs a task indefinitely. `start` restarts it after each end. `name` labels the metric; `subject` distinguishes tasks of one name.
    ///
    /// Cancel-safe: dropping the future drops the task.
    pub async fn run<F: Future>(
        &self,
        name: &'static str,
        subject: &str,
        start: impl FnMut() -> F,
    ) -> Infallible {
        self.run_until(name, subject, start, || false).await;
        unreachable!("it never stops")
    }

    /// As [`TaskRuntime::run`]; a task that ends once `is_stopping` holds is not restarted.
    pub async fn run_until<F: Future>(
        &self,
        name: &'static str,
        subject: &str,
        mut start: impl FnMut() -> F,
        is_stopping: impl Fn() -> bool,
    ) {
        let health = TaskHealth::new(
            self,
            if subject.is_empty() { name.to_owned() } else { format!("{name} {subject}") },
        );
        let mut backoff = BACKOFF;
        let mut restarts = 0_u64;
        loop {
            let started = Instant::now();
            let ended = {
                let mut task = pin!(isolate(async { start().await }));
                let mut stable = pin!(sleep(STABLE_AFTER.max(backoff)));
                loop {
                    tokio::select! {
                        ended = &mut task => break ended,
                        () = &mut stable, if health.is_failing() => health.set_healthy(),
                    }
                }
            };
            if is_stopping() {
                return;
            }
            if started.elapsed() >= RESET_AFTER {
                backoff = BACKOFF;
            }
            restarts = restarts.saturating_add(1);
            let cause = match &ended {
                Ok(_) => "ended",
                Err(_) => "panicked",
            };
            health.set_failing(&format!("{cause}, {restarts} restarts"));
            self.0.restarts.get_or_create(&TaskLabels { task: name }).inc();
            let error = ended.err().map(|panicked| panicked.0).unwrap_or_default();
            tracing::error!(task = name, subject, error, ?backoff, "task {cause}; restarting it");
            sleep(backoff).await;
            backoff = MAX_BACKOFF.min(backoff.saturating_mul(2));
        }
    }

    /// Runs a task indefinitely on a tokio task of its own, until the handle is dropped.
    #[must_use = "the task ends when the handle is dropped"]
    pub fn spawn<F: Future + Send>(
        &self,
        name: &'static str,
        subject: &str,
        start: impl FnMut() -> F + Send + 'static,
    ) -> TaskHandle
    where
        F::Output: Send,
    {
        let (runtime, subject) = (self.clone(), subject.to_owned());
        let task = async move { match runtime.run(name, &subject, start).await {} };
        TaskHandle(tokio::spawn(task).abort_handle())
    }

    pub(super) fn count_error(&self, controller: &'static str, is_panic: bool) {
        let labels = ControllerLabels { controller };
        self.0.errors.get_or_create(&labels).inc();
        if is_panic {
            self.0.panics.get_or_create(&labels).inc();
        }
    }
}

/// Reports the state of one queue.
pub(super) struct QueueHealth<'a> {
    runtime: &'a TaskRuntime,
    controller: &'static str,
    id: u64,
}

impl QueueHealth<'_> {
    pub fn report(&self, usage: SlotUsage, quarantined: usize) {
        self.runtime.0.queues.lock().insert(self.id, (self.controller, QueueReport { usage, quarantined }));
        self.update_gauges();
    }

    /// Sets the gauges of this controller to the sum of its queues.
    fn update_gauges(&self) {
        let queues = self.runtime.0.queues.lock();
        let mut sum = [0_usize; 4];
        for (_, QueueReport { usage, quarantined }) in
            queues.values().filter(|(controller, _)| *controller == self.controller)
        {
            for (sum, part) in sum.iter_mut().zip([usage.waiting, usage.active, usage.slow, *quarantined]) {
                *sum = sum.saturating_add(part);
            }
        }
        drop(queues);
        for (state, sum) in ["waiting", "active", "slow", "quarantined"].into_iter().zip(sum) {
            let labels = QueueLabels { controller: self.controller, state };
            let value = i64::try_from(sum).unwrap_or(i64::MAX);
            self.runtime.0.queue_gauges.get_or_create(&labels).set(value);
        }
    }
}

impl Drop for QueueHealth<'_> {
    fn drop(&mut self) {
        self.runtime.0.queues.lock().remove(&self.id);
        self.update_gauges();
    }
}

/// A supervised task; dropping it aborts the task.
#[derive(Debug)]
pub struct TaskHandle(AbortHandle);

impl Drop for TaskHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The entry of one task in [`TaskRuntime::failing_tasks`]; removed when the task is dropped.
struct TaskHealth<'a> {
    runtime: &'a TaskRuntime,
    name: String,
    id: u64,
}

impl<'a> TaskHealth<'a> {
    fn new(runtime: &'a TaskRuntime, name: String) -> Self {
        let mut failing = runtime.0.failing.lock();
        failing.next_id = failing.next_id.wrapping_add(1);
        Self { runtime, name, id: failing.next_id }
    }

    fn is_failing(&self) -> bool {
        self.runtime.0.failing.lock().tasks.contains_key(&self.id)
    }

    fn set_failing(&self, cause: &str) {
        self.runtime.0.failing.lock().tasks.insert(self.id, format!("{}: {cause}", self.name));
    }

    fn set_healthy(&self) {
        self.runtime.0.failing.lock().tasks.remove(&self.id);
        tracing::info!(task = self.name, "task is healthy again");
    }
}

impl Drop for TaskHealth<'_> {
    fn drop(&mut self) {
        self.runtime.0.failing.lock().tasks.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;
