//! The next step of a Deployment. Pure: no I/O, no clock.

use jiff::Timestamp;

use super::revision::{self, SetAnnotations};
use super::sizes::{self, ReplicaSets, SetScale};
use super::view::{Deployment, DeploymentStatus};
use super::{status, template};
use crate::control::workloads::replicaset::view::ReplicaSet;

/// A Deployment and its `ReplicaSets` as observed.
pub struct RolloutObservation<'a> {
    pub deployment: &'a Deployment,
    pub sets: ReplicaSets<'a>,
    /// Whether each set has pods that have not terminated, including those being deleted.
    pub has_pods: Vec<bool>,
    pub now: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
pub enum RolloutAction {
    /// Update only the Deployment: revision annotation and status.
    UpdateStatus { revision: Option<String>, status: DeploymentStatus },
    /// Update annotations or `minReadySeconds` of the set with the Deployment's template.
    AnnotateSet { at: usize, notes: SetAnnotations },
    /// Create the set for the Deployment's template.
    Create { replicas: i64, revision: i64 },
    /// Scale sets in this order, delete some, then update the Deployment's status.
    ScaleSets { sizes: Vec<SetScale>, remove: Vec<usize>, status: DeploymentStatus },
}

/// Finds the set with the Deployment's template; the oldest if there are several.
pub fn find_sets<'a>(deployment: &Deployment, mut all: Vec<&'a ReplicaSet>) -> ReplicaSets<'a> {
    all.sort_by_key(|set| (set.metadata.creation_timestamp, &set.metadata.name));
    let current = all
        .iter()
        .position(|set| template::equal_ignoring_hash(&set.spec.template, &deployment.spec.template));
    ReplicaSets { all, current }
}

pub fn decide(observed: &RolloutObservation<'_>) -> RolloutAction {
    let RolloutObservation { deployment, sets, now, .. } = observed;
    let deleting = deployment.metadata.is_deleting();
    if let Some(status) = status::pause_status(deployment, *now).filter(|_| !deleting) {
        return RolloutAction::UpdateStatus { revision: None, status };
    }
    if let Some(step) = sync_annotations(observed) {
        return step;
    }
    let rest =
        |status: DeploymentStatus| RolloutAction::ScaleSets { sizes: Vec::new(), remove: Vec::new(), status };
    if deleting {
        return rest(status::count_replicas(deployment, sets, *now));
    }
    if deployment.spec.paused || sets.is_scaled(deployment) {
        let sizes = sizes::scale_sets(deployment, sets);
        let remove =
            if deployment.spec.paused { revisions_beyond_history(deployment, sets) } else { Vec::new() };
        return RolloutAction::ScaleSets {
            sizes,
            remove,
            status: status::count_replicas(deployment, sets, *now),
        };
    }
    let status = status::rollout_status(deployment, sets, *now);
    if !deployment.is_rolling() {
        let sizes = sizes::scale_old_to_zero(sets);
        if !sizes.is_empty() || has_running_old_pods(observed) {
            return RolloutAction::ScaleSets { sizes, remove: Vec::new(), status };
        }
    }
    if sets.current.is_none() {
        let revision = revision::next_revision(sets.old().map(|(_, set)| set));
        return RolloutAction::Create { replicas: sizes::initial_size(deployment, sets), revision };
    }
    let sizes = if deployment.is_rolling() {
        sizes::rolling_step(deployment, sets)
    } else {
        sizes::scale_new_to_desired(deployment, sets)
    };
    let settled = sizes.is_empty() || !deployment.is_rolling();
    let remove = if settled && deployment.is_complete(&deployment.status) {
        revisions_beyond_history(deployment, sets)
    } else {
        Vec::new()
    };
    RolloutAction::ScaleSets { sizes, remove, status }
}

/// Copies the Deployment's annotations to the set with its template, and the set's revision to the Deployment.
fn sync_annotations(observed: &RolloutObservation<'_>) -> Option<RolloutAction> {
    let RolloutObservation { deployment, sets, now, .. } = observed;
    let (at, new) = (sets.current?, sets.current()?);
    let next = revision::next_revision(sets.old().map(|(_, set)| set));
    let missing = revision::missing_annotations(deployment, new, next);
    if missing.is_some() || new.spec.min_ready_seconds != deployment.spec.min_ready_seconds {
        return Some(RolloutAction::AnnotateSet {
            at,
            notes: missing.unwrap_or_else(|| new.metadata.annotations.clone()),
        });
    }
    let revision = new.metadata.annotations.get(revision::REVISION);
    let known = deployment.metadata.annotations.get(revision::REVISION) == revision;
    let message = format!("Found new replica set {:?}", new.metadata.name);
    let found = match deployment.status.condition(status::PROGRESSING) {
        None => status::progress_status(deployment, ("True", "FoundNewReplicaSet"), message, *now),
        Some(_) => None,
    };
    if known && found.is_none() {
        return None;
    }
    Some(RolloutAction::UpdateStatus {
        revision: revision.cloned(),
        status: found.unwrap_or_else(|| deployment.status.clone()),
    })
}

fn has_running_old_pods(observed: &RolloutObservation<'_>) -> bool {
    observed.sets.old().any(|(at, set)| set.status.replicas > 0 || observed.has_pods[at])
}

/// The oldest revisions beyond the history limit that have no pods and are fully observed.
fn revisions_beyond_history(deployment: &Deployment, sets: &ReplicaSets<'_>) -> Vec<usize> {
    let Some(kept) = deployment.history_limit().and_then(|kept| usize::try_from(kept).ok()) else {
        return Vec::new();
    };
    let mut old: Vec<_> = sets.old().filter(|(_, set)| !set.metadata.is_deleting()).collect();
    let excess = old.len().saturating_sub(kept);
    old.sort_by_key(|(at, set)| (revision::parse_revision(set), *at));
    let rests = |set: &ReplicaSet| {
        set.status.replicas == 0
            && set.spec.replicas == 0
            && set.metadata.generation <= set.status.observed_generation
    };
    old.iter().take(excess).filter(|(_, set)| rests(set)).map(|(at, _)| *at).collect()
}
