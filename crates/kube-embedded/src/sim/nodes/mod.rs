//! Simulated nodes: created at the first start, then maintained as kubelets and the node lifecycle controller would.
//!
//! The configured nodes are created once. The store records how many were created, so a deleted node
//! does not come back at the next start, and a larger setting adds the missing ones. Nodes that
//! other clients create are simulated too, unless their label [`SIMULATED`] has a value other than `true`.
//!
//! A node that registered itself has its own kubelet and is not simulated. The annotation [`LOST`] stops the simulated kubelet of a
//! node. In both cases, when the Lease expires without renewal, the node's conditions become `Unknown`, with the usual
//! consequences: taints, pods that are not ready, eviction.

pub(crate) mod leases;
mod machine;
mod marks;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use super::{NODES, key_of, pods_on};
use crate::clock::rfc3339;
use crate::control::events::About;
use crate::control::queue::{Controller, Next};
use crate::control::view::{Node, Pod};
use crate::control::{Component, Context, Failure, Part};
use crate::error::ApiError;
use crate::store::{Event, EventKind, Key, Object};

/// Label of a node: whether it is simulated. The default is `true`.
pub(crate) const SIMULATED: &str = "sim.longshore.dev/node";
/// Annotation that stops the simulated kubelet of a node.
const LOST: &str = "sim.longshore.dev/lost";
/// Key of the store's metadata: how many configured nodes have been created.
const MADE: &str = "sim.nodes";

const COMPONENT: &str = "node-controller";

/// Whether the node has a simulated kubelet, running or lost.
fn is_simulated(node: &Node) -> bool {
    node.metadata.labels.get(SIMULATED).is_none_or(|value| value == "true")
}

fn is_lost(node: &Node) -> bool {
    node.metadata.annotations.get(LOST).is_some_and(|value| value != "false")
}

/// Whether the simulated kubelet of the node runs.
pub(super) fn is_alive(node: &Node) -> bool {
    is_simulated(node) && !is_lost(node)
}

#[derive(Default)]
pub(super) struct Nodes {
    /// Pod CIDR numbers assigned to nodes whose stored spec does not have them yet.
    promised: Mutex<BTreeSet<u32>>,
}

/// The key under which the configured nodes are created.
fn configured() -> Key {
    Key::new(&NODES.into(), "", "")
}

impl Controller for Nodes {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let nodes = context.store.list(NODES, None).objects;
        nodes.iter().map(|node| key_of(NODES, node)).chain([configured()]).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if leases::is_first(storage, event) {
            keys.push(Key::new(&NODES.into(), "", &event.object.name));
        }
        if storage.as_ref() != NODES {
            return;
        }
        if event.kind == EventKind::Deleted {
            let message = format!("Node {0} event: Removing Node {0} from Controller", event.object.name);
            tell(context, &event.object, "RemovingNode", message);
        } else {
            keys.push(key_of(NODES, &event.object));
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        if key.name.is_empty() {
            make_configured(context).await?;
            return Ok(Next::Rest);
        }
        let Some(node) = context.store.get(NODES, "", &key.name) else { return Ok(Next::Rest) };
        let silent_at = silent_at(context, &node);
        let now = context.clock.now();
        let is_silent = silent_at.is_some_and(|at| at <= now);
        let node = self.report(context, node, is_silent).await?;
        let node = self.mark(context, node).await?;
        tell_pods(context, &node).await?;
        Ok(Next::Rest.or_at(silent_at.filter(|at| *at > now), now))
    }
}

impl Nodes {
    /// Writes the status that the kubelet reports, or `Unknown` conditions when its heartbeats have stopped.
    async fn report(
        &self,
        context: &Context,
        node: Arc<Object>,
        is_silent: bool,
    ) -> Result<Arc<Object>, Failure> {
        let view = node.view::<Node>();
        let mut value = node.value();
        let now = rfc3339(context.clock.now());
        let (changed, by) = if is_alive(&view) {
            let range = machine::range_of(&view.spec.pod_cidr).unwrap_or_else(|| self.promise(context));
            let simulation = context.simulation.clone().unwrap_or_default();
            (machine::report(&mut value, &simulation, range, &now), Component::Kubelet)
        } else {
            (is_silent && machine::fall_silent(&mut value, &now), Component::ControllerManager)
        };
        if !changed {
            return Ok(node);
        }
        let node = context.actor.update(by, Part::Status, value).await?;
        if by == Component::ControllerManager {
            tell(context, &node, "NodeNotReady", format!("Node {} status is now: NodeNotReady", node.name));
        }
        Ok(node)
    }

    /// Writes what node controllers set: taints, labels, the pod CIDR.
    async fn mark(&self, context: &Context, node: Arc<Object>) -> Result<Arc<Object>, Failure> {
        let mut value = node.value();
        let is_new = value["metadata"]["annotations"][marks::TTL].is_null();
        let now = rfc3339(context.clock.now());
        let mut changed = marks::apply(&mut value, &now);
        let range = if value["spec"]["podCIDR"].is_null() {
            let known = machine::range_of_address(&node.view::<Node>());
            let range = known.unwrap_or_else(|| self.promise(context));
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
        let node = context.actor.update(Component::ControllerManager, Part::Main, value).await?;
        if let Some(range) = range {
            self.promised.lock().remove(&range);
        }
        if is_new {
            let message = format!("Node {0} event: Registered Node {0} in Controller", node.name);
            tell(context, &node, "RegisteredNode", message);
        }
        Ok(node)
    }

    /// Reserves the lowest pod CIDR number that no node has.
    fn promise(&self, context: &Context) -> u32 {
        let nodes = context.store.list(NODES, None).objects;
        let views: Vec<_> = nodes.iter().map(|node| node.view::<Node>()).collect();
        let ranges = views.iter().flat_map(|node| {
            [machine::range_of(&node.spec.pod_cidr), machine::range_of_address(node)].into_iter().flatten()
        });
        let mut taken: BTreeSet<u32> = ranges.collect();
        let mut promised = self.promised.lock();
        taken.extend(promised.iter());
        let free = (0..=u32::MAX).find(|range| !taken.contains(range)).unwrap_or_default();
        promised.insert(free);
        free
    }
}

fn tell(context: &Context, node: &Object, reason: &'static str, message: String) {
    context.events.normal(COMPONENT, About::new("v1", "Node", node), reason, message);
}

/// Returns when the Lease of a node without a simulated kubelet expires: a lost node, or one with its own kubelet.
/// A node with neither kubelet nor Lease keeps the status that its creator wrote.
fn silent_at(context: &Context, node: &Object) -> Option<Timestamp> {
    let view = node.view::<Node>();
    if is_alive(&view) {
        return None;
    }
    let end = leases::runs_out(context, &node.name);
    if is_simulated(&view) { end.or_else(|| Some(context.clock.now())) } else { end }
}

/// Creates the configured nodes that have not been created before.
async fn make_configured(context: &Context) -> Result<(), Failure> {
    let Some(simulation) = &context.simulation else { return Ok(()) };
    let made = context.store.get_meta(MADE);
    let made = made.and_then(|text| std::str::from_utf8(&text).ok()?.parse::<u32>().ok()).unwrap_or(0);
    for index in made..simulation.nodes {
        match context
            .actor
            .create(Component::Kubelet, machine::new(&format!("node-{index}"), simulation))
            .await
        {
            Err(ApiError { code: 409, .. }) => {}
            other => drop(other?),
        }
    }
    if made < simulation.nodes {
        context.store.put_meta(MADE, simulation.nodes.to_string().as_bytes()).await?;
    }
    Ok(())
}

/// Sets pods on an unreachable node to not ready. When the node is back, pods whose containers are ready become ready.
async fn tell_pods(context: &Context, node: &Object) -> Result<(), Failure> {
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
        let pod = context.actor.update(by, Part::Status, value).await?;
        if silent {
            let about = About::new("v1", "Pod", &pod);
            context.events.warning(COMPONENT, about, "NodeNotReady", "Node is not ready");
        }
    }
    Ok(())
}
