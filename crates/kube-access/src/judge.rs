//! What to do about a Lease, and what to write into it. Pure: no client, no clock.
//!
//! The times in a Lease are for people to read. Nobody's clock is compared with anybody else's: a candidate measures,
//! by its own monotonic clock, for how long it has seen the Lease unchanged, and a holder measures how long ago it sent
//! the renewal that last succeeded. As nobody can see a renewal before it was sent, a holder that lets go after
//! [`STEP_DOWN`] has let go before anybody can think that [`LEASE`] has passed, whatever their calendars say.
//!
//! What remains is clocks that run at different speeds, by more than a quarter, and a machine that was suspended: its
//! monotonic clock stood still. Writes that must not be made by a former holder therefore carry a `resourceVersion`.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;

/// How long a Lease holds without being renewed.
pub const LEASE: Duration = Duration::from_secs(10);
/// No holder is believed for longer than that, whatever its Lease promises: anybody who may write one could hold up for ever
/// what nobody is at.
pub const BELIEVED: Duration = Duration::from_mins(1);
/// How often its holder renews it, and how long one call may take.
pub const RENEW: Duration = Duration::from_millis(3_333);
/// How soon a call that failed is tried again.
pub const RETRY: Duration = Duration::from_secs(1);
/// How long a holder goes on without having renewed it.
pub const STEP_DOWN: Duration = Duration::from_secs(8);

/// What a candidate does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is none: make it.
    Create,
    /// It is ours already, perhaps by a write whose answer never came.
    Renew,
    /// Nobody holds it, or its holder has been silent for too long.
    Take,
    /// Somebody holds it, and for at least so long.
    Wait(Duration),
}

/// What `me` does about a Lease that has been seen unchanged for so long.
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

/// The Lease as `me` writes it, to take it or to renew it.
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

/// The Lease as its holder leaves it: anybody may take it at once.
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
        // Two tries to renew fit in, and a fifth of the lease is left for clocks that run at different speeds.
        assert!(RENEW + RETRY < STEP_DOWN && STEP_DOWN * 5 <= LEASE * 4);
        // A holder dies just after a renewal that was just missed, and the first call to take over has no answer.
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
