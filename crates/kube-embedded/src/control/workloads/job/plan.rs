//! Decisions about a Job, from one observation. Pure: no I/O, no clock.
//!
//! The end of a pod is recorded in the status (by uid or index) before its finalizer is removed, and counted after that. No end is
//! therefore counted twice or lost, wherever the controller stops.

#![warn(clippy::arithmetic_side_effects)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

use jiff::Timestamp;

use super::backoff::{Backoff, finished_at};
use super::indexes::CompletionIndexes;
use super::observe::{
    JobObservation, JobOutcome, failure_effect, has_failed, has_valid_index, index_of, is_terminating,
    is_tracked, to_count, total_failures,
};
use super::policy::FailureEffect;
use super::view::{
    COMPLETE, FAILED, FAILURE_TARGET, JobStatus, SUCCESS_CRITERIA_MET, SUSPENDED, UncountedTerminatedPods,
    truncate_to_seconds,
};
use crate::control::view::Pod;

/// Maximum number of pods that one reconcile records, creates or deletes.
const MAX_PODS_PER_RECONCILE: usize = 500;

/// Pod changes before the status is written.
#[derive(Debug, PartialEq, Eq)]
pub enum JobPodAction {
    Nothing,
    /// Create one pod per entry, with its completion index.
    Create(Vec<Option<i64>>),
    /// Delete excess pods, which are not counted.
    DeleteExcess(Vec<usize>),
    /// Delete the remaining pods of a finished Job.
    DeleteRemaining(Vec<usize>),
}

#[derive(Debug)]
pub struct JobPlan {
    pub action: JobPodAction,
    /// The status to write after the step.
    pub status: JobStatus,
    /// Pods whose finalizer is removed after the status is written.
    pub untrack: Vec<usize>,
    /// The outcome to set when all pods are counted.
    pub outcome: Option<JobOutcome>,
    pub backoff: Backoff,
    /// `Suspended` or `Resumed`, if that has just changed.
    pub suspension_event: Option<&'static str>,
    /// When to reconcile again without a change.
    pub requeue_at: Option<Timestamp>,
}

pub fn decide(observation: &JobObservation<'_>) -> JobPlan {
    let (job, now) = (observation.job, truncate_to_seconds(observation.now));
    let mut status = job.status.clone();
    status.uncounted();
    if status.start_time.is_none() && !job.spec.suspend {
        status.start_time = Some(now);
    }
    let mut verdict = observation.outcome(&status);
    let mut again = None;
    let managed = verdict.is_none() && !job.metadata.is_deleting();
    let step = match &verdict {
        Some(_) => JobPodAction::DeleteRemaining(observation.active.clone()),
        None if managed => {
            let (step, wait) = manage(observation);
            again = [wait, observation.deadline(&status)].into_iter().flatten().min();
            step
        }
        None => JobPodAction::Nothing,
    };
    let (added, removed): (i64, &[usize]) = match &step {
        JobPodAction::Nothing => (0, &[]),
        JobPodAction::Create(pods) => (to_count(pods.len()), &[]),
        JobPodAction::DeleteExcess(pods) | JobPodAction::DeleteRemaining(pods) => (0, pods),
    };
    status.active = to_count(observation.active.len().saturating_sub(removed.len())).saturating_add(added);
    status.terminating = Some(observation.terminating.saturating_add(to_count(removed.len())));
    status.ready =
        Some(observation.count_ready(&observation.active).saturating_sub(observation.count_ready(removed)));
    let mut turned = None;
    if verdict.is_none() {
        let enough = observation.succeeded >= job.spec.completions.unwrap_or(1);
        if enough && status.active == 0 {
            let message = "Reached expected number of succeeded pods";
            verdict = Some(JobOutcome::new(true, "CompletionsReached", message));
        } else if managed {
            turned = suspend_or_resume(&mut status, job.spec.suspend, now);
        }
    }
    let (let_go, all) = record_finished(observation, verdict.as_ref(), &mut status);
    if let Some(verdict) = &verdict {
        let kind = if verdict.is_success { SUCCESS_CRITERIA_MET } else { FAILURE_TARGET };
        status.set_condition(kind, true, (&verdict.reason, &verdict.message), now);
    }
    JobPlan {
        action: step,
        status,
        untrack: let_go,
        outcome: verdict.filter(|_| all),
        backoff: observation.backoff,
        suspension_event: turned,
        requeue_at: again,
    }
}

fn suspend_or_resume(status: &mut JobStatus, suspend: bool, now: Timestamp) -> Option<&'static str> {
    let (told, words, since) = if suspend {
        ("Suspended", ("JobSuspended", "Job suspended"), None)
    } else {
        // The active deadline counts from here.
        ("Resumed", ("JobResumed", "Job resumed"), Some(now))
    };
    status.set_condition(SUSPENDED, suspend, words, now).then(|| {
        status.start_time = since;
        told
    })
}

/// Returns which pods to create or delete, and when more may be created if not now.
fn manage(observation: &JobObservation<'_>) -> (JobPodAction, Option<Timestamp>) {
    let spec = &observation.job.spec;
    let active = to_count(observation.active.len());
    if spec.suspend {
        return (delete_excess(observation, observation.active.len()), None);
    }
    let wanted = match spec.completions {
        // After the first success the remaining pods run to completion, and none is replaced.
        None if observation.succeeded > 0 => active,
        None => spec.parallelism,
        Some(completions) => completions.saturating_sub(observation.succeeded).clamp(0, spec.parallelism),
    };
    let step = delete_excess(observation, usize::try_from(active.saturating_sub(wanted)).unwrap_or(0));
    if step != JobPodAction::Nothing {
        return (step, None);
    }
    let awaited = if observation.job.replaces_only_finished() { observation.terminating } else { 0 };
    let missing = usize::try_from(wanted.saturating_sub(awaited).saturating_sub(active))
        .unwrap_or(0)
        .min(MAX_PODS_PER_RECONCILE);
    if missing == 0 {
        return (JobPodAction::Nothing, None);
    }
    let wait = |until: Option<Timestamp>| until.filter(|until| observation.now < *until);
    let per_index = spec.backoff_limit_per_index.is_some();
    if !per_index && let Some(until) = wait(observation.backoff.ends_at()) {
        return (JobPodAction::Nothing, Some(until));
    }
    if observation.indexes.is_none() {
        return (JobPodAction::Create(vec![None; missing]), None);
    }
    let mut indexes = free_indexes(observation, missing);
    let mut waits = Vec::new();
    if per_index {
        indexes.retain(|index| match wait(index_backoff(observation, *index).ends_at()) {
            Some(until) => {
                waits.push(until);
                false
            }
            None => true,
        });
    }
    let again = waits.into_iter().min();
    let step = if indexes.is_empty() {
        JobPodAction::Nothing
    } else {
        JobPodAction::Create(indexes.into_iter().map(Some).collect())
    };
    (step, again)
}

fn free_indexes(look: &JobObservation<'_>, count: usize) -> Vec<i64> {
    let Some(indexes) = &look.indexes else { return Vec::new() };
    let awaited =
        |pod: &super::Pod| pod.is_active() || look.job.replaces_only_finished() && is_terminating(pod);
    let taken = look.pods.iter().filter(|pod| awaited(pod)).filter_map(|pod| index_of(pod));
    let taken = CompletionIndexes::from_indexes(taken).union(&indexes.succeeded);
    let taken = indexes.failed.as_ref().map_or(taken.clone(), |failed| taken.union(failed));
    taken.first_missing(count, look.job.spec.completions.unwrap_or(0))
}

/// Returns the backoff of one index, from the last pod that failed there.
fn index_backoff(look: &JobObservation<'_>, index: i64) -> Backoff {
    let last = look.indexes.as_ref().and_then(|indexes| indexes.last_failed.get(&index));
    last.map_or_else(Backoff::default, |at| {
        let pod = &look.pods[*at];
        let last = Some(finished_at(pod));
        Backoff { failures: total_failures(pod).saturating_add(1), last_failure: last }
    })
}

/// Deletes at least this many active pods, and those with an invalid or duplicate index; the least advanced first.
fn delete_excess(look: &JobObservation<'_>, at_least: usize) -> JobPodAction {
    let mut order = look.active.clone();
    order.sort_by_key(|at| deletion_rank(&look.pods[*at]));
    let mut surplus = Vec::new();
    if look.job.is_indexed() {
        let mut kept = BTreeMap::new();
        for at in order.iter().rev() {
            let pod = &look.pods[*at];
            let free =
                index_of(pod).filter(|index| has_valid_index(look.job, pod) && !kept.contains_key(index));
            match free {
                Some(index) => drop(kept.insert(index, *at)),
                None => surplus.push(*at),
            }
        }
        let gone: HashSet<usize> = surplus.iter().copied().collect();
        order.retain(|at| !gone.contains(at));
    }
    let more = at_least.saturating_sub(surplus.len());
    surplus.extend(order.into_iter().take(more));
    if !look.job.spec.suspend {
        surplus.truncate(MAX_PODS_PER_RECONCILE);
    }
    if surplus.is_empty() { JobPodAction::Nothing } else { JobPodAction::DeleteExcess(surplus) }
}

/// Sort key of pods to delete, least advanced first: unscheduled, pending, not ready, ready for a shorter time, more restarts, younger.
fn deletion_rank(pod: &Pod) -> impl Ord {
    let phase = ["Pending", "Unknown", "Running"].iter().position(|phase| *phase == pod.status.phase);
    let restarts = pod.status.container_statuses.iter().map(|container| container.restart_count).max();
    (
        !pod.spec.node_name.is_empty(),
        phase,
        pod.is_ready(),
        Reverse(pod.available_from(0)),
        Reverse(restarts),
        Reverse(pod.metadata.creation_timestamp),
    )
}

/// Records finished pods in the status and counts those without finalizer. Returns the pods whose finalizer can be removed after that, and
/// whether these are all.
fn record_finished(
    look: &JobObservation<'_>,
    verdict: Option<&JobOutcome>,
    status: &mut JobStatus,
) -> (Vec<usize>, bool) {
    let job = look.job;
    let tracked: HashSet<&str> =
        look.pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.metadata.uid.as_str()).collect();
    let before = status.uncounted().clone();
    count_untracked(status, |uid| tracked.contains(uid));
    let (mut let_go, mut fresh, mut all) = (Vec::new(), 0_usize, true);
    let mut order: Vec<usize> = (0..look.pods.len()).filter(|at| is_tracked(&look.pods[*at])).collect();
    if job.is_indexed() {
        order.sort_by_key(|at| index_of(&look.pods[*at]));
    }
    for at in order {
        let pod = &look.pods[at];
        let failed = has_failed(job, pod);
        let over = verdict.is_some() || job.metadata.is_deleting();
        let held = look.indexes.as_ref().and_then(|seen| seen.last_failed.get(&index_of(pod)?));
        let stays = held == Some(&at);
        if !(over || pod.status.phase == "Succeeded" || failed && !stays) {
            continue;
        }
        let_go.push(at);
        let uid = &pod.metadata.uid;
        if pod.status.phase == "Succeeded" && !before.failed.contains(uid) {
            match &look.indexes {
                // The index suffices to count it once.
                Some(seen) => {
                    fresh = fresh.saturating_add(usize::from(
                        index_of(pod).is_some_and(|index| !seen.recorded.contains(index)),
                    ));
                }
                None if !before.succeeded.contains(uid) => status.uncounted().succeeded.push(uid.clone()),
                None => {}
            }
        } else if (failed || verdict.is_some_and(|verdict| !verdict.is_success))
            && !before.failed.contains(uid)
            && has_valid_index(job, pod)
            && failure_effect(job, pod) != FailureEffect::Ignore
        {
            status.uncounted().failed.push(uid.clone());
        }
        let UncountedTerminatedPods { succeeded, failed } = status.uncounted();
        if fresh.saturating_add(succeeded.len()).saturating_add(failed.len()) >= MAX_PODS_PER_RECONCILE {
            all = false;
            break;
        }
    }
    if let Some(seen) = &look.indexes {
        status.succeeded = seen.succeeded.len();
        status.completed_indexes = seen.succeeded.to_string();
        status.failed_indexes = seen.failed.as_ref().map(ToString::to_string);
    }
    (let_go, all)
}

/// Counts recorded pods whose finalizer has been removed.
pub fn count_untracked(status: &mut JobStatus, is_held: impl Fn(&str) -> bool) {
    let UncountedTerminatedPods { succeeded, failed } = status.uncounted();
    let gone = |list: &mut Vec<String>| {
        let before = list.len();
        list.retain(|uid| is_held(uid));
        to_count(before.saturating_sub(list.len()))
    };
    let (succeeded, failed) = (gone(succeeded), gone(failed));
    status.succeeded = status.succeeded.saturating_add(succeeded);
    status.failed = status.failed.saturating_add(failed);
}

/// Sets the final condition when every pod is counted and none is terminating. Returns whether it was set.
pub fn conclude(status: &mut JobStatus, verdict: &JobOutcome, now: Timestamp) -> bool {
    if *status.uncounted() != UncountedTerminatedPods::default() || status.terminating.unwrap_or(0) > 0 {
        return false;
    }
    let now = truncate_to_seconds(now);
    let kind = if verdict.is_success { COMPLETE } else { FAILED };
    status.set_condition(kind, true, (&verdict.reason, &verdict.message), now);
    if verdict.is_success {
        status.completion_time = Some(now);
    }
    true
}
