//! The status of a Deployment: counters, the conditions `Available` and `Progressing`. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use jiff::{SignedDuration, Timestamp};

use super::sizes::ReplicaSets;
use super::view::{Deployment, DeploymentCondition, DeploymentStatus};
use crate::control::workloads::replicaset::view::ReplicaSet;

pub const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const REPLICA_FAILURE: &str = "ReplicaFailure";
const NEW_REPLICA_SET_AVAILABLE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

pub fn condition(
    kind: &str,
    (status, reason): (&str, &str),
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    let now = Timestamp::from_second(now.as_second()).ok();
    DeploymentCondition {
        r#type: kind.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_update_time: now,
        last_transition_time: now,
    }
}

/// The status with this `Progressing` condition, if there is a progress deadline.
pub fn progress_status(
    deployment: &Deployment,
    status_and_reason: (&str, &str),
    message: String,
    now: Timestamp,
) -> Option<DeploymentStatus> {
    deployment.progress_deadline()?;
    let mut status = deployment.status.clone();
    status.set_condition(condition(PROGRESSING, status_and_reason, message, now));
    Some(status)
}

/// Pausing stops the progress deadline, and resuming restarts it. `None` if the condition is set already.
pub fn pause_status(deployment: &Deployment, now: Timestamp) -> Option<DeploymentStatus> {
    let reason = deployment.status.condition(PROGRESSING).map(|condition| condition.reason.as_str());
    match (deployment.spec.paused, reason) {
        (_, Some(TIMED_OUT)) | (true, Some(PAUSED)) => None,
        (true, _) => progress_status(deployment, ("Unknown", PAUSED), "Deployment is paused".to_owned(), now),
        (false, Some(PAUSED)) => progress_status(
            deployment,
            ("Unknown", "DeploymentResumed"),
            "Deployment is resumed".to_owned(),
            now,
        ),
        (false, _) => None,
    }
}

/// The counters and the condition `Available`.
pub fn count_replicas(deployment: &Deployment, sets: &ReplicaSets<'_>, now: Timestamp) -> DeploymentStatus {
    let sum = |of: fn(&ReplicaSet) -> i64| sets.all.iter().map(|set| of(set)).sum::<i64>();
    let available = sets.available();
    let mut status = DeploymentStatus {
        observed_generation: deployment.metadata.generation,
        replicas: sum(|set| set.status.replicas),
        updated_replicas: sets.current().map_or(0, |new| new.status.replicas),
        ready_replicas: sum(|set| set.status.ready_replicas),
        available_replicas: available,
        unavailable_replicas: sets.total_replicas().saturating_sub(available).max(0),
        terminating_replicas: terminating(sets),
        ..deployment.status.clone()
    };
    let (said, message) =
        if available >= deployment.spec.replicas.saturating_sub(deployment.max_unavailable()) {
            (("True", "MinimumReplicasAvailable"), "Deployment has minimum availability.")
        } else {
            (("False", "MinimumReplicasUnavailable"), "Deployment does not have minimum availability.")
        };
    status.set_condition(condition(AVAILABLE, said, message.to_owned(), now));
    status
}

/// `None` while the status of a set does not report it.
fn terminating(sets: &ReplicaSets<'_>) -> Option<i64> {
    let seen = sets
        .all
        .iter()
        .map(|set| &set.status)
        .filter(|status| status.observed_generation > 0 || status.terminating_replicas.is_some());
    seen.map(|status| status.terminating_replicas).sum()
}

/// The same during a rollout: also the conditions of progress and of failing pod creation.
pub fn rollout_status(deployment: &Deployment, sets: &ReplicaSets<'_>, now: Timestamp) -> DeploymentStatus {
    let mut status = count_replicas(deployment, sets, now);
    if deployment.progress_deadline().is_none() {
        status.remove_condition(PROGRESSING);
    }
    let before = deployment.status.condition(PROGRESSING);
    let was_done = status.replicas == status.updated_replicas
        && before.is_some_and(|c| c.reason == NEW_REPLICA_SET_AVAILABLE);
    if deployment.progress_deadline().is_some() && !was_done {
        set_progressing(deployment, sets, &mut status, now);
    }
    let failures = sets.current().into_iter().chain(sets.in_order().map(|(_, set)| set));
    let failure =
        failures.into_iter().flat_map(|set| &set.status.conditions).find(|c| c.r#type == REPLICA_FAILURE);
    match failure {
        None => status.remove_condition(REPLICA_FAILURE),
        Some(failure) => status.set_condition(DeploymentCondition {
            r#type: REPLICA_FAILURE.to_owned(),
            status: failure.status.clone(),
            reason: failure.reason.clone(),
            message: failure.message.clone(),
            last_update_time: failure.last_transition_time,
            last_transition_time: failure.last_transition_time,
        }),
    }
    status
}

fn set_progressing(
    deployment: &Deployment,
    sets: &ReplicaSets<'_>,
    status: &mut DeploymentStatus,
    now: Timestamp,
) {
    let what = sets.current().map_or_else(
        || format!("Deployment {:?}", deployment.metadata.name),
        |new| format!("ReplicaSet {:?}", new.metadata.name),
    );
    if deployment.is_complete(status) {
        let message = format!("{what} has successfully progressed.");
        status.set_condition(condition(PROGRESSING, ("True", NEW_REPLICA_SET_AVAILABLE), message, now));
    } else if has_progressed(&deployment.status, status) {
        let mut said =
            condition(PROGRESSING, ("True", "ReplicaSetUpdated"), format!("{what} is progressing."), now);
        // Progress updates `lastUpdateTime` even if the reason stays.
        if let Some(before) = status.condition(PROGRESSING).filter(|before| before.status == "True") {
            said.last_transition_time = before.last_transition_time;
        }
        status.remove_condition(PROGRESSING);
        status.set_condition(said);
    } else if is_late(deployment, now) {
        let message = format!("{what} has timed out progressing.");
        status.set_condition(condition(PROGRESSING, ("False", TIMED_OUT), message, now));
    }
}

/// Whether the rollout progressed: new pods, fewer old ones, or more ready or available ones.
fn has_progressed(before: &DeploymentStatus, now: &DeploymentStatus) -> bool {
    let old = |status: &DeploymentStatus| status.replicas.saturating_sub(status.updated_replicas);
    now.updated_replicas > before.updated_replicas
        || old(now) < old(before)
        || now.ready_replicas > before.ready_replicas
        || now.available_replicas > before.available_replicas
}

fn is_late(deployment: &Deployment, now: Timestamp) -> bool {
    match deployment.status.condition(PROGRESSING) {
        None => false,
        Some(condition) if condition.reason == TIMED_OUT => true,
        Some(condition) if condition.reason == NEW_REPLICA_SET_AVAILABLE => false,
        Some(condition) => deadline(deployment, condition).is_some_and(|deadline| deadline < now),
    }
}

fn deadline(deployment: &Deployment, condition: &DeploymentCondition) -> Option<Timestamp> {
    condition.last_update_time?.checked_add(SignedDuration::from_secs(deployment.progress_deadline()?)).ok()
}

/// When a rollout without progress must be reconciled again.
pub fn next_reconcile(deployment: &Deployment, now: Timestamp) -> Option<Timestamp> {
    let condition = deployment.status.condition(PROGRESSING)?;
    if deployment.is_complete(&deployment.status) || condition.reason == TIMED_OUT {
        return None;
    }
    // Times have whole seconds: one more, to be past the deadline.
    let at = deadline(deployment, condition)?.checked_add(SignedDuration::from_secs(1)).ok()?;
    (at > now).then_some(at)
}
