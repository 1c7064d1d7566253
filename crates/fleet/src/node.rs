//! Cached nodes and their rows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use kube_types::well_known::{AUTONOMY, DESIRED_POOL, EDGE_WORKER, POOL, TENANT};
use serde::Deserialize;
use serde_json::Value;

use crate::interner::{InternedMap, StringInterner};
use crate::metadata::ObjectUid;
use crate::partial_object::{Condition, PartialObject, format_time, unix_seconds};
use crate::resources::{self, MeasuredUsage, NodeAllocation};
use crate::rows::{Detail, NodeInfo, NodeRow, NodeStatus};

/// Labels of control plane nodes.
const CONTROL_PLANE_LABELS: [&str; 2] =
    ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];
const OS_LABEL: &str = "kubernetes.io/os";
/// Name of `AUTONOMY` until late 2021.
const LEGACY_AUTONOMY: &str = "node.beta.alibabacloud.com/autonomy";
/// A copy of the object, which is left out.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A node from the API server.
pub(crate) type NodeObject = PartialObject<NodeSpecPart, NodeStatusPart>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpecPart {
    pub taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeStatusPart {
    conditions: Vec<Condition>,
    addresses: Vec<NodeAddress>,
    capacity: Value,
    allocatable: Value,
    node_info: NodeInfoPart,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAddress {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeInfoPart {
    kernel_version: String,
    container_runtime_version: String,
    os_image: String,
    operating_system: String,
    kubelet_version: String,
    kube_proxy_version: String,
    architecture: String,
}

/// Status of the condition `Ready`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeReadiness {
    Ready,
    NotReady,
    /// Also without the condition, when the node has never reported.
    Unknown,
}

/// A cached node.
#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    pub name: Arc<str>,
    uid: ObjectUid,
    created: Option<i64>,
    pub labels: InternedMap,
    pub annotations: InternedMap,
    pub taints: Box<[Taint]>,
    /// Owning tenant.
    pub tenant: Option<Arc<str>>,
    ip: Box<str>,
    readiness: NodeReadiness,
    reason: Arc<str>,
    message: Arc<str>,
    unschedulable: bool,
    capacity: NodeCapacity,
    allocatable: NodeCapacity,
    info: CachedNodeInfo,
}

/// Milli-CPU, bytes of memory, bytes of storage, pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NodeCapacity {
    cpu: Option<i64>,
    memory: Option<i64>,
    storage: Option<i64>,
    pods: Option<i64>,
}

impl NodeCapacity {
    fn from_resource_list(list: &Value) -> Self {
        Self {
            cpu: resources::milli_value(list, "cpu"),
            memory: resources::integer_value(list, "memory"),
            storage: resources::integer_value(list, "ephemeral-storage"),
            pods: resources::integer_value(list, "pods"),
        }
    }
}

#[derive(Debug, PartialEq)]
struct CachedNodeInfo {
    kernel: Arc<str>,
    runtime: Arc<str>,
    os_image: Arc<str>,
    os: Arc<str>,
    kubelet: Arc<str>,
    proxy: Arc<str>,
    architecture: Arc<str>,
}

impl Node {
    pub fn from_object(object: &NodeObject, words: &StringInterner) -> Self {
        let PartialObject { metadata, spec, status } = object;
        let labels = words.intern_map(metadata.labels.iter().flatten());
        let annotations = metadata.annotations.iter().flatten().filter(|(key, _)| *key != LAST_APPLIED);
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let intern = |text: Option<&String>| words.intern(text.map_or("", String::as_str));
        let info = &status.node_info;
        Self {
            name: words.intern(metadata.name.as_deref().unwrap_or_default()),
            uid: ObjectUid::from_metadata(metadata),
            created: unix_seconds(metadata.creation_timestamp.as_ref()),
            annotations: words.intern_map(annotations),
            taints: spec.taints.clone().into(),
            tenant: labels.get(TENANT).filter(|tenant| !tenant.is_empty()).cloned(),
            labels,
            ip: preferred_address(&status.addresses).into(),
            readiness: match ready.map(|condition| condition.status.as_str()) {
                Some("True") => NodeReadiness::Ready,
                Some("False") => NodeReadiness::NotReady,
                _ => NodeReadiness::Unknown,
            },
            reason: intern(ready.and_then(|condition| condition.reason.as_ref())),
            message: intern(ready.and_then(|condition| condition.message.as_ref())),
            unschedulable: spec.unschedulable,
            capacity: NodeCapacity::from_resource_list(&status.capacity),
            allocatable: NodeCapacity::from_resource_list(&status.allocatable),
            info: CachedNodeInfo {
                kernel: words.intern(&info.kernel_version),
                runtime: words.intern(&info.container_runtime_version),
                os_image: words.intern(&info.os_image),
                os: words.intern(&info.operating_system),
                kubelet: words.intern(&info.kubelet_version),
                proxy: words.intern(&info.kube_proxy_version),
                architecture: words.intern(&info.architecture),
            },
        }
    }

    pub fn is_ready(&self) -> bool {
        self.readiness == NodeReadiness::Ready
    }

    /// The pool that it belongs to, or else the desired one.
    pub fn pool(&self) -> Option<&str> {
        let label = |key: &str| self.labels.get(key).filter(|pool| !pool.is_empty());
        label(POOL).or_else(|| label(DESIRED_POOL)).map(|pool| &**pool)
    }

    /// Whether it belongs to this pool.
    pub fn is_member_of(&self, pool: &str) -> bool {
        self.labels.get(POOL).is_some_and(|label| &**label == pool)
    }

    pub fn os(&self) -> Option<&str> {
        self.labels.get(OS_LABEL).map(|os| &**os)
    }

    fn autonomy(&self) -> bool {
        let annotation = self.annotations.get(AUTONOMY).or_else(|| self.annotations.get(LEGACY_AUTONOMY));
        annotation.is_some_and(|value| &**value == "true")
    }

    fn status(&self) -> String {
        let status = match self.readiness {
            NodeReadiness::Ready => "Ready",
            NodeReadiness::NotReady => "NotReady",
            NodeReadiness::Unknown => "Unknown",
        };
        let suffix = if self.unschedulable { ",SchedulingDisabled" } else { "" };
        format!("{status}{suffix}")
    }

    pub fn row(&self, load: &NodeAllocation, used: MeasuredUsage) -> NodeRow {
        let role = if CONTROL_PLANE_LABELS.iter().any(|label| self.labels.get(label).is_some()) {
            "master"
        } else {
            "node"
        };
        NodeRow {
            name: self.name.as_ref().to_owned(),
            uid: self.uid.to_string(),
            ip: self.ip.as_ref().to_owned(),
            node_pool: self.pool().unwrap_or_default().to_owned(),
            role,
            status: self.status(),
            status_reason: self.reason.as_ref().to_owned(),
            status_message: self.message.as_ref().to_owned(),
            node_info: self.info.row(),
            node_status: self.node_status(load, used),
            configuration: format!(
                "{} / {} / {}",
                resources::format_cpus(self.capacity.cpu),
                resources::format_memory(self.capacity.memory),
                resources::format_memory(self.capacity.storage)
            ),
            container_group: match self.capacity.pods {
                Some(pods) => format!("{}/{pods}", load.running),
                None => String::new(),
            },
            create_time: format_time(self.created),
            edge: self.labels.get(EDGE_WORKER).is_some_and(|value| &**value == "true"),
            autonomy: self.autonomy(),
            tenant: self.tenant.as_deref().unwrap_or_default().to_owned(),
            labels: self.labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
            annotations: self
                .annotations
                .iter()
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect(),
            taints: self.taints.to_vec(),
        }
    }

    fn node_status(&self, load: &NodeAllocation, used: MeasuredUsage) -> NodeStatus {
        let detail =
            |sum: &resources::ResourceSum, usage, allocatable: Option<i64>, capacity: Option<i64>| Detail {
                request: sum.request(),
                limit: sum.limit(),
                usage,
                allocatable: allocatable.unwrap_or_default(),
                capacity: capacity.unwrap_or_default(),
                unlimited: sum.unlimited(),
            };
        let cpu = detail(&load.cpu, used.cpu, self.allocatable.cpu, self.capacity.cpu);
        let memory = detail(&load.memory, used.memory, self.allocatable.memory, self.capacity.memory);
        let line = |detail: &Detail, text: fn(Option<i64>) -> String| {
            format!("{} / {} / {}", text(Some(detail.request)), text(Some(detail.limit)), text(detail.usage))
        };
        NodeStatus {
            cpu: line(&cpu, resources::format_cpu),
            memory: line(&memory, resources::format_memory),
            unlimited: cpu.unlimited || memory.unlimited,
            cpu_detail: cpu,
            memory_detail: memory,
        }
    }
}

impl CachedNodeInfo {
    fn row(&self) -> NodeInfo {
        let text = |word: &Arc<str>| word.as_ref().to_owned();
        NodeInfo {
            kernel_version: text(&self.kernel),
            container_runtime_version: text(&self.runtime),
            os_image: text(&self.os_image),
            operating_system: text(&self.os),
            kubelet_version: text(&self.kubelet),
            kube_proxy_version: text(&self.proxy),
            atchitecture: text(&self.architecture),
            architecture: text(&self.architecture),
        }
    }
}

/// The preferred address of a node.
fn preferred_address(addresses: &[NodeAddress]) -> &str {
    let of = |kind: &str| addresses.iter().find(|address| address.kind == kind);
    let best = ["InternalIP", "ExternalIP", "Hostname"].into_iter().find_map(of);
    best.map_or("", |address| address.address.as_str())
}

#[cfg(test)]
mod tests;
