//! The Deployment controller: one `ReplicaSet` per revision of the template, and rollouts between them.
//!
//! Each reconcile takes one step ([`decision`]) from the stored state; its change triggers the next reconcile, so
//! a rollout continues after a crash between two steps.
//!
//! Modules:
//! - `decision`: the next step
//! - `sizes`: how many pods each set has
//! - `revision`: revision annotations
//! - `status`: the Deployment's status
//! - `template`: comparison and hash of templates
//!
//! See also: `super::replicaset` manages the pods.

mod decision;
mod revision;
mod sizes;
mod status;
mod template;
#[cfg(test)]
mod tests;
pub mod view;

use std::sync::Arc;

use serde_json::{Value, json};

use decision::{RolloutAction, RolloutObservation, decide};
use revision::SetAnnotations;
use sizes::SetScale;
use view::{Deployment, DeploymentStatus};

use super::pods::{self, Owner, PODS};
use super::replicaset::REPLICA_SETS;
use super::replicaset::view::ReplicaSet;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::view::{Meta, Pod};
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::error::ApiError;
use crate::selector::LabelSelector;
use crate::store::{Event, EventKind, Key, Object};

const DEPLOYMENTS: &str = "deployments.apps";
const SETS: &str = REPLICA_SETS.storage;
const COMPONENT: &str = "deployment-controller";

pub struct Deployments;

impl Controller for Deployments {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let deployments = context.store.list(DEPLOYMENTS, None).objects;
        deployments.iter().map(|deployment| key(DEPLOYMENTS, deployment)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == DEPLOYMENTS && event.kind != EventKind::Deleted {
            keys.push(key(DEPLOYMENTS, object));
        }
        // A deleted pod changes the status of its set.
        if storage.as_ref() != SETS {
            return;
        }
        keys.extend(owning_deployment(object));
        let before = event.previous.as_ref().filter(|before| before.controller_uid != object.controller_uid);
        keys.extend(before.and_then(|before| owning_deployment(before)));
        if object.controller_uid.is_none() && event.kind != EventKind::Deleted {
            let takers = context.store.list(DEPLOYMENTS, Some(&object.namespace)).objects;
            let takers = takers.iter().filter(|deployment| {
                selector(&deployment.view::<Deployment>()).matches(|key| object.label(key))
            });
            keys.extend(takers.map(|deployment| key(DEPLOYMENTS, deployment)));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(DEPLOYMENTS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let deployment = object.view::<Deployment>();
        let owner = Owner { api_version: "apps/v1", kind: "Deployment", object: &object };
        let claimed = pods::claim_from(context, &owner, &selector(&deployment), SETS, |_| true).await?;
        let views: Vec<_> = claimed.iter().map(|set| set.view::<ReplicaSet>()).collect();
        let sets = decision::find_sets(&deployment, views.iter().map(AsRef::as_ref).collect());
        let found = |set: &ReplicaSet| {
            let object = claimed.iter().find(|object| *object.uid == *set.metadata.uid);
            object.expect("a view is of one of the objects").clone()
        };
        let objects: Vec<_> = sets.all.iter().map(|set| found(set)).collect();
        let have_pods =
            objects.iter().map(|set| !deployment.is_rolling() && has_pods(context, set)).collect();
        let now = context.clock.now();
        let rollout = Rollout { context, owner, deployment: &deployment };
        match decide(&RolloutObservation { deployment: &deployment, sets, has_pods: have_pods, now }) {
            RolloutAction::UpdateStatus { revision, status } => {
                rollout.update_status(revision.as_deref(), &status).await?;
            }
            RolloutAction::AnnotateSet { at, notes } => rollout.annotate_set(&objects[at], &notes).await?,
            RolloutAction::Create { replicas, revision } => rollout.create(replicas, revision).await?,
            RolloutAction::ScaleSets { sizes, remove, status } => {
                rollout.scale_sets(objects.clone(), &sizes).await?;
                for at in remove {
                    rollout.remove(&objects[at]).await?;
                }
                rollout.update_status(None, &status).await?;
                return Ok(Action::AwaitChange.or_at(status::next_reconcile(&deployment, now), now));
            }
        }
        Ok(Action::AwaitChange)
    }
}

fn key(storage: &str, object: &Object) -> Key {
    Key::new(&storage.into(), &object.namespace, &object.name)
}

/// Returns the Deployment that manages a set.
fn owning_deployment(set: &Object) -> Option<Key> {
    set.controller_uid.as_ref()?;
    let Meta { owner_references, namespace, .. } = &set.view::<ReplicaSet>().metadata;
    let manager = owner_references.iter().find(|owner| owner.controller && owner.kind == "Deployment")?;
    Some(Key::new(&DEPLOYMENTS.into(), namespace, &manager.name))
}

fn selector(deployment: &Deployment) -> LabelSelector {
    // A stored selector is valid.
    LabelSelector::from_label_selector_object(&deployment.spec.selector)
        .unwrap_or_else(|_| LabelSelector::nothing())
}

fn has_pods(context: &Context, set: &Object) -> bool {
    pods::owned_objects(context, set, PODS).any(|pod| !pod.view::<Pod>().is_finished())
}

/// The writes of one step.
struct Rollout<'a> {
    context: &'a Context,
    owner: Owner<'a>,
    deployment: &'a Deployment,
}

impl Rollout<'_> {
    fn involved_object(&self) -> InvolvedObject {
        InvolvedObject::new(self.owner.api_version, self.owner.kind, self.owner.object)
    }

    async fn write(&self, part: ObjectPart, document: Value) -> Result<Arc<Object>, ApiError> {
        self.context.client.update(Component::ControllerManager, part, document).await
    }

    /// The revision annotation is written with the status: both belong to the controller.
    async fn update_status(&self, revision: Option<&str>, status: &DeploymentStatus) -> Result<(), ApiError> {
        if revision.is_none() && *status == self.deployment.status {
            return Ok(());
        }
        let mut document = self.owner.object.value();
        if let Some(revision) = revision {
            document["metadata"]["annotations"][revision::REVISION] = revision.into();
        }
        document["status"] = json!(status);
        self.write(ObjectPart::Status, document).await.map(drop)
    }

    async fn annotate_set(&self, set: &Object, notes: &SetAnnotations) -> Result<(), ApiError> {
        let mut document = set.value();
        document["metadata"]["annotations"] = json!(notes);
        document["spec"]["minReadySeconds"] = self.deployment.spec.min_ready_seconds.into();
        self.write(ObjectPart::Main, document).await.map(drop)
    }

    async fn scale_sets(&self, mut sets: Vec<Arc<Object>>, sizes: &[SetScale]) -> Result<(), ApiError> {
        for SetScale { index: at, replicas: to } in sizes {
            let set = &mut sets[*at];
            let view = set.view::<ReplicaSet>();
            let mut document = set.value();
            let mut notes = view.metadata.annotations.clone();
            revision::annotate_size(&mut notes, self.deployment);
            document["metadata"]["annotations"] = json!(notes);
            document["spec"]["replicas"] = (*to).into();
            *set = self.write(ObjectPart::Main, document).await?;
            self.record_scaling(&set.name, view.spec.replicas, *to);
        }
        Ok(())
    }

    fn record_scaling(&self, set: &str, from: i64, to: i64) {
        if from != to {
            let direction = if from < to { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
            self.context.events.normal(COMPONENT, self.involved_object(), "ScalingReplicaSet", message);
        }
    }

    async fn remove(&self, set: &Object) -> Result<(), ApiError> {
        let meant = Preconditions { uid: &set.uid, version: None };
        ignore_not_found_or_conflict(
            self.context.client.delete(&key(SETS, set), meant, Propagation::Background).await,
        )
    }

    async fn create(&self, replicas: i64, revision: i64) -> Result<(), ApiError> {
        let mut document = template::replica_set(self.deployment);
        document["metadata"]["ownerReferences"] = json!([self.owner.reference()]);
        document["metadata"]["annotations"] = json!(revision::initial_annotations(self.deployment, revision));
        document["spec"]["replicas"] = replicas.into();
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let now = self.context.clock.now();
        match self.context.client.create(Component::ControllerManager, document).await {
            Ok(set) => {
                self.record_scaling(&set.name, 0, replicas);
                let message = format!("Created new replica set {name:?}");
                let status =
                    status::progress_status(self.deployment, ("True", "NewReplicaSetCreated"), message, now);
                let status = status.unwrap_or_else(|| self.deployment.status.clone());
                self.update_status(Some(&revision.to_string()), &status).await
            }
            // Another set has the name for this template: count a collision to get another name.
            Err(error) if error.reason == "AlreadyExists" => {
                let mut status = self.deployment.status.clone();
                status.collision_count = Some(status.collision_count.unwrap_or_default().saturating_add(1));
                self.update_status(None, &status).await
            }
            // No object can be created in a terminating namespace.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                let message = format!("Failed to create new replica set {name:?}: {error}");
                self.context.events.warning(
                    COMPONENT,
                    self.involved_object(),
                    "ReplicaSetCreateError",
                    &message,
                );
                let said = ("False", "ReplicaSetCreateError");
                if let Some(status) = status::progress_status(self.deployment, said, message, now) {
                    self.update_status(None, &status).await?;
                }
                Err(error)
            }
        }
    }
}
