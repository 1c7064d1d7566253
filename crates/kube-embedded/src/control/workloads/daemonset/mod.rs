//! The DaemonSet controller: one pod on every node that the template allows.
//!
//! A reconcile finds the set's revision, collects each node with its pods (`plan::Site`), decides (`plan`), creates and deletes
//! pods, and writes the observed state to the status. The scheduler binds each pod to the node that it was created for (`pod`).
//!
//! See also: `crate::sim::scheduler` evaluates node labels and taints, for all pods alike.

#![warn(clippy::arithmetic_side_effects)]

mod pace;
mod plan;
mod pod;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use self::pace::Pace;
use self::plan::{Counts, Ended, Health, Member, Plan, Site};
use self::view::DaemonSet;
use super::pods::{self, Owner, PODS};
use super::revisions::{self, POD_LABEL, Revision};
use crate::control::bounded::join_bounded;
use crate::control::events::About;
use crate::control::queue::{Controller, Next};
use crate::control::view::{Node, Pod, PodSpec};
use crate::control::{Component, Context, Failure, Part};
use crate::selector::Labels;
use crate::sim::scheduler::nodes::{is_selected, untolerated};
use crate::store::{Event, EventKind, Key, Object};

const SETS: &str = "daemonsets.apps";
const NODES: &str = "nodes";
const COMPONENT: &str = "daemonset-controller";
/// Maximum number of pods created or deleted per reconcile.
const BURST: usize = 250;

#[derive(Default)]
pub struct DaemonSets {
    pace: Pace,
}

impl Controller for DaemonSets {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = SETS.into();
        let sets = context.store.list(SETS, None).objects;
        sets.iter().map(|set| Key::new(&storage, &set.namespace, &set.name)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        match storage.as_ref() {
            SETS if event.kind != EventKind::Deleted => {
                keys.push(Key::new(storage, &object.namespace, &object.name));
            }
            PODS => {
                let selects = |set: &Object, pod: &Object| selector(set).matches(|key| pod.label(key));
                pods::concerned(context, event, ("DaemonSet", SETS), selects, keys);
            }
            NODES if is_news(event) => keys.extend(self.everything(context)),
            _ => {}
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(SETS, &key.namespace, &key.name).filter(|set| !set.deleting)
        else {
            return Ok(Next::Rest);
        };
        let set = object.view::<DaemonSet>();
        let owner = Owner { api_version: "apps/v1", kind: "DaemonSet", object: &object };
        let selector = selector(&object);
        let pods = pods::claim_from(context, &owner, &selector, PODS, |_| true).await?;
        let history = revisions::all(context, &owner, &selector).await?;
        let version = version(context, &owner, &set, history, &pods).await?;
        let now = context.clock.now();
        let sites = sites(context, &set, &version.hash, &pods, now);
        let (plan, wait) = self.plan(context, &object, &set, &sites, now);
        let done = act(context, &owner, &set, &version.hash, &plan, &pods).await;
        tell(context, &object, status(&set, &version, plan::count(&sites))).await?;
        done?;
        forget_old(context, &set, &version, &pods).await?;
        let available =
            pods.iter().filter_map(|pod| pod.view::<Pod>().available_from(set.spec.min_ready_seconds));
        Ok(Next::Rest.or_at(available.filter(|at| *at > now).min(), now).or_at(wait, now))
    }
}

/// Whether the change of a node may affect placement. Its status, which changes often, does not.
fn is_news(event: &Event) -> bool {
    let Some(before) = &event.previous else { return true };
    let (before, now) = (before.view::<Node>(), event.object.view::<Node>());
    event.kind == EventKind::Deleted
        || before.metadata.labels != now.metadata.labels
        || before.spec.taints != now.spec.taints
}

fn selector(set: &Object) -> Labels {
    // A stored selector is valid.
    Labels::from_object(&set.view::<DaemonSet>().spec.selector).unwrap_or_else(|_| Labels::nothing())
}

/// The revision of the set's template, and older ones.
struct Version {
    hash: String,
    old: Vec<Arc<Object>>,
    collisions: i64,
}

/// Finds the revision of the template in the history, or creates it. It is always the newest.
async fn version(
    context: &Context,
    owner: &Owner<'_>,
    set: &DaemonSet,
    history: Vec<Arc<Object>>,
    pods: &[Arc<Object>],
) -> Result<Version, Failure> {
    let data = revisions::data_of(&set.spec.template);
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
            let new = revisions::New { owner, annotations, data: &data, revision: number, label: POD_LABEL };
            revisions::create(context, &new, &mut collisions).await?
        }
    };
    let hash = current.label(POD_LABEL).unwrap_or(&current.name).to_owned();
    // Two may be equal after an adoption: the newer one stays, with the pods of both.
    for double in same {
        for pod in pods.iter().filter(|pod| pod.label(POD_LABEL) == double.label(POD_LABEL)) {
            let mut document = pod.value();
            document["metadata"]["labels"][POD_LABEL] = hash.as_str().into();
            context.actor.update(Component::ControllerManager, Part::Main, document).await?;
        }
        revisions::forget(context, &double).await?;
    }
    Ok(Version { hash, old, collisions })
}

/// Returns all nodes, and nodes that do not exist but have pods.
fn sites(context: &Context, set: &DaemonSet, hash: &str, pods: &[Arc<Object>], now: Timestamp) -> Vec<Site> {
    let mut sites: BTreeMap<String, Site> = BTreeMap::new();
    let spec = pod::tolerant(&set.spec.template["spec"]);
    // A stored template is valid.
    let spec: PodSpec = serde_json::from_value(spec).unwrap_or_default();
    for node in context.store.list(NODES, None).objects {
        let (wanted, tolerated) = place(&spec, &node.view::<Node>());
        let site = Site { node: node.name.to_string(), wanted, tolerated, exists: true, members: Vec::new() };
        sites.insert(site.node.clone(), site);
    }
    for object in pods {
        let pod = object.view::<Pod>();
        // A finished pod that is being deleted does not count.
        let gone = pod.is_finished() && object.deleting;
        if let Some(node) = pod::node_of(&pod).filter(|_| !gone) {
            let unknown = || Site { node: node.to_owned(), ..Site::default() };
            let site = sites.entry(node.to_owned()).or_insert_with(unknown);
            site.members.push(member(set, hash, object, &pod, now));
        }
    }
    sites.into_values().collect()
}

/// Whether a pod should run on a node, and whether an existing one may continue.
fn place(spec: &PodSpec, node: &Node) -> (bool, bool) {
    let named = spec.node_name.is_empty() || spec.node_name == node.metadata.name;
    if !named || !is_selected(spec, node) {
        return (false, false);
    }
    let stays = untolerated(spec, node, &["NoExecute"]).is_empty();
    (stays && untolerated(spec, node, &["NoSchedule"]).is_empty(), stays)
}

fn member(set: &DaemonSet, hash: &str, object: &Object, pod: &Pod, now: Timestamp) -> Member {
    let health = match (pod.status.phase.as_str(), pod.available_from(set.spec.min_ready_seconds)) {
        ("Failed", _) => Health::Failed,
        ("Succeeded", _) => Health::Succeeded,
        (_, None) => Health::Unready,
        (_, Some(from)) if from > now => Health::Ready,
        _ => Health::Available,
    };
    let generation = object.label(pod::GENERATION_LABEL).filter(|_| set.template_generation().is_some());
    Member {
        name: object.name.to_string(),
        health,
        deleting: object.deleting,
        placed: !pod.spec.node_name.is_empty(),
        created: pod.metadata.creation_timestamp,
        updated: object.label(POD_LABEL) == Some(hash)
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
        sites: &[Site],
        now: Timestamp,
    ) -> (Plan, Option<Timestamp>) {
        let mut plan = plan::manage(sites, set.surges());
        let mut wait: Option<Timestamp> = None;
        for ended in std::mem::take(&mut plan.ended) {
            let step = if ended.failed { self.pace.step(&object.uid, &ended.node, now) } else { Ok(()) };
            match step {
                Ok(()) => {
                    tell_ended(context, object, &ended);
                    plan.delete.push(ended.pod);
                }
                Err(until) => wait = Some(wait.map_or(until, |wait| wait.min(until))),
            }
        }
        if plan == Plan::default() && set.rolls() {
            let nodes = sites.iter().filter(|site| site.wanted).count();
            plan = plan::roll(sites, set.allowance(nodes));
        }
        (plan, wait)
    }
}

fn tell_ended(context: &Context, set: &Object, ended: &Ended) {
    let about = About::new("apps/v1", "DaemonSet", set);
    let Ended { pod, node, failed } = ended;
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
async fn act(
    context: &Context,
    owner: &Owner<'_>,
    set: &DaemonSet,
    hash: &str,
    plan: &Plan,
    pods: &[Arc<Object>],
) -> Result<(), Failure> {
    let mut refused = Ok(());
    let mut rest = &plan.create[..plan.create.len().min(BURST)];
    let mut batch = 1_usize;
    while !rest.is_empty() && refused.is_ok() {
        let (now, later) = rest.split_at(batch.min(rest.len()));
        let make = |node: &String| pods::make(context, owner, COMPONENT, pod::pod(owner, set, hash, node));
        refused = join_bounded(now.iter().map(make)).await.into_iter().collect();
        (rest, batch) = (later, batch.saturating_mul(2));
    }
    let names: BTreeSet<&str> = plan.delete.iter().map(String::as_str).collect();
    let unwanted = pods.iter().filter(|pod| names.contains(pod.name.as_ref())).take(BURST);
    let removed = join_bounded(unwanted.map(|pod| pods::remove(context, owner, COMPONENT, pod))).await;
    refused?;
    Ok(removed.into_iter().collect::<Result<(), _>>()?)
}

fn status(set: &DaemonSet, version: &Version, counts: Counts) -> Value {
    let Counts { desired, current, misscheduled, ready, available, updated } = counts;
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

async fn tell(context: &Context, object: &Object, status: Value) -> Result<(), Failure> {
    let mut document = object.value();
    let mut status = status;
    if let Some(conditions) = document["status"].get("conditions") {
        status["conditions"] = conditions.clone();
    }
    if document["status"] != status {
        document["status"] = status;
        context.actor.update(Component::ControllerManager, Part::Status, document).await?;
    }
    Ok(())
}

/// Deletes the oldest revisions beyond the history limit, except those in use by pods.
async fn forget_old(
    context: &Context,
    set: &DaemonSet,
    version: &Version,
    pods: &[Arc<Object>],
) -> Result<(), Failure> {
    let too_many = version.old.len().saturating_sub(set.spec.revision_history_limit);
    let is_live = |old: &Object| {
        pods.iter().any(|pod| pod.label(POD_LABEL).is_some_and(|hash| old.label(POD_LABEL) == Some(hash)))
    };
    for old in version.old.iter().filter(|old| !is_live(old)).take(too_many) {
        revisions::forget(context, old).await?;
    }
    Ok(())
}
