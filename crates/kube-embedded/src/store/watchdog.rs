//! The watchdog thread: checks the file's identity and refills the reserve between writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Shared;
use super::identity::FileIdentity;

const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Handle of the watchdog thread. Dropping it stops the thread.
pub(super) struct Watchdog {
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub fn start(identity: Option<Arc<FileIdentity>>, shared: Arc<Shared>) -> std::io::Result<Self> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = std::thread::Builder::new().name("store-watchdog".to_owned());
        let thread = thread.spawn(move || {
            while !stop.load(Ordering::SeqCst) {
                if let Some(Err(why)) = identity.as_ref().map(|identity| identity.check()) {
                    shared.detach(&why);
                }
                shared.fill_reserve();
                std::thread::park_timeout(CHECK_INTERVAL);
            }
        })?;
        Ok(Self { stopping, thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join(); // it has nothing that could panic
        }
    }
}
