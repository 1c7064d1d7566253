//! The next step of a Deployment. Pure: no I/O, no clock.

use jiff::Timestamp;

use super::revision::{self, Notes};
use super::sizes::{self, Sets, Size};
use super::view::{Deployment, Status};
use super::{status, template};
use crate::control::workloads::replicaset::view::ReplicaSet;

/// A Deployment and its `ReplicaSets` as observed.
pub struct Seen<'a> {
    pub deployment: &'a Deployment,
    pub sets: Sets<'a>,
    /// Whether each set has pods that have not terminated, including those being deleted.
    pub have_pods: Vec<bool>,
    pub now: Timestamp,
}

#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Update only the Deployment: revision annotation and status.
    Say { revision: Option<String>, status: Status },
    /// Update annotations or `minReadySeconds` of the set with the Deployment's template.
    Note { at: usize, notes: Notes },
    /// Create the set for the Deployment's template.
    Create { replicas: i64, revision: i64 },
    /// Scale sets in this order, delete some, then update the Deployment's status.
    Proceed { sizes: Vec<Size>, remove: Vec<usize>, status: Status },
}

/// Finds the set with the Deployment's template; the oldest if there are several.
pub fn sets<'a>(deployment: &Deployment, mut all: Vec<&'a ReplicaSet>) -> Sets<'a> {
    all.sort_by_key(|set| (set.metadata.creation_timestamp, &set.metadata.name));
    let current = all.iter().position(|set| template::same(&set.spec.template, &deployment.spec.template));
    Sets { all, current }
}

pub fn decide(seen: &Seen<'_>) -> Step {
    let Seen { deployment, sets, now, .. } = seen;
    let deleting = deployment.metadata.is_deleting();
    if let Some(status) = status::pause(deployment, *now).filter(|_| !deleting) {
        return Step::Say { revision: None, status };
    }
    if let Some(step) = recognise(seen) {
        return step;
    }
    let rest = |status: Status| Step::Proceed { sizes: Vec::new(), remove: Vec::new(), status };
    if deleting {
        return rest(status::count(deployment, sets, *now));
    }
    if deployment.spec.paused || sets.is_scaled(deployment) {
        let sizes = sizes::scale(deployment, sets);
        let remove = if deployment.spec.paused { forgotten(deployment, sets) } else { Vec::new() };
        return Step::Proceed { sizes, remove, status: status::count(deployment, sets, *now) };
    }
    let status = status::rollout(deployment, sets, *now);
    if !deployment.is_rolling() {
        let sizes = sizes::stop_old(sets);
        if !sizes.is_empty() || old_pods_run(seen) {
            return Step::Proceed { sizes, remove: Vec::new(), status };
        }
    }
    if sets.current.is_none() {
        let revision = revision::next(sets.old().map(|(_, set)| set));
        return Step::Create { replicas: sizes::first(deployment, sets), revision };
    }
    let sizes = if deployment.is_rolling() {
        sizes::roll(deployment, sets)
    } else {
        sizes::fill_new(deployment, sets)
    };
    let settled = sizes.is_empty() || !deployment.is_rolling();
    let remove = if settled && deployment.is_complete(&deployment.status) {
        forgotten(deployment, sets)
    } else {
        Vec::new()
    };
    Step::Proceed { sizes, remove, status }
}

/// Copies the Deployment's annotations to the set with its template, and the set's revision to the Deployment.
fn recognise(seen: &Seen<'_>) -> Option<Step> {
    let Seen { deployment, sets, now, .. } = seen;
    let (at, new) = (sets.current?, sets.current()?);
    let next = revision::next(sets.old().map(|(_, set)| set));
    let missing = revision::missing_notes(deployment, new, next);
    if missing.is_some() || new.spec.min_ready_seconds != deployment.spec.min_ready_seconds {
        return Some(Step::Note { at, notes: missing.unwrap_or_else(|| new.metadata.annotations.clone()) });
    }
    let revision = new.metadata.annotations.get(revision::REVISION);
    let known = deployment.metadata.annotations.get(revision::REVISION) == revision;
    let message = format!("Found new replica set {:?}", new.metadata.name);
    let found = match deployment.status.condition(status::PROGRESSING) {
        None => status::progress(deployment, ("True", "FoundNewReplicaSet"), message, *now),
        Some(_) => None,
    };
    if known && found.is_none() {
        return None;
    }
    Some(Step::Say {
        revision: revision.cloned(),
        status: found.unwrap_or_else(|| deployment.status.clone()),
    })
}

fn old_pods_run(seen: &Seen<'_>) -> bool {
    seen.sets.old().any(|(at, set)| set.status.replicas > 0 || seen.have_pods[at])
}

/// The oldest revisions beyond the history limit that have no pods and are fully observed.
fn forgotten(deployment: &Deployment, sets: &Sets<'_>) -> Vec<usize> {
    let Some(kept) = deployment.history().and_then(|kept| usize::try_from(kept).ok()) else {
        return Vec::new();
    };
    let mut old: Vec<_> = sets.old().filter(|(_, set)| !set.metadata.is_deleting()).collect();
    let excess = old.len().saturating_sub(kept);
    old.sort_by_key(|(at, set)| (revision::of(set), *at));
    let rests = |set: &ReplicaSet| {
        set.status.replicas == 0
            && set.spec.replicas == 0
            && set.metadata.generation <= set.status.observed_generation
    };
    old.iter().take(excess).filter(|(_, set)| rests(set)).map(|(at, _)| *at).collect()
}
