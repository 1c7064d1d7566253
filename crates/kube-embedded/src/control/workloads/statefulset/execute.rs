//! Executes the steps of a StatefulSet's plan through the API; each records an Event.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::claims::{self, ClaimOwner, ClaimOwnerAction, OwnerCandidate};
use super::plan::StatefulPodAction;
use super::view::{StatefulSet, ordinal_of};
use super::{SetRevisions, pod};
use crate::control::events::InvolvedObject;
use crate::control::volumes::view::{CLAIMS, Claim};
use crate::control::workloads::pods::{Owner, PODS};
use crate::control::workloads::revisions::Revision;
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::error::ApiError;
use crate::store::{Key, Object};

const COMPONENT: &str = "statefulset-controller";

pub(super) struct PodExecutor<'a> {
    context: &'a Context,
    owner: &'a Owner<'a>,
    set: &'a StatefulSet,
    versions: &'a SetRevisions,
    pods: BTreeMap<i64, Arc<Object>>,
}

impl<'a> PodExecutor<'a> {
    pub(super) fn new(
        context: &'a Context,
        owner: &'a Owner<'a>,
        set: &'a StatefulSet,
        versions: &'a SetRevisions,
        pods: &[Arc<Object>],
    ) -> Self {
        let numbered = |pod: &Arc<Object>| Some((ordinal_of(&set.metadata.name, &pod.name)?, pod.clone()));
        Self { context, owner, set, versions, pods: pods.iter().filter_map(numbered).collect() }
    }

    pub(super) async fn execute(&self, step: StatefulPodAction) -> Result<(), ReconcileError> {
        match step {
            StatefulPodAction::Create(ordinal) => self.create(ordinal).await,
            StatefulPodAction::CreateClaims(ordinal) => {
                self.create_missing_claims(ordinal).await?;
                self.update_claim_owners(ordinal, "").await.map(drop)
            }
            StatefulPodAction::Repair(ordinal) => self.repair_pod(ordinal).await,
            StatefulPodAction::SetClaimOwners(ordinal) => {
                self.update_claim_owners(ordinal, "").await.map(drop)
            }
            StatefulPodAction::Delete(ordinal) | StatefulPodAction::Replace(ordinal) => {
                self.delete(ordinal).await
            }
        }
    }

    async fn create(&self, ordinal: i64) -> Result<(), ReconcileError> {
        let name = pod::pod_name(&self.set.metadata.name, ordinal);
        let retention = self.set.spec.persistent_volume_claim_retention_policy;
        let stale = |claim: Arc<Object>| {
            claims::is_stale(&claim.view::<Claim>().metadata.owner_references, retention, &name)
        };
        if self.claims(ordinal).any(|(_, claim)| claim.is_some_and(stale)) {
            return Ok(());
        }
        if let Err(error) = self.create_missing_claims(ordinal).await {
            self.record_pod_event("Create", &name, Some(&error));
            return Err(error);
        }
        let version = if ordinal < self.set.first_created_from_update() {
            &self.versions.current
        } else {
            &self.versions.update
        };
        let template = version.view::<Revision>().template();
        let document = pod::pod(self.owner, self.set, (&version.name, &template), ordinal);
        let created = self.context.client.create(Component::ControllerManager, document).await;
        if let Err(error) = &created
            && error.reason == "AlreadyExists"
        {
            // A pod of another owner has the name: wait without an Event.
            return Err(error.clone().into());
        }
        let uid = created.as_ref().map_or_else(|_| String::new(), |pod| pod.uid.to_string());
        self.update_claim_owners(ordinal, &uid).await?;
        let created = created.map(drop).map_err(ReconcileError::from);
        self.record_pod_event("Create", &name, created.as_ref().err());
        created
    }

    /// The claims of a pod, with their templates; `None` for missing ones.
    fn claims(&self, ordinal: i64) -> impl Iterator<Item = (&Value, Option<Arc<Object>>)> {
        let templates = self.set.spec.volume_claim_templates.iter();
        templates.map(move |template| {
            let name = pod::claim_name(template, &self.set.metadata.name, ordinal);
            (template, self.context.store.get(CLAIMS, &self.set.metadata.namespace, &name))
        })
    }

    /// Creates the missing claims.
    async fn create_missing_claims(&self, ordinal: i64) -> Result<(), ReconcileError> {
        for (template, found) in self.claims(ordinal).collect::<Vec<_>>() {
            let name = pod::claim_name(template, &self.set.metadata.name, ordinal);
            match found {
                Some(claim) if claim.is_deleting => {
                    return Err(internal_error(format!("pvc {name} is being deleted")));
                }
                Some(_) => {}
                None => {
                    let document = pod::claim(self.set, template, ordinal);
                    let made = self.context.client.create(Component::ControllerManager, document).await;
                    self.record_claim_event(&name, ordinal, made.as_ref().err());
                    if let Err(error) = made {
                        return Err(internal_error(format!("failed to create PVC {name}: {error}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets the owner references of a pod's claims; `uid` is the UID of a newly created pod. Returns whether anything
    /// was written.
    async fn update_claim_owners(&self, ordinal: i64, uid: &str) -> Result<bool, ReconcileError> {
        let set = &self.set.metadata;
        let retention = self.set.spec.persistent_volume_claim_retention_policy;
        let name = pod::pod_name(&set.name, ordinal);
        let uid = self.pods.get(&ordinal).map_or(uid, |pod| &pod.uid);
        let by_set =
            OwnerCandidate { api_version: "apps/v1", kind: "StatefulSet", name: &set.name, uid: &set.uid };
        let by_pod = OwnerCandidate { api_version: "v1", kind: "Pod", name: &name, uid };
        let scaled_away = !self.set.ordinals().contains(&ordinal);
        let mut changed = false;
        for claim in self.claims(ordinal).filter_map(|(_, claim)| claim).collect::<Vec<_>>() {
            let owners = &claim.view::<Claim>().metadata.owner_references;
            if claims::is_contested(owners, retention, &by_set, &by_pod) {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                    claim.name
                );
                self.context.events.warning(
                    COMPONENT,
                    self.involved_object(),
                    "ConflictingController",
                    message,
                );
            }
            let ClaimOwnerAction::Rewrite(heir) =
                claims::decide(owners, retention, (&by_set, &by_pod), scaled_away)
            else {
                continue;
            };
            let mut document = claim.value();
            let metadata = &mut document["metadata"];
            let kept = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
            let mut kept: Vec<_> =
                kept.into_iter().filter(|o| o["uid"] != *set.uid && o["uid"] != *uid).collect();
            match heir {
                ClaimOwner::Nobody => {}
                ClaimOwner::Set => kept.push(by_set.reference()),
                ClaimOwner::Pod => kept.push(by_pod.reference()),
            }
            metadata["ownerReferences"] = kept.into();
            let written =
                self.context.client.update(Component::ControllerManager, ObjectPart::Main, document).await;
            if let Err(error) = written {
                let words =
                    format!("could not update claim {} for delete policy ownerRefs: {error}", claim.name);
                let error = internal_error(words);
                self.record_pod_event("Update", &name, Some(&error));
                return Err(error);
            }
            changed = true;
        }
        Ok(changed)
    }

    /// Restores the labels that identify a pod by its ordinal.
    async fn repair_pod(&self, ordinal: i64) -> Result<(), ReconcileError> {
        let Some(object) = self.pods.get(&ordinal) else { return Ok(()) };
        let mut changed = self.update_claim_owners(ordinal, "").await?;
        let mut done = Ok(());
        if object.label(pod::NAME_LABEL) != Some(&object.name) {
            let mut document = object.value();
            pod::set_identity(&mut document, &object.name, ordinal);
            let update =
                self.context.client.update(Component::ControllerManager, ObjectPart::Main, document).await;
            done = update.map(drop).map_err(ReconcileError::from);
            changed = true;
        }
        if changed {
            self.record_pod_event("Update", &object.name, done.as_ref().err());
        }
        done
    }

    async fn delete(&self, ordinal: i64) -> Result<(), ReconcileError> {
        let Some(object) = self.pods.get(&ordinal) else { return Ok(()) };
        let key = Key::new(&PODS.into(), &object.namespace, &object.name);
        let this = Preconditions { uid: &object.uid, version: None };
        let deleted = ignore_not_found_or_conflict(
            self.context.client.delete(&key, this, Propagation::Background).await,
        );
        let deleted = deleted.map_err(ReconcileError::from);
        self.record_pod_event("Delete", &object.name, deleted.as_ref().err());
        deleted
    }

    fn involved_object(&self) -> InvolvedObject {
        InvolvedObject::new("apps/v1", "StatefulSet", self.owner.object)
    }

    fn record_pod_event(&self, verb: &'static str, pod: &str, error: Option<&ReconcileError>) {
        let what = format!("{verb} Pod {pod} in StatefulSet {}", self.set.metadata.name);
        match error {
            None => {
                self.context.events.normal(
                    COMPONENT,
                    self.involved_object(),
                    success_reason(verb),
                    format!("{what} successful"),
                );
            }
            Some(error) => {
                let words = format!("{what} failed error: {error}");
                self.context.events.warning(COMPONENT, self.involved_object(), failure_reason(verb), words);
            }
        }
    }

    fn record_claim_event(&self, claim: &str, ordinal: i64, error: Option<&ApiError>) {
        let set = &self.set.metadata.name;
        let pod = pod::pod_name(set, ordinal);
        match error {
            None => {
                let words = format!("Create Claim {claim} Pod {pod} in StatefulSet {set} success");
                self.context.events.normal(
                    COMPONENT,
                    self.involved_object(),
                    success_reason("Create"),
                    words,
                );
            }
            Some(error) if error.reason == "AlreadyExists" => {}
            Some(error) => {
                let words =
                    format!("Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}");
                self.context.events.warning(
                    COMPONENT,
                    self.involved_object(),
                    failure_reason("Create"),
                    words,
                );
            }
        }
    }
}

fn success_reason(verb: &str) -> &'static str {
    match verb {
        "Create" => "SuccessfulCreate",
        "Update" => "SuccessfulUpdate",
        _ => "SuccessfulDelete",
    }
}

fn failure_reason(verb: &str) -> &'static str {
    match verb {
        "Create" => "FailedCreate",
        "Update" => "FailedUpdate",
        _ => "FailedDelete",
    }
}

/// An internal error with this message.
fn internal_error(message: String) -> ReconcileError {
    ReconcileError::Api(ApiError::new(500, "", message))
}
