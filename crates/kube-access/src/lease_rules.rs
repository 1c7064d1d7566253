//! Lease rules: the next step of a candidate, and the Lease that it writes. Pure: no I/O, no clock.
//!
//! Timestamps in a Lease are informational; wall clocks are never compared. A candidate measures with its own monotonic clock for how
//! long the Lease has been unchanged. A holder measures the time since it sent the last successful renewal. A renewal cannot be observed
//! before it is sent, so a holder that stops after [`RENEW_DEADLINE`] has stopped before any candidate can conclude that
//! [`LEASE_DURATION`] has passed, whatever the wall clocks show.
//!
//! Two risks remain: clocks whose rates differ by more than a quarter, and a suspended machine, whose monotonic clock stands still. Writes
//! that a former holder must not make therefore carry a `resourceVersion`.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// Lease duration without renewal.
pub const LEASE_DURATION: Duration = Duration::from_secs(10);
/// Maximum duration that a candidate honours, whatever the Lease says: otherwise a client that may write Leases could block an operation
/// indefinitely.
pub const MAX_LEASE_DURATION: Duration = Duration::from_mins(1);
/// Renewal interval, and timeout of one call.
pub const RENEW_INTERVAL: Duration = Duration::from_millis(3_333);
/// Delay before a failed call is retried.
pub const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Time without a renewal after which the holder stops its work.
pub const RENEW_DEADLINE: Duration = Duration::from_secs(8);

/// Next action of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseDecision {
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
pub fn decide(lease: Option<&LeaseSpec>, me: &str, unchanged: Duration) -> LeaseDecision {
    let Some(lease) = lease else { return LeaseDecision::Create };
    let holder = lease.holder_identity.as_deref().unwrap_or_default();
    let promised =
        lease.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).filter(|&s| s > 0);
    let promised = promised.map_or(LEASE_DURATION, Duration::from_secs).min(MAX_LEASE_DURATION);
    let left = promised.saturating_sub(unchanged);
    match holder {
        "" => LeaseDecision::Take,
        _ if holder == me => LeaseDecision::Renew,
        _ if left.is_zero() => LeaseDecision::Take,
        _ => LeaseDecision::Wait(left),
    }
}

/// The Lease spec by which `me` takes or renews it.
pub fn held_spec(old: Option<&LeaseSpec>, me: &str, now: Timestamp) -> LeaseSpec {
    let mut lease = old.cloned().unwrap_or_default();
    if lease.holder_identity.as_deref() != Some(me) {
        lease.lease_transitions =
            Some(old.map_or(0, |old| old.lease_transitions.unwrap_or_default().saturating_add(1)));
        lease.acquire_time = Some(MicroTime(now));
        lease.holder_identity = Some(me.to_owned());
    }
    lease.lease_duration_seconds = i32::try_from(LEASE_DURATION.as_secs()).ok();
    lease.renew_time = Some(MicroTime(now));
    lease
}

/// The Lease spec without a holder; any candidate may take it immediately.
pub fn released_spec(old: &LeaseSpec, now: Timestamp) -> LeaseSpec {
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
    fn decision_for_every_lease_state() {
        let secs = Duration::from_secs;
        #[rustfmt::skip]
        let rows = [
            // holder, promised seconds, seen unchanged for seconds
            (Some("other"), Some(10), 0,  LeaseDecision::Wait(secs(10))),
            (Some("other"), Some(10), 9,  LeaseDecision::Wait(secs(1))),
            (Some("other"), Some(10), 10, LeaseDecision::Take),
            (Some("other"), Some(10), 99, LeaseDecision::Take),
            (Some("other"), Some(15), 10, LeaseDecision::Wait(secs(5))),
            (Some("other"), Some(i32::MAX), 0,  LeaseDecision::Wait(MAX_LEASE_DURATION)),
            (Some("other"), Some(i32::MAX), 60, LeaseDecision::Take),
            (Some("other"), None,     0,  LeaseDecision::Wait(LEASE_DURATION)),
            (Some("other"), Some(-1), 0,  LeaseDecision::Wait(LEASE_DURATION)),
            (Some("other"), Some(0),  0,  LeaseDecision::Wait(LEASE_DURATION)),
            (Some("me"),    Some(10), 0,  LeaseDecision::Renew),
            (Some("me"),    Some(10), 99, LeaseDecision::Renew),
            (Some(""),      Some(10), 0,  LeaseDecision::Take),
            (None,          Some(10), 0,  LeaseDecision::Take),
        ];
        for (holder, promised, unchanged, step) in rows {
            let seen = decide(Some(&lease(holder, promised)), "me", secs(unchanged));
            assert_eq!(seen, step, "{holder:?} {promised:?} {unchanged}");
        }
        assert_eq!(decide(None, "me", Duration::ZERO), LeaseDecision::Create);
    }

    #[test]
    fn holder_steps_down_before_lease_expires() {
        // Two attempts to renew fit in, and a fifth of the lease remains as tolerance for clock rates.
        assert!(RENEW_INTERVAL + RETRY_PERIOD < RENEW_DEADLINE && RENEW_DEADLINE * 5 <= LEASE_DURATION * 4);
        // The worst takeover: the holder dies just after a renewal that a poll just missed, and the first call to take over gets no
        // response.
        assert!(RENEW_INTERVAL + LEASE_DURATION + RENEW_INTERVAL + RETRY_PERIOD < Duration::from_secs(20));
    }

    #[test]
    fn hostile_lease_is_taken_without_overflow() {
        let hostile = LeaseSpec { lease_transitions: Some(i32::MAX), ..lease(Some("other"), Some(i32::MAX)) };
        for now in [Timestamp::MIN, Timestamp::MAX] {
            let taken = held_spec(Some(&hostile), "me", now);
            assert_eq!((taken.lease_transitions, taken.lease_duration_seconds), (Some(i32::MAX), Some(10)));
        }
        let negative =
            LeaseSpec { lease_transitions: Some(i32::MIN), ..lease(Some("other"), Some(i32::MIN)) };
        assert_eq!(decide(Some(&negative), "me", Duration::MAX), LeaseDecision::Take);
        assert_eq!(held_spec(Some(&negative), "me", Timestamp::MIN).lease_transitions, Some(i32::MIN + 1));
    }

    #[test]
    fn transitions_count_new_holders_but_not_renewals() {
        let (early, late) = (Timestamp::from_second(1).unwrap(), Timestamp::from_second(2).unwrap());
        let first = held_spec(None, "me", early);
        assert_eq!((first.lease_transitions, &first.acquire_time), (Some(0), &Some(MicroTime(early))));
        let renewed = held_spec(Some(&first), "me", late);
        assert_eq!(renewed, LeaseSpec { renew_time: Some(MicroTime(late)), ..first.clone() });
        let taken = held_spec(Some(&renewed), "other", late);
        assert_eq!((taken.lease_transitions, &taken.acquire_time), (Some(1), &Some(MicroTime(late))));
        let left = released_spec(&taken, late);
        assert_eq!(decide(Some(&left), "me", Duration::ZERO), LeaseDecision::Take);
        assert_eq!(left.lease_transitions, Some(1));
    }
}
