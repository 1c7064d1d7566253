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

use rank::RelatedPods;
use status::ObservedPods;
use view::ReplicaSet;

use super::pods::{self, Owner, PODS};
use crate::control::bounded::join_bounded;
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};

/// Maximum number of pods created or deleted per reconcile.
const MAX_POD_CHANGES: usize = 500;

/// The differences between the two kinds.
pub struct Replicas {
    api_version: &'static str,
    kind: &'static str,
    pub storage: &'static str,
    /// The Event source.
    component: &'static str,
    /// The selector is a plain map of labels, and terminating pods are not counted.
    is_replication_controller: bool,
}

pub const REPLICA_SETS: Replicas = Replicas {
    api_version: "apps/v1",
    kind: "ReplicaSet",
    storage: "replicasets.apps",
    component: "replicaset-controller",
    is_replication_controller: false,
};

pub const REPLICATION_CONTROLLERS: Replicas = Replicas {
    api_version: "v1",
    kind: "ReplicationController",
    storage: "replicationcontrollers",
    component: "replication-controller",
    is_replication_controller: true,
};

impl Controller for Replicas {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage = self.storage.into();
        let sets = context.store.list(self.storage, None).objects;
        sets.iter().map(|set| Key::new(&storage, &set.namespace, &set.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == self.storage && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, &object.namespace, &object.name));
        }
        if storage.as_ref() == PODS {
            let selects = |set: &Object, pod: &Object| self.selects(set, pod);
            pods::enqueue_owners(context, event, (self.kind, self.storage), selects, keys);
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(self.storage, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let set = object.view::<ReplicaSet>();
        let owner = self.owner(&object);
        let claimed = pods::claim(context, &owner, &self.selector(&set)).await?;
        let (mut found, mut active) = (ObservedPods::default(), Vec::new());
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
            if object.is_deleting { Ok(()) } else { self.manage(context, &owner, &set, &active, now).await };
        let mut status = status::compute_status(&set, &found, outcome.as_ref().err(), now);
        if self.is_replication_controller {
            status.terminating_replicas = None;
        }
        if status != set.status {
            let mut document = object.value();
            document["status"] = json!(status);
            context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?;
        }
        outcome?;
        Ok(Action::AwaitChange.or_at(status::next_available(&set, &found, now), now))
    }
}

impl Replicas {
    fn owner<'a>(&self, object: &'a Object) -> Owner<'a> {
        Owner { api_version: self.api_version, kind: self.kind, object }
    }

    fn selector(&self, set: &ReplicaSet) -> LabelSelector {
        let selector = if self.is_replication_controller {
            json!({"matchLabels": set.spec.selector})
        } else {
            set.spec.selector.clone()
        };
        // A stored selector is valid.
        LabelSelector::from_label_selector_object(&selector).unwrap_or_else(|_| LabelSelector::nothing())
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
            return self.create(context, owner, set, (wanted - active.len()).min(MAX_POD_CHANGES)).await;
        }
        let excess = active.len() - wanted;
        if excess == 0 {
            return Ok(());
        }
        let crowd =
            if excess < active.len() { related_pods(context, owner.object) } else { RelatedPods::default() };
        let mut ranked: Vec<_> = active.iter().map(|pod| (*pod, pod.view::<Pod>())).collect();
        ranked.sort_by(|(_, a), (_, b)| {
            rank::deletion_rank(a, &crowd, now).cmp(&rank::deletion_rank(b, &crowd, now))
        });
        let unwanted = ranked.iter().take(excess.min(MAX_POD_CHANGES));
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
        pods::create(context, owner, self.component, pod).await
    }

    async fn delete_one(&self, context: &Context, owner: &Owner<'_>, pod: &Object) -> Result<(), ApiError> {
        pods::remove(context, owner, self.component, pod).await
    }
}

/// Counts the pods of all sets with the same controller as this one. A set without controller has none.
fn related_pods(context: &Context, set: &Object) -> RelatedPods {
    let mut crowd = RelatedPods::default();
    let Some(manager) = &set.controller_uid else { return crowd };
    for (storage, sibling) in context.store.dependents(manager) {
        if storage.as_ref() == REPLICA_SETS.storage && sibling.controller_uid.as_ref() == Some(manager) {
            pods::owned_objects(context, &sibling, PODS).for_each(|pod| crowd.add(&pod.view::<Pod>()));
        }
    }
    crowd
}
