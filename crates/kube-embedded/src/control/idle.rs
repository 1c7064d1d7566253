//! Idle tracking: detects when all controllers have processed all changes.
//!
//! Each controller reports the version it has processed, and the time of its next planned reconcile. All are idle
//! when each has processed the newest version and no reconcile is due. Tests with a manual clock wait for that.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::Clock;
use crate::store::Store;

#[derive(Clone, Copy, Default)]
enum IdleState {
    #[default]
    Busy,
    Idle {
        seen: u64,
        until: Option<Timestamp>,
    },
}

#[derive(Default)]
struct TrackerInner {
    states: Mutex<Vec<IdleState>>,
    changed: Notify,
}

/// The idle state of all controllers.
#[derive(Clone, Default)]
pub(crate) struct IdleTracker(Arc<TrackerInner>);

/// The handle by which one controller reports its state.
pub(crate) struct IdleHandle {
    tracker: IdleTracker,
    index: usize,
}

impl IdleTracker {
    pub(crate) fn register(&self) -> IdleHandle {
        let mut posts = self.0.states.lock();
        posts.push(IdleState::Busy);
        IdleHandle { tracker: self.clone(), index: posts.len() - 1 }
    }

    /// Resolves when all controllers are idle.
    pub(crate) async fn wait_until_idle(&self, store: &Store, clock: &dyn Clock) {
        loop {
            let changed = self.0.changed.notified();
            let (version, now) = (store.version(), clock.now());
            let rests = |standing: &IdleState| match standing {
                IdleState::Busy => false,
                IdleState::Idle { seen, until } => *seen >= version && until.is_none_or(|at| at > now),
            };
            if self.0.states.lock().iter().all(rests) && store.version() == version {
                return;
            }
            changed.await;
        }
    }
}

impl IdleHandle {
    pub(crate) fn set_busy(&self) {
        self.set_state(IdleState::Busy);
    }

    /// Reports that all changes up to `seen` are processed and that the next reconcile is planned at `until`.
    pub(crate) fn set_idle(&self, seen: u64, until: Option<Timestamp>) {
        self.set_state(IdleState::Idle { seen, until });
    }

    fn set_state(&self, standing: IdleState) {
        self.tracker.0.states.lock()[self.index] = standing;
        self.tracker.0.changed.notify_waiters();
    }
}
