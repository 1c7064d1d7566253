//! How soon a failed pod of a DaemonSet is made anew on the same node: at once, then after 1 s, 2 s, 4 s, ...
//!
//! This is kept in memory only. Forgetting it costs one attempt too early.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::HashMap;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

const FIRST: SignedDuration = SignedDuration::from_secs(1);
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// By the set's uid and the node's name: until when to wait, and for how long that was.
#[derive(Default)]
pub struct Pace(Mutex<HashMap<(String, String), (Timestamp, SignedDuration)>>);

impl Pace {
    /// Whether a pod may be made anew now; if so, the next must wait. `Err` says until when.
    pub fn step(&self, set: &str, node: &str, now: Timestamp) -> Result<(), Timestamp> {
        let mut waits = self.0.lock();
        waits.retain(|_, (until, _)| now.duration_since(*until) <= LONGEST);
        let place = (set.to_owned(), node.to_owned());
        let pause = match waits.get(&place) {
            Some((until, _)) if *until > now => return Err(*until),
            Some((_, pause)) => pause.saturating_mul(2).min(LONGEST),
            None => FIRST,
        };
        waits.insert(place, (now.saturating_add(pause).unwrap_or(Timestamp::MAX), pause));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_double_and_end() {
        let pace = Pace::default();
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        assert_eq!(pace.step("s", "n", at(0)), Ok(()));
        assert_eq!(pace.step("s", "n", at(0)), Err(at(1)));
        assert_eq!(pace.step("s", "other", at(0)), Ok(()));
        assert_eq!(pace.step("s", "n", at(1)), Ok(()));
        assert_eq!(pace.step("s", "n", at(2)), Err(at(3)));
        assert_eq!(pace.step("s", "n", at(3)), Ok(()));
        assert_eq!(pace.step("s", "n", at(4)), Err(at(7)));
        assert_eq!(pace.step("s", "n", at(4000)), Ok(()), "long ago is forgotten");
        assert_eq!(pace.step("s", "n", at(4000)), Err(at(4001)));
    }
}
