//! Scoped work on a second thread.

use std::thread;

/// The template parser recurses as deep as blocks nest.
const STACK: usize = 8 << 20;

/// Runs `work`, and if `is_worth`, `aside` on another thread at the same time. If no thread can be started, `aside` does not run, so
/// `work` must not depend on it.
pub fn beside<T>(is_worth: bool, aside: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let _ = is_worth.then(|| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, aside));
        work()
    })
}
