//! Decisions about a `CronJob`: Jobs to delete, a Job to start, the next reconcile. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::view::{CronJob, CronJobStatus};
use crate::control::workloads::job::view::{COMPLETE, Job};
use crate::rules::workloads::schedule::{self, Schedule};

/// More missed start times than this cause a warning Event.
const MISSED_TIMES_WARNING: i64 = 100;

/// An Event about the `CronJob`.
#[derive(Debug, PartialEq, Eq)]
pub struct CronJobEvent {
    pub is_warning: bool,
    pub reason: &'static str,
    pub message: String,
}

#[derive(Debug, Default)]
pub struct CronJobPlan {
    /// Indexes of finished Jobs beyond the history limits.
    pub delete: Vec<usize>,
    pub status: CronJobStatus,
    pub events: Vec<CronJobEvent>,
    /// The scheduled time of the Job to start now.
    pub start: Option<Timestamp>,
    /// Active Jobs, by name, that it replaces.
    pub replace: Vec<String>,
    pub next_reconcile: Option<Timestamp>,
}

impl CronJobPlan {
    fn add_event(&mut self, warning: bool, reason: &'static str, message: impl Into<String>) {
        self.events.push(CronJobEvent { is_warning: warning, reason, message: message.into() });
    }
}

/// `jobs` are all Jobs of the `CronJob`. Nothing is started before `not_before`.
pub fn decide(
    cron: &CronJob,
    jobs: &[Arc<Job>],
    not_before: Option<Timestamp>,
    now: Timestamp,
) -> CronJobPlan {
    let mut plan = CronJobPlan {
        delete: jobs_beyond_history(cron, jobs),
        status: cron.status.clone(),
        ..CronJobPlan::default()
    };
    let gone: Vec<&str> = plan.delete.iter().map(|at| jobs[*at].metadata.uid.as_str()).collect();
    plan.status.active.retain(|active| !gone.contains(&active.uid.as_str()));
    update_active_jobs(&mut plan, jobs);
    if cron.metadata.is_deleting() || cron.spec.suspend {
        return plan;
    }
    let zone = schedule::time_zone(&cron.spec.time_zone).unwrap_or(jiff::tz::TimeZone::UTC);
    match Schedule::parse(&cron.spec.schedule, zone) {
        Ok(times) => schedule_next(&mut plan, cron, &times, not_before, now),
        Err(why) => {
            let message = format!("unparseable schedule: {:?} : {why}", cron.spec.schedule);
            plan.add_event(true, "UnparseableSchedule", message);
        }
    }
    plan
}

/// The oldest finished Jobs beyond the history limits.
fn jobs_beyond_history(cron: &CronJob, jobs: &[Arc<Job>]) -> Vec<usize> {
    let beyond = |limit: Option<i64>, success: bool| {
        let ended = |at: &usize| {
            jobs[*at].finished_condition().is_some_and(|end| (end.r#type == COMPLETE) == success)
        };
        let mut ended: Vec<usize> = (0..jobs.len()).filter(ended).collect();
        ended.sort_by_key(|at| {
            let (start, name) = (jobs[*at].status.start_time, jobs[*at].metadata.name.as_str());
            (start.is_none(), start, name)
        });
        let kept = limit.map_or(ended.len(), |limit| usize::try_from(limit).unwrap_or(0));
        ended.truncate(ended.len().saturating_sub(kept));
        ended
    };
    let spec = &cron.spec;
    [beyond(spec.successful_jobs_history_limit, true), beyond(spec.failed_jobs_history_limit, false)].concat()
}

/// Updates the list of active Jobs from the observed ones.
fn update_active_jobs(plan: &mut CronJobPlan, jobs: &[Arc<Job>]) {
    for job in jobs {
        let listed = plan.status.active.iter().any(|active| active.uid == job.metadata.uid);
        let Some(end) = job.finished_condition() else {
            if !listed {
                let message =
                    format!("Saw a job that the controller did not create or forgot: {}", job.metadata.name);
                plan.add_event(true, "UnexpectedJob", message);
            }
            continue;
        };
        if listed {
            plan.status.active.retain(|active| active.uid != job.metadata.uid);
            let message = format!("Saw completed job: {}, condition: {}", job.metadata.name, end.r#type);
            plan.add_event(false, "SawCompletedJob", message);
        }
        if end.r#type == COMPLETE {
            let last = &mut plan.status.last_successful_time;
            *last = (*last).max(job.status.completion_time);
        }
    }
    let missing = |uid: &str| !jobs.iter().any(|job| job.metadata.uid == uid);
    let lost: Vec<_> = plan.status.active.iter().filter(|active| missing(&active.uid)).cloned().collect();
    for job in lost {
        plan.add_event(false, "MissingJob", format!("Active job went missing: {}", job.name));
        plan.status.active.retain(|active| active.uid != job.uid);
    }
}

fn schedule_next(
    plan: &mut CronJobPlan,
    cron: &CronJob,
    times: &Schedule,
    not_before: Option<Timestamp>,
    now: Timestamp,
) {
    if let Some(later) = not_before.filter(|later| now < *later) {
        plan.next_reconcile = Some(later);
        return;
    }
    let met = processed_until(cron, now);
    let deadline = cron.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    let deadline = deadline.and_then(|seconds| now.checked_sub(seconds).ok());
    let (due, missed) = match most_recent_time(deadline.map_or(met, |deadline| met.max(deadline)), times, now)
    {
        Ok(found) => found,
        Err(why) => {
            let message = format!("invalid schedule: {} : {why}", cron.spec.schedule);
            return plan.add_event(true, "InvalidSchedule", message);
        }
    };
    plan.next_reconcile = next_time(met, times, now);
    let Some(due) = due else { return };
    if missed > MISSED_TIMES_WARNING {
        let message =
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.add_event(true, "TooManyMissedTimes", message);
    }
    let name = job_name(&cron.metadata.name, due);
    let started = plan.status.active.iter().any(|active| active.name == name);
    if started || plan.status.last_schedule_time == Some(due) {
        return;
    }
    match cron.spec.concurrency_policy.as_str() {
        "Forbid" if !plan.status.active.is_empty() => {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            return plan.add_event(false, "JobAlreadyActive", message);
        }
        "Replace" => {
            plan.replace = plan.status.active.drain(..).map(|active| active.name).collect();
        }
        _ => {}
    }
    plan.start = Some(due);
    plan.next_reconcile = next_time(due, times, now);
}

pub fn job_name(cron: &str, due: Timestamp) -> String {
    format!("{cron}-{}", due.as_second() / 60)
}

/// Returns the most recent scheduled time after `since`, and about how many have passed.
fn most_recent_time(
    since: Timestamp,
    times: &Schedule,
    now: Timestamp,
) -> Result<(Option<Timestamp>, i64), &'static str> {
    let too_dense = "time difference between two schedules is less than 1 second";
    let first = times.next_after(since).ok_or(too_dense)?;
    if now < first {
        return Ok((None, 0));
    }
    let second = times.next_after(first).ok_or(too_dense)?;
    if now < second {
        return Ok((Some(first), 0));
    }
    let pause = second.as_second().saturating_sub(first.as_second()).max(1);
    let elapsed = now.as_second().saturating_sub(first.as_second());
    let missed = elapsed.checked_div(pause).unwrap_or(0).saturating_add(1);
    // Times need not be evenly spaced: begin one interval early and iterate.
    let begin = first
        .checked_add(SignedDuration::from_secs(missed.saturating_sub(2).saturating_mul(pause)))
        .unwrap_or(first);
    let walk = std::iter::successors(times.next_after(begin), |at| times.next_after(*at));
    Ok((walk.take_while(|at| *at <= now).last(), missed))
}

/// The time up to which the schedule has been processed.
pub fn processed_until(cron: &CronJob, now: Timestamp) -> Timestamp {
    cron.status.last_schedule_time.or(cron.metadata.creation_timestamp).unwrap_or(now)
}

/// Returns the next scheduled time, all past times being processed.
pub fn next_time(met: Timestamp, times: &Schedule, now: Timestamp) -> Option<Timestamp> {
    let last = match most_recent_time(met, times, now) {
        Ok((Some(last), _)) => last,
        Ok((None, 0)) => met,
        _ => now,
    };
    times.next_after(last)
}
