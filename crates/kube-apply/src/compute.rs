//! Runs work on large objects on blocking threads, so that async workers stay responsive.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::thread::available_parallelism;

use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Limits of values and text bytes up to which objects are processed inline, about one millisecond of work.
const INLINE_VALUES: usize = 4 << 10;
const INLINE_BYTES: usize = 256 << 10;

/// One slot per processor.
static SLOTS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(available_parallelism().map_or(2, NonZero::get)));

/// Runs `work` inline, or on a blocking thread if it is `large`. Dropping the future does not stop work that has
/// started.
pub(crate) async fn run<T: Send + 'static>(large: bool, work: impl FnOnce() -> T + Send + 'static) -> T {
    if !large {
        return work();
    }
    let slot = SLOTS.acquire().await.expect("the semaphore is never closed");
    let done = spawn_blocking(move || {
        let _slot = slot;
        work()
    });
    match done.await {
        Ok(done) => done,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(error) => unreachable!("work on blocking threads is not cancelled: {error}"),
        },
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
    use std::thread;

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
            let there = run(are_large([object]), || thread::current().id()).await;
            assert_eq!(there != here, large);
        }
        assert!(are_large((0..INLINE_VALUES).map(|_| &small)), "many small objects are large together");
    }
}
