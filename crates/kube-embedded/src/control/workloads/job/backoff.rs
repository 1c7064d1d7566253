//! Backoff after pod failures of a Job: ten seconds, doubled after each further one, at most ten minutes.

#![warn(clippy::arithmetic_side_effects)]

use jiff::{SignedDuration, Timestamp};

use crate::control::view::{ContainerStatus, Pod};

const MIN_BACKOFF: SignedDuration = SignedDuration::from_secs(10);
const MAX_BACKOFF: SignedDuration = SignedDuration::from_mins(10);

/// The failures since the last success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backoff {
    pub failures: i64,
    pub last_failure: Option<Timestamp>,
}

impl Backoff {
    /// Returns the backoff after further pods have terminated.
    #[must_use]
    pub fn with_finished<'p>(
        self,
        succeeded: impl Iterator<Item = &'p Pod>,
        failed: impl Iterator<Item = &'p Pod>,
    ) -> Self {
        let success = succeeded.map(finished_at).max();
        let failures = failed.map(finished_at).filter(|at| success.is_none_or(|success| *at > success));
        let before = if success.is_some() { Self::default() } else { self };
        failures.fold(before, |backoff, at| Self {
            failures: backoff.failures.saturating_add(1),
            last_failure: backoff.last_failure.max(Some(at)),
        })
    }

    /// When the next pod may be created.
    pub fn ends_at(self) -> Option<Timestamp> {
        let doublings = u32::try_from(self.failures.saturating_sub(1)).ok()?.min(10);
        self.last_failure?.checked_add(MIN_BACKOFF.saturating_mul(1 << doublings).min(MAX_BACKOFF)).ok()
    }
}

/// When a pod terminated: by its containers, else by its `Ready` condition, else by its deletion timestamp.
pub fn finished_at(pod: &Pod) -> Timestamp {
    let metadata = &pod.metadata;
    let not_ready = || pod.condition("Ready").filter(|ready| ready.status == "False")?.last_transition_time;
    let deleted = || {
        let grace = metadata.deletion_grace_period_seconds.unwrap_or(0);
        metadata.deletion_timestamp?.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    last_container_end(pod)
        .or_else(not_ready)
        .or_else(deleted)
        .or(metadata.creation_timestamp)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The latest container end, once all have terminated; includes sidecars.
fn last_container_end(pod: &Pod) -> Option<Timestamp> {
    let stays = |status: &&ContainerStatus| {
        let mut init = pod.spec.init_containers.iter();
        init.any(|container| container.name == status.name && container.restart_policy == "Always")
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(stays);
    let end = |status: &ContainerStatus| status.state["terminated"]["finishedAt"].as_str()?.parse().ok();
    let ends: Option<Vec<Timestamp>> =
        pod.status.container_statuses.iter().chain(sidecars).map(end).collect();
    ends?.into_iter().max()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn pod(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    fn ended(second: i64) -> Pod {
        let state = json!({"terminated": {"finishedAt": at(second).to_string()}});
        pod(json!({"status": {"containerStatuses": [{"name": "c", "state": state}]}}))
    }

    #[test]
    fn failures_double_the_backoff_and_success_resets_it() {
        let (one, two, three) = (ended(100), ended(200), ended(300));
        let first = Backoff::default().with_finished([].iter(), [&one].into_iter());
        assert_eq!(first.ends_at(), Some(at(110)));
        let second = first.with_finished([].iter(), [&two].into_iter());
        assert_eq!(second.ends_at(), Some(at(220)));
        assert_eq!(second.with_finished([].iter(), [].iter()), second);
        assert_eq!(second.with_finished([&three].into_iter(), [].iter()).ends_at(), None);
        let mixed = second.with_finished([&two].into_iter(), [&one, &two, &three].into_iter());
        assert_eq!(mixed, Backoff { failures: 1, last_failure: Some(at(300)) });
        let many = Backoff { failures: 99, last_failure: Some(at(0)) };
        assert_eq!(many.ends_at(), Some(at(600)));
    }

    #[test]
    fn finished_at_uses_last_container_or_deletion() {
        let created = json!({"creationTimestamp": at(5).to_string()});
        let deleted = json!({"creationTimestamp": at(5).to_string(),
            "deletionTimestamp": at(60).to_string(), "deletionGracePeriodSeconds": 30});
        let unready = json!({"conditions": [
            {"type": "Ready", "status": "False", "lastTransitionTime": at(50).to_string()}],
            "containerStatuses": [{"name": "c", "state": {"running": {}}}]});
        assert_eq!(finished_at(&ended(7)), at(7));
        assert_eq!(finished_at(&pod(json!({"metadata": deleted, "status": unready}))), at(50));
        assert_eq!(finished_at(&pod(json!({"metadata": deleted}))), at(30));
        assert_eq!(finished_at(&pod(json!({"metadata": created}))), at(5));
    }
}
