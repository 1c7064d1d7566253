//! The CronJob controller: creates a Job at each time of a schedule.
//!
//! The name of a Job is derived from its scheduled time, so no Job is started twice. A changed schedule applies from the change
//! on: earlier times of the new schedule are not made up for.

#![warn(clippy::arithmetic_side_effects)]

mod plan;
#[cfg(test)]
mod tests;
mod view;

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use plan::{CronJobPlan, decide, job_name};
use view::{CronJob, JobReference};

use super::job::JOBS;
use super::job::view::Job;
use super::pods::Owner;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::{Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError};
use crate::error::Result;
use crate::rules::workloads::schedule::{self, Schedule};
use crate::store::{Event, EventKind, Key, Object};

const CRON_JOBS: &str = "cronjobs.batch";
const COMPONENT: &str = "cronjob-controller";
const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// By uid: when a changed schedule was observed. If this is lost, a missed time may be made up for.
#[derive(Default)]
pub(super) struct CronJobs {
    schedule_changes: Mutex<HashMap<Box<str>, Timestamp>>,
}

impl Controller for CronJobs {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = CRON_JOBS.into();
        let all = context.store.list(CRON_JOBS, None).objects;
        all.iter().map(|cron| Key::new(&storage, &cron.namespace, &cron.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            CRON_JOBS => {
                if event.kind == EventKind::Deleted {
                    self.schedule_changes.lock().remove(&object.uid);
                } else {
                    self.record_schedule_change(context, event);
                    keys.push(Key::new(storage, &object.namespace, &object.name));
                }
            }
            JOBS => {
                let versions = [Some(object), event.previous.as_ref()].into_iter().flatten();
                let managers = versions.filter_map(|job| owning_cron_job(job)).map(|(name, _)| name);
                keys.extend(managers.map(|name| Key::new(&CRON_JOBS.into(), &object.namespace, &name)));
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(CRON_JOBS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let cron = object.view::<CronJob>();
        let jobs = context.store.dependents(&object.uid).into_iter();
        let managed = |job: &Object| owning_cron_job(job).is_some_and(|(_, uid)| *uid == *object.uid);
        let jobs = jobs.filter(|(storage, job)| storage.as_ref() == JOBS && managed(job));
        let jobs: Vec<Arc<Object>> = jobs.map(|(_, job)| job).collect();
        let views: Vec<Arc<Job>> = jobs.iter().map(|job| job.view()).collect();
        let not_before = self.schedule_changes.lock().get(&object.uid).copied();
        let now = context.clock.now();
        let plan = decide(&cron, &views, not_before, now);
        let next = plan.next_reconcile;
        execute_plan(context, &object, &cron, &jobs, plan).await?;
        Ok(Action::AwaitChange.or_at(next, now))
    }
}

impl CronJobs {
    fn record_schedule_change(&self, context: &Context, event: &Event) {
        let Some(previous) = &event.previous else { return };
        let (old, new) = (previous.view::<CronJob>(), event.object.view::<CronJob>());
        if (&old.spec.schedule, &old.spec.time_zone) == (&new.spec.schedule, &new.spec.time_zone) {
            return;
        }
        let zone = schedule::time_zone(&new.spec.time_zone).unwrap_or(jiff::tz::TimeZone::UTC);
        let times = Schedule::parse(&new.spec.schedule, zone).ok();
        let now = context.clock.now();
        if let Some(from) =
            times.and_then(|times| plan::next_time(plan::processed_until(&new, now), &times, now))
        {
            self.schedule_changes.lock().insert(event.object.uid.clone(), from);
        }
    }
}

/// Name and uid of the `CronJob` that manages a Job.
fn owning_cron_job(job: &Object) -> Option<(String, String)> {
    let job = job.view::<Job>();
    let manager = job.metadata.controller().filter(|manager| manager.kind == "CronJob")?;
    Some((manager.name.clone(), manager.uid.clone()))
}

fn involved_object(cron: &Object) -> InvolvedObject {
    InvolvedObject::new("batch/v1", "CronJob", cron)
}

async fn execute_plan(
    context: &Context,
    object: &Object,
    cron: &CronJob,
    jobs: &[Arc<Object>],
    mut plan: CronJobPlan,
) -> Result<(), ReconcileError> {
    for job in plan.delete.iter().map(|at| &jobs[*at]).filter(|job| !job.is_deleting) {
        remove(context, object, job).await?;
    }
    for note in plan.events.drain(..) {
        if note.is_warning {
            context.events.warning(COMPONENT, involved_object(object), note.reason, note.message);
        } else {
            context.events.normal(COMPONENT, involved_object(object), note.reason, note.message);
        }
    }
    for job in jobs.iter().filter(|job| plan.replace.iter().any(|name| *name == *job.name)) {
        remove(context, object, job).await?;
    }
    let mut refused = None;
    if let Some(due) = plan.start {
        match create_job(context, object, cron, due).await {
            Ok(Some(job)) => {
                plan.status.active.push(job_reference(&job));
                plan.status.last_schedule_time = Some(due);
            }
            Ok(None) => {}
            Err(error) => refused = Some(error),
        }
    }
    if plan.status != cron.status {
        let mut document = object.value();
        document["status"] = serde_json::to_value(&plan.status).expect("a status is plain data");
        context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?;
    }
    refused.map_or(Ok(()), Err)
}

fn job_reference(job: &Object) -> JobReference {
    JobReference {
        kind: "Job".to_owned(),
        namespace: job.namespace.to_string(),
        name: job.name.to_string(),
        uid: job.uid.to_string(),
        api_version: "batch/v1".to_owned(),
        resource_version: job.version.to_string(),
    }
}

async fn remove(context: &Context, cron: &Object, job: &Object) -> Result<(), ReconcileError> {
    let key = Key::new(&JOBS.into(), &job.namespace, &job.name);
    let preconditions = Preconditions { uid: &job.uid, version: None };
    match context.client.delete(&key, preconditions, Propagation::Background).await {
        Ok(()) => {
            let message = format!("Deleted job {}", job.name);
            context.events.normal(COMPONENT, involved_object(cron), "SuccessfulDelete", message);
            Ok(())
        }
        Err(error) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => {
            let message = format!("Deleted job: {error}");
            context.events.warning(COMPONENT, involved_object(cron), "FailedDelete", message);
            Err(error.into())
        }
    }
}

/// Returns the Job of a scheduled time, created now or before; `None` if a Job of that name has another owner.
async fn create_job(
    context: &Context,
    object: &Object,
    cron: &CronJob,
    due: Timestamp,
) -> Result<Option<Arc<Object>>, ReconcileError> {
    match context.client.create(Component::ControllerManager, new_job(object, cron, due)).await {
        Ok(job) => {
            let message = format!("Created job {}", job.name);
            context.events.normal(COMPONENT, involved_object(object), "SuccessfulCreate", message);
            Ok(Some(job))
        }
        Err(error) if error.reason == "AlreadyExists" => {
            let job = context.store.get(JOBS, &object.namespace, &job_name(&object.name, due));
            let ours = |job: &Arc<Object>| owning_cron_job(job).is_some_and(|(_, uid)| *uid == *object.uid);
            Ok(job.filter(ours))
        }
        Err(error) => {
            if !error.is_namespace_terminating() {
                let message = format!("Error creating job: {error}");
                context.events.warning(COMPONENT, involved_object(object), "FailedCreate", message);
            }
            Err(error.into())
        }
    }
}

fn new_job(object: &Object, cron: &CronJob, due: Timestamp) -> Value {
    let template = &cron.spec.job_template;
    let owner = Owner { api_version: "batch/v1", kind: "CronJob", object };
    let mut metadata = json!({
        "namespace": object.namespace, "name": job_name(&object.name, due), "ownerReferences": [owner.reference()],
        "annotations": template["metadata"]["annotations"], "labels": template["metadata"]["labels"],
    });
    metadata["annotations"][SCHEDULED_TIMESTAMP] = local_time(&cron.spec.time_zone, due).into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]})
}

/// `2026-01-02T03:04:05Z`, or with the offset of the time zone.
fn local_time(zone: &str, at: Timestamp) -> String {
    let zone = schedule::time_zone(zone).unwrap_or(jiff::tz::TimeZone::UTC);
    let text = at.to_zoned(zone).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string();
    text.strip_suffix("+00:00").map_or(text.clone(), |utc| format!("{utc}Z"))
}
