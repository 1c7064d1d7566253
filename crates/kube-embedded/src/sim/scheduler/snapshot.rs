//! The scheduler's snapshot of the cluster: the nodes, and the resources in use on each.
//!
//! It is updated by events of pods and nodes, and by the scheduler's own decisions before they are written, so that
//! pods that are decided together do not take the same capacity. Equal pods are counted, not listed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::pod_affinity::AffinityTerm;
use super::resources::Resources;
use crate::access::items;
use crate::control::view::{Node, Pod};
use crate::sim::NODES;
use crate::store::{Key, Object};

/// The properties of a pod that other pods' constraints can match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodGroup {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    /// Pods that are being deleted.
    pub is_deleting: bool,
    /// Their required anti-affinity, serialised.
    anti_affinity: String,
}

#[derive(Debug)]
pub(super) struct GroupMembers {
    pub count: u32,
    /// Their parsed required anti-affinity terms.
    pub anti_affinity: Arc<[AffinityTerm]>,
}

/// Address, protocol and number of a host port in use.
pub(super) type Port = (String, String, i64);

/// A node, with the resources in use on it (kube-scheduler: `NodeInfo`).
#[derive(Debug, Default)]
pub(super) struct NodeInfo {
    /// `None` when pods name a node that does not exist.
    pub node: Option<Arc<Node>>,
    pub allocatable: Resources,
    pub requested: Resources,
    /// Millicores and bytes assumed in use, for scores.
    pub nonzero_requested: (i128, i128),
    pub groups: BTreeMap<PodGroup, GroupMembers>,
    pub ports: HashMap<Port, u32>,
    /// Number of pods on the node per owner uid.
    pub owners: HashMap<String, u32>,
}

/// The share of a pod in its node's usage.
#[derive(Debug)]
struct PodInfo {
    node: String,
    requests: Resources,
    nonzero_requests: (i128, i128),
    group: PodGroup,
    anti_affinity: Arc<[AffinityTerm]>,
    ports: Vec<Port>,
    owner: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct ClusterSnapshot {
    nodes: BTreeMap<String, NodeInfo>,
    pods: HashMap<Key, PodInfo>,
}

/// Returns the host ports of a pod.
pub(super) fn host_ports(pod: &Pod) -> Vec<Port> {
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let containers = pod.spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0);
    ports.map(|port| (port.host_ip.clone(), port.protocol.clone(), port.host_port)).collect()
}

impl ClusterSnapshot {
    /// Returns the nodes that exist, sorted by name.
    pub fn nodes(&self) -> impl Iterator<Item = (&str, &Node, &NodeInfo)> {
        self.nodes.iter().filter_map(|(name, place)| Some((name.as_str(), place.node.as_deref()?, place)))
    }

    /// Removes pods and nodes that no longer exist; `exists` takes storage, namespace and name.
    pub fn retain(&mut self, exists: impl Fn(&str, &str, &str) -> bool) {
        let gone = self.pods.keys().filter(|key| !exists(&key.storage, &key.namespace, &key.name));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.forget_pod(&key);
        }
        let gone = self.nodes.keys().filter(|name| !exists(NODES, "", name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.remove_node(&name);
        }
    }

    /// Records a new or changed node.
    pub fn update_node(&mut self, object: &Object) {
        let node = object.view::<Node>();
        let place = self.nodes.entry(object.name.to_string()).or_default();
        place.allocatable = Resources::from_node(&node.status.allocatable);
        place.node = Some(node);
    }

    pub fn remove_node(&mut self, name: &str) {
        if let Some(place) = self.nodes.get_mut(name) {
            place.node = None;
        }
        self.remove_if_empty(name);
    }

    /// Records a stored pod that is bound or terminated. Returns whether it released capacity.
    pub fn update_pod(&mut self, key: &Key, pod: &Pod) -> bool {
        let had = self.forget_pod(key);
        let takes = !pod.spec.node_name.is_empty() && !pod.is_finished();
        if takes {
            self.add_pod(key, pod, &pod.spec.node_name);
        }
        had && !takes
    }

    /// Counts a pod on a node before its binding is written. A reconcile that was cancelled may have counted it before.
    pub fn assume_pod(&mut self, key: &Key, pod: &Pod, node: &str) {
        self.forget_pod(key);
        self.add_pod(key, pod, node);
    }

    /// Removes a pod that is gone or whose binding failed. Returns whether it had used capacity.
    pub fn forget_pod(&mut self, key: &Key) -> bool {
        let Some(placed) = self.pods.remove(key) else { return false };
        if let Some(place) = self.nodes.get_mut(&placed.node) {
            place.remove_pod(&placed);
        }
        self.remove_if_empty(&placed.node);
        true
    }

    fn add_pod(&mut self, key: &Key, pod: &Pod, node: &str) {
        let asked = Resources::from_pod(&pod.spec);
        let required = &pod.spec.affinity["podAntiAffinity"];
        let anti = items(required, "requiredDuringSchedulingIgnoredDuringExecution");
        // A pod with more terms was bound by another client than the scheduler.
        let anti = &anti[..anti.len().min(super::MAX_TERMS)];
        let group = PodGroup {
            namespace: key.namespace.to_string(),
            labels: pod.metadata.labels.clone(),
            is_deleting: pod.metadata.is_deleting(),
            anti_affinity: if anti.is_empty() {
                String::new()
            } else {
                Value::from(anti.to_vec()).to_string()
            },
        };
        let placed = PodInfo {
            node: node.to_owned(),
            nonzero_requests: asked.nonzero_requests(&pod.spec),
            requests: asked,
            anti_affinity: anti.iter().map(|term| AffinityTerm::parse(term, &key.namespace)).collect(),
            group,
            ports: host_ports(pod),
            owner: pod.metadata.controller().map(|owner| owner.uid.clone()),
        };
        self.nodes.entry(node.to_owned()).or_default().add_pod(&placed);
        self.pods.insert(key.clone(), placed);
    }

    /// Removes a node that does not exist when no pod is left on it.
    fn remove_if_empty(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(|place| place.node.is_none() && place.requested.pods == 0) {
            self.nodes.remove(name);
        }
    }
}

impl NodeInfo {
    fn add_pod(&mut self, pod: &PodInfo) {
        self.requested.add(&pod.requests);
        self.nonzero_requested.0 = self.nonzero_requested.0.saturating_add(pod.nonzero_requests.0);
        self.nonzero_requested.1 = self.nonzero_requested.1.saturating_add(pod.nonzero_requests.1);
        let members = self.groups.entry(pod.group.clone());
        members
            .or_insert_with(|| GroupMembers { count: 0, anti_affinity: pod.anti_affinity.clone() })
            .count += 1;
        for port in &pod.ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
        if let Some(owner) = &pod.owner {
            *self.owners.entry(owner.clone()).or_default() += 1;
        }
    }

    fn remove_pod(&mut self, pod: &PodInfo) {
        self.requested.subtract(&pod.requests);
        self.nonzero_requested.0 = self.nonzero_requested.0.saturating_sub(pod.nonzero_requests.0);
        self.nonzero_requested.1 = self.nonzero_requested.1.saturating_sub(pod.nonzero_requests.1);
        if let Some(members) = self.groups.get_mut(&pod.group) {
            members.count = members.count.saturating_sub(1);
            if members.count == 0 {
                self.groups.remove(&pod.group);
            }
        }
        for port in &pod.ports {
            decrement(&mut self.ports, port);
        }
        if let Some(owner) = &pod.owner {
            decrement(&mut self.owners, owner);
        }
    }
}

fn decrement<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
