//! When a release is quarantined because its operations keep being interrupted.
//!
//! The status names an operation before it begins and until it ends, so an operation that a reconcile finds there was interrupted: the
//! process died, or the reconcile panicked or exceeded its deadline. [`HelmReleaseStatus::interruptions`] counts them in a
//! row, for one generation of the spec. A release that was only in flight when another one stopped the process is
//! counted too; it gets a short pause and then succeeds, which ends the count.
//!
//! Pure.

use std::time::Duration;

use kube_types::HelmReleaseStatus;

/// Interruptions in a row after which a release is quarantined.
pub(super) const LIMIT: i64 = 5;
/// The pause of the first quarantine; each further interruption doubles it.
const PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_hours(1);

/// For how long a release is to be quarantined that was interrupted once more; none where nothing was, or not too often.
pub(super) fn pause(status: Option<&HelmReleaseStatus>, generation: Option<i64>) -> Option<Duration> {
    let status = status.filter(|status| status.operation.is_some())?;
    // Another spec has all its attempts.
    let before = if status.observed_generation == generation { status.interruptions } else { 0 };
    let doublings = u32::try_from(before.saturating_add(1).saturating_sub(LIMIT).min(32)).ok()?;
    Some(LONGEST_PAUSE.min(PAUSE.saturating_mul(2_u32.saturating_pow(doublings))))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube_types::release::status::Operation;

    use super::*;

    #[test]
    fn release_is_quarantined_after_five_interruptions_with_growing_pauses() {
        let at = Time(Timestamp::UNIX_EPOCH);
        let operation =
            Operation { id: String::new(), kind: String::new(), started_at: at.clone(), deadline: at };
        let status = |interruptions, operation| HelmReleaseStatus {
            interruptions,
            operation,
            observed_generation: Some(1),
            ..HelmReleaseStatus::default()
        };
        let minutes = |interruptions| {
            let pause = pause(Some(&status(interruptions, Some(operation.clone()))), Some(1));
            pause.map(|pause| pause.as_secs() / 60)
        };
        assert_eq!(
            [0, 1, 3, 4, 5, 6, 9, i64::MAX].map(minutes),
            [None, None, None, Some(1), Some(2), Some(4), Some(32), Some(60)]
        );
        assert_eq!(pause(Some(&status(9, None)), Some(1)), None, "the last operation ended");
        assert_eq!(pause(Some(&status(9, Some(operation))), Some(2)), None, "the spec is another");
        assert_eq!(pause(None, Some(1)), None);
    }
}
