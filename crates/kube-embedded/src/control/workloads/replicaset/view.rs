//! A `ReplicaSet` as controllers read it. A `ReplicationController` reads the same, except for its selector.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::control::view::{Condition, Meta};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    pub metadata: Meta,
    pub spec: ReplicaSetSpec,
    pub status: ReplicaSetStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetSpec {
    pub replicas: i64,
    pub min_ready_seconds: i64,
    pub selector: Value,
    pub template: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ReplicaSetStatus {
    pub replicas: i64,
    pub fully_labeled_replicas: i64,
    pub ready_replicas: i64,
    pub available_replicas: i64,
    /// Pods being deleted; not reported for a `ReplicationController`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating_replicas: Option<i64>,
    pub observed_generation: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}
