//! Cached pods and their rows.

use std::net::IpAddr;
use std::sync::Arc;

use domain::resources::ResourceField;
use domain::resources::resource_list::for_pod_with_overhead;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::interner::StringInterner;
use crate::metadata::{ContainerImages, ContainerObject, ObjectHeader, ObjectUid};
use crate::partial_object::{Condition, PartialObject, find_true};
use crate::resources::{PodResources, RequestAndLimit};
use crate::rows::PodRow;

/// A pod object from the API server.
pub(crate) type PodObject = PartialObject<PodSpecPart, PodStatusPart>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodSpecPart {
    node_name: Option<String>,
    containers: Vec<ContainerObject>,
    init_containers: Vec<ContainerObject>,
    resources: Value,
    overhead: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodStatusPart {
    phase: String,
    reason: Option<String>,
    conditions: Vec<Condition>,
    #[serde(rename = "podIP")]
    pod_ip: Option<String>,
    #[serde(rename = "hostIP")]
    host_ip: Option<String>,
    #[serde(rename = "containerStatuses")]
    containers: Vec<ContainerStatus>,
    #[serde(rename = "initContainerStatuses")]
    init_containers: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerStatus {
    restart_count: i64,
    state: ContainerState,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerState {
    waiting: Option<ContainerWaiting>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerWaiting {
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodPhase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl PodPhase {
    fn parse(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Running => "Running",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }
}

/// A cached pod.
#[derive(Debug, PartialEq)]
pub(crate) struct Pod {
    pub head: ObjectHeader,
    uid: ObjectUid,
    images: ContainerImages,
    phase: PodPhase,
    ready: bool,
    restarts: i64,
    reason: Arc<str>,
    ip: Option<IpAddr>,
    host_ip: Option<IpAddr>,
    node: Option<Arc<str>>,
    resources: PodResources,
}

impl Pod {
    pub fn from_object(object: PodObject, words: &StringInterner) -> Self {
        let PartialObject { metadata, spec, status } = object;
        let ip = |text: Option<&String>| text.and_then(|text| text.parse().ok());
        let statuses = || status.init_containers.iter().chain(&status.containers);
        let waiting = || statuses().find_map(|container| container.state.waiting.as_ref()?.reason.as_deref());
        Self {
            head: ObjectHeader::from_metadata(&metadata, words),
            uid: ObjectUid::from_metadata(&metadata),
            images: ContainerImages::from_containers(&spec.containers, &spec.init_containers, words),
            phase: PodPhase::parse(&status.phase),
            ready: find_true(&status.conditions, "Ready").is_some(),
            restarts: statuses().fold(0, |sum, container| sum.saturating_add(container.restart_count)),
            reason: words.intern(status.reason.as_deref().or_else(waiting).unwrap_or_default()),
            ip: ip(status.pod_ip.as_ref()),
            host_ip: ip(status.host_ip.as_ref()),
            node: spec.node_name.as_deref().filter(|name| !name.is_empty()).map(|name| words.intern(name)),
            resources: pod_resources(spec),
        }
    }

    pub fn is_healthy(&self) -> bool {
        match self.phase {
            PodPhase::Succeeded => true,
            PodPhase::Running => self.ready,
            PodPhase::Pending | PodPhase::Failed | PodPhase::Unknown => false,
        }
    }

    /// The pod's node, its resources, and whether it runs. A finished pod uses nothing.
    pub fn allocation(&self) -> Option<(&Arc<str>, &PodResources, bool)> {
        let node = self.node.as_ref()?;
        match self.phase {
            PodPhase::Succeeded | PodPhase::Failed => None,
            phase => Some((node, &self.resources, phase == PodPhase::Running)),
        }
    }

    pub fn row(&self) -> PodRow {
        let ip = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default();
        PodRow {
            named: self.head.row(&self.images),
            uid: self.uid.to_string(),
            status: self.phase.as_str(),
            status_reason: self.reason.as_ref().to_owned(),
            ready: self.ready,
            restarts: self.restarts,
            pod_ip: ip(self.ip),
            node_name: self.node.as_deref().unwrap_or_default().to_owned(),
            host_ip: ip(self.host_ip),
        }
    }
}

/// Resources of a pod, by the sums of `domain::resources`.
fn pod_resources(spec: PodSpecPart) -> PodResources {
    let unlimited = |name: &str| {
        let has = |resources: &Value| {
            crate::resources::milli_value(&resources["limits"], name).is_some_and(|amount| amount > 0)
        };
        let lasting = spec.containers.iter().chain(spec.init_containers.iter().filter(|it| it.is_sidecar()));
        !has(&spec.resources) && lasting.into_iter().any(|container| !has(&container.resources))
    };
    let (no_cpu, no_memory) = (unlimited("cpu"), unlimited("memory"));
    let containers = |all: Vec<ContainerObject>| -> Vec<Value> {
        let written =
            |it: ContainerObject| json!({"resources": it.resources, "restartPolicy": it.restart_policy});
        all.into_iter().map(written).collect()
    };
    let pod = json!({"spec": {
        "containers": containers(spec.containers),
        "initContainers": containers(spec.init_containers),
        "resources": spec.resources,
        "overhead": spec.overhead,
    }});
    let requests = for_pod_with_overhead(&pod, ResourceField::Requests);
    let limits = for_pod_with_overhead(&pod, ResourceField::Limits);
    let cpu = |list: &domain::resources::ResourceList| {
        list.get("cpu").map_or(0, domain::quantity::Quantity::milli_value)
    };
    let memory = |list: &domain::resources::ResourceList| {
        list.get("memory").map_or(0, domain::quantity::Quantity::value)
    };
    PodResources {
        cpu: RequestAndLimit { request: cpu(&requests), limit: cpu(&limits), unlimited: no_cpu },
        memory: RequestAndLimit { request: memory(&requests), limit: memory(&limits), unlimited: no_memory },
    }
}

#[cfg(test)]
mod tests;
