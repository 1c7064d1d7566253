//! The Deployment controller: one `ReplicaSet` per revision of the template, and rollouts between them.
//!
//! Each reconcile takes one step ([`decide`]) from the stored state; its change triggers the next reconcile, so
//! a rollout continues after a crash between two steps.
//!
//! Modules:
//! - `decide`: the next step
//! - `sizes`: how many pods each set has
//! - `revision`: revision annotations
//! - `status`: the Deployment's status
//! - `template`: comparison and hash of templates
//!
//! See also: `super::replicaset` manages the pods.

mod decide;
mod revision;
mod sizes;
mod status;
mod template;
#[cfg(test)]
mod tests;
pub mod view;

use std::sync::Arc;

use serde_json::{Value, json};

use decide::{Seen, Step, decide};
use revision::Notes;
use sizes::Size;
use view::{Deployment, Status};

use super::pods::{self, Owner, PODS};
use super::replicaset::REPLICA_SETS;
use super::replicaset::view::ReplicaSet;
use crate::control::events::About;
use crate::control::queue::{Controller, Next};
use crate::control::view::{Meta, Pod};
use crate::control::{Component, Context, Failure, Part, Preconditions, Propagation, settled};
use crate::error::ApiError;
use crate::selector::Labels;
use crate::store::{Event, EventKind, Key, Object};

const DEPLOYMENTS: &str = "deployments.apps";
const SETS: &str = REPLICA_SETS.storage;
const COMPONENT: &str = "deployment-controller";

pub struct Deployments;

impl Controller for Deployments {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let deployments = context.store.list(DEPLOYMENTS, None).objects;
        deployments.iter().map(|deployment| key(DEPLOYMENTS, deployment)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == DEPLOYMENTS && event.kind != EventKind::Deleted {
            keys.push(key(DEPLOYMENTS, object));
        }
        // A deleted pod changes the status of its set.
        if storage.as_ref() != SETS {
            return;
        }
        keys.extend(manager(object));
        let before = event.previous.as_ref().filter(|before| before.controller != object.controller);
        keys.extend(before.and_then(|before| manager(before)));
        if object.controller.is_none() && event.kind != EventKind::Deleted {
            let takers = context.store.list(DEPLOYMENTS, Some(&object.namespace)).objects;
            let takers = takers.iter().filter(|deployment| {
                selector(&deployment.view::<Deployment>()).matches(|key| object.label(key))
            });
            keys.extend(takers.map(|deployment| key(DEPLOYMENTS, deployment)));
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(DEPLOYMENTS, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        let deployment = object.view::<Deployment>();
        let owner = Owner { api_version: "apps/v1", kind: "Deployment", object: &object };
        let claimed = pods::claim_from(context, &owner, &selector(&deployment), SETS, |_| true).await?;
        let views: Vec<_> = claimed.iter().map(|set| set.view::<ReplicaSet>()).collect();
        let sets = decide::sets(&deployment, views.iter().map(AsRef::as_ref).collect());
        let found = |set: &ReplicaSet| {
            let object = claimed.iter().find(|object| *object.uid == *set.metadata.uid);
            object.expect("a view is of one of the objects").clone()
        };
        let objects: Vec<_> = sets.all.iter().map(|set| found(set)).collect();
        let have_pods =
            objects.iter().map(|set| !deployment.is_rolling() && has_pods(context, set)).collect();
        let now = context.clock.now();
        let rollout = Rollout { context, owner, deployment: &deployment };
        match decide(&Seen { deployment: &deployment, sets, have_pods, now }) {
            Step::Say { revision, status } => rollout.say(revision.as_deref(), &status).await?,
            Step::Note { at, notes } => rollout.note(&objects[at], &notes).await?,
            Step::Create { replicas, revision } => rollout.create(replicas, revision).await?,
            Step::Proceed { sizes, remove, status } => {
                rollout.resize(objects.clone(), &sizes).await?;
                for at in remove {
                    rollout.remove(&objects[at]).await?;
                }
                rollout.say(None, &status).await?;
                return Ok(Next::Rest.or_at(status::next_look(&deployment, now), now));
            }
        }
        Ok(Next::Rest)
    }
}

fn key(storage: &str, object: &Object) -> Key {
    Key::new(&storage.into(), &object.namespace, &object.name)
}

/// Returns the Deployment that manages a set.
fn manager(set: &Object) -> Option<Key> {
    set.controller.as_ref()?;
    let Meta { owner_references, namespace, .. } = &set.view::<ReplicaSet>().metadata;
    let manager = owner_references.iter().find(|owner| owner.controller && owner.kind == "Deployment")?;
    Some(Key::new(&DEPLOYMENTS.into(), namespace, &manager.name))
}

fn selector(deployment: &Deployment) -> Labels {
    // A stored selector is valid.
    Labels::from_object(&deployment.spec.selector).unwrap_or_else(|_| Labels::nothing())
}

fn has_pods(context: &Context, set: &Object) -> bool {
    pods::managed(context, set, PODS).any(|pod| !pod.view::<Pod>().is_finished())
}

/// The writes of one step.
struct Rollout<'a> {
    context: &'a Context,
    owner: Owner<'a>,
    deployment: &'a Deployment,
}

impl Rollout<'_> {
    fn about(&self) -> About {
        About::new(self.owner.api_version, self.owner.kind, self.owner.object)
    }

    async fn write(&self, part: Part, document: Value) -> Result<Arc<Object>, ApiError> {
        self.context.actor.update(Component::ControllerManager, part, document).await
    }

    /// The revision annotation is written with the status: both belong to the controller.
    async fn say(&self, revision: Option<&str>, status: &Status) -> Result<(), ApiError> {
        if revision.is_none() && *status == self.deployment.status {
            return Ok(());
        }
        let mut document = self.owner.object.value();
        if let Some(revision) = revision {
            document["metadata"]["annotations"][revision::REVISION] = revision.into();
        }
        document["status"] = json!(status);
        self.write(Part::Status, document).await.map(drop)
    }

    async fn note(&self, set: &Object, notes: &Notes) -> Result<(), ApiError> {
        let mut document = set.value();
        document["metadata"]["annotations"] = json!(notes);
        document["spec"]["minReadySeconds"] = self.deployment.spec.min_ready_seconds.into();
        self.write(Part::Main, document).await.map(drop)
    }

    async fn resize(&self, mut sets: Vec<Arc<Object>>, sizes: &[Size]) -> Result<(), ApiError> {
        for Size { at, to } in sizes {
            let set = &mut sets[*at];
            let view = set.view::<ReplicaSet>();
            let mut document = set.value();
            let mut notes = view.metadata.annotations.clone();
            revision::note_size(&mut notes, self.deployment);
            document["metadata"]["annotations"] = json!(notes);
            document["spec"]["replicas"] = (*to).into();
            *set = self.write(Part::Main, document).await?;
            self.tell_size(&set.name, view.spec.replicas, *to);
        }
        Ok(())
    }

    fn tell_size(&self, set: &str, from: i64, to: i64) {
        if from != to {
            let direction = if from < to { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {set} from {from} to {to}");
            self.context.events.normal(COMPONENT, self.about(), "ScalingReplicaSet", message);
        }
    }

    async fn remove(&self, set: &Object) -> Result<(), ApiError> {
        let meant = Preconditions { uid: &set.uid, version: None };
        settled(self.context.actor.delete(&key(SETS, set), meant, Propagation::Background).await)
    }

    async fn create(&self, replicas: i64, revision: i64) -> Result<(), ApiError> {
        let mut document = template::replica_set(self.deployment);
        document["metadata"]["ownerReferences"] = json!([self.owner.reference()]);
        document["metadata"]["annotations"] = json!(revision::first_notes(self.deployment, revision));
        document["spec"]["replicas"] = replicas.into();
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let now = self.context.clock.now();
        match self.context.actor.create(Component::ControllerManager, document).await {
            Ok(set) => {
                self.tell_size(&set.name, 0, replicas);
                let message = format!("Created new replica set {name:?}");
                let status =
                    status::progress(self.deployment, ("True", "NewReplicaSetCreated"), message, now);
                let status = status.unwrap_or_else(|| self.deployment.status.clone());
                self.say(Some(&revision.to_string()), &status).await
            }
            // Another set has the name for this template: count a collision to get another name.
            Err(error) if error.reason == "AlreadyExists" => {
                let mut status = self.deployment.status.clone();
                status.collision_count = Some(status.collision_count.unwrap_or_default().saturating_add(1));
                self.say(None, &status).await
            }
            // No object can be created in a terminating namespace.
            Err(error) if error.is_namespace_terminating() => Ok(()),
            Err(error) => {
                let message = format!("Failed to create new replica set {name:?}: {error}");
                self.context.events.warning(COMPONENT, self.about(), "ReplicaSetCreateError", &message);
                let said = ("False", "ReplicaSetCreateError");
                if let Some(status) = status::progress(self.deployment, said, message, now) {
                    self.say(None, &status).await?;
                }
                Err(error)
            }
        }
    }
}
