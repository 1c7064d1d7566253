//! When it is told how something does that moves.
//!
//! A release that moves says so several times within seconds, with other words each time, and its request copies them.
//! So what moves is told after a little while, and then mostly of the end; what has come to rest is told at once. A request has
//! more time: whoever wants to know how a release does is answered from the release.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use domain::release::State;
use domain::status::Family;
use parking_lot::Mutex;
use tokio::time::Instant;

/// So much later a release may tell it, and a request.
pub(crate) const OF_RELEASE: Duration = Duration::from_secs(3);
pub(crate) const OF_REQUEST: Duration = Duration::from_secs(10);

/// Since when there has been something to tell of what moves.
pub(crate) struct Soon<K> {
    later: Duration,
    since: Mutex<HashMap<K, Instant>>,
}

impl<K> Soon<K> {
    pub fn new(later: Duration) -> Self {
        Self { later, since: Mutex::default() }
    }
}

impl<K: Hash + Eq + Clone> Soon<K> {
    /// How long it is still to wait until it is told that something is in this state; nothing if it is due, and then the next
    /// time has its own wait.
    pub fn wait(&self, key: &K, state: &str) -> Option<Duration> {
        let moves = state.parse().is_ok_and(|state: State| state.family() == Family::Moving);
        let mut since = self.since.lock();
        if moves {
            let now = Instant::now();
            let since = since.entry(key.clone()).or_insert(now);
            let left = self.later.saturating_sub(now.duration_since(*since));
            if left > Duration::ZERO {
                return Some(left);
            }
        }
        since.remove(key);
        None
    }

    pub fn forget(&self, key: &K) {
        self.since.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_moves_is_told_later_and_what_rests_at_once() {
        const SOON: Duration = OF_RELEASE;
        let soon = Soon::new(SOON);
        assert_eq!(soon.wait(&"a", "creating"), Some(SOON));
        advance(SOON / 3).await;
        assert_eq!(soon.wait(&"a", "created"), Some(SOON * 2 / 3));
        assert_eq!(soon.wait(&"b", "active"), None);
        advance(SOON).await;
        assert_eq!(soon.wait(&"a", "created"), None);
        // What moves on has its own time.
        assert_eq!(soon.wait(&"a", "upgrading"), Some(SOON));
        assert_eq!(soon.wait(&"a", "failed"), None);
        assert_eq!(soon.wait(&"a", "upgrading"), Some(SOON));
    }
}
