//! The StatefulSet controller: pods with ordinals, each with its own claims.
//!
//! A reconcile observes (`view`), plans (`plan`; `claims` for owners of claims), executes the steps (`act`), and writes
//! the observed state to the status. The next reconcile observes again, so a crash between two steps is safe.

#![warn(clippy::arithmetic_side_effects)]

mod act;
mod claims;
mod plan;
mod pod;
#[cfg(test)]
mod tests;
mod view;

use std::sync::Arc;

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use self::act::Work;
use self::plan::{Aim, Counts, Health, Member, Step};
use self::view::{StatefulSet, ordinal_of};
use super::pods::{self, Owner, PODS};
use super::revisions::{self, POD_LABEL, Revision};
use crate::control::queue::{Controller, Next};
use crate::control::view::Pod;
use crate::control::volumes::view::CLAIMS;
use crate::control::{Component, Context, Failure, Part};
use crate::selector::Labels;
use crate::store::{Event, EventKind, Key, Object};

const SETS: &str = "statefulsets.apps";
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Maximum number of concurrent steps with parallel pod management.
const AT_ONCE: usize = 64;

pub struct StatefulSets;

impl Controller for StatefulSets {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = SETS.into();
        let sets = context.store.list(SETS, None).objects;
        sets.iter().map(|set| Key::new(&storage, &set.namespace, &set.name)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
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

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(SETS, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        let set = object.view::<StatefulSet>();
        let Ok(selector) = Labels::from_object(&set.spec.selector) else {
            return Ok(Next::Rest);
        };
        let owner = Owner { api_version: "apps/v1", kind: "StatefulSet", object: &object };
        let history = revisions::all(context, &owner, &selector).await?;
        if history.is_empty() && object.deleting {
            return Ok(Next::Rest);
        }
        let versions = versions(context, &owner, &set, &history).await?;
        let ours = |pod: &Object| ordinal_of(&object.name, &pod.name).is_some();
        let pods = pods::claim_from(context, &owner, &selector, PODS, ours).await?;
        let now = context.clock.now();
        let members = members(&set, &versions, &pods, now);
        let work = Work::new(context, &owner, &set, &versions, &pods);
        let (steps, done) = if object.deleting {
            (Vec::new(), Ok(()))
        } else {
            let steps = plan::plan(&aim(&set), &members);
            let done = run(&work, &steps, set.is_ordered()).await;
            (steps, done)
        };
        let replaced = steps.iter().filter(|step| matches!(step, Step::Replace(_))).count();
        let status = status(&set, &versions, plan::count(&members), i64::try_from(replaced).unwrap_or(0));
        // The observed state is written even if a step failed.
        let told = tell(context, &object, status).await;
        done?;
        told?;
        forget_old(context, &set, &versions, &history, &pods).await?;
        Ok(Next::Rest.or_at(next_available(&set, &pods, now), now))
    }
}

/// The current and the update revision; equal when no update is in progress.
struct Versions {
    current: Arc<Object>,
    update: Arc<Object>,
    collisions: i64,
}

/// Finds the revisions in the history, and creates the newest if it is missing.
async fn versions(
    context: &Context,
    owner: &Owner<'_>,
    set: &StatefulSet,
    history: &[Arc<Object>],
) -> Result<Versions, Failure> {
    let mut collisions = set.status.collision_count;
    let data = revisions::data_of(&set.spec.template);
    let last = history.last().map(|last| last.view::<Revision>());
    let next = last.as_ref().map_or(1, |last| last.revision.saturating_add(1));
    let equal = history.iter().rev().find(|object| object.view::<Revision>().data == data);
    let update = match (equal, history.last()) {
        (Some(found), _) if last.is_some_and(|last| last.data == data) => found.clone(),
        (_, Some(newest)) if owner.object.deleting => newest.clone(),
        // Rollback: the old template's revision becomes the newest.
        (Some(found), _) => revisions::renumber(context, found, next).await?,
        (None, _) => {
            let annotations = &set.metadata.annotations;
            let new = revisions::New { owner, annotations, data: &data, revision: next, label: HASH_LABEL };
            revisions::create(context, &new, &mut collisions).await?
        }
    };
    let current = history.iter().find(|revision| *revision.name == *set.status.current_revision);
    Ok(Versions { current: current.unwrap_or(&update).clone(), update, collisions })
}

fn aim(set: &StatefulSet) -> Aim {
    Aim {
        ordinals: set.ordinals(),
        ordered: set.is_ordered(),
        rolls: set.rolls(),
        first_updated: set.first_updated(),
    }
}

/// The pods as the plan reads them, by ordinal.
fn members(set: &StatefulSet, versions: &Versions, pods: &[Arc<Object>], now: Timestamp) -> Vec<Member> {
    let mut members: Vec<_> = pods
        .iter()
        .filter_map(|object| {
            let pod = object.view::<Pod>();
            let revision = object.label(POD_LABEL).unwrap_or_default();
            Some(Member {
                ordinal: ordinal_of(&set.metadata.name, &object.name)?,
                is_updated: revision == &*versions.update.name,
                is_current: revision == &*versions.current.name,
                health: health(&pod, set.spec.min_ready_seconds, now),
                deleting: object.deleting,
            })
        })
        .collect();
    members.sort_by_key(|member| member.ordinal);
    members
}

fn health(pod: &Pod, min_ready_seconds: i64, now: Timestamp) -> Health {
    match pod.status.phase.as_str() {
        "Succeeded" | "Failed" => Health::Finished,
        "Pending" => Health::Pending,
        _ => match pod.available_from(min_ready_seconds) {
            None => Health::Unready,
            Some(from) if from > now => Health::Ready,
            Some(_) => Health::Available,
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
async fn run(work: &Work<'_>, steps: &[Step], ordered: bool) -> Result<(), Failure> {
    let mut size = 1_usize;
    let mut rest = steps;
    while !rest.is_empty() {
        let (batch, later) = rest.split_at(size.min(rest.len()));
        let done = join_all(batch.iter().map(|step| work.act(*step))).await;
        done.into_iter().collect::<Result<(), _>>()?;
        rest = later;
        size = if ordered { 1 } else { size.saturating_mul(2).min(AT_ONCE) };
    }
    Ok(())
}

fn status(set: &StatefulSet, versions: &Versions, counts: Counts, replaced: i64) -> Value {
    let Counts { replicas, ready, available, mut current, updated } = counts;
    current = current.saturating_sub(replaced);
    let mut at = &versions.current;
    let wanted = set.spec.replicas;
    if set.rolls() && updated == wanted && ready == wanted && replicas == wanted {
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

async fn tell(context: &Context, object: &Object, status: Value) -> Result<(), Failure> {
    let mut document = object.value();
    if document["status"] != status {
        document["status"] = status;
        context.actor.update(Component::ControllerManager, Part::Status, document).await?;
    }
    Ok(())
}

/// Deletes the oldest revisions beyond the history limit, except those in use by pods.
async fn forget_old(
    context: &Context,
    set: &StatefulSet,
    versions: &Versions,
    history: &[Arc<Object>],
    pods: &[Arc<Object>],
) -> Result<(), Failure> {
    let is_live = |revision: &Object| {
        [&versions.current, &versions.update].iter().any(|live| live.name == revision.name)
            || pods.iter().any(|pod| pod.label(POD_LABEL) == Some(&revision.name))
    };
    if history.len() <= set.spec.revision_history_limit {
        return Ok(());
    }
    let old: Vec<_> = history.iter().filter(|revision| !is_live(revision)).collect();
    for revision in old.iter().take(old.len().saturating_sub(set.spec.revision_history_limit)) {
        revisions::forget(context, revision).await?;
    }
    Ok(())
}
