//! Priority of threads that run heavy work.

use std::cell::Cell;

/// Added to the nice value of threads with heavy work: they get a tenth of the CPU time of another thread while both are busy.
#[cfg(target_os = "linux")]
const NICE: i32 = 10;

thread_local! {
    static IS_LOWERED: Cell<bool> = const { Cell::new(false) };
}

/// Lowers the priority of this thread and of threads that it starts, for good: while there are more busy threads than processors, async
/// workers go first, so that health checks and small requests are not delayed. Does nothing on systems where priority belongs to the
/// process.
pub fn lower() {
    if IS_LOWERED.replace(true) {
        return;
    }
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{getpriority_process, setpriority_process};
        // Without the permission the work runs at the priority of the process.
        let _ =
            getpriority_process(None).and_then(|nice| setpriority_process(None, nice.saturating_add(NICE)));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_this_thread_is_lowered() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let lowered = std::thread::spawn(move || {
            lower();
            (nice(), std::thread::spawn(nice).join().unwrap())
        });
        assert_eq!(lowered.join().unwrap(), (before + NICE, before + NICE));
        assert_eq!(nice(), before);
    }
}
