//! Where time comes from: one trait, so that tests can hold it.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

/// The source of wall-clock time for everything in this crate.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that stands still until it is moved.
pub struct HeldClock(Mutex<Timestamp>);

impl HeldClock {
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new(now)))
    }

    pub fn advance(&self, by: jiff::SignedDuration) {
        let mut now = self.0.lock();
        *now = now.checked_add(by).expect("a held clock stays within the range of time");
    }
}

impl Clock for HeldClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

/// `2026-01-02T03:04:05Z`: how Kubernetes writes a `Time`.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-01-02T03:04:05.000006Z`: how Kubernetes writes a `MicroTime`.
pub fn rfc3339_micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
