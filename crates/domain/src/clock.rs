//! Wall-clock time behind a trait, so that tests can control it.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

/// The source of wall-clock time.
pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The system clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Returns `at + by`, saturating. Durations come from objects, and the operator `+` panics on overflow.
pub fn saturating_add(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturating_add_stops_at_the_last_timestamp() {
        for at in [Timestamp::MIN, Timestamp::UNIX_EPOCH, Timestamp::MAX] {
            assert_eq!(saturating_add(at, Duration::MAX), Timestamp::MAX);
            assert_eq!(saturating_add(at, Duration::ZERO), at);
        }
        let second = Timestamp::from_second(1).unwrap();
        assert_eq!(saturating_add(Timestamp::UNIX_EPOCH, Duration::from_secs(1)), second);
    }
}
