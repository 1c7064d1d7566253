//! Retry policy of failed operations.
//!
//! Permanent failures are not retried until the spec changes. All others are retried a few times with exponential
//! backoff.

use std::time::Duration;

use crate::error::{ErrorKind, RetryPolicy};

/// Maximum number of attempts.
pub const MAX_ATTEMPTS: i64 = 5;
pub const INITIAL_BACKOFF: Duration = Duration::from_secs(10);
pub const MAX_BACKOFF: Duration = Duration::from_mins(10);

/// What to do after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDecision {
    /// No retry until the desired state changes.
    GiveUp,
    RetryAfter(Duration),
}

/// Decides after the `attempts`-th consecutive failure of this kind. `retries` is the limit from the spec, which
/// replaces the default of [`MAX_ATTEMPTS`]. A negative limit means unlimited retries, of permanent failures too.
pub fn decide_retry(kind: ErrorKind, attempts: i64, retries: Option<i64>) -> RetryDecision {
    let is_retriable = kind.retry_policy() != RetryPolicy::Never;
    let has_retries_left = match retries {
        None => is_retriable && attempts < MAX_ATTEMPTS,
        Some(retries) if retries < 0 => true,
        Some(retries) => is_retriable && attempts <= retries,
    };
    if has_retries_left { RetryDecision::RetryAfter(backoff(attempts)) } else { RetryDecision::GiveUp }
}

/// Backoff after this many consecutive failures.
fn backoff(attempts: i64) -> Duration {
    let doublings = u32::try_from(attempts.clamp(1, 32) - 1).unwrap_or_default();
    MAX_BACKOFF.min(INITIAL_BACKOFF.saturating_mul(2_u32.saturating_pow(doublings)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transient_failures_are_retried_with_backoff_and_permanent_ones_are_not() {
        let seconds: Vec<_> =
            (1..=MAX_ATTEMPTS).map(|attempts| decide_retry(ErrorKind::Unavailable, attempts, None)).collect();
        let retry_after = |seconds| RetryDecision::RetryAfter(Duration::from_secs(seconds));
        assert_eq!(
            seconds,
            [retry_after(10), retry_after(20), retry_after(40), retry_after(80), RetryDecision::GiveUp]
        );
        for kind in [
            ErrorKind::Invalid,
            ErrorKind::Forbidden,
            ErrorKind::NotFound,
            ErrorKind::TooLarge,
            ErrorKind::Unsupported,
        ] {
            assert_eq!(decide_retry(kind, 1, None), RetryDecision::GiveUp, "{kind:?}");
            assert_eq!(decide_retry(kind, 1, Some(9)), RetryDecision::GiveUp, "{kind:?}");
        }
        for kind in [ErrorKind::Conflict, ErrorKind::Exhausted, ErrorKind::Timeout, ErrorKind::Internal] {
            assert_eq!(decide_retry(kind, 1, None), retry_after(10), "{kind:?}");
        }
    }

    #[test]
    fn retry_limit_of_the_spec_replaces_the_default() {
        assert_eq!(decide_retry(ErrorKind::Timeout, 1, Some(0)), RetryDecision::GiveUp);
        assert_eq!(
            decide_retry(ErrorKind::Timeout, 2, Some(2)),
            RetryDecision::RetryAfter(INITIAL_BACKOFF * 2)
        );
        assert_eq!(decide_retry(ErrorKind::Timeout, 3, Some(2)), RetryDecision::GiveUp);
        assert_eq!(decide_retry(ErrorKind::Invalid, 1000, Some(-1)), RetryDecision::RetryAfter(MAX_BACKOFF));
    }
}
