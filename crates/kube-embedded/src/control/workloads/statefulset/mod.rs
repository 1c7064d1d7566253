//! The StatefulSet controller: pods with ordinals, each with its own claims.
//!
//! A reconcile observes (`view`), plans (`plan`; `claims` for owners of claims), executes the steps (`execute`), and writes
//! the observed state to the status. The next reconcile observes again, so a crash between two steps is safe.

#![warn(clippy::arithmetic_side_effects)]

mod claims;
mod execute;
mod plan;
mod pod;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::execute::PodExecutor;
use self::plan::{DesiredSet, StatefulPod, StatefulPodAction, StatefulPodHealth, StatefulSetCounts};
use self::view::{StatefulSet, ordinal_of};
use super::pods::{self, Owner, PODS};
use super::revisions::{self, POD_LABEL, Revision};
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::volumes::view::CLAIMS;
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};

const SETS: &str = "statefulsets.apps";
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Maximum number of concurrent steps with parallel pod management.
const MAX_CONCURRENT_STEPS: usize = 64;

pub struct StatefulSets;

impl Controller for StatefulSets {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = SETS.into();
        let sets = context.store.list(SETS, None).objects;
        sets.iter().map(|set| Key::new(&storage, &set.namespace, &set.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let mut add = |name: &str| {
            let set = context.store.get(SETS, &event.object.namespace, name);
            keys.extend(set.map(|set| Key::new(&SETS.into(), &set.namespace, &set.name)));
        };
        match storage.as_ref() {
            SETS if event.kind != EventKind::Deleted => add(&event.object.name),
            PODS => {
                for pod in [Some(&event.object), event.previous.as_ref()].into_iter().flatten() {
                    match pod.view::<Pod>().metadata.controller() {
                        Some(owner) if owner.kind == "StatefulSet" => add(&owner.name),
                        Some(_) => {}
                        // A pod without controller may be adopted by the set it is named after.
                        None => pod.name.rsplit_once('-').into_iter().for_each(|(set, _)| add(set)),
                    }
                }
            }
            // A pod may wait for the deletion of a claim before it gets a new one: `<template>-<set>-<ordinal>`.
            CLAIMS if event.kind == EventKind::Deleted => {
                let name = event.object.name.rsplit_once('-').map_or("", |(name, _)| name);
                name.match_indices('-').for_each(|(at, _)| add(&name[at.saturating_add(1)..]));
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(SETS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let set = object.view::<StatefulSet>();
        let Ok(selector) = LabelSelector::from_label_selector_object(&set.spec.selector) else {
            return Ok(Action::AwaitChange);
        };
        let owner = Owner { api_version: "apps/v1", kind: "StatefulSet", object: &object };
        let history = revisions::owned_revisions(context, &owner, &selector).await?;
        if history.is_empty() && object.is_deleting {
            return Ok(Action::AwaitChange);
        }
        let versions = find_or_create_revisions(context, &owner, &set, &history).await?;
        let ours = |pod: &Object| ordinal_of(&object.name, &pod.name).is_some();
        let pods = pods::claim_from(context, &owner, &selector, PODS, ours).await?;
        let now = context.clock.now();
        let members = members(&set, &versions, &pods, now);
        let work = PodExecutor::new(context, &owner, &set, &versions, &pods);
        let (steps, done) = if object.is_deleting {
            (Vec::new(), Ok(()))
        } else {
            let steps = plan::plan(&desired_state(&set), &members);
            let done = execute_all(&work, &steps, set.is_ordered()).await;
            (steps, done)
        };
        let replaced = steps.iter().filter(|step| matches!(step, StatefulPodAction::Replace(_))).count();
        let status = status(&set, &versions, plan::count(&members), i64::try_from(replaced).unwrap_or(0));
        // The observed state is written even if a step failed.
        let told = update_status(context, &object, status).await;
        done?;
        told?;
        delete_old_revisions(context, &set, &versions, &history, &pods).await?;
        Ok(Action::AwaitChange.or_at(next_available(&set, &pods, now), now))
    }
}

/// The current and the update revision; equal when no update is in progress.
struct SetRevisions {
    current: Arc<Object>,
    update: Arc<Object>,
    collisions: i64,
}

/// Finds the revisions in the history, and creates the newest if it is missing.
async fn find_or_create_revisions(
    context: &Context,
    owner: &Owner<'_>,
    set: &StatefulSet,
    history: &[Arc<Object>],
) -> Result<SetRevisions, ReconcileError> {
    let mut collisions = set.status.collision_count;
    let data = revisions::template_patch(&set.spec.template);
    let last = history.last().map(|last| last.view::<Revision>());
    let next = last.as_ref().map_or(1, |last| last.revision.saturating_add(1));
    let equal = history.iter().rev().find(|object| object.view::<Revision>().data == data);
    let update = match (equal, history.last()) {
        (Some(found), _) if last.is_some_and(|last| last.data == data) => found.clone(),
        (_, Some(newest)) if owner.object.is_deleting => newest.clone(),
        // Rollback: the old template's revision becomes the newest.
        (Some(found), _) => revisions::renumber(context, found, next).await?,
        (None, _) => {
            let annotations = &set.metadata.annotations;
            let new =
                revisions::NewRevision { owner, annotations, data: &data, revision: next, label: HASH_LABEL };
            revisions::create(context, &new, &mut collisions).await?
        }
    };
    let current = history.iter().find(|revision| *revision.name == *set.status.current_revision);
    Ok(SetRevisions { current: current.unwrap_or(&update).clone(), update, collisions })
}

fn desired_state(set: &StatefulSet) -> DesiredSet {
    DesiredSet {
        ordinals: set.ordinals(),
        is_ordered: set.is_ordered(),
        is_rolling: set.is_rolling(),
        first_updated: set.first_updated(),
    }
}

/// The pods as the plan reads them, by ordinal.
fn members(
    set: &StatefulSet,
    versions: &SetRevisions,
    pods: &[Arc<Object>],
    now: Timestamp,
) -> Vec<StatefulPod> {
    let mut members: Vec<_> = pods
        .iter()
        .filter_map(|object| {
            let pod = object.view::<Pod>();
            let revision = object.label(POD_LABEL).unwrap_or_default();
            Some(StatefulPod {
                ordinal: ordinal_of(&set.metadata.name, &object.name)?,
                is_updated: revision == &*versions.update.name,
                is_current: revision == &*versions.current.name,
                health: health(&pod, set.spec.min_ready_seconds, now),
                is_deleting: object.is_deleting,
            })
        })
        .collect();
    members.sort_by_key(|member| member.ordinal);
    members
}

fn health(pod: &Pod, min_ready_seconds: i64, now: Timestamp) -> StatefulPodHealth {
    match pod.status.phase.as_str() {
        "Succeeded" | "Failed" => StatefulPodHealth::Finished,
        "Pending" => StatefulPodHealth::Pending,
        _ => match pod.available_from(min_ready_seconds) {
            None => StatefulPodHealth::Unready,
            Some(from) if from > now => StatefulPodHealth::Ready,
            Some(_) => StatefulPodHealth::Available,
        },
    }
}

/// When the next ready pod becomes available.
fn next_available(set: &StatefulSet, pods: &[Arc<Object>], now: Timestamp) -> Option<Timestamp> {
    let seconds = set.spec.min_ready_seconds;
    pods.iter().filter_map(|pod| pod.view::<Pod>().available_from(seconds)).filter(|at| *at > now).min()
}

/// Executes the steps: one after the other, or with parallel pod management in batches that double, so that a failure is not
/// repeated many times. Steps after a failure wait for the next reconcile.
async fn execute_all(
    work: &PodExecutor<'_>,
    steps: &[StatefulPodAction],
    ordered: bool,
) -> Result<(), ReconcileError> {
    let mut size = 1_usize;
    let mut rest = steps;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(size.min(rest.len()));
        let done = join_all(batch.iter().map(|step| work.execute(*step))).await;
        done.into_iter().collect::<Result<(), _>>()?;
        rest = later;
        size = if ordered { 1 } else { size.saturating_mul(2).min(MAX_CONCURRENT_STEPS) };
    }
    Ok(())
}

fn status(set: &StatefulSet, versions: &SetRevisions, counts: StatefulSetCounts, replaced: i64) -> Value {
    let StatefulSetCounts { replicas, ready, available, mut current, updated } = counts;
    current = current.saturating_sub(replaced);
    let mut at = &versions.current;
    let wanted = set.spec.replicas;
    if set.is_rolling() && updated == wanted && ready == wanted && replicas == wanted {
        (current, at) = (updated, &versions.update);
    }
    let mut status = json!({
        "observedGeneration": set.metadata.generation,
        "replicas": replicas,
        "currentRevision": at.name,
        "updateRevision": versions.update.name,
        "collisionCount": versions.collisions,
        "availableReplicas": available,
    });
    for (name, count) in
        [("readyReplicas", ready), ("currentReplicas", current), ("updatedReplicas", updated)]
    {
        if count != 0 {
            status[name] = count.into();
        }
    }
    status
}

async fn update_status(context: &Context, object: &Object, status: Value) -> Result<(), ReconcileError> {
    let mut document = object.value();
    if document["status"] != status {
        document["status"] = status;
        context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?;
    }
    Ok(())
}

/// Deletes the oldest revisions beyond the history limit, except those in use by pods.
async fn delete_old_revisions(
    context: &Context,
    set: &StatefulSet,
    versions: &SetRevisions,
    history: &[Arc<Object>],
    pods: &[Arc<Object>],
) -> Result<(), ReconcileError> {
    let is_live = |revision: &Object| {
        [&versions.current, &versions.update].iter().any(|live| live.name == revision.name)
            || pods.iter().any(|pod| pod.label(POD_LABEL) == Some(&revision.name))
    };
    if history.len() <= set.spec.revision_history_limit {
        return Ok(());
    }
    let old: Vec<_> = history.iter().filter(|revision| !is_live(revision)).collect();
    for revision in old.iter().take(old.len().saturating_sub(set.spec.revision_history_limit)) {
        revisions::delete(context, revision).await?;
    }
    Ok(())
}
