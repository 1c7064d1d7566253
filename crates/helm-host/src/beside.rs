//! Work that another thread does meanwhile.

use std::thread;

/// A parser of templates goes as deep as blocks nest.
const STACK: usize = 8 << 20;

/// Does `work`, and where it is worth a thread `aside` at the same time. Where there is no thread to be had, `work` must
/// do without.
pub fn beside<T>(is_worth: bool, aside: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let _ = is_worth.then(|| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, aside));
        work()
    })
}
