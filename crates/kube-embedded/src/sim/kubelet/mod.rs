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
use crate::control::events::{EventRecord, EventType, InvolvedObject};
use crate::control::queue::{Action, Controller};
use crate::control::view::{Node, Pod};
use crate::control::{Component, Context, ObjectPart, ReconcileError, ignore_not_found_or_conflict};
use crate::store::{Event, EventKind, Key, Object};
use addresses::PodAddresses;
use references::MissingReference;
use status::{PodEnvironment, PodStatusUpdate};

const COMPONENT: &str = "kubelet";
const NO_ADDRESS_REQUEUE: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Kubelet {
    addresses: Mutex<PodAddresses>,
    /// The pods that wait for each missing object.
    waiting_pods: Mutex<HashMap<Key, BTreeSet<Key>>>,
}

/// Whether the kubelet still has work for the pod, now or later.
fn needs_work(pod: &Pod) -> bool {
    if pod.spec.node_name.is_empty() {
        return false;
    }
    if pod.metadata.is_deleting() {
        // Without grace time left, only finalizers delay the deletion.
        return pod.metadata.deletion_grace_period_seconds != Some(0);
    }
    !pod.is_finished() && (pod.status.phase != "Running" || has_scheduled_changes(pod))
}

/// Whether a running pod will change without a change of its spec.
fn has_scheduled_changes(pod: &Pod) -> bool {
    behaviour::has_behaviour(pod)
        || status::completes(pod)
        || pod.spec.active_deadline_seconds.is_some()
        || pod.spec.ephemeral_containers.len() > pod.status.ephemeral_container_statuses.len()
}

impl Controller for Kubelet {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let pods = context.store.list(PODS, None).objects;
        let mut addresses = self.addresses.lock();
        // An address that is assigned but not in a stored status yet stays assigned.
        addresses.retain(|key| context.store.get(PODS, &key.namespace, &key.name).is_some());
        self.waiting_pods.lock().clear();
        let mut keys = Vec::new();
        for object in pods {
            let (key, pod) = (key_of(PODS, &object), object.view::<Pod>());
            addresses.record(&key, &pod);
            if needs_work(&pod) {
                keys.push(key);
            }
        }
        keys
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            PODS => {
                let (key, pod) = (key_of(PODS, object), object.view::<Pod>());
                if event.kind == EventKind::Deleted {
                    self.addresses.lock().release(&key);
                    return;
                }
                self.addresses.lock().record(&key, &pod);
                if needs_work(&pod) {
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
                let found = self.waiting_pods.lock().remove(&key_of(storage, object));
                keys.extend(found.into_iter().flatten());
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(PODS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let pod = object.view::<Pod>();
        let node = context.store.get(NODES, "", &pod.spec.node_name).map(|node| node.view::<Node>());
        let Some(node) = node.filter(|node| is_alive(node) && needs_work(&pod)) else {
            return Ok(Action::AwaitChange);
        };
        if pod.metadata.is_deleting() {
            if !behaviour::is_stuck(&pod) {
                ignore_not_found_or_conflict(context.client.delete_immediately(key, &object.uid).await)?;
            }
            return Ok(Action::AwaitChange);
        }
        let now = context.clock.now();
        let mut value = object.value();
        let deadline = deadline(&pod, &value["status"]);
        if deadline.is_some_and(|at| at <= now) {
            fail_at_deadline(&mut value, now);
            context.client.update(Component::Kubelet, ObjectPart::Status, value).await?;
            return Ok(Action::AwaitChange);
        }
        let Some(pod_ip) = self.address(key, &pod, &node) else {
            // The node has no pod CIDR yet, or no free address.
            return Ok(Action::RequeueAfter(NO_ADDRESS_REQUEUE));
        };
        let host_ip = node.address("InternalIP").unwrap_or_default().to_owned();
        let pod_ip = if pod.spec.host_network { host_ip.clone() } else { pod_ip };
        let around = self.resolve_environment(context, key, &object, &value, (host_ip, pod_ip));
        let PodStatusUpdate { status, next, events: told } =
            status::next_status(&pod, &value["status"], &around);
        if value["status"] != status {
            let is_first = value["status"]["startTime"].is_null();
            value["status"] = status;
            context.client.update(Component::Kubelet, ObjectPart::Status, value).await?;
            let unknown = if is_first { behaviour::invalid_directives(&pod) } else { Vec::new() };
            for word in unknown {
                let message = format!("\"{word}\" is not a behaviour that this cluster can simulate");
                record_event(context, &object, String::new(), (true, "UnknownBehaviour", message));
            }
        }
        for (field, word) in told {
            record_event(context, &object, field, word);
        }
        Ok(Action::AwaitChange.or_at(next, now).or_at(deadline, now))
    }
}

impl Kubelet {
    fn address(&self, key: &Key, pod: &Pod, node: &Node) -> Option<String> {
        if pod.spec.host_network {
            return Some(String::new());
        }
        let given = self.addresses.lock().allocate(key, &node.metadata.name, &node.spec.pod_cidr);
        given.map(|address| address.to_string())
    }

    /// Resolves the references of the pod to other objects. A missing object wakes the pod when it is created.
    fn resolve_environment(
        &self,
        context: &Context,
        key: &Key,
        object: &Object,
        value: &Value,
        (host_ip, pod_ip): (String, String),
    ) -> PodEnvironment {
        let store = &context.store;
        let wait = |missing: MissingReference| {
            self.waiting_pods.lock().entry(missing.key).or_default().insert(key.clone());
            missing.message
        };
        let volume = references::missing_for_volumes(store, &key.namespace, items(&value["spec"], "volumes"));
        let no_volume = volume.is_some();
        if let Some((volume, missing)) = volume {
            let message = format!("MountVolume.SetUp failed for volume \"{volume}\" : {}", wait(missing));
            record_event(context, object, String::new(), (true, "FailedMount", message));
        }
        let no_config = ["initContainers", "containers"].map(|list| {
            let containers = items(&value["spec"], list).iter();
            containers
                .map(|container| {
                    references::missing_for_container(store, &key.namespace, container).map(&wait)
                })
                .collect()
        });
        PodEnvironment {
            host_ip,
            pod_ip,
            has_unmountable_volume: no_volume,
            missing_config: no_config,
            now: context.clock.now(),
        }
    }
}

/// Returns when `activeDeadlineSeconds` ends.
fn deadline(pod: &Pod, status: &Value) -> Option<Timestamp> {
    let start: Timestamp = status["startTime"].as_str()?.parse().ok()?;
    let seconds = pod.spec.active_deadline_seconds?;
    start.checked_add(SignedDuration::from_secs(seconds)).ok()
}

fn fail_at_deadline(pod: &mut Value, now: Timestamp) {
    let status = &mut pod["status"];
    status["phase"] = "Failed".into();
    status["reason"] = "DeadlineExceeded".into();
    status["message"] = "Pod was active on the node longer than the specified deadline".into();
    for kind in ["Ready", "ContainersReady"] {
        status::set_condition(status, kind, ("False", "PodFailed", ""), &rfc3339(now));
    }
}

fn record_event(
    context: &Context,
    pod: &Object,
    field: String,
    (is_warning, reason, message): container::ContainerEvent,
) {
    let kind = if is_warning { EventType::Warning } else { EventType::Normal };
    let about = InvolvedObject::new("v1", "Pod", pod).with_field_path(field);
    let host = pod.view::<Pod>().spec.node_name.clone();
    context.events.record(EventRecord {
        involved_object: about,
        component: COMPONENT,
        event_type: kind,
        reason,
        message,
        action: None,
        host,
    });
}
