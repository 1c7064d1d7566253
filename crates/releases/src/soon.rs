//! Debounce of status writes.
//!
//! A release in progress changes its message several times within seconds, and its request copies each message. Statuses in progress are
//! therefore written after a delay, which mostly leaves the final one; a final status is written at once. Requests have a longer delay,
//! because the API reads the state of a release from the release.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use domain::release::State;
use domain::status::Family;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The delay for releases and for requests.
pub(crate) const OF_RELEASE: Duration = Duration::from_secs(3);
pub(crate) const OF_REQUEST: Duration = Duration::from_secs(10);

/// Since when each key has had an unwritten status.
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
    /// The remaining delay before a status with this state is written. `None` means that it is due, and resets the delay of the key.
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
        // The next status in progress has its own delay.
        assert_eq!(soon.wait(&"a", "upgrading"), Some(SOON));
        assert_eq!(soon.wait(&"a", "failed"), None);
        assert_eq!(soon.wait(&"a", "upgrading"), Some(SOON));
    }
}
