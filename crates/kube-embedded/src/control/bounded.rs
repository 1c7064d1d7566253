//! Bounded concurrency: many writes at once, but not all.

use futures::StreamExt as _;
use futures::stream;

/// Writes under way at once. Each holds a document and a place in the store's queue.
pub(super) const AT_ONCE: usize = 64;

/// Waits for all futures, at most [`AT_ONCE`] at a time; outcomes are in the order of the futures. The futures themselves
/// are made at once: for more than a few thousand objects, go through them in chunks.
pub(super) async fn join_bounded<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let futures: Vec<F> = futures.into_iter().collect();
    stream::iter(futures).buffered(AT_ONCE).collect().await
}

/// The same for outcomes without a value. All futures are run, and the first error is returned.
pub(super) async fn try_join_bounded<E, F: Future<Output = Result<(), E>>>(
    futures: impl IntoIterator<Item = F>,
) -> Result<(), E> {
    let futures: Vec<F> = futures.into_iter().collect();
    let running = stream::iter(futures).buffered(AT_ONCE);
    running.fold(Ok(()), |first: Result<(), E>, outcome| std::future::ready(first.and(outcome))).await
}
