//! The kubelets of all simulated nodes: the lifecycle of a pod after its binding.
//!
//! Modules:
//! - `status`: computes the next status of a pod
//! - `container`: computes the next status of one container
//! - `behaviour`: failures that a pod's annotations ask for
//! - `references`: ConfigMaps, Secrets and volumes that a pod needs
//! - `addresses`: pod addresses
//!
//! A pod that runs and has nothing left to do is not written, so changes that other clients make to its status stay.
//! A lost node has no kubelet: its pods do not change until the node is back.

mod addresses;
pub(super) mod behaviour;
mod container;
mod references;
mod status;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use super::nodes::is_alive;
use super::{NODES, PODS, key_of, pods_on};
use crate::access::items;
use crate::clock::rfc3339;
use crate::control::events::{About, Kind, Note};
use crate::control::queue::{Controller, Next};
use crate::control::view::{Node, Pod};
use crate::control::{Component, Context, Failure, Part, settled};
use crate::store::{Event, EventKind, Key, Object};
use addresses::Addresses;
use references::Missing;
use status::{Report, Surroundings};

const COMPONENT: &str = "kubelet";
const NO_ADDRESS_PAUSE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Kubelet {
    addresses: Mutex<Addresses>,
    /// The pods that wait for each missing object.
    missing: Mutex<HashMap<Key, BTreeSet<Key>>>,
}

/// Whether the kubelet still has work for the pod, now or later.
fn is_unsettled(pod: &Pod) -> bool {
    if pod.spec.node_name.is_empty() {
        return false;
    }
    if pod.metadata.is_deleting() {
        // Without grace time left, only finalizers delay the deletion.
        return pod.metadata.deletion_grace_period_seconds != Some(0);
    }
    !pod.is_finished() && (pod.status.phase != "Running" || has_plans(pod))
}

/// Whether a running pod will change without a change of its spec.
fn has_plans(pod: &Pod) -> bool {
    behaviour::is_asked(pod)
        || status::completes(pod)
        || pod.spec.active_deadline_seconds.is_some()
        || pod.spec.ephemeral_containers.len() > pod.status.ephemeral_container_statuses.len()
}

impl Controller for Kubelet {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let pods = context.store.list(PODS, None).objects;
        let mut addresses = self.addresses.lock();
        // An address that is assigned but not in a stored status yet stays assigned.
        addresses.keep(|key| context.store.get(PODS, &key.namespace, &key.name).is_some());
        self.missing.lock().clear();
        let mut keys = Vec::new();
        for object in pods {
            let (key, pod) = (key_of(PODS, &object), object.view::<Pod>());
            addresses.see(&key, &pod);
            if is_unsettled(&pod) {
                keys.push(key);
            }
        }
        keys
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            PODS => {
                let (key, pod) = (key_of(PODS, object), object.view::<Pod>());
                if event.kind == EventKind::Deleted {
                    self.addresses.lock().release(&key);
                    return;
                }
                self.addresses.lock().see(&key, &pod);
                if is_unsettled(&pod) {
                    keys.push(key);
                }
            }
            NODES if event.kind != EventKind::Deleted => {
                // The node can run pods now and could not before.
                let able = |node: &Object| {
                    let node = node.view::<Node>();
                    is_alive(&node) && !node.spec.pod_cidr.is_empty() && node.address("InternalIP").is_some()
                };
                if able(object) && !event.previous.as_deref().is_some_and(able) {
                    keys.extend(pods_on(context, &object.name).iter().map(|pod| key_of(PODS, pod)));
                }
            }
            storage if references::is_reference(storage) && event.kind != EventKind::Deleted => {
                let found = self.missing.lock().remove(&key_of(storage, object));
                keys.extend(found.into_iter().flatten());
            }
            _ => {}
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(PODS, &key.namespace, &key.name) else { return Ok(Next::Rest) };
        let pod = object.view::<Pod>();
        let node = context.store.get(NODES, "", &pod.spec.node_name).map(|node| node.view::<Node>());
        let Some(node) = node.filter(|node| is_alive(node) && is_unsettled(&pod)) else {
            return Ok(Next::Rest);
        };
        if pod.metadata.is_deleting() {
            if !behaviour::is_stuck(&pod) {
                settled(context.actor.delete_now(key, &object.uid).await)?;
            }
            return Ok(Next::Rest);
        }
        let now = context.clock.now();
        let mut value = object.value();
        let deadline = deadline(&pod, &value["status"]);
        if deadline.is_some_and(|at| at <= now) {
            expire(&mut value, now);
            context.actor.update(Component::Kubelet, Part::Status, value).await?;
            return Ok(Next::Rest);
        }
        let Some(pod_ip) = self.address(key, &pod, &node) else {
            // The node has no pod CIDR yet, or no free address.
            return Ok(Next::After(NO_ADDRESS_PAUSE));
        };
        let host_ip = node.address("InternalIP").unwrap_or_default().to_owned();
        let pod_ip = if pod.spec.host_network { host_ip.clone() } else { pod_ip };
        let around = self.look_around(context, key, &object, &value, (host_ip, pod_ip));
        let Report { status, next, told } = status::report(&pod, &value["status"], &around);
        if value["status"] != status {
            let is_first = value["status"]["startTime"].is_null();
            value["status"] = status;
            context.actor.update(Component::Kubelet, Part::Status, value).await?;
            let unknown = if is_first { behaviour::unknown(&pod) } else { Vec::new() };
            for word in unknown {
                let message = format!("\"{word}\" is not a behaviour that this cluster can simulate");
                tell(context, &object, String::new(), (true, "UnknownBehaviour", message));
            }
        }
        for (field, word) in told {
            tell(context, &object, field, word);
        }
        Ok(Next::Rest.or_at(next, now).or_at(deadline, now))
    }
}

impl Kubelet {
    fn address(&self, key: &Key, pod: &Pod, node: &Node) -> Option<String> {
        if pod.spec.host_network {
            return Some(String::new());
        }
        let given = self.addresses.lock().give(key, &node.metadata.name, &node.spec.pod_cidr);
        given.map(|address| address.to_string())
    }

    /// Resolves what the pod needs on its node. A missing object wakes the pod when it is created.
    fn look_around(
        &self,
        context: &Context,
        key: &Key,
        object: &Object,
        value: &Value,
        (host_ip, pod_ip): (String, String),
    ) -> Surroundings {
        let store = &context.store;
        let wait = |missing: Missing| {
            self.missing.lock().entry(missing.key).or_default().insert(key.clone());
            missing.message
        };
        let volume = references::of_volumes(store, &key.namespace, items(&value["spec"], "volumes"));
        let no_volume = volume.is_some();
        if let Some((volume, missing)) = volume {
            let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : {}", wait(missing));
            tell(context, object, String::new(), (true, "FailedMount", message));
        }
        let no_config = ["initContainers", "containers"].map(|list| {
            let containers = items(&value["spec"], list).iter();
            containers
                .map(|container| references::of_container(store, &key.namespace, container).map(&wait))
                .collect()
        });
        Surroundings { host_ip, pod_ip, no_volume, no_config, now: context.clock.now() }
    }
}

/// Returns when `activeDeadlineSeconds` ends.
fn deadline(pod: &Pod, status: &Value) -> Option<Timestamp> {
    let start: Timestamp = status["startTime"].as_str()?.parse().ok()?;
    let seconds = pod.spec.active_deadline_seconds?;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn expire(pod: &mut Value, now: Timestamp) {
    let status = &mut pod["status"];
    status["phase"] = "Failed".into();
    status["reason"] = "DeadlineExceeded".into();
    status["message"] = "Pod was active on the node longer than the specified deadline".into();
    for kind in ["Ready", "ContainersReady"] {
        status::set_condition(status, kind, ("False", "PodFailed", ""), &rfc3339(now));
    }
}

fn tell(context: &Context, pod: &Object, field: String, (is_warning, reason, message): container::Word) {
    let kind = if is_warning { Kind::Warning } else { Kind::Normal };
    let about = About::new("v1", "Pod", pod).field(field);
    let host = pod.view::<Pod>().spec.node_name.clone();
    context.events.record(Note { about, component: COMPONENT, kind, reason, message, action: None, host });
}
