//! The scheduler's snapshot of the cluster: the nodes, and what is in use on each.
//!
//! It is updated by events of pods and nodes, and by the scheduler's own decisions before they are written, so that
//! pods that are decided together do not take the same capacity. Equal pods are counted, not listed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::neighbours::Term;
use super::resources::Resources;
use crate::access::items;
use crate::control::view::{Node, Pod};
use crate::sim::NODES;
use crate::store::{Key, Object};

/// The properties of a pod that other pods' constraints can match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Group {
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    /// Pods that are being deleted.
    pub leaving: bool,
    /// Their required anti-affinity, serialised.
    anti: String,
}

#[derive(Debug)]
pub(super) struct Members {
    pub count: u32,
    /// Their parsed required anti-affinity terms.
    pub anti: Arc<[Term]>,
}

/// Address, protocol and number of a host port in use.
pub(super) type Port = (String, String, i64);

/// A node, with what is in use on it (kube-scheduler: `NodeInfo`).
#[derive(Debug, Default)]
pub(super) struct Place {
    /// `None` when pods name a node that does not exist.
    pub node: Option<Arc<Node>>,
    pub allocatable: Resources,
    pub taken: Resources,
    /// Millicores and bytes assumed in use, for scores.
    pub assumed: (i128, i128),
    pub groups: BTreeMap<Group, Members>,
    pub ports: HashMap<Port, u32>,
    /// Number of pods on the node per owner uid.
    pub owners: HashMap<String, u32>,
}

/// The share of a pod in its node's usage.
#[derive(Debug)]
struct Placed {
    node: String,
    asked: Resources,
    assumed: (i128, i128),
    group: Group,
    anti: Arc<[Term]>,
    ports: Vec<Port>,
    owner: Option<String>,
}

#[derive(Debug, Default)]
pub(super) struct Picture {
    places: BTreeMap<String, Place>,
    pods: HashMap<Key, Placed>,
}

/// Returns the host ports of a pod.
pub(super) fn ports(pod: &Pod) -> Vec<Port> {
    let sidecars = pod.spec.init_containers.iter().filter(|container| container.restart_policy == "Always");
    let containers = pod.spec.containers.iter().chain(sidecars);
    let ports = containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0);
    ports.map(|port| (port.host_ip.clone(), port.protocol.clone(), port.host_port)).collect()
}

impl Picture {
    /// Returns the nodes that exist, sorted by name.
    pub fn places(&self) -> impl Iterator<Item = (&str, &Node, &Place)> {
        self.places.iter().filter_map(|(name, place)| Some((name.as_str(), place.node.as_deref()?, place)))
    }

    /// Removes pods and nodes that no longer exist; `exists` takes storage, namespace and name.
    pub fn keep(&mut self, exists: impl Fn(&str, &str, &str) -> bool) {
        let gone = self.pods.keys().filter(|key| !exists(&key.storage, &key.namespace, &key.name));
        for key in gone.cloned().collect::<Vec<_>>() {
            self.forget(&key);
        }
        let gone = self.places.keys().filter(|name| !exists(NODES, "", name));
        for name in gone.cloned().collect::<Vec<_>>() {
            self.lose_node(&name);
        }
    }

    /// Records a new or changed node.
    pub fn see_node(&mut self, object: &Object) {
        let node = object.view::<Node>();
        let place = self.places.entry(object.name.to_string()).or_default();
        place.allocatable = Resources::of_node(&node.status.allocatable);
        place.node = Some(node);
    }

    pub fn lose_node(&mut self, name: &str) {
        if let Some(place) = self.places.get_mut(name) {
            place.node = None;
        }
        self.tidy(name);
    }

    /// Records a stored pod that is bound or terminated. Returns whether it released capacity.
    pub fn see_pod(&mut self, key: &Key, pod: &Pod) -> bool {
        let had = self.forget(key);
        let takes = !pod.spec.node_name.is_empty() && !pod.is_finished();
        if takes {
            self.place(key, pod, &pod.spec.node_name);
        }
        had && !takes
    }

    /// Counts a pod on a node before its binding is written.
    pub fn promise(&mut self, key: &Key, pod: &Pod, node: &str) {
        self.place(key, pod, node);
    }

    /// Removes a pod that is gone or whose binding failed. Returns whether it had used capacity.
    pub fn forget(&mut self, key: &Key) -> bool {
        let Some(placed) = self.pods.remove(key) else { return false };
        if let Some(place) = self.places.get_mut(&placed.node) {
            place.leave(&placed);
        }
        self.tidy(&placed.node);
        true
    }

    fn place(&mut self, key: &Key, pod: &Pod, node: &str) {
        let asked = Resources::of_pod(&pod.spec);
        let required = &pod.spec.affinity["podAntiAffinity"];
        let anti = items(required, "requiredDuringSchedulingIgnoredDuringExecution");
        // A pod with more terms was bound by another client than the scheduler.
        let anti = &anti[..anti.len().min(super::MOST_TERMS)];
        let group = Group {
            namespace: key.namespace.to_string(),
            labels: pod.metadata.labels.clone(),
            leaving: pod.metadata.is_deleting(),
            anti: if anti.is_empty() { String::new() } else { Value::from(anti.to_vec()).to_string() },
        };
        let placed = Placed {
            node: node.to_owned(),
            assumed: asked.assumed_of_pod(&pod.spec),
            asked,
            anti: anti.iter().map(|term| Term::read(term, &key.namespace)).collect(),
            group,
            ports: ports(pod),
            owner: pod.metadata.controller().map(|owner| owner.uid.clone()),
        };
        self.places.entry(node.to_owned()).or_default().enter(&placed);
        self.pods.insert(key.clone(), placed);
    }

    /// Removes a node that does not exist when no pod is left on it.
    fn tidy(&mut self, name: &str) {
        if self.places.get(name).is_some_and(|place| place.node.is_none() && place.taken.pods == 0) {
            self.places.remove(name);
        }
    }
}

impl Place {
    fn enter(&mut self, pod: &Placed) {
        self.taken.add(&pod.asked);
        self.assumed.0 = self.assumed.0.saturating_add(pod.assumed.0);
        self.assumed.1 = self.assumed.1.saturating_add(pod.assumed.1);
        let members = self.groups.entry(pod.group.clone());
        members.or_insert_with(|| Members { count: 0, anti: pod.anti.clone() }).count += 1;
        for port in &pod.ports {
            *self.ports.entry(port.clone()).or_default() += 1;
        }
        if let Some(owner) = &pod.owner {
            *self.owners.entry(owner.clone()).or_default() += 1;
        }
    }

    fn leave(&mut self, pod: &Placed) {
        self.taken.subtract(&pod.asked);
        self.assumed.0 = self.assumed.0.saturating_sub(pod.assumed.0);
        self.assumed.1 = self.assumed.1.saturating_sub(pod.assumed.1);
        if let Some(members) = self.groups.get_mut(&pod.group) {
            members.count = members.count.saturating_sub(1);
            if members.count == 0 {
                self.groups.remove(&pod.group);
            }
        }
        for port in &pod.ports {
            one_less(&mut self.ports, port);
        }
        if let Some(owner) = &pod.owner {
            one_less(&mut self.owners, owner);
        }
    }
}

fn one_less<K: std::hash::Hash + Eq>(counts: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            counts.remove(key);
        }
    }
}
