//! `GET /nodes`

use k8s_openapi::api::core::v1::Taint;
use schemars::JsonSchema;
use serde::Serialize;

use super::Pairs;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub name: String,
    pub uid: String,
    pub ip: String,
    pub node_pool: String,
    /// Role: `master` or `node`.
    pub role: &'static str,
    /// `Ready`, `NotReady` or `Unknown`, followed by `,SchedulingDisabled` if the node is cordoned.
    pub status: String,
    pub status_reason: String,
    pub status_message: String,
    pub node_info: NodeInfo,
    pub node_status: NodeStatus,
    /// Capacity: `4 CPU / 7.6Gi / 40.0Gi`.
    pub configuration: String,
    /// Running pods and maximum number of pods: `7/110`.
    pub container_group: String,
    pub create_time: String,
    /// Whether it is an edge node.
    pub edge: bool,
    /// Whether the node keeps its pods while it is disconnected.
    pub autonomy: bool,
    /// Tenant that owns the node; empty if it is shared.
    pub tenant: String,
    pub labels: Pairs,
    pub annotations: Pairs,
    pub taints: Vec<Taint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeInfo {
    pub kernel_version: String,
    pub container_runtime_version: String,
    pub os_image: String,
    pub operating_system: String,
    pub kubelet_version: String,
    pub kube_proxy_version: String,
    /// The architecture, misspelled as in the console's API.
    pub atchitecture: String,
    pub architecture: String,
}

/// Resource requests, limits and usage of the pods of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// CPU requests, limits and usage: `850m / 2000m / 412m`; `-` for an unknown amount.
    pub cpu: String,
    /// Memory requests, limits and usage: `1.2Gi / 2.0Gi / 0.9Gi`.
    pub memory: String,
    pub cpu_detail: Detail,
    pub memory_detail: Detail,
    /// Whether a container on the node has no CPU or memory limit, so that usage can exceed the sum of limits.
    pub unlimited: bool,
}

/// Amounts in thousandths of a CPU, or in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    pub request: i64,
    pub limit: i64,
    pub usage: Option<i64>,
    pub allocatable: i64,
    pub capacity: i64,
    pub unlimited: bool,
}
