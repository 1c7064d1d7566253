//! When an operation that failed is tried again.
//!
//! What cannot succeed by itself is not tried again: it waits for the spec to change. Everything else is tried a few times,
//! each pause twice as long as the last.

use std::time::Duration;

use crate::failure::{Kind, Retry};

/// How often one thing is tried.
pub const ATTEMPTS: i64 = 5;
pub const PAUSE: Duration = Duration::from_secs(10);
pub const LONGEST_PAUSE: Duration = Duration::from_mins(10);

/// What follows a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing, until what is wanted changes.
    GiveUp,
    TryAgain(Duration),
}

/// What follows the `attempts`-th failure in a row, of that kind. `retries` is how often somebody said that it may be tried
/// again: a negative number without end, and then also what only a change could help.
pub fn then(kind: Kind, attempts: i64, retries: Option<i64>) -> Then {
    let helps = kind.retry() != Retry::Never;
    let left = match retries {
        None => helps && attempts < ATTEMPTS,
        Some(retries) if retries < 0 => true,
        Some(retries) => helps && attempts <= retries,
    };
    if left { Then::TryAgain(pause(attempts)) } else { Then::GiveUp }
}

/// The pause after that many failures in a row.
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
