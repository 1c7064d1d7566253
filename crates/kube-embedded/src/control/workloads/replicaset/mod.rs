//! The ReplicaSet controller, also for `ReplicationControllers`: a number of pods from one template.
//!
//! Missing pods are created in batches that double, so that a refusal (a quota, a policy) is not repeated a hundred
//! times; excess pods are deleted in the order of `rank`. The status has the state observed before that; pod
//! changes trigger the next reconcile.
//!
//! See also: `super::deployment` (replicas of each set), `super::pods` (adoption).

mod rank;
mod status;
#[cfg(test)]
mod tests;
pub mod view;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::json;

use rank::Crowd;
use status::Found;
use view::ReplicaSet;

use super::pods::{self, Owner, PODS};
use crate::control::bounded::join_bounded;
use crate::control::queue::{Controller, Next};
use crate::control::view::Pod;
use crate::control::{Component, Context, Failure, Part};
use crate::error::ApiError;
use crate::selector::Labels;
use crate::store::{Event, EventKind, Key, Object};

/// Maximum number of pods created or deleted per reconcile.
const BURST: usize = 500;

/// The differences between the two kinds.
pub struct Replicas {
    api_version: &'static str,
    kind: &'static str,
    pub storage: &'static str,
    /// The Event source.
    component: &'static str,
    /// The selector is a plain map of labels, and terminating pods are not counted.
    old: bool,
}

pub const REPLICA_SETS: Replicas = Replicas {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    storage: "replicasets.apps",
    component: "replicaset-controller",
    old: false,
};

pub const REPLICATION_CONTROLLERS: Replicas = Replicas {
    api_version: "v1",
    kind: "ReplicationController",
    storage: "replicationcontrollers",
    component: "replication-controller",
    old: true,
};

impl Controller for Replicas {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage = self.storage.into();
        let sets = context.store.list(self.storage, None).objects;
        sets.iter().map(|set| Key::new(&storage, &set.namespace, &set.name)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == self.storage && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, &object.namespace, &object.name));
        }
        if storage.as_ref() == PODS {
            let selects = |set: &Object, pod: &Object| self.selects(set, pod);
            pods::concerned(context, event, (self.kind, self.storage), selects, keys);
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(self.storage, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        let set = object.view::<ReplicaSet>();
        let owner = self.owner(&object);
        let claimed = pods::claim(context, &owner, &self.selector(&set)).await?;
        let (mut found, mut active) = (Found::default(), Vec::new());
        for pod in &claimed {
            let view = pod.view::<Pod>();
            if view.is_active() {
                found.active.push(view);
                active.push(pod);
            } else if !view.is_finished() {
                found.terminating += 1;
            }
        }
        let now = context.clock.now();
        let outcome =
            if object.deleting { Ok(()) } else { self.manage(context, &owner, &set, &active, now).await };
        let mut status = status::of(&set, &found, outcome.as_ref().err(), now);
        if self.old {
            status.terminating_replicas = None;
        }
        if status != set.status {
            let mut document = object.value();
            document["status"] = json!(status);
            context.actor.update(Component::ControllerManager, Part::Status, document).await?;
        }
        outcome?;
        Ok(Next::Rest.or_at(status::next_available(&set, &found, now), now))
    }
}

impl Replicas {
    fn owner<'a>(&self, object: &'a Object) -> Owner<'a> {
        Owner { api_version: self.api_version, kind: self.kind, object }
    }

    fn selector(&self, set: &ReplicaSet) -> Labels {
        let selector =
            if self.old { json!({"matchLabels": set.spec.selector}) } else { set.spec.selector.clone() };
        // A stored selector is valid.
        Labels::from_object(&selector).unwrap_or_else(|_| Labels::nothing())
    }

    fn selects(&self, set: &Object, pod: &Object) -> bool {
        self.selector(&set.view::<ReplicaSet>()).matches(|key| pod.label(key))
    }

    /// Creates missing pods, or deletes excess ones.
    async fn manage(
        &self,
        context: &Context,
        owner: &Owner<'_>,
        set: &ReplicaSet,
        active: &[&Arc<Object>],
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let wanted = usize::try_from(set.spec.replicas).unwrap_or_default();
        if active.len() < wanted {
            return self.create(context, owner, set, (wanted - active.len()).min(BURST)).await;
        }
        let excess = active.len() - wanted;
        if excess == 0 {
            return Ok(());
        }
        let crowd = if excess < active.len() { crowd(context, owner.object) } else { Crowd::default() };
        let mut ranked: Vec<_> = active.iter().map(|pod| (*pod, pod.view::<Pod>())).collect();
        ranked.sort_by(|(_, a), (_, b)| rank::rank(a, &crowd, now).cmp(&rank::rank(b, &crowd, now)));
        let unwanted = ranked.iter().take(excess.min(BURST));
        let outcomes = join_bounded(unwanted.map(|(pod, _)| self.delete_one(context, owner, pod))).await;
        outcomes.into_iter().collect()
    }

    /// Batches of one, two, four, ... until a create fails.
    async fn create(
        &self,
        context: &Context,
        owner: &Owner<'_>,
        set: &ReplicaSet,
        mut lacking: usize,
    ) -> Result<(), ApiError> {
        let mut batch = 1;
        while lacking > 0 {
            let now = batch.min(lacking);
            let outcomes = join_bounded((0..now).map(|_| self.create_one(context, owner, set))).await;
            outcomes.into_iter().collect::<Result<(), _>>()?;
            (lacking, batch) = (lacking - now, batch * 2);
        }
        Ok(())
    }

    async fn create_one(
        &self,
        context: &Context,
        owner: &Owner<'_>,
        set: &ReplicaSet,
    ) -> Result<(), ApiError> {
        let mut pod = pods::from_template(owner, &set.spec.template);
        pod["metadata"]["generateName"] = pods::name_prefix(&owner.object.name).into();
        pods::make(context, owner, self.component, pod).await
    }

    async fn delete_one(&self, context: &Context, owner: &Owner<'_>, pod: &Object) -> Result<(), ApiError> {
        pods::remove(context, owner, self.component, pod).await
    }
}

/// Counts the pods of all sets with the same controller as this one. A set without controller has none.
fn crowd(context: &Context, set: &Object) -> Crowd {
    let mut crowd = Crowd::default();
    let Some(manager) = &set.controller else { return crowd };
    for (storage, sibling) in context.store.dependents(manager) {
        if storage.as_ref() == REPLICA_SETS.storage && sibling.controller.as_ref() == Some(manager) {
            pods::managed(context, &sibling, PODS).for_each(|pod| crowd.add(&pod.view::<Pod>()));
        }
    }
    crowd
}
