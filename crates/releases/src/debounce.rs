//! Debounce of status writes.
//!
//! A release in progress changes its message several times within seconds, and its request copies each message. Statuses in progress are
//! therefore written after a delay, which mostly leaves the final one; a final status is written at once. Requests have a longer delay,
//! because the API reads the state of a release from the release.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

use domain::release::ReleaseState;
use domain::status::StatusCategory;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The delay for releases and for requests.
pub(crate) const RELEASE_DELAY: Duration = Duration::from_secs(3);
pub(crate) const REQUEST_DELAY: Duration = Duration::from_secs(10);

/// Since when each key has had an unwritten status.
pub(crate) struct StatusDebounce<K> {
    delay: Duration,
    since: Mutex<HashMap<K, Instant>>,
}

impl<K> StatusDebounce<K> {
    pub fn new(later: Duration) -> Self {
        Self { delay: later, since: Mutex::default() }
    }
}

impl<K: Hash + Eq + Clone> StatusDebounce<K> {
    /// The remaining delay before a status with this state is written. `None` means that it is due, and resets the delay of the key.
    pub fn remaining_delay(&self, key: &K, state: &str) -> Option<Duration> {
        let is_in_progress =
            state.parse().is_ok_and(|state: ReleaseState| state.category() == StatusCategory::Moving);
        let mut since = self.since.lock();
        if is_in_progress {
            let now = Instant::now();
            let since = since.entry(key.clone()).or_insert(now);
            let left = self.delay.saturating_sub(now.duration_since(*since));
            if left > Duration::ZERO {
                return Some(left);
            }
        }
        since.remove(key);
        None
    }

    pub fn remove(&self, key: &K) {
        self.since.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn in_progress_statuses_are_debounced_and_final_ones_are_not() {
        const SOON: Duration = RELEASE_DELAY;
        let soon = StatusDebounce::new(SOON);
        assert_eq!(soon.remaining_delay(&"a", "creating"), Some(SOON));
        advance(SOON / 3).await;
        assert_eq!(soon.remaining_delay(&"a", "created"), Some(SOON * 2 / 3));
        assert_eq!(soon.remaining_delay(&"b", "active"), None);
        advance(SOON).await;
        assert_eq!(soon.remaining_delay(&"a", "created"), None);
        // The next status in progress has its own delay.
        assert_eq!(soon.remaining_delay(&"a", "upgrading"), Some(SOON));
        assert_eq!(soon.remaining_delay(&"a", "failed"), None);
        assert_eq!(soon.remaining_delay(&"a", "upgrading"), Some(SOON));
    }
}
