//! Cached deployments, statefulsets and daemonsets, and their rows.

use serde::Deserialize;

use crate::named::{Head, Images, ToldContainer};
use crate::rows::{Replicas, WorkloadRow};
use crate::seen::Seen;
use crate::words::Words;

/// A deployment or statefulset from the API server.
pub(crate) type Told = Seen<ToldSpec, ToldStatus>;
/// A daemonset from the API server.
pub(crate) type ToldDaemons = Seen<ToldSpec, ToldDaemonsStatus>;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ToldSpec {
    replicas: Option<i64>,
    paused: bool,
    template: Template,
}

/// Pod template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Template {
    spec: TemplateSpec,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct TemplateSpec {
    containers: Vec<ToldContainer>,
    init_containers: Vec<ToldContainer>,
}

impl Template {
    pub fn images(&self, words: &Words) -> Images {
        Images::of(&self.spec.containers, &self.spec.init_containers, words)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToldStatus {
    replicas: i64,
    ready_replicas: i64,
    available_replicas: i64,
    updated_replicas: i64,
    observed_generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ToldDaemonsStatus {
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
    pub head: Head,
    images: Images,
    desired: i64,
    replicas: i64,
    ready: i64,
    available: i64,
    updated: i64,
    paused: bool,
    /// Whether `observedGeneration` is current.
    observed: bool,
}

impl Workload {
    pub fn of(told: &Told, words: &Words) -> Self {
        let Seen { metadata, spec, status } = told;
        Self {
            head: Head::of(metadata, words),
            images: spec.template.images(words),
            desired: spec.replicas.unwrap_or(1),
            replicas: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            updated: status.updated_replicas,
            paused: spec.paused,
            observed: status.observed_generation >= metadata.generation.unwrap_or_default(),
        }
    }

    pub fn of_daemons(told: &ToldDaemons, words: &Words) -> Self {
        let Seen { metadata, spec, status } = told;
        Self {
            head: Head::of(metadata, words),
            images: spec.template.images(words),
            desired: status.desired_number_scheduled,
            replicas: status.current_number_scheduled,
            ready: status.number_ready,
            available: status.number_available,
            updated: status.updated_number_scheduled,
            paused: false,
            observed: status.observed_generation >= metadata.generation.unwrap_or_default(),
        }
    }

    pub fn is_healthy(&self) -> bool {
        self.ready >= self.desired && self.observed
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
