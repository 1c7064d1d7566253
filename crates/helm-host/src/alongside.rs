//! Scoped work on a second thread.

use std::thread;

/// The template parser recurses as deep as blocks nest.
const THREAD_STACK_SIZE: usize = 8 << 20;

/// Runs `work`, and if `is_worthwhile`, `background` on another thread at the same time. If no thread can be started,
/// `background` does not run, so `work` must not depend on it.
pub fn run_alongside<T>(
    is_worthwhile: bool,
    background: impl FnOnce() + Send,
    work: impl FnOnce() -> T,
) -> T {
    thread::scope(|scope| {
        let _ = is_worthwhile
            .then(|| thread::Builder::new().stack_size(THREAD_STACK_SIZE).spawn_scoped(scope, background));
        work()
    })
}
