//! Bounded concurrency of API writes.

use futures::StreamExt as _;
use futures::stream;

/// Maximum number of concurrent writes. Each holds a document and a place in the store's queue.
pub(super) const MAX_CONCURRENT_WRITES: usize = 64;

/// Awaits all futures, at most [`MAX_CONCURRENT_WRITES`] at a time; results are in the order of the futures. The futures themselves
/// are created at once: split more than a few thousand objects into chunks.
pub(super) async fn join_bounded<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let futures: Vec<F> = futures.into_iter().collect();
    stream::iter(futures).buffered(MAX_CONCURRENT_WRITES).collect().await
}

/// The same for results without a value. All futures are run, and the first error is returned.
pub(super) async fn try_join_bounded<E, F: Future<Output = Result<(), E>>>(
    futures: impl IntoIterator<Item = F>,
) -> Result<(), E> {
    let futures: Vec<F> = futures.into_iter().collect();
    let running = stream::iter(futures).buffered(MAX_CONCURRENT_WRITES);
    running.fold(Ok(()), |first: Result<(), E>, outcome| std::future::ready(first.and(outcome))).await
}
