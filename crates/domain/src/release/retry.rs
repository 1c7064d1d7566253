//! Retry policy of failed operations.
//!
//! Permanent failures are not retried until the spec changes. All others are retried a few times with exponential
//! backoff.

use std::time::Duration;

use crate::failure::{Kind, Retry};

/// Maximum number of attempts.
pub const ATTEMPTS: i64 = 5;
pub const PAUSE: Duration = Duration::from_secs(10);
pub const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// No retry until the desired state changes.
    GiveUp,
    TryAgain(Duration),
}

/// Decides after the `attempts`-th consecutive failure of this kind. `retries` is the limit from the spec, which
/// replaces the default of [`ATTEMPTS`]. A negative limit means unlimited retries, of permanent failures too.
pub fn then(kind: Kind, attempts: i64, retries: Option<i64>) -> Then {
    let helps = kind.retry() != Retry::Never;
    let left = match retries {
        None => helps && attempts < ATTEMPTS,
        Some(retries) if retries < 0 => true,
        Some(retries) => helps && attempts <= retries,
    };
    if left { Then::TryAgain(pause(attempts)) } else { Then::GiveUp }
}

/// Backoff after this many consecutive failures.
fn pause(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(1, 32) - 1).unwrap_or_default();
    LONGEST_PAUSE.min(PAUSE.saturating_mul(2_u32.saturating_pow(doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_tried_five_times_and_the_rest_once() {
        let seconds: Vec<_> =
            (1..=ATTEMPTS).map(|attempts| then(Kind::Unavailable, attempts, None)).collect();
        let again = |seconds| Then::TryAgain(Duration::from_secs(seconds));
        assert_eq!(seconds, [again(10), again(20), again(40), again(80), Then::GiveUp]);
        for kind in [Kind::Invalid, Kind::Forbidden, Kind::NotFound, Kind::TooLarge, Kind::Unsupported] {
            assert_eq!(then(kind, 1, None), Then::GiveUp, "{kind:?}");
            assert_eq!(then(kind, 1, Some(9)), Then::GiveUp, "{kind:?}");
        }
        for kind in [Kind::Conflict, Kind::Exhausted, Kind::Timeout, Kind::Internal] {
            assert_eq!(then(kind, 1, None), again(10), "{kind:?}");
        }
    }

    #[test]
    fn whoever_says_how_often_is_heard() {
        assert_eq!(then(Kind::Timeout, 1, Some(0)), Then::GiveUp);
        assert_eq!(then(Kind::Timeout, 2, Some(2)), Then::TryAgain(PAUSE * 2));
        assert_eq!(then(Kind::Timeout, 3, Some(2)), Then::GiveUp);
        assert_eq!(then(Kind::Invalid, 1000, Some(-1)), Then::TryAgain(LONGEST_PAUSE));
    }
}
