//! Observed state of a Job and its pods: counts, indexes, and whether the Job is finished. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::backoff::{Backoff, finished_at};
use super::indexes::Indexes;
use super::policy::{self, Meaning};
use super::view::{FAILURE_TARGET, Job, SUCCESS_CRITERIA_MET, Status};
use crate::control::view::{Pod, PodStatus};

/// Finalizer of a pod until its end is recorded in the Job's status.
pub const TRACKER: &str = "batch.kubernetes.io/job-tracking";
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";
pub const INDEX_FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
pub const INDEX_IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The outcome of a Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub success: bool,
    pub reason: String,
    pub message: String,
}

impl Verdict {
    pub fn new(success: bool, reason: &str, message: impl Into<String>) -> Self {
        Self { success, reason: reason.to_owned(), message: message.into() }
    }
}

pub struct Look<'a> {
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
    pub indexes: Option<IndexLook>,
}

#[derive(Default)]
pub struct IndexLook {
    /// As in the status.
    pub known: Indexes,
    pub succeeded: Indexes,
    /// `Some` if there is a backoff limit per index.
    pub failed: Option<Indexes>,
    /// By index: the failed pod that is retained until its successor exists, because it carries the failure count.
    pub last_failed: BTreeMap<i64, usize>,
}

impl<'a> Look<'a> {
    /// `remembered` is the backoff from earlier reconciles; without it, it is derived from the existing pods.
    pub fn new(job: &'a Job, pods: &'a [Arc<Pod>], remembered: Option<Backoff>, now: Timestamp) -> Self {
        let uncounted = job.status.uncounted_terminated_pods.clone().unwrap_or_default();
        let is_new = |pod: &Pod, noted: &[String]| {
            is_tracked(pod) && !noted.contains(&pod.metadata.uid) && has_place(job, pod)
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
        let before = remembered
            .unwrap_or_else(|| Backoff::default().after(old_succeeded.into_iter(), old_failed.into_iter()));
        let ignored = |pod: &&&Pod| meaning(job, pod) == Meaning::Ignore;
        let counted = count(failed.len()).saturating_sub(count(failed.iter().filter(ignored).count()));
        let active: Vec<usize> = (0..pods.len()).filter(|at| pods[*at].is_active()).collect();
        let mut look = Self {
            job,
            pods,
            now,
            terminating: count(pods.iter().filter(|pod| is_terminating(pod)).count()),
            succeeded: job
                .status
                .succeeded
                .saturating_add(count(succeeded.len().saturating_add(uncounted.succeeded.len()))),
            failed: job.status.failed.saturating_add(counted).saturating_add(count(uncounted.failed.len())),
            backoff: before.after(succeeded.into_iter(), failed.into_iter()),
            active,
            indexes: None,
        };
        if job.is_indexed() {
            let indexes = look.index_look();
            look.succeeded = indexes.succeeded.total();
            look.indexes = Some(indexes);
        }
        look
    }

    fn completions(&self) -> i64 {
        self.job.spec.completions.unwrap_or(0)
    }

    fn index_look(&self) -> IndexLook {
        let (job, completions) = (self.job, self.completions());
        let uncounted = |wanted: &dyn Fn(&Pod) -> bool| {
            let pods = self.pods.iter().filter(|pod| is_tracked(pod) && has_place(job, pod) && wanted(pod));
            Indexes::of(pods.filter_map(|pod| index_of(pod)))
        };
        let known = Indexes::parse(&job.status.completed_indexes, completions);
        let succeeded = known.with(&uncounted(&|pod| pod.status.phase == "Succeeded"));
        let failed = job.spec.backoff_limit_per_index.map(|limit| {
            let text = job.status.failed_indexes.as_deref().unwrap_or_default();
            let over = |pod: &Pod| {
                has_failed(job, pod)
                    && match meaning(job, pod) {
                        Meaning::FailIndex => true,
                        Meaning::Ignore => false,
                        _ => failures_of(pod, INDEX_FAILURES) >= limit,
                    }
            };
            Indexes::parse(text, completions).with(&uncounted(&over))
        });
        let last_failed = failed.as_ref().map(|failed| self.last_failed(&succeeded.with(failed)));
        IndexLook { known, succeeded, failed, last_failed: last_failed.unwrap_or_default() }
    }

    fn last_failed(&self, done: &Indexes) -> BTreeMap<i64, usize> {
        let running = Indexes::of(self.active.iter().filter_map(|at| index_of(&self.pods[*at])));
        let rank = |at: usize| (failures_in_all(&self.pods[at]), finished_at(&self.pods[at]));
        let mut last = BTreeMap::new();
        for (at, pod) in self.pods.iter().enumerate() {
            let Some(index) = index_of(pod).filter(|_| is_tracked(pod) && has_place(self.job, pod)) else {
                continue;
            };
            if has_failed(self.job, pod) && !done.has(index) && !running.has(index) {
                let held = last.entry(index).or_insert(at);
                if rank(at) >= rank(*held) {
                    *held = at;
                }
            }
        }
        last
    }

    /// The outcome of the Job, if something other than its number of completions decides it.
    pub fn verdict(&self, status: &Status) -> Option<Verdict> {
        let (job, spec) = (self.job, &self.job.spec);
        for (kind, success) in [(SUCCESS_CRITERIA_MET, true), (FAILURE_TARGET, false)] {
            if let Some(decided) = status.holds(kind) {
                return Some(Verdict::new(success, &decided.reason, &decided.message));
            }
        }
        let fatal = |pod: &Arc<Pod>| match meaning(job, pod) {
            Meaning::FailJob(message) if has_failed(job, pod) => Some(message),
            _ => None,
        };
        if spec.pod_failure_policy.is_some()
            && let Some(message) = self.pods.iter().find_map(fatal)
        {
            return Some(Verdict::new(false, "PodFailurePolicy", message));
        }
        if self.failed > spec.backoff_limit || self.restarts_too_often() {
            let message = "Job has reached the specified backoff limit";
            return Some(Verdict::new(false, "BackoffLimitExceeded", message));
        }
        if self.deadline(status).is_some_and(|deadline| self.now >= deadline) {
            let message = "Job was active longer than specified deadline";
            return Some(Verdict::new(false, "DeadlineExceeded", message));
        }
        let indexes = self.indexes.as_ref()?;
        if let Some(failed) = indexes.failed.as_ref().map(Indexes::total) {
            if spec.max_failed_indexes.is_some_and(|most| failed > most) {
                let message = "Job has exceeded the specified maximal number of failed indexes";
                return Some(Verdict::new(false, "MaxFailedIndexesExceeded", message));
            }
            if failed > 0 && failed.saturating_add(indexes.succeeded.total()) >= self.completions() {
                return Some(Verdict::new(false, "FailedIndexes", "Job has failed indexes"));
            }
        }
        let met = policy::met(spec.success_policy.as_ref(), &indexes.succeeded, self.completions())?;
        Some(Verdict::new(true, "SuccessPolicy", met))
    }

    /// When `activeDeadlineSeconds` of an active Job end.
    pub fn deadline(&self, status: &Status) -> Option<Timestamp> {
        let seconds = self.job.spec.active_deadline_seconds.filter(|_| !self.job.spec.suspend)?;
        status.start_time?.checked_add(SignedDuration::from_secs(seconds)).ok()
    }

    /// Container restarts inside pods count towards the backoff limit as well.
    fn restarts_too_often(&self) -> bool {
        let spec = &self.job.spec;
        let restarts = |status: &PodStatus| -> i64 {
            let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
            containers.map(|container| container.restart_count).sum()
        };
        let alive = self.pods.iter().filter(|pod| matches!(pod.status.phase.as_str(), "Running" | "Pending"));
        spec.template["spec"]["restartPolicy"] == "OnFailure"
            && alive.map(|pod| restarts(&pod.status)).sum::<i64>() >= spec.backoff_limit.max(1)
    }

    pub fn ready(&self, places: &[usize]) -> i64 {
        count(places.iter().filter(|at| self.pods[**at].is_ready()).count())
    }
}

pub fn count(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKER)
}

pub fn is_terminating(pod: &Pod) -> bool {
    pod.metadata.is_deleting() && !pod.is_finished()
}

/// Whether a pod counts as failed. A pod that is being deleted does; with replacement policy `Failed` only
/// when its grace period is over, because its status will not change any more.
pub fn has_failed(job: &Job, pod: &Pod) -> bool {
    let waits = || job.replaces_ended_only() && pod.metadata.deletion_grace_period_seconds != Some(0);
    pod.status.phase == "Failed" || is_terminating(pod) && !waits()
}

pub fn meaning(job: &Job, pod: &Pod) -> Meaning {
    policy::meaning(job.spec.pod_failure_policy.as_ref(), pod)
}

pub fn index_of(pod: &Pod) -> Option<i64> {
    pod.metadata.annotations.get(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// Whether a pod of an indexed Job has a valid index.
pub fn has_place(job: &Job, pod: &Pod) -> bool {
    !job.is_indexed() || index_of(pod).is_some_and(|index| Some(index) < job.spec.completions)
}

pub fn failures_of(pod: &Pod, annotation: &str) -> i64 {
    let number = pod.metadata.annotations.get(annotation).and_then(|text| text.parse::<i32>().ok());
    number.unwrap_or(0).max(0).into()
}

pub fn failures_in_all(pod: &Pod) -> i64 {
    failures_of(pod, INDEX_FAILURES).saturating_add(failures_of(pod, INDEX_IGNORED))
}
