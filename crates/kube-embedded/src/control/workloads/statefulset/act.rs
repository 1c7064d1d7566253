//! Executes the steps of a StatefulSet's plan through the API; each records an Event.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::claims::{self, Candidate, Heir, Verdict};
use super::plan::Step;
use super::view::{StatefulSet, ordinal_of};
use super::{Versions, pod};
use crate::control::events::About;
use crate::control::volumes::view::{CLAIMS, Claim};
use crate::control::workloads::pods::{Owner, PODS};
use crate::control::workloads::revisions::Revision;
use crate::control::{Component, Context, Failure, Part, Preconditions, Propagation, settled};
use crate::error::ApiError;
use crate::store::{Key, Object};

const COMPONENT: &str = "statefulset-controller";

pub(super) struct Work<'a> {
    context: &'a Context,
    owner: &'a Owner<'a>,
    set: &'a StatefulSet,
    versions: &'a Versions,
    pods: BTreeMap<i64, Arc<Object>>,
}

impl<'a> Work<'a> {
    pub(super) fn new(
        context: &'a Context,
        owner: &'a Owner<'a>,
        set: &'a StatefulSet,
        versions: &'a Versions,
        pods: &[Arc<Object>],
    ) -> Self {
        let numbered = |pod: &Arc<Object>| Some((ordinal_of(&set.metadata.name, &pod.name)?, pod.clone()));
        Self { context, owner, set, versions, pods: pods.iter().filter_map(numbered).collect() }
    }

    pub(super) async fn act(&self, step: Step) -> Result<(), Failure> {
        match step {
            Step::Create(ordinal) => self.create(ordinal).await,
            Step::Furnish(ordinal) => {
                self.furnish(ordinal).await?;
                self.settle_claims(ordinal, "").await.map(drop)
            }
            Step::Mend(ordinal) => self.mend(ordinal).await,
            Step::Condemn(ordinal) => self.settle_claims(ordinal, "").await.map(drop),
            Step::Delete(ordinal) | Step::Replace(ordinal) => self.delete(ordinal).await,
        }
    }

    async fn create(&self, ordinal: i64) -> Result<(), Failure> {
        let name = pod::pod_name(&self.set.metadata.name, ordinal);
        let retention = self.set.spec.persistent_volume_claim_retention_policy;
        let stale = |claim: Arc<Object>| {
            claims::is_stale(&claim.view::<Claim>().metadata.owner_references, retention, &name)
        };
        if self.claims(ordinal).any(|(_, claim)| claim.is_some_and(stale)) {
            return Ok(());
        }
        if let Err(error) = self.furnish(ordinal).await {
            self.tell_pod("Create", &name, Some(&error));
            return Err(error);
        }
        let version =
            if ordinal < self.set.first_made_new() { &self.versions.current } else { &self.versions.update };
        let template = version.view::<Revision>().template();
        let document = pod::pod(self.owner, self.set, (&version.name, &template), ordinal);
        let created = self.context.actor.create(Component::ControllerManager, document).await;
        if let Err(error) = &created
            && error.reason == "AlreadyExists"
        {
            // A pod of another owner has the name: wait without an Event.
            return Err(error.clone().into());
        }
        let uid = created.as_ref().map_or_else(|_| String::new(), |pod| pod.uid.to_string());
        self.settle_claims(ordinal, &uid).await?;
        let created = created.map(drop).map_err(Failure::from);
        self.tell_pod("Create", &name, created.as_ref().err());
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
    async fn furnish(&self, ordinal: i64) -> Result<(), Failure> {
        for (template, found) in self.claims(ordinal).collect::<Vec<_>>() {
            let name = pod::claim_name(template, &self.set.metadata.name, ordinal);
            match found {
                Some(claim) if claim.deleting => {
                    return Err(refusal(format!("pvc {name} is being deleted")));
                }
                Some(_) => {}
                None => {
                    let document = pod::claim(self.set, template, ordinal);
                    let made = self.context.actor.create(Component::ControllerManager, document).await;
                    self.tell_claim(&name, ordinal, made.as_ref().err());
                    if let Err(error) = made {
                        return Err(refusal(format!("failed to create PVC {name}: {error}")));
                    }
                }
            }
        }
        Ok(())
    }

    /// Sets the owner references of a pod's claims; `uid` is that of a pod created just now. Returns whether
    /// anything was written.
    async fn settle_claims(&self, ordinal: i64, uid: &str) -> Result<bool, Failure> {
        let set = &self.set.metadata;
        let retention = self.set.spec.persistent_volume_claim_retention_policy;
        let name = pod::pod_name(&set.name, ordinal);
        let uid = self.pods.get(&ordinal).map_or(uid, |pod| &pod.uid);
        let by_set =
            Candidate { api_version: "apps/v1", kind: "StatefulSet", name: &set.name, uid: &set.uid };
        let by_pod = Candidate { api_version: "v1", kind: "Pod", name: &name, uid };
        let scaled_away = !self.set.ordinals().contains(&ordinal);
        let mut changed = false;
        for claim in self.claims(ordinal).filter_map(|(_, claim)| claim).collect::<Vec<_>>() {
            let owners = &claim.view::<Claim>().metadata.owner_references;
            if claims::is_contested(owners, retention, &by_set, &by_pod) {
                let message = format!(
                    "PersistentVolumeClaim {} has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim",
                    claim.name
                );
                self.context.events.warning(COMPONENT, self.about(), "ConflictingController", message);
            }
            let Verdict::Rewrite(heir) = claims::judge(owners, retention, (&by_set, &by_pod), scaled_away)
            else {
                continue;
            };
            let mut document = claim.value();
            let metadata = &mut document["metadata"];
            let kept = metadata["ownerReferences"].as_array().cloned().unwrap_or_default();
            let mut kept: Vec<_> =
                kept.into_iter().filter(|o| o["uid"] != *set.uid && o["uid"] != *uid).collect();
            match heir {
                Heir::Nobody => {}
                Heir::Set => kept.push(by_set.reference()),
                Heir::Pod => kept.push(by_pod.reference()),
            }
            metadata["ownerReferences"] = kept.into();
            let written = self.context.actor.update(Component::ControllerManager, Part::Main, document).await;
            if let Err(error) = written {
                let words =
                    format!("could not update claim {} for delete policy ownerRefs: {error}", claim.name);
                let error = refusal(words);
                self.tell_pod("Update", &name, Some(&error));
                return Err(error);
            }
            changed = true;
        }
        Ok(changed)
    }

    /// Restores the labels that identify a pod by its ordinal.
    async fn mend(&self, ordinal: i64) -> Result<(), Failure> {
        let Some(object) = self.pods.get(&ordinal) else { return Ok(()) };
        let mut changed = self.settle_claims(ordinal, "").await?;
        let mut done = Ok(());
        if object.label(pod::NAME_LABEL) != Some(&object.name) {
            let mut document = object.value();
            pod::mark(&mut document, &object.name, ordinal);
            let update = self.context.actor.update(Component::ControllerManager, Part::Main, document).await;
            done = update.map(drop).map_err(Failure::from);
            changed = true;
        }
        if changed {
            self.tell_pod("Update", &object.name, done.as_ref().err());
        }
        done
    }

    async fn delete(&self, ordinal: i64) -> Result<(), Failure> {
        let Some(object) = self.pods.get(&ordinal) else { return Ok(()) };
        let key = Key::new(&PODS.into(), &object.namespace, &object.name);
        let this = Preconditions { uid: &object.uid, version: None };
        let deleted = settled(self.context.actor.delete(&key, this, Propagation::Background).await);
        let deleted = deleted.map_err(Failure::from);
        self.tell_pod("Delete", &object.name, deleted.as_ref().err());
        deleted
    }

    fn about(&self) -> About {
        About::new("apps/v1", "StatefulSet", self.owner.object)
    }

    fn tell_pod(&self, verb: &'static str, pod: &str, error: Option<&Failure>) {
        let what = format!("{verb} Pod {pod} in StatefulSet {}", self.set.metadata.name);
        match error {
            None => {
                self.context.events.normal(COMPONENT, self.about(), good(verb), format!("{what} successful"));
            }
            Some(error) => {
                let words = format!("{what} failed error: {error}");
                self.context.events.warning(COMPONENT, self.about(), bad(verb), words);
            }
        }
    }

    fn tell_claim(&self, claim: &str, ordinal: i64, error: Option<&ApiError>) {
        let set = &self.set.metadata.name;
        let pod = pod::pod_name(set, ordinal);
        match error {
            None => {
                let words = format!("Create Claim {claim} Pod {pod} in StatefulSet {set} success");
                self.context.events.normal(COMPONENT, self.about(), good("Create"), words);
            }
            Some(error) if error.reason == "AlreadyExists" => {}
            Some(error) => {
                let words =
                    format!("Create Claim {claim} for Pod {pod} in StatefulSet {set} failed error: {error}");
                self.context.events.warning(COMPONENT, self.about(), bad("Create"), words);
            }
        }
    }
}

fn good(verb: &str) -> &'static str {
    match verb {
        "Create" => "SuccessfulCreate",
        "Update" => "SuccessfulUpdate",
        _ => "SuccessfulDelete",
    }
}

fn bad(verb: &str) -> &'static str {
    match verb {
        "Create" => "FailedCreate",
        "Update" => "FailedUpdate",
        _ => "FailedDelete",
    }
}

/// An internal error with this message.
fn refusal(message: String) -> Failure {
    Failure::Api(ApiError::new(500, "", message))
}
