//! The health of a store: whether it accepts writes, and if not, why.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::Shared;
use super::reserve::Reserve;

/// The error of writes while the disk is full.
pub(super) const DISK_FULL_MESSAGE: &str = "the disk is full; delete objects, or free space on it";

pub(super) struct StoreHealth {
    /// Why writes are rejected until a restart.
    closed_reason: OnceLock<String>,
    /// Whether the process must exit.
    exit_required: watch::Sender<bool>,
    /// The error of the last write.
    last_error: Mutex<Option<String>>,
    /// The reserve is in use: only removals are accepted.
    low: AtomicBool,
    reserve: Mutex<Option<Reserve>>,
    /// The server starts: every write may use the reserve.
    starting: AtomicBool,
}

impl StoreHealth {
    pub fn new(reserve: Option<Reserve>) -> Self {
        Self {
            closed_reason: OnceLock::new(),
            exit_required: watch::Sender::new(false),
            last_error: Mutex::default(),
            low: AtomicBool::new(false),
            reserve: Mutex::new(reserve),
            starting: AtomicBool::new(false),
        }
    }
}

impl Shared {
    /// Records the outcome of the last write.
    pub(super) fn record_write(&self, error: Option<String>) {
        *self.health.last_error.lock() = error;
    }

    /// Rejects all further writes and requests the end of the process, because the content of the file is unknown.
    pub(super) fn fail(&self, why: &str) {
        if self.health.closed_reason.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the store has failed");
        }
        self.health.exit_required.send_replace(true);
    }

    /// Rejects all further writes; reads continue.
    pub(super) fn detach(&self, why: &str) {
        if self.health.closed_reason.set(why.to_owned()).is_ok() {
            tracing::error!(why, "the store accepts no more writes");
        }
    }

    pub(super) fn closed_reason(&self) -> Option<&str> {
        self.health.closed_reason.get().map(String::as_str)
    }

    /// Why some or all writes are rejected.
    pub(super) fn problem(&self) -> Option<String> {
        if let Some(why) = self.health.closed_reason.get() {
            return Some(why.clone());
        }
        if self.is_low() {
            return Some(format!("only deletions are accepted: {DISK_FULL_MESSAGE}"));
        }
        self.health.last_error.lock().clone()
    }

    pub(super) fn subscribe_failed(&self) -> watch::Receiver<bool> {
        self.health.exit_required.subscribe()
    }

    pub(super) fn is_low(&self) -> bool {
        self.health.low.load(Ordering::SeqCst)
    }

    pub(super) fn is_starting(&self) -> bool {
        self.health.starting.load(Ordering::SeqCst)
    }

    pub(super) fn set_starting(&self, starting: bool) {
        self.health.starting.store(starting, Ordering::SeqCst);
    }

    /// Releases a part of the reserve to the disk; `false` if none is left. The store is low from now on.
    pub(super) fn release_reserve(&self) -> bool {
        let mut guard = self.health.reserve.lock();
        let Some(reserve) = guard.as_mut() else { return false };
        self.health.low.store(true, Ordering::SeqCst);
        reserve.release().unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot release the store's reserve");
            false
        })
    }

    /// Refills the reserve if the disk has enough space; otherwise the store stays low.
    pub(super) fn fill_reserve(&self) {
        let mut guard = self.health.reserve.lock();
        let Some(reserve) = guard.as_mut() else { return };
        if reserve.is_full() {
            self.health.low.store(false, Ordering::SeqCst);
            return;
        }
        let filled = reserve.fill();
        let was_low = self.health.low.swap(filled.is_err(), Ordering::SeqCst);
        match filled {
            Ok(()) if was_low => tracing::info!("the store has room again"),
            Err(error) if !was_low => {
                tracing::warn!(%error, "the store has no reserve: only deletions are accepted");
            }
            _ => {}
        }
    }
}
