//! A clock that stands still until it is moved; the same for our rooms and for the embedded cluster.

use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube_embedded::clock;

/// Stands still until it is moved.
#[derive(Clone)]
pub struct HeldClock(Arc<clock::HeldClock>);

impl HeldClock {
    pub fn at(now: Timestamp) -> Self {
        Self(clock::HeldClock::at(now))
    }

    /// At `2026-01-02T03:04:05Z`.
    pub fn new() -> Self {
        Self::at(Timestamp::from_second(1_767_323_045).unwrap())
    }

    pub fn advance(&self, by: SignedDuration) {
        self.0.advance(by);
    }
}

impl Default for HeldClock {
    fn default() -> Self {
        Self::new()
    }
}

impl domain::clock::Clock for HeldClock {
    fn now(&self) -> Timestamp {
        clock::Clock::now(&*self.0)
    }
}

impl clock::Clock for HeldClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn wait_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        self.0.wait_until(at)
    }
}
