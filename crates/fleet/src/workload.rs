//! Cached deployments, statefulsets and daemonsets, and their rows.

use serde::Deserialize;

use crate::interner::StringInterner;
use crate::metadata::{ContainerImages, ContainerObject, ObjectHeader};
use crate::partial_object::PartialObject;
use crate::rows::{Replicas, WorkloadRow};

/// A deployment or statefulset from the API server.
pub(crate) type WorkloadObject = PartialObject<WorkloadSpecPart, WorkloadStatusPart>;
/// A daemonset from the API server.
pub(crate) type DaemonSetObject = PartialObject<WorkloadSpecPart, DaemonSetStatusPart>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WorkloadSpecPart {
    replicas: Option<i64>,
    paused: bool,
    template: PodTemplate,
}

/// Pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodTemplate {
    spec: PodTemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodTemplateSpec {
    containers: Vec<ContainerObject>,
    init_containers: Vec<ContainerObject>,
}

impl PodTemplate {
    pub fn images(&self, words: &StringInterner) -> ContainerImages {
        ContainerImages::from_containers(&self.spec.containers, &self.spec.init_containers, words)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct WorkloadStatusPart {
    replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    updated_replicas: i64,
    observed_generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DaemonSetStatusPart {
    current_number_scheduled: i64,
    desired_number_scheduled: i64,
    number_ready: i64,
    number_available: i64,
    updated_number_scheduled: i64,
    observed_generation: i64,
}

/// A cached workload.
#[derive(Debug, PartialEq)]
pub(crate) struct Workload {
    pub head: ObjectHeader,
    images: ContainerImages,
    desired: i64,
    replicas: i64,
    ready: i64,
    available: i64,
    updated: i64,
    paused: bool,
    /// Whether `observedGeneration` is current.
    is_observed: bool,
}

impl Workload {
    pub fn from_object(object: &WorkloadObject, words: &StringInterner) -> Self {
        let PartialObject { metadata, spec, status } = object;
        Self {
            head: ObjectHeader::from_metadata(metadata, words),
            images: spec.template.images(words),
            desired: spec.replicas.unwrap_or(1),
            replicas: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            updated: status.updated_replicas,
            paused: spec.paused,
            is_observed: status.observed_generation >= metadata.generation.unwrap_or_default(),
        }
    }

    pub fn from_daemon_set(object: &DaemonSetObject, words: &StringInterner) -> Self {
        let PartialObject { metadata, spec, status } = object;
        Self {
            head: ObjectHeader::from_metadata(metadata, words),
            images: spec.template.images(words),
            desired: status.desired_number_scheduled,
            replicas: status.current_number_scheduled,
            ready: status.number_ready,
            available: status.number_available,
            updated: status.updated_number_scheduled,
            paused: false,
            is_observed: status.observed_generation >= metadata.generation.unwrap_or_default(),
        }
    }

    pub fn is_healthy(&self) -> bool {
        self.ready >= self.desired && self.is_observed
    }

    pub fn row(&self) -> WorkloadRow {
        WorkloadRow {
            named: self.head.row(&self.images),
            status: Replicas { replicas: self.replicas, ready_replicas: self.ready },
            desired_replicas: self.desired,
            available_replicas: self.available,
            updated_replicas: self.updated,
            paused: self.paused,
        }
    }
}

#[cfg(test)]
mod tests;
