//! Typed views of objects: only the fields on which controllers decide.
//!
//! [`crate::store::Object::view`] creates a view once per version of an object and caches it with the object.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::node::PodReferences;

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    pub name: String,
    pub namespace: String,
    pub uid: String,
    pub generation: i64,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub creation_timestamp: Option<Timestamp>,
    pub deletion_timestamp: Option<Timestamp>,
    pub deletion_grace_period_seconds: Option<i64>,
    pub finalizers: Vec<String>,
    pub owner_references: Vec<OwnerReference>,
}

impl Meta {
    /// Returns the owner reference with `controller: true`.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }

    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    pub controller: bool,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    pub r#type: String,
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub last_transition_time: Option<Timestamp>,
}

/// A pod. Fields that only one controller reads stay a `Value`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    pub metadata: Meta,
    pub spec: PodSpec,
    pub status: PodStatus,
    /// Cache of the objects that the pod's node may read.
    #[serde(skip)]
    pub references: OnceLock<PodReferences>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    pub node_name: String,
    pub service_account_name: String,
    pub restart_policy: String,
    pub containers: Vec<Container>,
    pub init_containers: Vec<Container>,
    pub ephemeral_containers: Vec<Container>,
    pub host_network: bool,
    pub hostname: String,
    pub subdomain: String,
    pub scheduler_name: String,
    pub scheduling_gates: Vec<Value>,
    pub node_selector: BTreeMap<String, String>,
    pub affinity: Value,
    pub tolerations: Vec<Toleration>,
    pub topology_spread_constraints: Vec<Value>,
    pub volumes: Vec<Value>,
    /// Pod-level resources.
    pub resources: Value,
    pub overhead: Value,
    pub preemption_policy: String,
    pub readiness_gates: Vec<Value>,
    pub active_deadline_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "they are named as in Kubernetes")]
pub struct Toleration {
    pub key: String,
    /// Empty means `Equal`.
    pub operator: String,
    pub value: String,
    /// Empty matches every effect.
    pub effect: String,
    pub toleration_seconds: Option<i64>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    pub key: String,
    pub value: String,
    pub effect: String,
    pub time_added: Option<Timestamp>,
}

impl Toleration {
    pub fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub metadata: Meta,
    pub spec: NodeSpec,
    pub status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    pub unschedulable: bool,
    pub taints: Vec<Taint>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub allocatable: Value,
    pub addresses: Vec<NodeAddress>,
    pub conditions: Vec<Condition>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    pub r#type: String,
    pub address: String,
}

impl Node {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.r#type == kind)
    }

    pub fn address(&self, kind: &str) -> Option<&str> {
        self.status.addresses.iter().find(|found| found.r#type == kind).map(|found| found.address.as_str())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    pub name: String,
    pub image: String,
    pub restart_policy: String,
    pub ports: Vec<ContainerPort>,
    pub resources: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "they are named as in Kubernetes")]
pub struct ContainerPort {
    pub name: String,
    pub container_port: i64,
    pub protocol: String,
    pub host_port: i64,
    #[serde(rename = "hostIP")]
    pub host_ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    pub phase: String,
    pub conditions: Vec<Condition>,
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    #[serde(rename = "podIPs")]
    pub pod_ips: Vec<PodIp>,
    pub reason: String,
    pub container_statuses: Vec<ContainerStatus>,
    pub init_container_statuses: Vec<ContainerStatus>,
    pub ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct PodIp {
    pub ip: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    pub name: String,
    pub ready: bool,
    pub restart_count: i64,
    /// `waiting`, `running` or `terminated` with their fields.
    pub state: Value,
}

impl Pod {
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.r#type == kind)
    }

    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|ready| ready.status == "True")
    }

    /// Returns when the pod will have been ready for this long; `None` if it is not ready.
    pub fn available_from(&self, min_ready_seconds: i64) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|ready| ready.status == "True")?;
        let since = ready.last_transition_time.unwrap_or(Timestamp::UNIX_EPOCH);
        since.checked_add(jiff::SignedDuration::from_secs(min_ready_seconds)).ok()
    }

    /// Whether the pod is neither finished nor terminating.
    pub fn is_active(&self) -> bool {
        !self.is_finished() && !self.metadata.is_deleting()
    }

    pub fn is_finished(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
        let pod = |status: &str| -> Pod {
            let ready = json!({"type": "Ready", "status": status, "lastTransitionTime": "2026-01-02T03:04:05Z",
                "lastProbeTime": null});
            serde_json::from_value(json!({"metadata": {"name": "a", "ownerReferences": [{"uid": "u"}]},
                "status": {"phase": "Running", "conditions": [ready]}}))
            .unwrap()
        };
        assert_eq!(pod("True").available_from(10), Some("2026-01-02T03:04:15Z".parse().unwrap()));
        assert_eq!(pod("False").available_from(0), None);
        assert!(pod("True").is_active() && pod("True").metadata.controller().is_none());
    }
}
