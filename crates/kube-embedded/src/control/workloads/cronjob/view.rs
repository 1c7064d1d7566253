//! A `CronJob` as its controller reads it, and its status.

#![warn(clippy::arithmetic_side_effects)]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::view::Meta;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct CronJob {
    pub metadata: Meta,
    pub spec: CronJobSpec,
    pub status: CronJobStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobSpec {
    pub schedule: String,
    pub time_zone: String,
    pub starting_deadline_seconds: Option<i64>,
    pub concurrency_policy: String,
    pub suspend: bool,
    pub job_template: Value,
    pub successful_jobs_history_limit: Option<i64>,
    pub failed_jobs_history_limit: Option<i64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<JobReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_successful_time: Option<Timestamp>,
}

/// A reference to an active Job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobReference {
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    pub api_version: String,
    pub resource_version: String,
}
