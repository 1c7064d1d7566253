//! Simulated nodes: created at the first start, then maintained as kubelets and the node lifecycle controller would.
//!
//! The configured nodes are created once. The store records how many were created, so a deleted node
//! does not come back at the next start, and a larger setting adds the missing ones. Nodes that
//! other clients create are simulated too, unless their label [`SIMULATED_LABEL`] has a value other than `true`.
//!
//! A node that registered itself has its own kubelet and is not simulated. The annotation [`LOST_ANNOTATION`] stops the simulated kubelet
//! of a node. In both cases, when the Lease expires without renewal, the node's conditions become `Unknown`, with the usual consequences:
//! taints, pods that are not ready, eviction.

pub(crate) mod leases;
mod machine;
mod metadata;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use super::{NODES, key_of, pods_on};
use crate::clock::rfc3339;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::view::{Node, Pod};
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::error::ApiError;
use crate::store::{Event, EventKind, Key, Object};

/// Label of a node: whether it is simulated. The default is `true`.
pub(crate) const SIMULATED_LABEL: &str = "sim.longshore.dev/node";
/// Annotation that stops the simulated kubelet of a node.
const LOST_ANNOTATION: &str = "sim.longshore.dev/lost";
/// Key of the store's metadata: how many configured nodes have been created.
const CREATED_NODES_KEY: &str = "sim.nodes";

const COMPONENT: &str = "node-controller";

/// Whether the node has a simulated kubelet, running or lost.
fn is_simulated(node: &Node) -> bool {
    node.metadata.labels.get(SIMULATED_LABEL).is_none_or(|value| value == "true")
}

fn is_lost(node: &Node) -> bool {
    node.metadata.annotations.get(LOST_ANNOTATION).is_some_and(|value| value != "false")
}

/// Whether the simulated kubelet of the node runs.
pub(super) fn is_alive(node: &Node) -> bool {
    is_simulated(node) && !is_lost(node)
}

#[derive(Default)]
pub(super) struct Nodes {
    /// Pod CIDR numbers assigned to nodes whose stored spec does not have them yet.
    reserved_pod_cidrs: Mutex<BTreeSet<u32>>,
}

/// The key under which the configured nodes are created.
fn configured_nodes_key() -> Key {
    Key::new(&NODES.into(), "", "")
}

impl Controller for Nodes {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let nodes = context.store.list(NODES, None).objects;
        nodes.iter().map(|node| key_of(NODES, node)).chain([configured_nodes_key()]).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if leases::is_first_heartbeat(storage, event) {
            keys.push(Key::new(&NODES.into(), "", &event.object.name));
        }
        if storage.as_ref() != NODES {
            return;
        }
        if event.kind == EventKind::Deleted {
            let message = format!("Node {0} event: Removing Node {0} from Controller", event.object.name);
            record_event(context, &event.object, "RemovingNode", message);
        } else {
            keys.push(key_of(NODES, &event.object));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        if key.name.is_empty() {
            create_configured_nodes(context).await?;
            return Ok(Action::AwaitChange);
        }
        let Some(node) = context.store.get(NODES, "", &key.name) else { return Ok(Action::AwaitChange) };
        let silent_at = lease_expires_at(context, &node);
        let now = context.clock.now();
        let is_silent = silent_at.is_some_and(|at| at <= now);
        let node = self.report(context, node, is_silent).await?;
        let node = self.update_metadata(context, node).await?;
        update_pod_readiness(context, &node).await?;
        Ok(Action::AwaitChange.or_at(silent_at.filter(|at| *at > now), now))
    }
}

impl Nodes {
    /// Writes the status that the kubelet reports, or `Unknown` conditions when its heartbeats have stopped.
    async fn report(
        &self,
        context: &Context,
        node: Arc<Object>,
        is_silent: bool,
    ) -> Result<Arc<Object>, ReconcileError> {
        let view = node.view::<Node>();
        let mut value = node.value();
        let now = rfc3339(context.clock.now());
        let (changed, by) = if is_alive(&view) {
            let range =
                machine::parse_cidr(&view.spec.pod_cidr).unwrap_or_else(|| self.reserve_pod_cidr(context));
            let simulation = context.simulation.clone().unwrap_or_default();
            (machine::report(&mut value, &simulation, range, &now), Component::Kubelet)
        } else {
            (is_silent && machine::set_conditions_unknown(&mut value, &now), Component::ControllerManager)
        };
        if !changed {
            return Ok(node);
        }
        let node = context.client.update(by, ObjectPart::Status, value).await?;
        if by == Component::ControllerManager {
            record_event(
                context,
                &node,
                "NodeNotReady",
                format!("Node {} status is now: NodeNotReady", node.name),
            );
        }
        Ok(node)
    }

    /// Writes what node controllers set: taints, labels, the pod CIDR.
    async fn update_metadata(
        &self,
        context: &Context,
        node: Arc<Object>,
    ) -> Result<Arc<Object>, ReconcileError> {
        let mut value = node.value();
        let is_new = value["metadata"]["annotations"][metadata::TTL_ANNOTATION].is_null();
        let now = rfc3339(context.clock.now());
        let mut changed = metadata::apply(&mut value, &now);
        let range = if value["spec"]["podCIDR"].is_null() {
            let known = machine::parse_node_address(&node.view::<Node>());
            let range = known.unwrap_or_else(|| self.reserve_pod_cidr(context));
            value["spec"]["podCIDR"] = machine::cidr(range).into();
            value["spec"]["podCIDRs"] = json!([machine::cidr(range)]);
            changed = true;
            Some(range)
        } else {
            None
        };
        if !changed {
            return Ok(node);
        }
        let node = context.client.update(Component::ControllerManager, ObjectPart::Main, value).await?;
        if let Some(range) = range {
            self.reserved_pod_cidrs.lock().remove(&range);
        }
        if is_new {
            let message = format!("Node {0} event: Registered Node {0} in Controller", node.name);
            record_event(context, &node, "RegisteredNode", message);
        }
        Ok(node)
    }

    /// Reserves the lowest pod CIDR number that no node has.
    fn reserve_pod_cidr(&self, context: &Context) -> u32 {
        let nodes = context.store.list(NODES, None).objects;
        let views: Vec<_> = nodes.iter().map(|node| node.view::<Node>()).collect();
        let ranges = views.iter().flat_map(|node| {
            [machine::parse_cidr(&node.spec.pod_cidr), machine::parse_node_address(node)]
                .into_iter()
                .flatten()
        });
        let mut taken: BTreeSet<u32> = ranges.collect();
        let mut promised = self.reserved_pod_cidrs.lock();
        taken.extend(promised.iter());
        let free = (0..=u32::MAX).find(|range| !taken.contains(range)).unwrap_or_default();
        promised.insert(free);
        free
    }
}

fn record_event(context: &Context, node: &Object, reason: &'static str, message: String) {
    context.events.normal(COMPONENT, InvolvedObject::new("v1", "Node", node), reason, message);
}

/// Returns when the Lease of a node without a simulated kubelet expires: a lost node, or one with its own kubelet.
/// A node with neither kubelet nor Lease keeps the status that its creator wrote.
fn lease_expires_at(context: &Context, node: &Object) -> Option<Timestamp> {
    let view = node.view::<Node>();
    if is_alive(&view) {
        return None;
    }
    let end = leases::expires_at(context, &node.name);
    if is_simulated(&view) { end.or_else(|| Some(context.clock.now())) } else { end }
}

/// Creates the configured nodes that have not been created before.
async fn create_configured_nodes(context: &Context) -> Result<(), ReconcileError> {
    let Some(simulation) = &context.simulation else { return Ok(()) };
    let made = context.store.get_meta(CREATED_NODES_KEY);
    let made = made.and_then(|text| std::str::from_utf8(&text).ok()?.parse::<u32>().ok()).unwrap_or(0);
    for index in made..simulation.nodes {
        match context
            .client
            .create(Component::Kubelet, machine::new_node(&format!("node-{index}"), simulation))
            .await
        {
            Err(ApiError { code: 409, .. }) => {}
            other => drop(other?),
        }
    }
    if made < simulation.nodes {
        context.store.put_meta(CREATED_NODES_KEY, simulation.nodes.to_string().as_bytes()).await?;
    }
    Ok(())
}

/// Sets pods on an unreachable node to not ready. When the node is back, pods whose containers are ready become ready.
async fn update_pod_readiness(context: &Context, node: &Object) -> Result<(), ReconcileError> {
    let view = node.view::<Node>();
    let Some(ready) = view.condition("Ready") else { return Ok(()) };
    let silent = ready.status == "Unknown";
    // A node that was never unreachable has no such pods; this avoids the scan of all pods.
    let since = ready.last_transition_time;
    if !silent && since.is_none_or(|since| view.metadata.creation_timestamp >= Some(since)) {
        return Ok(());
    }
    for pod in pods_on(context, &node.name) {
        let is_wrong = |pod: &Pod| {
            let containers_ready = pod.condition("ContainersReady").is_some_and(|c| c.status == "True");
            if silent { pod.is_ready() } else { !pod.is_ready() && containers_ready && pod.is_active() }
        };
        if !is_wrong(&pod.view::<Pod>()) {
            continue;
        }
        let mut value = pod.value();
        let conditions = value["status"]["conditions"].as_array_mut();
        if let Some(found) = conditions.into_iter().flatten().find(|found| found["type"] == "Ready") {
            found["status"] = if silent { "False" } else { "True" }.into();
            found["lastTransitionTime"] = rfc3339(context.clock.now()).into();
        }
        let by = if silent { Component::ControllerManager } else { Component::Kubelet };
        let pod = context.client.update(by, ObjectPart::Status, value).await?;
        if silent {
            let about = InvolvedObject::new("v1", "Pod", &pod);
            context.events.warning(COMPONENT, about, "NodeNotReady", "Node is not ready");
        }
    }
    Ok(())
}
