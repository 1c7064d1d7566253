//! When it is told how something does that moves.
//!
//! A release that moves says so several times within seconds, with other words each time, and its request copies each of them.
//! So what moves is told after a little while, and then mostly of the end; what has come to rest is told at once.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use domain::release::State;
use domain::status::Family;
use parking_lot::Mutex;
use tokio::time::Instant;

/// So much later it may be told.
const SOON: Duration = Duration::from_secs(3);

/// Since when there has been something to tell of what moves.
pub(crate) struct Soon<K>(Mutex<HashMap<K, Instant>>);

impl<K> Default for Soon<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq + Clone> Soon<K> {
    /// How long it is still to wait until it is told that something is in this state; nothing if it is due, and then the next
    /// time has its own wait.
    pub fn wait(&self, key: &K, state: &str) -> Option<Duration> {
        let moves = state.parse().is_ok_and(|state: State| state.family() == Family::Moving);
        let mut since = self.0.lock();
        if moves {
            let now = Instant::now();
            let since = since.entry(key.clone()).or_insert(now);
            let left = SOON.saturating_sub(now.duration_since(*since));
            if left > Duration::ZERO {
                return Some(left);
            }
        }
        since.remove(key);
        None
    }

    pub fn forget(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_moves_is_told_later_and_what_rests_at_once() {
        let soon = Soon::default();
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
