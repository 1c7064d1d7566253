//! The scheduler: binds each pending pod to a node.
//!
//! A pod that fits no node gets the reason in its `PodScheduled` condition and waits until an event may help:
//! a node, a claim, or a deleted pod.
//!
//! Modules:
//! - `picture`: snapshot of nodes and what is in use on each
//! - `nodes`, `resources`, `volumes`, `neighbours`, `spread`: filters and scores of one subject each
//! - `choose`: combines them into a choice
//!
//! Invariant: a pod is counted in the snapshot before its binding is written.
//! Not implemented: preemption by priority.

mod choose;
mod neighbours;
pub(crate) mod nodes;
mod picture;
mod resources;
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
use crate::control::events::{About, Kind, Note};
use crate::control::queue::{Controller, Next};
use crate::control::view::{Node, Pod};
use crate::control::{Component, Context, Failure, Part};
use crate::error::ApiError;
use crate::selector::Labels;
use crate::store::{Event, EventKind, Key, Object};
use picture::Picture;
use volumes::{CLAIMS, CLASSES, SELECTED_NODE, VOLUMES, Volumes};

const COMPONENT: &str = "default-scheduler";
/// Limit for the spread constraints and affinity terms of one pod. Each is compared with the pods of every node.
const MOST_TERMS: usize = 100;

/// A pod to schedule.
struct Wishes<'a> {
    namespace: &'a str,
    pod: &'a Pod,
    /// Its `sim.longshore.dev/behaviour` annotation makes it unschedulable.
    is_unwelcome: bool,
}

/// Why a node rejects a pod.
#[derive(Debug)]
struct Refusal {
    reasons: Vec<String>,
    /// The pod would not fit even without the pods on the node (`UnschedulableAndUnresolvable` in kube-scheduler).
    is_hopeless: bool,
}

impl Refusal {
    fn hopeless(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_hopeless: true }
    }

    fn now(reason: &str) -> Self {
        Self { reasons: vec![reason.to_owned()], is_hopeless: false }
    }
}

#[derive(Default)]
pub(super) struct Scheduler {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    picture: Picture,
    /// Unschedulable pods, and whether each has pod affinity.
    waiting: BTreeMap<Key, bool>,
}

/// Which unschedulable pods an event may make schedulable.
enum Helped {
    Nobody,
    WhoWantsCompany,
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
fn too_complex(pod: &Pod) -> Option<String> {
    let terms = |kind: &str, list: &str| pod.spec.affinity[kind][list].as_array().map_or(0, Vec::len);
    let of = |kind: &str| {
        terms(kind, "requiredDuringSchedulingIgnoredDuringExecution")
            + terms(kind, "preferredDuringSchedulingIgnoredDuringExecution")
    };
    let count = pod.spec.topology_spread_constraints.len() + of("podAffinity") + of("podAntiAffinity");
    if count > MOST_TERMS {
        return Some(format!(
            "the pod has {count} topology spread constraints and pod affinity terms (limit {MOST_TERMS}); use fewer"
        ));
    }
    nodes::too_complex(&pod.spec)
}

/// Whether a change of a node matters to scheduling.
fn differs(a: &Node, b: &Node) -> bool {
    let of = |node: &Node| {
        let Node { metadata, spec, status } = node;
        (metadata.labels.clone(), spec.unschedulable, spec.taints.clone(), status.allocatable.clone())
    };
    of(a) != of(b)
}

impl Controller for Scheduler {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let mut state = self.state.lock();
        state.waiting.clear();
        // Bindings that are being written stay counted.
        state.picture.keep(|storage, namespace, name| context.store.get(storage, namespace, name).is_some());
        for node in context.store.list(NODES, None).objects {
            state.picture.see_node(&node);
        }
        let mut pending = Vec::new();
        for object in context.store.list(PODS, None).objects {
            let (key, pod) = (key_of(PODS, &object), object.view::<Pod>());
            if is_pending(&pod) {
                pending.push(key);
            } else {
                state.picture.see_pod(&key, &pod);
            }
        }
        pending
    }

    fn touched(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let mut state = self.state.lock();
        let helped = match storage.as_ref() {
            PODS => state.see_pod(event, keys),
            NODES => state.see_node(event),
            CLAIMS | VOLUMES | CLASSES => Helped::All,
            _ => Helped::Nobody,
        };
        let waiting = state.waiting.iter();
        match helped {
            Helped::Nobody => {}
            Helped::WhoWantsCompany => {
                keys.extend(waiting.filter(|(_, wants)| **wants).map(|(key, _)| key.clone()));
            }
            Helped::All => keys.extend(waiting.map(|(key, _)| key.clone())),
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(PODS, &key.namespace, &key.name) else { return Ok(Next::Rest) };
        let pod = object.view::<Pod>();
        if !is_pending(&pod) {
            return Ok(Next::Rest);
        }
        if let Some(message) = too_complex(&pod) {
            refuse(context, &object, &message).await?;
            return Ok(Next::Rest);
        }
        let wishes = Wishes {
            namespace: &key.namespace,
            pod: &pod,
            is_unwelcome: super::kubelet::behaviour::is_unschedulable(&pod),
        };
        let volumes = volumes::look(context, &pod);
        let decided = match &volumes {
            Ok(volumes) => self.decide(context, key, &wishes, volumes),
            Err(why) => {
                let mut state = self.state.lock();
                state.waiting.insert(key.clone(), false);
                let nodes = state.picture.places().count();
                Err(format!("0/{nodes} nodes are available: {why}. not found"))
            }
        };
        match (decided, volumes) {
            (Ok(node), Ok(volumes)) if !volumes.to_provision.is_empty() => {
                provision(context, &volumes.to_provision, &node).await?;
            }
            (Ok(node), _) => self.bind(context, key, &object, &node).await?,
            (Err(message), _) => refuse(context, &object, &message).await?,
        }
        Ok(Next::Rest)
    }
}

impl Scheduler {
    /// Chooses a node and counts the pod there at once, or marks the pod unschedulable.
    fn decide(
        &self,
        context: &Context,
        key: &Key,
        wishes: &Wishes<'_>,
        volumes: &Volumes,
    ) -> Result<String, String> {
        let namespaces = |name: &str, selector: &Labels| {
            let namespace = context.store.get("namespaces", "", name);
            namespace.is_some_and(|namespace| selector.matches(|key| namespace.label(key)))
        };
        let mut state = self.state.lock();
        let chosen = choose::choose(wishes, volumes, &state.picture, &namespaces);
        match &chosen {
            Ok(node) if volumes.to_provision.is_empty() => {
                state.waiting.remove(key);
                state.picture.promise(key, wishes.pod, node);
            }
            // The pod is not bound before its volumes are provisioned.
            _ => drop(state.waiting.insert(key.clone(), !wishes.pod.spec.affinity["podAffinity"].is_null())),
        }
        chosen
    }

    async fn bind(&self, context: &Context, key: &Key, pod: &Object, node: &str) -> Result<(), Failure> {
        if let Err(error) = context.actor.bind(pod, node).await {
            self.state.lock().picture.forget(key);
            return match error {
                // The pod is gone or was bound by another client; its event updates the snapshot.
                ApiError { code: 404 | 409, .. } => Ok(()),
                other => Err(other.into()),
            };
        }
        let message = format!("Successfully assigned {}/{} to {node}", pod.namespace, pod.name);
        tell(context, pod, Kind::Normal, ("Scheduled", "Binding"), message);
        Ok(())
    }
}

impl State {
    fn see_pod(&mut self, event: &Event, keys: &mut Vec<Key>) -> Helped {
        let key = key_of(PODS, &event.object);
        if event.kind == EventKind::Deleted {
            self.waiting.remove(&key);
            return if self.picture.forget(&key) { Helped::All } else { Helped::Nobody };
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
            return Helped::Nobody;
        }
        self.waiting.remove(&key);
        if self.picture.see_pod(&key, &pod) {
            return Helped::All;
        }
        let came = previous.is_none_or(|was| was.spec.node_name != pod.spec.node_name);
        if came { Helped::WhoWantsCompany } else { Helped::Nobody }
    }

    fn see_node(&mut self, event: &Event) -> Helped {
        if event.kind == EventKind::Deleted {
            self.picture.lose_node(&event.object.name);
            // The messages of unschedulable pods contain the number of nodes.
            return Helped::All;
        }
        self.picture.see_node(&event.object);
        let previous = event.previous.as_ref().map(|previous| previous.view::<Node>());
        let is_news = previous.is_none_or(|previous| differs(&previous, &event.object.view::<Node>()));
        if is_news { Helped::All } else { Helped::Nobody }
    }
}

fn tell(
    context: &Context,
    pod: &Object,
    kind: Kind,
    (reason, action): (&'static str, &'static str),
    message: String,
) {
    let about = About::new("v1", "Pod", pod);
    let action = Some(action);
    context.events.record(Note {
        about,
        component: COMPONENT,
        kind,
        reason,
        message,
        action,
        host: String::new(),
    });
}

/// Writes the selected node into the claims of a pod. The pod is bound when their volumes are provisioned.
async fn provision(context: &Context, claims: &[Arc<Object>], node: &str) -> Result<(), Failure> {
    for claim in claims {
        let mut value = claim.value();
        if value["metadata"]["annotations"][SELECTED_NODE].is_null() {
            value["metadata"]["annotations"][SELECTED_NODE] = node.into();
            context.actor.update(Component::Scheduler, Part::Main, value).await?;
        }
    }
    Ok(())
}

/// Writes the `PodScheduled` condition with the reason, if it has changed.
async fn refuse(context: &Context, pod: &Object, message: &str) -> Result<(), Failure> {
    let mut value = pod.value();
    if !set_unscheduled(&mut value, message, context.clock.now()) {
        return Ok(());
    }
    context.actor.update(Component::Scheduler, Part::Status, value).await?;
    tell(context, pod, Kind::Warning, ("FailedScheduling", "Scheduling"), message.to_owned());
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
