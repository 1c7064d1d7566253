//! Observed state of a Job and its pods: counts, indexes, and whether the Job is finished. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::backoff::{Backoff, finished_at};
use super::indexes::CompletionIndexes;
use super::policy::{self, FailureEffect};
use super::view::{FAILURE_TARGET, Job, JobStatus, SUCCESS_CRITERIA_MET};
use crate::control::view::{Pod, PodStatus};

/// Finalizer of a pod until its end is recorded in the Job's status.
pub const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX_ANNOTATION: &str = "batch.kubernetes.io/job-completion-index";
pub const INDEX_FAILURES_ANNOTATION: &str = "batch.kubernetes.io/job-index-failure-count";
pub const INDEX_IGNORED_ANNOTATION: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The outcome of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobOutcome {
    pub is_success: bool,
    pub reason: String,
    pub message: String,
}

impl JobOutcome {
    pub fn new(success: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { is_success: success, reason: reason.to_owned(), message: message.into() }
    }
}

pub struct JobObservation<'a> {
    pub job: &'a Job,
    pub pods: &'a [Arc<Pod>],
    pub now: Timestamp,
    /// Indexes into `pods`: neither terminated nor being deleted.
    pub active: Vec<usize>,
    pub terminating: i64,
    /// All that have succeeded or failed, whether or not the status counts them.
    pub succeeded: i64,
    pub failed: i64,
    pub backoff: Backoff,
    /// `Some` for an indexed Job.
    pub indexes: Option<IndexObservation>,
}

#[derive(Default)]
pub struct IndexObservation {
    /// As in the status.
    pub recorded: CompletionIndexes,
    pub succeeded: CompletionIndexes,
    /// `Some` if there is a backoff limit per index.
    pub failed: Option<CompletionIndexes>,
    /// By index: the failed pod that is retained until its successor exists, because it carries the failure count.
    pub last_failed: BTreeMap<i64, usize>,
}

impl<'a> JobObservation<'a> {
    /// `previous_backoff` is the backoff from earlier reconciles; without it, it is derived from the existing pods.
    pub fn new(
        job: &'a Job,
        pods: &'a [Arc<Pod>],
        previous_backoff: Option<Backoff>,
        now: Timestamp,
    ) -> Self {
        let uncounted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let is_new = |pod: &Pod, noted: &[String]| {
            is_tracked(pod) && !noted.contains(&pod.metadata.uid) && has_valid_index(job, pod)
        };
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        let (mut old_succeeded, mut old_failed) = (Vec::new(), Vec::new());
        for pod in pods.iter().map(AsRef::as_ref) {
            if pod.status.phase == "Succeeded" {
                let list =
                    if is_new(pod, &uncounted.succeeded) { &mut succeeded } else { &mut old_succeeded };
                list.push(pod);
            } else if has_failed(job, pod) {
                let list = if is_new(pod, &uncounted.failed) { &mut failed } else { &mut old_failed };
                list.push(pod);
            }
        }
        let before = previous_backoff.unwrap_or_else(|| {
            Backoff::default().with_finished(old_succeeded.into_iter(), old_failed.into_iter())
        });
        let ignored = |pod: &&&Pod| failure_effect(job, pod) == FailureEffect::Ignore;
        let counted = to_count(failed.len()).saturating_sub(to_count(failed.iter().filter(ignored).count()));
        let active: Vec<usize> = (0..pods.len()).filter(|at| pods[*at].is_active()).collect();
        let mut look = Self {
            job,
            pods,
            now,
            terminating: to_count(pods.iter().filter(|pod| is_terminating(pod)).count()),
            succeeded: job
                .status
                .succeeded
                .saturating_add(to_count(succeeded.len().saturating_add(uncounted.succeeded.len()))),
            failed: job
                .status
                .failed
                .saturating_add(counted)
                .saturating_add(to_count(uncounted.failed.len())),
            backoff: before.with_finished(succeeded.into_iter(), failed.into_iter()),
            active,
            indexes: None,
        };
        if job.is_indexed() {
            let indexes = look.observe_indexes();
            look.succeeded = indexes.succeeded.len();
            look.indexes = Some(indexes);
        }
        look
    }

    fn completions(&self) -> i64 {
        self.job.spec.completions.unwrap_or(0)
    }

    fn observe_indexes(&self) -> IndexObservation {
        let (job, completions) = (self.job, self.completions());
        let uncounted = |wanted: &dyn Fn(&Pod) -> bool| {
            let pods =
                self.pods.iter().filter(|pod| is_tracked(pod) && has_valid_index(job, pod) && wanted(pod));
            CompletionIndexes::from_indexes(pods.filter_map(|pod| index_of(pod)))
        };
        let known = CompletionIndexes::parse(&job.status.completed_indexes, completions);
        let succeeded = known.union(&uncounted(&|pod| pod.status.phase == "Succeeded"));
        let failed = job.spec.backoff_limit_per_index.map(|limit| {
            let text = job.status.failed_indexes.as_deref().unwrap_or_default();
            let over = |pod: &Pod| {
                has_failed(job, pod)
                    && match failure_effect(job, pod) {
                        FailureEffect::FailIndex => true,
                        FailureEffect::Ignore => false,
                        _ => annotated_failures(pod, INDEX_FAILURES_ANNOTATION) >= limit,
                    }
            };
            CompletionIndexes::parse(text, completions).union(&uncounted(&over))
        });
        let last_failed = failed.as_ref().map(|failed| self.last_failed(&succeeded.union(failed)));
        IndexObservation { recorded: known, succeeded, failed, last_failed: last_failed.unwrap_or_default() }
    }

    fn last_failed(&self, done: &CompletionIndexes) -> BTreeMap<i64, usize> {
        let running =
            CompletionIndexes::from_indexes(self.active.iter().filter_map(|at| index_of(&self.pods[*at])));
        let rank = |at: usize| (total_failures(&self.pods[at]), finished_at(&self.pods[at]));
        let mut last = BTreeMap::new();
        for (at, pod) in self.pods.iter().enumerate() {
            let Some(index) = index_of(pod).filter(|_| is_tracked(pod) && has_valid_index(self.job, pod))
            else {
                continue;
            };
            if has_failed(self.job, pod) && !done.contains(index) && !running.contains(index) {
                let held = last.entry(index).or_insert(at);
                if rank(at) >= rank(*held) {
                    *held = at;
                }
            }
        }
        last
    }

    /// The outcome of the Job, if something other than its number of completions decides it.
    pub fn outcome(&self, status: &JobStatus) -> Option<JobOutcome> {
        let (job, spec) = (self.job, &self.job.spec);
        for (kind, success) in [(SUCCESS_CRITERIA_MET, true), (FAILURE_TARGET, false)] {
            if let Some(decided) = status.true_condition(kind) {
                return Some(JobOutcome::new(success, &decided.reason, &decided.message));
            }
        }
        let fatal = |pod: &Arc<Pod>| match failure_effect(job, pod) {
            FailureEffect::FailJob(message) if has_failed(job, pod) => Some(message),
            _ => None,
        };
        if spec.pod_failure_policy.is_some()
            && let Some(message) = self.pods.iter().find_map(fatal)
        {
            return Some(JobOutcome::new(false, "PodFailurePolicy", message));
        }
        if self.failed > spec.backoff_limit || self.exceeds_restart_limit() {
            let message = "Job has reached the specified backoff limit";
            return Some(JobOutcome::new(false, "BackoffLimitExceeded", message));
        }
        if self.deadline(status).is_some_and(|deadline| self.now >= deadline) {
            let message = "Job was active longer than specified deadline";
            return Some(JobOutcome::new(false, "DeadlineExceeded", message));
        }
        let indexes = self.indexes.as_ref()?;
        if let Some(failed) = indexes.failed.as_ref().map(CompletionIndexes::len) {
            if spec.max_failed_indexes.is_some_and(|most| failed > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return Some(JobOutcome::new(false, "MaxFailedIndexesExceeded", message));
            }
            if failed > 0 && failed.saturating_add(indexes.succeeded.len()) >= self.completions() {
                return Some(JobOutcome::new(false, "FailedIndexes", "Job has failed indexes"));
            }
        }
        let met =
            policy::success_message(spec.success_policy.as_ref(), &indexes.succeeded, self.completions())?;
        Some(JobOutcome::new(true, "SuccessPolicy", met))
    }

    /// When `activeDeadlineSeconds` of an active Job end.
    pub fn deadline(&self, status: &JobStatus) -> Option<Timestamp> {
        let seconds = self.job.spec.active_deadline_seconds.filter(|_| !self.job.spec.suspend)?;
        status.start_time?.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    /// Container restarts inside pods count towards the backoff limit as well.
    fn exceeds_restart_limit(&self) -> bool {
        let spec = &self.job.spec;
        let restarts = |status: &PodStatus| -> i64 {
            let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
            containers.map(|container| container.restart_count).sum()
        };
        let alive = self.pods.iter().filter(|pod| matches!(pod.status.phase.as_str(), "Running" | "Pending"));
        spec.template["spec"]["restartPolicy"] == "OnFailure"
            && alive.map(|pod| restarts(&pod.status)).sum::<i64>() >= spec.backoff_limit.max(1)
    }

    pub fn count_ready(&self, places: &[usize]) -> i64 {
        to_count(places.iter().filter(|at| self.pods[**at].is_ready()).count())
    }
}

pub fn to_count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING_FINALIZER)
}

pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && !pod.is_finished()
}

/// Whether a pod counts as failed. A pod that is being deleted does; with replacement policy `Failed` only
/// when its grace period is over, because its status will not change any more.
pub fn has_failed(job: &Job, pod: &Pod) -> bool {
    let waits = || job.replaces_only_finished() && pod.metadata.deletion_grace_period_seconds != Some(0);
    pod.status.phase == "Failed" || is_terminating(pod) && !waits()
}

pub fn failure_effect(job: &Job, pod: &Pod) -> FailureEffect {
    policy::failure_effect(job.spec.pod_failure_policy.as_ref(), pod)
}

pub fn index_of(pod: &Pod) -> Option<i64> {
    pod.metadata.annotations.get(INDEX_ANNOTATION)?.parse().ok().filter(|index| *index >= 0)
}

/// Whether a pod of an indexed Job has a valid index.
pub fn has_valid_index(job: &Job, pod: &Pod) -> bool {
    !job.is_indexed() || index_of(pod).is_some_and(|index| Some(index) < job.spec.completions)
}

pub fn annotated_failures(pod: &Pod, annotation: &str) -> i64 {
    let number = pod.metadata.annotations.get(annotation).and_then(|text| text.parse::<i32>().ok());
    number.unwrap_or(0).max(0).into()
}

pub fn total_failures(pod: &Pod) -> i64 {
    annotated_failures(pod, INDEX_FAILURES_ANNOTATION)
        .saturating_add(annotated_failures(pod, INDEX_IGNORED_ANNOTATION))
}
