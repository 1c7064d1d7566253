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
    /// `master` or `node`.
    pub role: &'static str,
    /// `Ready`, `NotReady` or `Unknown`; with `,SchedulingDisabled` after it where that is so.
    pub status: String,
    pub status_reason: String,
    pub status_message: String,
    pub node_info: NodeInfo,
    pub node_status: NodeStatus,
    /// Capacity: `4 CPU / 7.6Gi / 40.0Gi`.
    pub configuration: String,
    /// Pods that run, of those that may: `7/110`.
    pub container_group: String,
    pub create_time: String,
    /// Works at the edge.
    pub edge: bool,
    /// Keeps its pods while it is cut off.
    pub autonomy: bool,
    /// Whose it is; empty: nobody's in particular.
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
    /// As the document spells it.
    pub atchitecture: String,
    pub architecture: String,
}

/// What pods ask of a node and what they use of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatus {
    /// Requests, limits, use: `850m / 2000m / 412m`; `-` for what is not known.
    pub cpu: String,
    /// Likewise: `1.2Gi / 2.0Gi / 0.9Gi`.
    pub memory: String,
    pub cpu_detail: Detail,
    pub memory_detail: Detail,
    /// A container on it has no limit of one or the other, so that the limits say less than may be used.
    pub unlimited: bool,
}

/// Thousandths of a processor, or bytes.
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
