//! When everything that follows from the changes so far has been done.
//!
//! Each controller keeps a post: how far it has seen the changes, and when by the clock it will look again. All of
//! them rest when each has seen the newest change and none is due. Tests with a held clock wait for that.

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

/// The posts of all controllers.
#[derive(Clone, Default)]
pub(crate) struct Posts(Arc<Inner>);

/// The post of one controller.
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

    /// Resolves when all rest.
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

    /// It has dealt with all changes up to `seen` and looks again at `until` by the clock.
    pub(crate) fn rests(&self, seen: u64, until: Option<Timestamp>) {
        self.put(Standing::Rests { seen, until });
    }

    fn put(&self, standing: Standing) {
        self.posts.0.posts.lock()[self.index] = standing;
        self.posts.0.changed.notify_waiters();
    }
}
