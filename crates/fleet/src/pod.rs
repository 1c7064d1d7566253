//! Cached pods and their rows.

use std::net::IpAddr;
use std::sync::Arc;

use domain::resources::Side;
use domain::resources::amounts::of_pod_with_overhead;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::amounts::{Share, Takes};
use crate::named::{Head, Images, ToldContainer, Uid};
use crate::rows::PodRow;
use crate::seen::{Condition, Seen, is_true};
use crate::words::Words;

/// A pod object from the API server.
pub(crate) type Told = Seen<ToldSpec, ToldStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToldSpec {
    node_name: Option<String>,
    containers: Vec<ToldContainer>,
    init_containers: Vec<ToldContainer>,
    resources: Value,
    overhead: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToldStatus {
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
    waiting: Option<Waiting>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Waiting {
    reason: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Pending,
    Running,
    Succeeded,
    Failed,
    Unknown,
}

impl Phase {
    fn of(text: &str) -> Self {
        match text {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    fn text(self) -> &'static str {
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
    pub head: Head,
    uid: Uid,
    images: Images,
    phase: Phase,
    ready: bool,
    restarts: i64,
    reason: Arc<str>,
    ip: Option<IpAddr>,
    host_ip: Option<IpAddr>,
    node: Option<Arc<str>>,
    takes: Takes,
}

impl Pod {
    pub fn of(told: Told, words: &Words) -> Self {
        let Seen { metadata, spec, status } = told;
        let ip = |text: Option<&String>| text.and_then(|text| text.parse().ok());
        let statuses = || status.init_containers.iter().chain(&status.containers);
        let waiting = || statuses().find_map(|container| container.state.waiting.as_ref()?.reason.as_deref());
        Self {
            head: Head::of(&metadata, words),
            uid: Uid::of(&metadata),
            images: Images::of(&spec.containers, &spec.init_containers, words),
            phase: Phase::of(&status.phase),
            ready: is_true(&status.conditions, "Ready").is_some(),
            restarts: statuses().fold(0, |sum, container| sum.saturating_add(container.restart_count)),
            reason: words.word(status.reason.as_deref().or_else(waiting).unwrap_or_default()),
            ip: ip(status.pod_ip.as_ref()),
            host_ip: ip(status.host_ip.as_ref()),
            node: spec.node_name.as_deref().filter(|name| !name.is_empty()).map(|name| words.word(name)),
            takes: takes(spec),
        }
    }

    pub fn is_healthy(&self) -> bool {
        match self.phase {
            Phase::Succeeded => true,
            Phase::Running => self.ready,
            Phase::Pending | Phase::Failed | Phase::Unknown => false,
        }
    }

    /// The pod's node, its resources, and whether it runs. A finished pod uses nothing.
    pub fn load(&self) -> Option<(&Arc<str>, &Takes, bool)> {
        let node = self.node.as_ref()?;
        match self.phase {
            Phase::Succeeded | Phase::Failed => None,
            phase => Some((node, &self.takes, phase == Phase::Running)),
        }
    }

    pub fn row(&self) -> PodRow {
        let ip = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string()).unwrap_or_default();
        PodRow {
            named: self.head.row(&self.images),
            uid: self.uid.to_string(),
            status: self.phase.text(),
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
fn takes(spec: ToldSpec) -> Takes {
    let unlimited = |name: &str| {
        let has = |resources: &Value| {
            crate::amounts::milli(&resources["limits"], name).is_some_and(|amount| amount > 0)
        };
        let lasting = spec.containers.iter().chain(spec.init_containers.iter().filter(|it| it.is_sidecar()));
        !has(&spec.resources) && lasting.into_iter().any(|container| !has(&container.resources))
    };
    let (no_cpu, no_memory) = (unlimited("cpu"), unlimited("memory"));
    let containers = |all: Vec<ToldContainer>| -> Vec<Value> {
        let written =
            |it: ToldContainer| json!({"resources": it.resources, "restartPolicy": it.restart_policy});
        all.into_iter().map(written).collect()
    };
    let pod = json!({"spec": {
        "containers": containers(spec.containers),
        "initContainers": containers(spec.init_containers),
        "resources": spec.resources,
        "overhead": spec.overhead,
    }});
    let requests = of_pod_with_overhead(&pod, Side::Requests);
    let limits = of_pod_with_overhead(&pod, Side::Limits);
    let cpu = |list: &domain::resources::Amounts| {
        list.get("cpu").map_or(0, domain::quantity::Quantity::milli_value)
    };
    let memory =
        |list: &domain::resources::Amounts| list.get("memory").map_or(0, domain::quantity::Quantity::value);
    Takes {
        cpu: Share { request: cpu(&requests), limit: cpu(&limits), unlimited: no_cpu },
        memory: Share { request: memory(&requests), limit: memory(&limits), unlimited: no_memory },
    }
}

#[cfg(test)]
mod tests;
