//! The status of a `ReplicaSet`. Pure: no I/O, no clock.

use std::sync::Arc;

use jiff::Timestamp;

use super::view::{ReplicaSet, ReplicaSetStatus};
use crate::control::view::{Condition, Pod};
use crate::error::ApiError;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// The observed pods of a set.
#[derive(Default)]
pub struct ObservedPods {
    pub active: Vec<Arc<Pod>>,
    pub terminating: i64,
}

/// `failure` is the error of creating or deleting pods.
pub fn compute_status(
    set: &ReplicaSet,
    found: &ObservedPods,
    failure: Option<&ApiError>,
    now: Timestamp,
) -> ReplicaSetStatus {
    let count =
        |wanted: &dyn Fn(&Pod) -> bool| found.active.iter().fold(0, |sum, pod| sum + i64::from(wanted(pod)));
    let replicas = count(&|_| true);
    ReplicaSetStatus {
        replicas,
        fully_labeled_replicas: count(&|pod| is_fully_labelled(set, pod)),
        ready_replicas: count(&Pod::is_ready),
        available_replicas: count(&|pod| is_available(set, pod, now)),
        terminating_replicas: Some(found.terminating),
        observed_generation: set.metadata.generation,
        conditions: conditions(set, replicas, failure, now),
    }
}

/// Whether a pod has all labels of the template; it may have more.
fn is_fully_labelled(set: &ReplicaSet, pod: &Pod) -> bool {
    let labels = set.spec.template["metadata"]["labels"].as_object().into_iter().flatten();
    labels.into_iter().all(|(key, value)| pod.metadata.labels.get(key).map(String::as_str) == value.as_str())
}

fn is_available(set: &ReplicaSet, pod: &Pod, now: Timestamp) -> bool {
    let from = pod.available_from(set.spec.min_ready_seconds);
    from.is_some_and(|from| set.spec.min_ready_seconds == 0 || from <= now)
}

/// When the next ready pod becomes available.
pub fn next_available(set: &ReplicaSet, found: &ObservedPods, now: Timestamp) -> Option<Timestamp> {
    let ready = found.active.iter().filter_map(|pod| pod.available_from(set.spec.min_ready_seconds));
    ready.filter(|from| set.spec.min_ready_seconds > 0 && *from > now).min()
}

/// A failure is reported once: a different one does not change the condition.
fn conditions(set: &ReplicaSet, replicas: i64, failure: Option<&ApiError>, now: Timestamp) -> Vec<Condition> {
    let mut conditions = set.status.conditions.clone();
    match failure {
        None => conditions.retain(|condition| condition.r#type != REPLICA_FAILURE),
        Some(error) if conditions.iter().all(|condition| condition.r#type != REPLICA_FAILURE) => {
            let reason = if replicas < set.spec.replicas { "FailedCreate" } else { "FailedDelete" };
            conditions.push(Condition {
                r#type: REPLICA_FAILURE.to_owned(),
                status: "True".to_owned(),
                reason: reason.to_owned(),
                message: error.message.clone(),
                last_transition_time: Timestamp::from_second(now.as_second()).ok(),
            });
        }
        Some(_) => {}
    }
    conditions
}
