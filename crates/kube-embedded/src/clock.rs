//! The clock: a trait, so that tests can control time.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;

/// The source of wall-clock time for everything in this crate.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;

    /// Resolves at the time `at` or later.
    fn wait_until(&self, at: Timestamp) -> BoxFuture<'static, ()>;
}

/// The system clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn wait_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        // Slightly late rather than early: after waking, `now` must have reached `at`.
        let ahead = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
        tokio::time::sleep(ahead + Duration::from_millis(1)).boxed()
    }
}

/// A manual clock: time advances only when it is set.
pub struct ManualClock(watch::Sender<Timestamp>);

impl ManualClock {
    pub fn starting_at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(watch::Sender::new(now)))
    }

    pub fn advance(&self, by: jiff::SignedDuration) {
        self.0.send_modify(|now| {
            *now = now.checked_add(by).expect("a held clock stays within the range of time");
        });
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn wait_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        let mut moves = self.0.subscribe();
        async move {
            if moves.wait_for(|now| *now >= at).await.is_err() {
                // The clock is dropped: the time is never reached.
                std::future::pending::<()>().await;
            }
        }
        .boxed()
    }
}

/// Formats a Kubernetes `Time`: `2026-01-02T03:04:05Z`.
pub fn rfc3339(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a Kubernetes `MicroTime`: `2026-01-02T03:04:05.000006Z`.
pub fn rfc3339_micro(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}
