//! Nodes: made at the first start, and kept as their kubelets and the node controllers would keep them.
//!
//! The configured number of nodes is made once: how many have been made is kept with the store, so that a node that
//! somebody deleted does not come back at the next start, and a larger number adds the missing ones. Nodes that
//! others create are simulated too, unless they carry the label [`SIMULATED`] with another value than `true`.
//!
//! A node that registered itself has a kubelet of its own and is not simulated. One with the annotation [`LOST`] has lost its
//! simulated one. Either way, when nobody renews its Lease any longer and that has run out, its conditions become unknown, with
//! what follows: taints, pods that are not ready, eviction.

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

/// Label of a node that says whether it is simulated; all are, unless it says otherwise.
pub(crate) const SIMULATED: &str = "sim.longshore.dev/node";
/// Annotation of a node whose kubelet has gone silent.
const LOST: &str = "sim.longshore.dev/lost";
/// How many configured nodes have been made, kept with the store.
const MADE: &str = "sim.nodes";

const COMPONENT: &str = "node-controller";

/// A simulated kubelet answers for it, or would if it were not lost.
fn is_simulated(node: &Node) -> bool {
    node.metadata.labels.get(SIMULATED).is_none_or(|value| value == "true")
}

fn is_lost(node: &Node) -> bool {
    node.metadata.annotations.get(LOST).is_some_and(|value| value != "false")
}

/// Its kubelet works.
pub(super) fn is_alive(node: &Node) -> bool {
    is_simulated(node) && !is_lost(node)
}

#[derive(Default)]
pub(super) struct Nodes {
    /// Ranges of pod addresses that are being given to a node, until it is seen to have one.
    promised: Mutex<BTreeSet<u32>>,
}

/// The wish for the configured nodes.
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
    /// What the kubelet says of its machine, or, when it has been silent for too long, what is said of it.
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

    /// What controllers write on a node: taints by its conditions, labels, its range of pod addresses.
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

    /// The lowest range of pod addresses that no node has.
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

/// When a node will have been silent for longer than its Lease lasts: one that is lost, or one with a kubelet of its own.
/// One that has neither kubelet nor Lease is as whoever made it says.
fn silent_at(context: &Context, node: &Object) -> Option<Timestamp> {
    let view = node.view::<Node>();
    if is_alive(&view) {
        return None;
    }
    let end = leases::runs_out(context, &node.name);
    if is_simulated(&view) { end.or_else(|| Some(context.clock.now())) } else { end }
}

/// Makes the configured nodes that have never been made.
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

/// Pods on a node that fell silent are not ready; when it speaks again, those whose containers are ready are.
async fn tell_pods(context: &Context, node: &Object) -> Result<(), Failure> {
    let view = node.view::<Node>();
    let Some(ready) = view.condition("Ready") else { return Ok(()) };
    let silent = ready.status == "Unknown";
    // A node that has never been silent has no such pods: the look at all of them is spared.
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
