//! The DaemonSet controller: one pod on every node that the template allows.
//!
//! A reconcile finds the set's revision, collects each node with its pods (`plan::NodePods`), decides (`plan`), creates and deletes
//! pods, and writes the observed state to the status. The scheduler binds each pod to the node that it was created for (`pod`).
//!
//! See also: `crate::sim::scheduler` evaluates node labels and taints, for all pods alike.

#![warn(clippy::arithmetic_side_effects)]

mod failed_pod_backoff;
mod plan;
mod pod;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::failed_pod_backoff::FailedPodBackoff;
use self::plan::{DaemonPod, DaemonPodHealth, DaemonSetCounts, DaemonSetPlan, EndedPod, NodePods};
use self::view::DaemonSet;
use super::pods::{self, Owner, PODS};
use super::revisions::{self, POD_LABEL, Revision};
use crate::control::bounded::join_bounded;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::view::{Node, Pod, PodSpec};
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::selector::LabelSelector;
use crate::sim::scheduler::nodes::{is_selected, untolerated};
use crate::store::{Event, EventKind, Key, Object};

const SETS: &str = "daemonsets.apps";
const NODES: &str = "nodes";
const COMPONENT: &str = "daemonset-controller";
/// Maximum number of pods created or deleted per reconcile.
const MAX_POD_CHANGES: usize = 250;

#[derive(Default)]
pub struct DaemonSets {
    failed_pod_backoff: FailedPodBackoff,
}

impl Controller for DaemonSets {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = SETS.into();
        let sets = context.store.list(SETS, None).objects;
        sets.iter().map(|set| Key::new(&storage, &set.namespace, &set.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            SETS if event.kind != EventKind::Deleted => {
                keys.push(Key::new(storage, &object.namespace, &object.name));
            }
            PODS => {
                let selects = |set: &Object, pod: &Object| selector(set).matches(|key| pod.label(key));
                pods::enqueue_owners(context, event, ("DaemonSet", SETS), selects, keys);
            }
            NODES if affects_placement(event) => keys.extend(self.initial_keys(context)),
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(SETS, &key.namespace, &key.name).filter(|set| !set.is_deleting)
        else {
            return Ok(Action::AwaitChange);
        };
        let set = object.view::<DaemonSet>();
        let owner = Owner { api_version: "apps/v1", kind: "DaemonSet", object: &object };
        let selector = selector(&object);
        let pods = pods::claim_from(context, &owner, &selector, PODS, |_| true).await?;
        let history = revisions::owned_revisions(context, &owner, &selector).await?;
        let version = find_or_create_revision(context, &owner, &set, history, &pods).await?;
        let now = context.clock.now();
        let sites = node_pods(context, &set, &version.hash, &pods, now);
        let (plan, wait) = self.plan(context, &object, &set, &sites, now);
        let done = execute(context, &owner, &set, &version.hash, &plan, &pods).await;
        update_status(context, &object, status(&set, &version, plan::count(&sites))).await?;
        done?;
        delete_old_revisions(context, &set, &version, &pods).await?;
        let available =
            pods.iter().filter_map(|pod| pod.view::<Pod>().available_from(set.spec.min_ready_seconds));
        Ok(Action::AwaitChange.or_at(available.filter(|at| *at > now).min(), now).or_at(wait, now))
    }
}

/// Whether the change of a node may affect placement. Its status, which changes often, does not.
fn affects_placement(event: &Event) -> bool {
    let Some(before) = &event.previous else { return true };
    let (before, now) = (before.view::<Node>(), event.object.view::<Node>());
    event.kind == EventKind::Deleted
        || before.metadata.labels != now.metadata.labels
        || before.spec.taints != now.spec.taints
}

fn selector(set: &Object) -> LabelSelector {
    // A stored selector is valid.
    LabelSelector::from_label_selector_object(&set.view::<DaemonSet>().spec.selector)
        .unwrap_or_else(|_| LabelSelector::nothing())
}

/// The revision of the set's template, and older ones.
struct TemplateRevision {
    hash: String,
    old: Vec<Arc<Object>>,
    collisions: i64,
}

/// Finds the revision of the template in the history, or creates it. It is always the newest.
async fn find_or_create_revision(
    context: &Context,
    owner: &Owner<'_>,
    set: &DaemonSet,
    history: Vec<Arc<Object>>,
    pods: &[Arc<Object>],
) -> Result<TemplateRevision, ReconcileError> {
    let data = revisions::template_patch(&set.spec.template);
    let (mut same, old): (Vec<_>, Vec<_>) =
        history.into_iter().partition(|object| object.view::<Revision>().data == data);
    let number = old.last().map_or(0, |last| last.view::<Revision>().revision).saturating_add(1);
    let mut collisions = set.status.collision_count;
    let current = match same.pop() {
        Some(found) if found.view::<Revision>().revision < number => {
            revisions::renumber(context, &found, number).await?
        }
        Some(found) => found,
        None => {
            let annotations = &set.metadata.annotations;
            let new = revisions::NewRevision {
                owner,
                annotations,
                data: &data,
                revision: number,
                label: POD_LABEL,
            };
            revisions::create(context, &new, &mut collisions).await?
        }
    };
    let hash = current.label(POD_LABEL).unwrap_or(&current.name).to_owned();
    // Two may be equal after an adoption: the newer one stays, with the pods of both.
    for double in same {
        for pod in pods.iter().filter(|pod| pod.label(POD_LABEL) == double.label(POD_LABEL)) {
            let mut document = pod.value();
            document["metadata"]["labels"][POD_LABEL] = hash.as_str().into();
            context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?;
        }
        revisions::delete(context, &double).await?;
    }
    Ok(TemplateRevision { hash, old, collisions })
}

/// Returns all nodes, and nodes that do not exist but have pods.
fn node_pods(
    context: &Context,
    set: &DaemonSet,
    hash: &str,
    pods: &[Arc<Object>],
    now: Timestamp,
) -> Vec<NodePods> {
    let mut sites: BTreeMap<String, NodePods> = BTreeMap::new();
    let spec = pod::with_tolerations(&set.spec.template["spec"]);
    // A stored template is valid.
    let spec: PodSpec = serde_json::from_value(spec).unwrap_or_default();
    for node in context.store.list(NODES, None).objects {
        let (wanted, tolerated) = should_run(&spec, &node.view::<Node>());
        let site = NodePods {
            node: node.name.to_string(),
            should_run: wanted,
            may_continue: tolerated,
            exists: true,
            pods: Vec::new(),
        };
        sites.insert(site.node.clone(), site);
    }
    for object in pods {
        let pod = object.view::<Pod>();
        // A finished pod that is being deleted does not count.
        let gone = pod.is_finished() && object.is_deleting;
        if let Some(node) = pod::node_of(&pod).filter(|_| !gone) {
            let unknown = || NodePods { node: node.to_owned(), ..NodePods::default() };
            let site = sites.entry(node.to_owned()).or_insert_with(unknown);
            site.pods.push(member(set, hash, object, &pod, now));
        }
    }
    sites.into_values().collect()
}

/// Whether a pod should run on a node, and whether an existing one may continue.
fn should_run(spec: &PodSpec, node: &Node) -> (bool, bool) {
    let named = spec.node_name.is_empty() || spec.node_name == node.metadata.name;
    if !named || !is_selected(spec, node) {
        return (false, false);
    }
    let stays = untolerated(spec, node, &["NoExecute"]).is_empty();
    (stays && untolerated(spec, node, &["NoSchedule"]).is_empty(), stays)
}

fn member(set: &DaemonSet, hash: &str, object: &Object, pod: &Pod, now: Timestamp) -> DaemonPod {
    let health = match (pod.status.phase.as_str(), pod.available_from(set.spec.min_ready_seconds)) {
        ("Failed", _) => DaemonPodHealth::Failed,
        ("Succeeded", _) => DaemonPodHealth::Succeeded,
        (_, None) => DaemonPodHealth::Unready,
        (_, Some(from)) if from > now => DaemonPodHealth::Ready,
        _ => DaemonPodHealth::Available,
    };
    let generation = object.label(pod::GENERATION_LABEL).filter(|_| set.template_generation().is_some());
    DaemonPod {
        name: object.name.to_string(),
        health,
        is_deleting: object.is_deleting,
        is_bound: !pod.spec.node_name.is_empty(),
        created: pod.metadata.creation_timestamp,
        is_updated: object.label(POD_LABEL) == Some(hash)
            || (generation.is_some() && generation == set.template_generation()),
    }
}

impl DaemonSets {
    /// Returns the plan, and when repeatedly failing pods may be created again.
    fn plan(
        &self,
        context: &Context,
        object: &Object,
        set: &DaemonSet,
        sites: &[NodePods],
        now: Timestamp,
    ) -> (DaemonSetPlan, Option<Timestamp>) {
        let mut plan = plan::manage(sites, set.has_surge());
        let mut wait: Option<Timestamp> = None;
        for ended in std::mem::take(&mut plan.ended) {
            let step = if ended.has_failed {
                self.failed_pod_backoff.try_acquire(&object.uid, &ended.node, now)
            } else {
                Ok(())
            };
            match step {
                Ok(()) => {
                    record_ended(context, object, &ended);
                    plan.delete.push(ended.pod);
                }
                Err(until) => wait = Some(wait.map_or(until, |wait| wait.min(until))),
            }
        }
        if plan == DaemonSetPlan::default() && set.is_rolling() {
            let nodes = sites.iter().filter(|site| site.should_run).count();
            plan = plan::roll(sites, set.allowance(nodes));
        }
        (plan, wait)
    }
}

fn record_ended(context: &Context, set: &Object, ended: &EndedPod) {
    let about = InvolvedObject::new("apps/v1", "DaemonSet", set);
    let EndedPod { pod, node, has_failed: failed } = ended;
    let pod = format!("{}/{pod}", set.namespace);
    if *failed {
        let words = format!("Found failed daemon pod {pod} on node {node}, will try to kill it");
        context.events.warning(COMPONENT, about, "FailedDaemonPod", words);
    } else {
        let words = format!("Found succeeded daemon pod {pod} on node {node}, will try to delete it");
        context.events.normal(COMPONENT, about, "SucceededDaemonPod", words);
    }
}

/// Creates pods in batches of 1, 2, 4, ... until one fails, then deletes pods.
async fn execute(
    context: &Context,
    owner: &Owner<'_>,
    set: &DaemonSet,
    hash: &str,
    plan: &DaemonSetPlan,
    pods: &[Arc<Object>],
) -> Result<(), ReconcileError> {
    let mut refused = Ok(());
    let mut rest = &plan.create[..plan.create.len().min(MAX_POD_CHANGES)];
    let mut batch = 1_usize;
    while !rest.is_empty() && refused.is_ok() {
        let (now, later) = rest.split_at(batch.min(rest.len()));
        let make = |node: &String| pods::create(context, owner, COMPONENT, pod::pod(owner, set, hash, node));
        refused = join_bounded(now.iter().map(make)).await.into_iter().collect();
        (rest, batch) = (later, batch.saturating_mul(2));
    }
    let names: BTreeSet<&str> = plan.delete.iter().map(String::as_str).collect();
    let unwanted = pods.iter().filter(|pod| names.contains(pod.name.as_ref())).take(MAX_POD_CHANGES);
    let removed = join_bounded(unwanted.map(|pod| pods::remove(context, owner, COMPONENT, pod))).await;
    refused?;
    Ok(removed.into_iter().collect::<Result<(), _>>()?)
}

fn status(set: &DaemonSet, version: &TemplateRevision, counts: DaemonSetCounts) -> Value {
    let DaemonSetCounts { desired, current, misscheduled, ready, available, updated } = counts;
    let mut status = json!({
        "currentNumberScheduled": current, "numberMisscheduled": misscheduled,
        "desiredNumberScheduled": desired, "numberReady": ready,
        "observedGeneration": set.metadata.generation,
    });
    let rest = [
        ("updatedNumberScheduled", updated),
        ("numberAvailable", available),
        ("numberUnavailable", desired.saturating_sub(available)),
        ("collisionCount", version.collisions),
    ];
    for (name, count) in rest.into_iter().filter(|(_, count)| *count != 0) {
        status[name] = count.into();
    }
    status
}

async fn update_status(context: &Context, object: &Object, status: Value) -> Result<(), ReconcileError> {
    let mut document = object.value();
    let mut status = status;
    if let Some(conditions) = document["status"].get("conditions") {
        status["conditions"] = conditions.clone();
    }
    if document["status"] != status {
        document["status"] = status;
        context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?;
    }
    Ok(())
}

/// Deletes the oldest revisions beyond the history limit, except those in use by pods.
async fn delete_old_revisions(
    context: &Context,
    set: &DaemonSet,
    version: &TemplateRevision,
    pods: &[Arc<Object>],
) -> Result<(), ReconcileError> {
    let too_many = version.old.len().saturating_sub(set.spec.revision_history_limit);
    let is_live = |old: &Object| {
        pods.iter().any(|pod| pod.label(POD_LABEL).is_some_and(|hash| old.label(POD_LABEL) == Some(hash)))
    };
    for old in version.old.iter().filter(|old| !is_live(old)).take(too_many) {
        revisions::delete(context, old).await?;
    }
    Ok(())
}
