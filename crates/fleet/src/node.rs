//! Cached nodes and their rows.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use kube_types::marks::{AUTONOMY, DESIRED_POOL, EDGE_WORKER, POOL, TENANT};
use serde::Deserialize;
use serde_json::Value;

use crate::amounts::{self, Load, Used};
use crate::named::Uid;
use crate::rows::{Detail, NodeInfo, NodeRow, NodeStatus};
use crate::seen::{Condition, Seen, seconds, time};
use crate::words::{WordPairs, Words};

/// Labels of control plane nodes.
const MASTER: [&str; 2] = ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];
const OS: &str = "kubernetes.io/os";
/// Name of `AUTONOMY` until late 2021.
const AUTONOMY_BEFORE: &str = "node.beta.alibabacloud.com/autonomy";
/// A copy of the object, which is left out.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A node from the API server.
pub(crate) type Told = Seen<ToldSpec, ToldStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToldSpec {
    pub taints: Vec<Taint>,
    unschedulable: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToldStatus {
    conditions: Vec<Condition>,
    addresses: Vec<Address>,
    capacity: Value,
    allocatable: Value,
    node_info: ToldInfo,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ToldInfo {
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
pub(crate) enum Readiness {
    Ready,
    NotReady,
    /// Also without the condition, when the node has never reported.
    Unknown,
}

/// A cached node.
#[derive(Debug, PartialEq)]
pub(crate) struct Node {
    pub name: Arc<str>,
    uid: Uid,
    created: Option<i64>,
    pub labels: WordPairs,
    pub annotations: WordPairs,
    pub taints: Box<[Taint]>,
    /// Owning tenant.
    pub tenant: Option<Arc<str>>,
    ip: Box<str>,
    readiness: Readiness,
    reason: Arc<str>,
    message: Arc<str>,
    unschedulable: bool,
    capacity: Room,
    allocatable: Room,
    info: Info,
}

/// Milli-CPU, bytes of memory, bytes of storage, pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    cpu: Option<i64>,
    memory: Option<i64>,
    storage: Option<i64>,
    pods: Option<i64>,
}

impl Room {
    fn of(list: &Value) -> Self {
        Self {
            cpu: amounts::milli(list, "cpu"),
            memory: amounts::whole(list, "memory"),
            storage: amounts::whole(list, "ephemeral-storage"),
            pods: amounts::whole(list, "pods"),
        }
    }
}

#[derive(Debug, PartialEq)]
struct Info {
    kernel: Arc<str>,
    runtime: Arc<str>,
    os_image: Arc<str>,
    os: Arc<str>,
    kubelet: Arc<str>,
    proxy: Arc<str>,
    architecture: Arc<str>,
}

impl Node {
    pub fn of(told: &Told, words: &Words) -> Self {
        let Seen { metadata, spec, status } = told;
        let labels = words.pairs(metadata.labels.iter().flatten());
        let annotations = metadata.annotations.iter().flatten().filter(|(key, _)| *key != LAST_APPLIED);
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let said = |text: Option<&String>| words.word(text.map_or("", String::as_str));
        let info = &status.node_info;
        Self {
            name: words.word(metadata.name.as_deref().unwrap_or_default()),
            uid: Uid::of(metadata),
            created: seconds(metadata.creation_timestamp.as_ref()),
            annotations: words.pairs(annotations),
            taints: spec.taints.clone().into(),
            tenant: labels.get(TENANT).filter(|tenant| !tenant.is_empty()).cloned(),
            labels,
            ip: address(&status.addresses).into(),
            readiness: match ready.map(|condition| condition.status.as_str()) {
                Some("True") => Readiness::Ready,
                Some("False") => Readiness::NotReady,
                _ => Readiness::Unknown,
            },
            reason: said(ready.and_then(|condition| condition.reason.as_ref())),
            message: said(ready.and_then(|condition| condition.message.as_ref())),
            unschedulable: spec.unschedulable,
            capacity: Room::of(&status.capacity),
            allocatable: Room::of(&status.allocatable),
            info: Info {
                kernel: words.word(&info.kernel_version),
                runtime: words.word(&info.container_runtime_version),
                os_image: words.word(&info.os_image),
                os: words.word(&info.operating_system),
                kubelet: words.word(&info.kubelet_version),
                proxy: words.word(&info.kube_proxy_version),
                architecture: words.word(&info.architecture),
            },
        }
    }

    pub fn is_ready(&self) -> bool {
        self.readiness == Readiness::Ready
    }

    /// The pool that it belongs to, or else the desired one.
    pub fn pool(&self) -> Option<&str> {
        let label = |key: &str| self.labels.get(key).filter(|pool| !pool.is_empty());
        label(POOL).or_else(|| label(DESIRED_POOL)).map(|pool| &**pool)
    }

    /// Whether it belongs to this pool.
    pub fn is_in(&self, pool: &str) -> bool {
        self.labels.get(POOL).is_some_and(|label| &**label == pool)
    }

    pub fn os(&self) -> Option<&str> {
        self.labels.get(OS).map(|os| &**os)
    }

    fn autonomy(&self) -> bool {
        let annotation = self.annotations.get(AUTONOMY).or_else(|| self.annotations.get(AUTONOMY_BEFORE));
        annotation.is_some_and(|value| &**value == "true")
    }

    fn status(&self) -> String {
        let status = match self.readiness {
            Readiness::Ready => "Ready",
            Readiness::NotReady => "NotReady",
            Readiness::Unknown => "Unknown",
        };
        let suffix = if self.unschedulable { ",SchedulingDisabled" } else { "" };
        format!("{status}{suffix}")
    }

    pub fn row(&self, load: &Load, used: Used) -> NodeRow {
        let role =
            if MASTER.iter().any(|label| self.labels.get(label).is_some()) { "master" } else { "node" };
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
                amounts::cpus(self.capacity.cpu),
                amounts::memory(self.capacity.memory),
                amounts::memory(self.capacity.storage)
            ),
            container_group: match self.capacity.pods {
                Some(pods) => format!("{}/{pods}", load.running),
                None => String::new(),
            },
            create_time: time(self.created),
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

    fn node_status(&self, load: &Load, used: Used) -> NodeStatus {
        let detail = |sum: &amounts::Sum, usage, allocatable: Option<i64>, capacity: Option<i64>| Detail {
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
            cpu: line(&cpu, amounts::cpu),
            memory: line(&memory, amounts::memory),
            unlimited: cpu.unlimited || memory.unlimited,
            cpu_detail: cpu,
            memory_detail: memory,
        }
    }
}

impl Info {
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
fn address(addresses: &[Address]) -> &str {
    let of = |kind: &str| addresses.iter().find(|address| address.kind == kind);
    let best = ["InternalIP", "ExternalIP", "Hostname"].into_iter().find_map(of);
    best.map_or("", |address| address.address.as_str())
}

#[cfg(test)]
mod tests;
