//! Supervision in paused time.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// A task whose first `failures` runs fail as `fail` does, and whose later runs never end.
fn failing_task(
    failures: usize,
    fail: fn(),
) -> (Arc<AtomicUsize>, impl FnMut() -> futures::future::BoxFuture<'static, ()>) {
    let starts = Arc::new(AtomicUsize::new(0));
    let counted = starts.clone();
    let start = move || {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if run < failures {
                return fail();
            }
            std::future::pending::<()>().await;
        }
        .boxed()
    };
    (starts, start)
}

#[tokio::test(start_paused = true)]
async fn task_that_panics_is_restarted_and_reported_until_it_is_stable() {
    let runtime = TaskRuntime::default();
    let (starts, start) = failing_task(3, || panic!("a secret of some object"));
    let _task = runtime.spawn("cache", "/api/v1/pods", start);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(runtime.failing_tasks(), ["cache /api/v1/pods: panicked, 1 restarts"]);
    // 0.2 s, 0.4 s and 0.8 s of backoff; the last run is stable a second or more later.
    sleep(Duration::from_secs(2)).await;
    assert_eq!(starts.load(Ordering::Relaxed), 4);
    assert_eq!(runtime.failing_tasks(), ["cache /api/v1/pods: panicked, 3 restarts"]);
    sleep(Duration::from_secs(3)).await;
    assert_eq!((starts.load(Ordering::Relaxed), runtime.failing_tasks().len()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn task_that_ends_is_restarted() {
    let runtime = TaskRuntime::default();
    let (starts, start) = failing_task(1, || {});
    let _task = runtime.spawn("sweep", "", start);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(runtime.failing_tasks(), ["sweep: ended, 1 restarts"]);
    sleep(Duration::from_secs(5)).await;
    assert_eq!((starts.load(Ordering::Relaxed), runtime.failing_tasks().len()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn task_that_always_panics_backs_off_and_stays_reported() {
    let runtime = TaskRuntime::default();
    let (starts, start) = failing_task(usize::MAX, || panic!("again"));
    let task = runtime.spawn("controller", "", start);
    for _ in 0..600 {
        sleep(Duration::from_secs(1)).await;
        assert_eq!(runtime.failing_tasks().len(), 1);
    }
    let starts = starts.load(Ordering::Relaxed);
    assert!((20..40).contains(&starts), "{starts} starts in ten minutes");
    drop(task);
    tokio::task::yield_now().await;
    assert!(runtime.failing_tasks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn task_that_ends_while_stopping_is_not_restarted() {
    let (runtime, starts) = (TaskRuntime::default(), AtomicUsize::new(0));
    let start = || async { starts.fetch_add(1, Ordering::Relaxed) };
    runtime.run_until("listener", "", start, || true).await;
    assert_eq!((starts.load(Ordering::Relaxed), runtime.failing_tasks().len()), (1, 0));
}
