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
enum Standing {
    #[default]
    Works,
    Rests {
        seen: u64,
        until: Option<Timestamp>,
    },
}

#[derive(Default)]
struct Inner {
    posts: Mutex<Vec<Standing>>,
    changed: Notify,
}

/// The idle state of all controllers.
#[derive(Clone, Default)]
pub(crate) struct Posts(Arc<Inner>);

/// The handle by which one controller reports its state.
pub(crate) struct Post {
    posts: Posts,
    index: usize,
}

impl Posts {
    pub(crate) fn add(&self) -> Post {
        let mut posts = self.0.posts.lock();
        posts.push(Standing::Works);
        Post { posts: self.clone(), index: posts.len() - 1 }
    }

    /// Resolves when all controllers are idle.
    pub(crate) async fn rest(&self, store: &Store, clock: &dyn Clock) {
        loop {
            let changed = self.0.changed.notified();
            let (version, now) = (store.version(), clock.now());
            let rests = |standing: &Standing| match standing {
                Standing::Works => false,
                Standing::Rests { seen, until } => *seen >= version && until.is_none_or(|at| at > now),
            };
            if self.0.posts.lock().iter().all(rests) && store.version() == version {
                return;
            }
            changed.await;
        }
    }
}

impl Post {
    pub(crate) fn works(&self) {
        self.put(Standing::Works);
    }

    /// Reports that all changes up to `seen` are processed and that the next reconcile is planned at `until`.
    pub(crate) fn rests(&self, seen: u64, until: Option<Timestamp>) {
        self.put(Standing::Rests { seen, until });
    }

    fn put(&self, standing: Standing) {
        self.posts.0.posts.lock()[self.index] = standing;
        self.posts.0.changed.notify_waiters();
    }
}
