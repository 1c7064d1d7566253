//! The scheduler: binds each pending pod to a node.
//!
//! A pod that fits no node gets the reason in its `PodScheduled` condition and waits until an event may help:
//! a node, a claim, or a deleted pod.
//!
//! Modules:
//! - `snapshot`: snapshot of nodes and the resources in use on each
//! - `nodes`, `resources`, `volumes`, `pod_affinity`, `spread`: filters and scores of one subject each
//! - `selection`: combines them and selects a node
//!
//! Invariant: a pod is counted in the snapshot before its binding is written.
//! Not implemented: preemption by priority.

pub(crate) mod nodes;
mod pod_affinity;
mod resources;
mod selection;
mod snapshot;
mod spread;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{NODES, PODS, key_of};
use crate::clock::rfc3339;
use crate::control::events::{EventRecord, EventType, InvolvedObject};
use crate::control::queue::{Action, Controller};
use crate::control::view::{Node, Pod};
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};
use snapshot::ClusterSnapshot;
use volumes::{CLAIMS, CLASSES, PodVolumes, SELECTED_NODE, VOLUMES};

const COMPONENT: &str = "default-scheduler";
/// Limit for the spread constraints and affinity terms of one pod. Each is compared with the pods of every node.
const MAX_TERMS: usize = 100;

/// A pod to schedule.
struct PendingPod<'a> {
    namespace: &'a str,
    pod: &'a Pod,
    /// Its `sim.longshore.dev/behaviour` annotation makes it unschedulable.
    is_unschedulable: bool,
}

/// Why a node rejects a pod.
#[derive(Debug)]
struct NodeRejection {
    reasons: Vec<String>,
    /// The pod would not fit even without the pods on the node (`UnschedulableAndUnresolvable` in kube-scheduler).
    is_unresolvable: bool,
}

impl NodeRejection {
    fn unresolvable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_unresolvable: true }
    }

    fn unschedulable(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_unresolvable: false }
    }
}

#[derive(Default)]
pub(super) struct Scheduler {
    state: Mutex<SchedulerState>,
}

#[derive(Default)]
struct SchedulerState {
    snapshot: ClusterSnapshot,
    /// Unschedulable pods, and whether each has pod affinity.
    unschedulable: BTreeMap<Key, bool>,
}

/// Which unschedulable pods an event may make schedulable.
enum QueueingHint {
    Skip,
    PodsWithAffinity,
    All,
}

/// Whether the pod waits for this scheduler.
fn is_pending(pod: &Pod) -> bool {
    pod.spec.node_name.is_empty()
        && pod.is_active()
        && pod.spec.scheduling_gates.is_empty()
        && matches!(pod.spec.scheduler_name.as_str(), "" | "default-scheduler")
}

/// Why a pod is not scheduled at all: its constraints are too many to evaluate.
fn complexity_error(pod: &Pod) -> Option<String> {
    let terms = |kind: &str, list: &str| pod.spec.affinity[kind][list].as_array().map_or(0, Vec::len);
    let of = |kind: &str| {
        terms(kind, "requiredDuringSchedulingIgnoredDuringExecution")
            + terms(kind, "preferredDuringSchedulingIgnoredDuringExecution")
    };
    let count = pod.spec.topology_spread_constraints.len() + of("podAffinity") + of("podAntiAffinity");
    if count > MAX_TERMS {
        return Some(format!(
            "the pod has {count} topology spread constraints and pod affinity terms (limit {MAX_TERMS}); use fewer"
        ));
    }
    nodes::complexity_error(&pod.spec)
}

/// Whether a change of a node matters to scheduling.
fn affects_scheduling(a: &Node, b: &Node) -> bool {
    let of = |node: &Node| {
        let Node { metadata, spec, status } = node;
        (metadata.labels.clone(), spec.unschedulable, spec.taints.clone(), status.allocatable.clone())
    };
    of(a) != of(b)
}

impl Controller for Scheduler {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let mut state = self.state.lock();
        state.unschedulable.clear();
        // Bindings that are being written stay counted.
        state
            .snapshot
            .retain(|storage, namespace, name| context.store.get(storage, namespace, name).is_some());
        for node in context.store.list(NODES, None).objects {
            state.snapshot.update_node(&node);
        }
        let mut pending = Vec::new();
        for object in context.store.list(PODS, None).objects {
            let (key, pod) = (key_of(PODS, &object), object.view::<Pod>());
            if is_pending(&pod) {
                pending.push(key);
            } else {
                state.snapshot.update_pod(&key, &pod);
            }
        }
        pending
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let mut state = self.state.lock();
        let helped = match storage.as_ref() {
            PODS => state.observe_pod(event, keys),
            NODES => state.observe_node(event),
            CLAIMS | VOLUMES | CLASSES => QueueingHint::All,
            _ => QueueingHint::Skip,
        };
        let waiting = state.unschedulable.iter();
        match helped {
            QueueingHint::Skip => {}
            QueueingHint::PodsWithAffinity => {
                keys.extend(waiting.filter(|(_, wants)| **wants).map(|(key, _)| key.clone()));
            }
            QueueingHint::All => keys.extend(waiting.map(|(key, _)| key.clone())),
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(PODS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let pod = object.view::<Pod>();
        if !is_pending(&pod) {
            return Ok(Action::AwaitChange);
        }
        if let Some(message) = complexity_error(&pod) {
            write_unschedulable(context, &object, &message).await?;
            return Ok(Action::AwaitChange);
        }
        let wishes = PendingPod {
            namespace: &key.namespace,
            pod: &pod,
            is_unschedulable: super::kubelet::behaviour::is_unschedulable(&pod),
        };
        let volumes = volumes::check_volumes(context, &pod);
        let decided = match &volumes {
            Ok(volumes) => self.decide(context, key, &wishes, volumes),
            Err(why) => {
                let mut state = self.state.lock();
                state.unschedulable.insert(key.clone(), false);
                let nodes = state.snapshot.nodes().count();
                Err(format!("0/{nodes} nodes are available: {why}. not found"))
            }
        };
        match (decided, volumes) {
            (Ok(node), Ok(volumes)) if !volumes.to_provision.is_empty() => {
                provision(context, &volumes.to_provision, &node).await?;
            }
            (Ok(node), _) => self.bind(context, key, &object, &node).await?,
            (Err(message), _) => write_unschedulable(context, &object, &message).await?,
        }
        Ok(Action::AwaitChange)
    }
}

impl Scheduler {
    /// Chooses a node and counts the pod there at once, or marks the pod unschedulable.
    fn decide(
        &self,
        context: &Context,
        key: &Key,
        wishes: &PendingPod<'_>,
        volumes: &PodVolumes,
    ) -> Result<String, String> {
        let namespaces = |name: &str, selector: &LabelSelector| {
            let namespace = context.store.get("namespaces", "", name);
            namespace.is_some_and(|namespace| selector.matches(|key| namespace.label(key)))
        };
        let mut state = self.state.lock();
        let chosen = selection::select_node(wishes, volumes, &state.snapshot, &namespaces);
        match &chosen {
            Ok(node) if volumes.to_provision.is_empty() => {
                state.unschedulable.remove(key);
                state.snapshot.assume_pod(key, wishes.pod, node);
            }
            // The pod is not bound before its volumes are provisioned.
            _ => drop(
                state.unschedulable.insert(key.clone(), !wishes.pod.spec.affinity["podAffinity"].is_null()),
            ),
        }
        chosen
    }

    async fn bind(
        &self,
        context: &Context,
        key: &Key,
        pod: &Object,
        node: &str,
    ) -> Result<(), ReconcileError> {
        if let Err(error) = context.client.bind(pod, node).await {
            self.state.lock().snapshot.forget_pod(key);
            return match error {
                // The pod is gone or was bound by another client; its event updates the snapshot.
                ApiError { code: 404 | 409, .. } => Ok(()),
                other => Err(other.into()),
            };
        }
        let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        record_event(context, pod, EventType::Normal, ("Scheduled", "Binding"), message);
        Ok(())
    }
}

impl SchedulerState {
    fn observe_pod(&mut self, event: &Event, keys: &mut Vec<Key>) -> QueueingHint {
        let key = key_of(PODS, &event.object);
        if event.kind == EventKind::Deleted {
            self.unschedulable.remove(&key);
            return if self.snapshot.forget_pod(&key) { QueueingHint::All } else { QueueingHint::Skip };
        }
        let pod = event.object.view::<Pod>();
        let previous = event.previous.as_ref().map(|previous| previous.view::<Pod>());
        if is_pending(&pod) {
            // A change of its status does not make a pod fit.
            let asks_anew = |was: &Pod| {
                let (was, is) = (&was.metadata, &pod.metadata);
                was.generation != is.generation || was.labels != is.labels
            };
            if previous.is_none_or(|was| !is_pending(&was) || asks_anew(&was)) {
                keys.push(key);
            }
            return QueueingHint::Skip;
        }
        self.unschedulable.remove(&key);
        if self.snapshot.update_pod(&key, &pod) {
            return QueueingHint::All;
        }
        let came = previous.is_none_or(|was| was.spec.node_name != pod.spec.node_name);
        if came { QueueingHint::PodsWithAffinity } else { QueueingHint::Skip }
    }

    fn observe_node(&mut self, event: &Event) -> QueueingHint {
        if event.kind == EventKind::Deleted {
            self.snapshot.remove_node(&event.object.name);
            // The messages of unschedulable pods contain the number of nodes.
            return QueueingHint::All;
        }
        self.snapshot.update_node(&event.object);
        let previous = event.previous.as_ref().map(|previous| previous.view::<Node>());
        let is_news =
            previous.is_none_or(|previous| affects_scheduling(&previous, &event.object.view::<Node>()));
        if is_news { QueueingHint::All } else { QueueingHint::Skip }
    }
}

fn record_event(
    context: &Context,
    pod: &Object,
    kind: EventType,
    (reason, action): (&'static str, &'static str),
    message: String,
) {
    let about = InvolvedObject::new("v1", "Pod", pod);
    let action = Some(action);
    context.events.record(EventRecord {
        involved_object: about,
        component: COMPONENT,
        event_type: kind,
        reason,
        message,
        action,
        host: String::new(),
    });
}

/// Writes the selected node into the claims of a pod. The pod is bound when their volumes are provisioned.
async fn provision(context: &Context, claims: &[Arc<Object>], node: &str) -> Result<(), ReconcileError> {
    for claim in claims {
        let mut value = claim.value();
        if value["metadata"]["annotations"][SELECTED_NODE].is_null() {
            value["metadata"]["annotations"][SELECTED_NODE] = node.into();
            context.client.update(Component::Scheduler, ObjectPart::Main, value).await?;
        }
    }
    Ok(())
}

/// Writes the `PodScheduled` condition with the reason, if it has changed.
async fn write_unschedulable(context: &Context, pod: &Object, message: &str) -> Result<(), ReconcileError> {
    let mut value = pod.value();
    if !set_unscheduled(&mut value, message, context.clock.now()) {
        return Ok(());
    }
    context.client.update(Component::Scheduler, ObjectPart::Status, value).await?;
    record_event(context, pod, EventType::Warning, ("FailedScheduling", "Scheduling"), message.to_owned());
    Ok(())
}

fn set_unscheduled(pod: &mut Value, message: &str, now: Timestamp) -> bool {
    let generation = pod["metadata"]["generation"].clone();
    let conditions = &mut pod["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let conditions = conditions.as_array_mut().expect("it was made a list");
    let mut wanted = json!({
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        "observedGeneration": generation, "lastProbeTime": null, "lastTransitionTime": rfc3339(now),
    });
    match conditions.iter_mut().find(|condition| condition["type"] == "PodScheduled") {
        None => conditions.push(wanted),
        Some(found) => {
            if found["status"] == "False" {
                wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            if *found == wanted {
                return false;
            }
            *found = wanted;
        }
    }
    true
}
