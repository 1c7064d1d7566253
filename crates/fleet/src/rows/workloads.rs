//! `GET /deployments`, `/statefulsets`, `/daemonsets`, `/jobs`, `/cronjobs` and `/pods`

use schemars::JsonSchema;
use serde::Serialize;

use super::Pairs;

/// Image of one container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Image {
    pub image: String,
}

// Common fields. No doc comment, because it would become the description of every row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    pub name: String,
    pub namespace: String,
    /// `app=web,tier=front`
    pub labels: String,
    pub label_map: Pairs,
    pub create_time: String,
    /// Images of the containers, in order. The console's API calls this field `image` for some kinds and `images` for
    /// others.
    pub image: Vec<Image>,
    pub images: Vec<Image>,
    pub init_images: Vec<Image>,
}

/// Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRow {
    #[serde(flatten)]
    pub named: Named,
    pub status: Replicas,
    pub desired_replicas: i64,
    pub available_replicas: i64,
    pub updated_replicas: i64,
    pub paused: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replicas {
    pub replicas: i64,
    pub ready_replicas: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobRow {
    #[serde(flatten)]
    pub named: Named,
    /// Labels; the console's API calls them `tags` for jobs.
    pub tags: String,
    /// `Failed`, `Complete`, `Suspended`, `Running` or `Pending`.
    pub status: &'static str,
    /// Reason of the status, for example `BackoffLimitExceeded`.
    pub status_reason: String,
    pub pod_status: PodCounts,
    pub start_time: String,
    pub completion_time: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PodCounts {
    pub active: i64,
    pub failed: i64,
    pub succeeded: i64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronJobRow {
    #[serde(flatten)]
    pub named: Named,
    /// `Suspended` or `Active`.
    pub status: &'static str,
    pub schedule: String,
    pub time_zone: String,
    /// Number of running jobs.
    pub active: i64,
    pub last_schedule_time: String,
    pub last_successful_time: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    #[serde(flatten)]
    pub named: Named,
    pub uid: String,
    /// Phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub status: &'static str,
    /// Reason why the pod is not healthy, if known: `CrashLoopBackOff`, `Evicted`.
    pub status_reason: String,
    pub ready: bool,
    pub restarts: i64,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    pub node_name: String,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
}
