//! Lease rules: what a candidate does about a Lease, and what it writes. Pure: no I/O, no clock.
//!
//! Timestamps in a Lease are informational; wall clocks are never compared. A candidate measures with its own monotonic clock for how
//! long the Lease has been unchanged. A holder measures the time since it sent the last successful renewal. A renewal cannot be observed
//! before it is sent, so a holder that stops after [`STEP_DOWN`] has stopped before any candidate can conclude that [`LEASE`] has passed,
//! whatever the wall clocks show.
//!
//! Two risks remain: clocks whose rates differ by more than a quarter, and a suspended machine, whose monotonic clock stands still. Writes
//! that a former holder must not make therefore carry a `resourceVersion`.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Lease duration without renewal.
pub const LEASE: Duration = Duration::from_secs(10);
/// Maximum duration that a candidate honours, whatever the Lease says: otherwise a client that may write Leases could block an operation
/// indefinitely.
pub const BELIEVED: Duration = Duration::from_mins(1);
/// Renewal interval, and timeout of one call.
pub const RENEW: Duration = Duration::from_millis(3_333);
/// Delay before a failed call is retried.
pub const RETRY: Duration = Duration::from_secs(1);
/// Time without a renewal after which the holder stops its work.
pub const STEP_DOWN: Duration = Duration::from_secs(8);

/// Next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The Lease does not exist.
    Create,
    /// The candidate holds it already, perhaps by a write whose response was lost.
    Renew,
    /// It has no holder, or the holder has not renewed it in time.
    Take,
    /// It is held, and cannot expire before this time has passed.
    Wait(Duration),
}

/// The next action of `me`, given for how long the Lease has been unchanged.
pub fn next(lease: Option<&LeaseSpec>, me: &str, unchanged: Duration) -> Step {
    let Some(lease) = lease else { return Step::Create };
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    let promised =
        lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|&s| s > 0);
    let promised = promised.map_or(LEASE, Duration::from_secs).min(BELIEVED);
    let left = promised.saturating_sub(unchanged);
    match holder {
        "" => Step::Take,
        _ if holder == me => Step::Renew,
        _ if left.is_zero() => Step::Take,
        _ => Step::Wait(left),
    }
}

/// The Lease spec by which `me` takes or renews it.
pub fn held(old: Option<&LeaseSpec>, me: &str, now: Timestamp) -> LeaseSpec {
    let mut lease = old.cloned().unwrap_or_default();
    if lease.holder_identity.as_deref() != Some(me) {
        lease.lease_transitions =
            Some(old.map_or(0, |old| old.lease_transitions.unwrap_or_default().saturating_add(1)));
        lease.acquire_time = Some(MicroTime(now));
        lease.holder_identity = Some(me.to_owned());
    }
    lease.lease_duration_seconds = i32::try_from(LEASE.as_secs()).ok();
    lease.renew_time = Some(MicroTime(now));
    lease
}

/// The Lease spec without a holder; any candidate may take it immediately.
pub fn released(old: &LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec { holder_identity: None, renew_time: Some(MicroTime(now)), ..old.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: Option<&str>, seconds: Option<i32>) -> LeaseSpec {
        LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: seconds,
            lease_transitions: Some(4),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn what_is_done_about_a_lease() {
        let secs = Duration::from_secs;
        #[rustfmt::skip]
        let rows = [
            // holder, promised seconds, seen unchanged for seconds
            (Some("other"), Some(10), 0,  Step::Wait(secs(10))),
            (Some("other"), Some(10), 9,  Step::Wait(secs(1))),
            (Some("other"), Some(10), 10, Step::Take),
            (Some("other"), Some(10), 99, Step::Take),
            (Some("other"), Some(15), 10, Step::Wait(secs(5))),
            (Some("other"), Some(i32::MAX), 0,  Step::Wait(BELIEVED)),
            (Some("other"), Some(i32::MAX), 60, Step::Take),
            (Some("other"), None,     0,  Step::Wait(LEASE)),
            (Some("other"), Some(-1), 0,  Step::Wait(LEASE)),
            (Some("other"), Some(0),  0,  Step::Wait(LEASE)),
            (Some("me"),    Some(10), 0,  Step::Renew),
            (Some("me"),    Some(10), 99, Step::Renew),
            (Some(""),      Some(10), 0,  Step::Take),
            (None,          Some(10), 0,  Step::Take),
        ];
        for (holder, promised, unchanged, step) in rows {
            let seen = next(Some(&lease(holder, promised)), "me", secs(unchanged));
            assert_eq!(seen, step, "{holder:?} {promised:?} {unchanged}");
        }
        assert_eq!(next(None, "me", Duration::ZERO), Step::Create);
    }

    #[test]
    fn a_holder_lets_go_before_anybody_can_think_it_gone() {
        // Two attempts to renew fit in, and a fifth of the lease remains as tolerance for clock rates.
        assert!(RENEW + RETRY < STEP_DOWN && STEP_DOWN * 5 <= LEASE * 4);
        // The worst takeover: the holder dies just after a renewal that a poll just missed, and the first call to take over gets no
        // response.
        assert!(RENEW + LEASE + RENEW + RETRY < Duration::from_secs(20));
    }

    #[test]
    fn hostile_lease_is_taken_without_overflow() {
        let hostile = LeaseSpec { lease_transitions: Some(i32::MAX), ..lease(Some("other"), Some(i32::MAX)) };
        for now in [Timestamp::MIN, Timestamp::MAX] {
            let taken = held(Some(&hostile), "me", now);
            assert_eq!((taken.lease_transitions, taken.lease_duration_seconds), (Some(i32::MAX), Some(10)));
        }
        let negative =
            LeaseSpec { lease_transitions: Some(i32::MIN), ..lease(Some("other"), Some(i32::MIN)) };
        assert_eq!(next(Some(&negative), "me", Duration::MAX), Step::Take);
        assert_eq!(held(Some(&negative), "me", Timestamp::MIN).lease_transitions, Some(i32::MIN + 1));
    }

    #[test]
    fn terms_are_counted_and_renewals_are_not() {
        let (early, late) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        let first = held(None, "me", early);
        assert_eq!((first.lease_transitions, &first.acquire_time), (Some(0), &Some(MicroTime(early))));
        let renewed = held(Some(&first), "me", late);
        assert_eq!(renewed, LeaseSpec { renew_time: Some(MicroTime(late)), ..first.clone() });
        let taken = held(Some(&renewed), "other", late);
        assert_eq!((taken.lease_transitions, &taken.acquire_time), (Some(1), &Some(MicroTime(late))));
        let left = released(&taken, late);
        assert_eq!(next(Some(&left), "me", Duration::ZERO), Step::Take);
        assert_eq!(left.lease_transitions, Some(1));
    }
}
