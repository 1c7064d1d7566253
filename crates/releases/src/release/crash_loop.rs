//! Quarantine of releases whose operations keep being interrupted.
//!
//! The status names an operation from before it begins until it ends. An operation that a reconcile finds there was interrupted: the
//! process died, or the reconcile panicked or exceeded its deadline. [`HelmReleaseStatus::interruptions`] counts interruptions in a row
//! for one generation of the spec.
//!
//! Preparation, which fetches the chart and the values, handles content of a tenant as well. If an action may follow,
//! [`HelmReleaseStatus::preparing`] names the generation beforehand, so that a crash during preparation is counted too. Preparing a
//! settled release writes nothing.
//!
//! A release that was merely in flight when another one crashed the process is counted too. It gets a short backoff and then succeeds,
//! which resets the count.
//!
//! Pure: no I/O, no clock.

use std::time::Duration;

use jiff::Timestamp;
use kube_types::{HelmRelease, HelmReleaseStatus};

/// Interruptions in a row after which a release is quarantined.
pub(super) const MAX_INTERRUPTIONS: i64 = 5;
/// The backoff of the first quarantine; each further interruption doubles it.
const INITIAL_BACKOFF: Duration = Duration::from_mins(1);
const MAX_BACKOFF: Duration = Duration::from_hours(1);

/// The backoff for a release whose last operation or preparation was interrupted. `None` if nothing was interrupted, or too few in a row.
/// `ended`: this process finished the preparation that the status names.
pub(super) fn quarantine_backoff(
    status: Option<&HelmReleaseStatus>,
    generation: Option<i64>,
    ended: bool,
) -> Option<Duration> {
    let is_preparing = |status: &HelmReleaseStatus| generation.is_some() && status.preparing == generation;
    let interrupted =
        |status: &&HelmReleaseStatus| status.operation.is_some() || (is_preparing(status) && !ended);
    let status = status.filter(interrupted)?;
    // A new spec starts with a fresh count.
    let is_same = status.observed_generation == generation || is_preparing(status);
    let before = if is_same { status.interruptions } else { 0 };
    let doublings = u32::try_from(before.saturating_add(1).saturating_sub(MAX_INTERRUPTIONS).min(32)).ok()?;
    Some(MAX_BACKOFF.min(INITIAL_BACKOFF.saturating_mul(2_u32.saturating_pow(doublings))))
}

/// Whether a reconcile may have to act, as far as the status shows: the spec changed, a retry is due, or the last attempt was
/// interrupted.
pub(super) fn may_need_action(release: &HelmRelease, now: Timestamp) -> bool {
    let Some(status) = &release.status else { return true };
    status.observed_generation != release.metadata.generation
        || status.operation.is_some()
        || status.preparing.is_some()
        || status.next_retry_time.as_ref().is_some_and(|due| due.0 <= now)
}

/// The status before the preparation of a generation. Only `preparing` and `interruptions` change.
pub(super) fn preparing_status(
    status: Option<&HelmReleaseStatus>,
    generation: Option<i64>,
) -> HelmReleaseStatus {
    let mut status = status.cloned().unwrap_or_default();
    if generation.is_some() && status.preparing == generation {
        status.interruptions = status.interruptions.saturating_add(1);
    } else if status.observed_generation != generation {
        status.interruptions = 0;
    }
    status.preparing = generation;
    status
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube_types::release::status::CurrentOperation;

    use super::*;

    #[test]
    fn release_is_quarantined_after_five_interruptions_with_growing_pauses() {
        let at = Time(Timestamp::UNIX_EPOCH);
        let operation =
            CurrentOperation { id: String::new(), kind: String::new(), started_at: at.clone(), deadline: at };
        let status = |interruptions, operation| HelmReleaseStatus {
            interruptions,
            operation,
            observed_generation: Some(1),
            ..HelmReleaseStatus::default()
        };
        let minutes = |interruptions| {
            let pause =
                quarantine_backoff(Some(&status(interruptions, Some(operation.clone()))), Some(1), false);
            pause.map(|pause| pause.as_secs() / 60)
        };
        assert_eq!(
            [0, 1, 3, 4, 5, 6, 9, i64::MAX].map(minutes),
            [None, None, None, Some(1), Some(2), Some(4), Some(32), Some(60)]
        );
        assert_eq!(
            quarantine_backoff(Some(&status(9, None)), Some(1), false),
            None,
            "the last operation ended"
        );
        assert_eq!(
            quarantine_backoff(Some(&status(9, Some(operation))), Some(2), false),
            None,
            "the spec is another"
        );
        assert_eq!(quarantine_backoff(None, Some(1), false), None);
    }

    #[test]
    fn interrupted_preparations_of_one_generation_are_counted() {
        let mut status = HelmReleaseStatus { interruptions: 9, ..HelmReleaseStatus::default() };
        for death in 1..MAX_INTERRUPTIONS {
            status = preparing_status(Some(&status), Some(2));
            assert_eq!(quarantine_backoff(Some(&status), Some(2), false), None, "after {death}");
        }
        status = preparing_status(Some(&status), Some(2));
        assert_eq!(quarantine_backoff(Some(&status), Some(2), false), Some(INITIAL_BACKOFF));
        assert_eq!(quarantine_backoff(Some(&status), Some(2), true), None, "this process ended it");
        assert_eq!(quarantine_backoff(Some(&status), Some(3), false), None, "the spec is another");
        assert_eq!(
            (preparing_status(Some(&status), Some(3)).interruptions, status.interruptions),
            (0, MAX_INTERRUPTIONS - 1)
        );
    }
}
