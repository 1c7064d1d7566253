//! Cached jobs and cronjobs, and their rows.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use serde_json::Value;

use crate::interner::StringInterner;
use crate::metadata::{ContainerImages, ObjectHeader};
use crate::partial_object::{Condition, PartialObject, find_true, format_time, unix_seconds};
use crate::rows::{CronJobRow, JobRow, PodCounts};
use crate::workload::PodTemplate;

/// A job from the API server.
pub(crate) type JobObject = PartialObject<JobSpecPart, JobStatusPart>;
/// A cronjob from the API server.
pub(crate) type CronJobObject = PartialObject<CronJobSpecPart, CronJobStatusPart>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct JobSpecPart {
    template: PodTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct JobStatusPart {
    conditions: Vec<Condition>,
    active: i64,
    failed: i64,
    succeeded: i64,
    start_time: Option<Time>,
    completion_time: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobSpecPart {
    schedule: String,
    time_zone: Option<String>,
    suspend: bool,
    job_template: JobTemplate,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JobTemplate {
    spec: JobSpecPart,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct CronJobStatusPart {
    active: Vec<Value>,
    last_schedule_time: Option<Time>,
    last_successful_time: Option<Time>,
}

/// States by true conditions, in order of precedence.
const STATES_BY_CONDITION: &[&str] = &["Failed", "Complete", "Suspended"];

/// A cached job.
#[derive(Debug, PartialEq)]
pub(crate) struct Job {
    pub head: ObjectHeader,
    images: ContainerImages,
    status: &'static str,
    reason: Arc<str>,
    pods: PodCounts,
    started: Option<i64>,
    completed: Option<i64>,
}

impl Job {
    pub fn from_object(object: &JobObject, words: &StringInterner) -> Self {
        let PartialObject { metadata, spec, status } = object;
        let found = STATES_BY_CONDITION
            .iter()
            .find_map(|state| Some((*state, find_true(&status.conditions, state)?)));
        let head = ObjectHeader::from_metadata(metadata, words);
        Self {
            images: spec.template.images(words),
            status: match found {
                Some((state, _)) => state,
                None if status.active > 0 => "Running",
                None => "Pending",
            },
            reason: words.intern(found.and_then(|(_, it)| it.reason.as_deref()).unwrap_or_default()),
            pods: PodCounts { active: status.active, failed: status.failed, succeeded: status.succeeded },
            started: unix_seconds(status.start_time.as_ref()).or(head.created()),
            completed: unix_seconds(status.completion_time.as_ref()),
            head,
        }
    }

    pub fn is_healthy(&self) -> bool {
        self.status != "Failed"
    }

    pub fn row(&self) -> JobRow {
        JobRow {
            named: self.head.row(&self.images),
            tags: self.head.labels(),
            status: self.status,
            status_reason: self.reason.as_ref().to_owned(),
            pod_status: self.pods,
            start_time: format_time(self.started),
            completion_time: format_time(self.completed),
        }
    }
}

/// A cached cronjob.
#[derive(Debug, PartialEq)]
pub(crate) struct CronJob {
    pub head: ObjectHeader,
    images: ContainerImages,
    schedule: Box<str>,
    time_zone: Option<Box<str>>,
    suspended: bool,
    active: i64,
    last_scheduled: Option<i64>,
    last_succeeded: Option<i64>,
}

impl CronJob {
    pub fn from_object(object: &CronJobObject, words: &StringInterner) -> Self {
        let PartialObject { metadata, spec, status } = object;
        Self {
            head: ObjectHeader::from_metadata(metadata, words),
            images: spec.job_template.spec.template.images(words),
            schedule: spec.schedule.as_str().into(),
            time_zone: spec.time_zone.as_deref().map(Into::into),
            suspended: spec.suspend,
            active: i64::try_from(status.active.len()).unwrap_or(i64::MAX),
            last_scheduled: unix_seconds(status.last_schedule_time.as_ref()),
            last_succeeded: unix_seconds(status.last_successful_time.as_ref()),
        }
    }

    pub fn row(&self) -> CronJobRow {
        CronJobRow {
            named: self.head.row(&self.images),
            status: if self.suspended { "Suspended" } else { "Active" },
            schedule: self.schedule.as_ref().to_owned(),
            time_zone: self.time_zone.as_deref().unwrap_or_default().to_owned(),
            active: self.active,
            last_schedule_time: format_time(self.last_scheduled),
            last_successful_time: format_time(self.last_succeeded),
        }
    }
}

#[cfg(test)]
mod tests;
