//! Supervision of background tasks: a task that panics or returns early is restarted with backoff, and is reported
//! as failing until it is stable.
//!
//! A panic in one reconcile does not end the controller (`queue` isolates it). This module covers everything that a task does besides
//! reconciling.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;

use crate::metrics::Metrics;

const FIRST_BACKOFF: Duration = Duration::from_millis(100);
const MAX_BACKOFF: Duration = Duration::from_secs(30);
/// A restarted task that runs for this long is healthy again.
const STABLE_AFTER: Duration = Duration::from_millis(if cfg!(test) { 1_000 } else { 10_000 });

/// The state of the supervised tasks of a cluster. Cheap to clone; clones share state.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, String>>>);

impl Health {
    /// The tasks that ended and are being restarted, each with the reason. Empty when all tasks run.
    pub fn failing(&self) -> Vec<(String, String)> {
        self.0.lock().iter().map(|(task, reason)| (task.clone(), reason.clone())).collect()
    }

    fn set_failed(&self, task: &str, reason: String) {
        self.0.lock().insert(task.to_owned(), reason);
    }

    fn set_running(&self, task: &str) {
        self.0.lock().remove(task);
    }
}

/// Runs the future that `start` returns, and restarts it each time it ends. Resolves when it has ended and `is_stopped` returns true.
pub(crate) async fn supervise<F>(
    health: Health,
    metrics: Metrics,
    task: String,
    is_stopped: impl Fn() -> bool,
    start: impl Fn() -> F,
) where
    F: Future<Output = ()>,
{
    let mut backoff = FIRST_BACKOFF;
    loop {
        let mut running = std::pin::pin!(AssertUnwindSafe(async { start().await }).catch_unwind());
        let ended = tokio::select! {
            ended = &mut running => ended,
            () = tokio::time::sleep(STABLE_AFTER) => {
                health.set_running(&task);
                backoff = FIRST_BACKOFF;
                running.await
            }
        };
        if is_stopped() {
            health.set_running(&task);
            return;
        }
        let reason = match ended {
            Ok(()) => "it returned although it was not stopped".to_owned(),
            Err(panic) => panic_message(panic.as_ref()),
        };
        tracing::error!(task, reason, "background task ended, restarting");
        metrics.record_task_restart(&task);
        health.set_failed(&task, reason);
        tokio::time::sleep(backoff).await;
        backoff = backoff.saturating_mul(2).min(MAX_BACKOFF);
    }
}

/// The message of a caught panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn panicking_task_is_restarted_and_reported_until_stable() {
        let (health, metrics) = (Health::default(), Metrics::default());
        let starts = Arc::new(AtomicU32::new(0));
        let counted = starts.clone();
        let task = supervise(
            health.clone(),
            metrics.clone(),
            "cache".to_owned(),
            || false,
            move || {
                let start = counted.fetch_add(1, Ordering::SeqCst);
                async move {
                    assert!(start >= 2, "start {start} fails");
                    std::future::pending::<()>().await;
                }
            },
        );
        let task = tokio::spawn(task);
        while starts.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(metrics.task_restart_count(), 2);
        assert_eq!(health.failing(), [("cache".to_owned(), "start 1 fails".to_owned())]);
        while !health.failing().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(starts.load(Ordering::SeqCst), 3);
        task.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_returns_before_the_stop_is_restarted_and_reported() {
        let (health, metrics) = (Health::default(), Metrics::default());
        let (starts, is_stopped) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stopped) = (starts.clone(), is_stopped.clone());
        let returns = move || {
            counted.fetch_add(1, Ordering::SeqCst);
            std::future::ready(())
        };
        let stopped = move || stopped.load(Ordering::SeqCst);
        let task = supervise(health.clone(), metrics.clone(), "cache".to_owned(), stopped, returns);
        let task = tokio::spawn(task);
        while starts.load(Ordering::SeqCst) < 3 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let reason = "it returned although it was not stopped".to_owned();
        assert_eq!(health.failing(), [("cache".to_owned(), reason)]);
        assert!(metrics.task_restart_count() >= 2);
        is_stopped.store(true, Ordering::SeqCst);
        task.await.unwrap();
        assert_eq!(health.failing(), []);
    }
}
