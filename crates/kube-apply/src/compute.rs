//! Runs work on large objects off the async workers, so that these stay responsive.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

/// Limits of values and text bytes up to which objects are processed inline, about one millisecond of work.
const INLINE_VALUES: usize = 4 << 10;
const INLINE_BYTES: usize = 256 << 10;

/// A pool that shares its threads fairly among tenants.
pub trait ComputePool: Send + Sync {
    /// Runs `work`, or drops it if it cannot be run. Dropping the future before the work has started may drop the work.
    fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()>;
}

/// Executor of work on large objects: a pool, or blocking threads without a limit for programs with one user.
#[derive(Clone, Default)]
pub struct Compute(Option<Arc<dyn ComputePool>>);

impl Compute {
    pub fn on_pool(pool: impl ComputePool + 'static) -> Self {
        Self(Some(Arc::new(pool)))
    }

    /// Runs `work` inline, or on another thread if it is `large`. Dropping the future does not stop work that has
    /// started.
    pub async fn run<T: Send + 'static>(&self, large: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
        if !large {
            return work();
        }
        let (sender, result) = oneshot::channel();
        // A dropped receiver has no use for the result.
        let work = move || drop(sender.send(catch_unwind(AssertUnwindSafe(work))));
        match &self.0 {
            Some(pool) => pool.run(Box::new(work)).await,
            None => drop(spawn_blocking(work)),
        }
        match result.await.expect("a pool runs all work that is waited for") {
            Ok(done) => done,
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Whether objects together exceed the inline limits. Stops counting at the limits.
pub(crate) fn are_large<'v>(objects: impl IntoIterator<Item = &'v Value>) -> bool {
    let mut budget = InlineBudget { values: INLINE_VALUES, bytes: INLINE_BYTES };
    !objects.into_iter().all(|object| budget.consume(object).is_some())
}

struct InlineBudget {
    values: usize,
    bytes: usize,
}

impl InlineBudget {
    fn consume(&mut self, value: &Value) -> Option<()> {
        self.values = self.values.checked_sub(1)?;
        match value {
            Value::String(text) => self.consume_text(text),
            Value::Array(items) => items.iter().try_for_each(|item| self.consume(item)),
            Value::Object(fields) => fields.iter().try_for_each(|(key, value)| {
                self.consume_text(key)?;
                self.consume(value)
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Some(()),
        }
    }

    fn consume_text(&mut self, text: &str) -> Option<()> {
        self.bytes = self.bytes.checked_sub(text.len())?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::{future, thread};

    use futures::FutureExt;
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn large_objects_are_processed_on_blocking_threads() {
        let small = json!({"data": {"a": "b"}});
        let long = json!({"data": {"a": "x".repeat(INLINE_BYTES)}});
        let many: Value = (0..INLINE_VALUES).map(Value::from).collect();
        let here = thread::current().id();
        for (object, large) in [(&small, false), (&long, true), (&many, true)] {
            assert_eq!(are_large([object]), large);
            let there = Compute::default().run(are_large([object]), || thread::current().id()).await;
            assert_eq!(there != here, large);
        }
        assert!(are_large((0..INLINE_VALUES).map(|_| &small)), "many small objects are large together");
    }
    /// Runs work on a thread of its own, and counts it.
    #[derive(Clone, Default)]
    struct CountingPool(Arc<AtomicUsize>);

    impl ComputePool for CountingPool {
        fn run(&self, work: Box<dyn FnOnce() + Send>) -> BoxFuture<'_, ()> {
            self.0.fetch_add(1, Ordering::Relaxed);
            thread::spawn(work);
            future::ready(()).boxed()
        }
    }

    #[tokio::test]
    async fn large_work_runs_on_the_pool_and_passes_on_its_panic() {
        let pool = CountingPool::default();
        let compute = Compute::on_pool(pool.clone());
        assert_eq!((compute.run(false, || 1).await, pool.0.load(Ordering::Relaxed)), (1, 0));
        assert_eq!((compute.run(true, || 2).await, pool.0.load(Ordering::Relaxed)), (2, 1));
        let panicked =
            AssertUnwindSafe(compute.run::<()>(true, || panic!("of the work"))).catch_unwind().await;
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"of the work"));
    }
}
