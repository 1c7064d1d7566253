//! Backoff for failed pods of a DaemonSet, per node: created again at once, then after 1 s, 2 s, 4 s, ...
//!
//! In memory only; after a restart at most one attempt comes too early.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(1);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(15);

/// By the set's uid and the node's name: the end of the wait, and its length.
#[derive(Default)]
pub struct FailedPodBackoff(Mutex<HashMap<(String, String), (Timestamp, SignedDuration)>>);

impl FailedPodBackoff {
    /// Whether a pod may be created again now; if so, the next one must wait longer. `Err` is the end of the wait.
    pub fn try_acquire(&self, set: &str, node: &str, now: Timestamp) -> Result<(), Timestamp> {
        let mut waits = self.0.lock();
        waits.retain(|_, (until, _)| now.duration_since(*until) <= MAX_BACKOFF);
        let place = (set.to_owned(), node.to_owned());
        let pause = match waits.get(&place) {
            Some((until, _)) if *until > now => return Err(*until),
            Some((_, pause)) => pause.saturating_mul(2).min(MAX_BACKOFF),
            None => MIN_BACKOFF,
        };
        waits.insert(place, (now.saturating_add(pause).unwrap_or(Timestamp::MAX), pause));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_and_ends() {
        let pace = FailedPodBackoff::default();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(pace.try_acquire("s", "n", at(0)), Ok(()));
        assert_eq!(pace.try_acquire("s", "n", at(0)), Err(at(1)));
        assert_eq!(pace.try_acquire("s", "other", at(0)), Ok(()));
        assert_eq!(pace.try_acquire("s", "n", at(1)), Ok(()));
        assert_eq!(pace.try_acquire("s", "n", at(2)), Err(at(3)));
        assert_eq!(pace.try_acquire("s", "n", at(3)), Ok(()));
        assert_eq!(pace.try_acquire("s", "n", at(4)), Err(at(7)));
        assert_eq!(pace.try_acquire("s", "n", at(4000)), Ok(()), "long ago is forgotten");
        assert_eq!(pace.try_acquire("s", "n", at(4000)), Err(at(4001)));
    }
}
