//! The claim half of the persistent volume controller: binds each claim to a matching volume, or requests one from a provisioner.
//!
//! A claim that has been bound never gets another volume: without its volume it is lost.

use std::sync::Arc;

use super::view::{
    BIND_COMPLETED, CLAIMS, CLASSES, Claim, Class, PROVISIONER, SELECTED_NODE, VOLUMES, Volume, class,
};
use super::{COMPONENT, bind, matching, waiting_pods};
use crate::admission::defaults::default_storage_class;
use crate::control::events::{About, Kind};
use crate::control::queue::{Controller, Next};
use crate::control::{Component, Context, Failure, Part};
use crate::store::{Event, EventKind, Key, Object};

/// In-tree provisioners, and the CSI drivers that replace them.
#[rustfmt::skip]
const MOVED: &[(&str, &str)] = &[
    ("kubernetes.io/aws-ebs",         "ebs.csi.aws.com"),
    ("kubernetes.io/azure-disk",      "disk.csi.azure.com"),
    ("kubernetes.io/azure-file",      "file.csi.azure.com"),
    ("kubernetes.io/cinder",          "cinder.csi.openstack.org"),
    ("kubernetes.io/gce-pd",          "pd.csi.storage.gke.io"),
    ("kubernetes.io/portworx-volume", "pxd.portworx.com"),
    ("kubernetes.io/vsphere-volume",  "csi.vsphere.vmware.com"),
];

/// An Event about a claim.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    kind: Kind,
    reason: &'static str,
    message: String,
}

fn normal(reason: &'static str, message: impl Into<String>) -> Note {
    Note { kind: Kind::Normal, reason, message: message.into() }
}

fn warning(reason: &'static str, message: impl Into<String>) -> Note {
    Note { kind: Kind::Warning, reason, message: message.into() }
}

/// The observed state that a decision about a claim needs.
#[derive(Default)]
struct Seen {
    /// The volume that the claim names.
    named: Option<Arc<Volume>>,
    /// The best match for a claim without `volumeName`.
    best: Option<Arc<Volume>>,
    class: Option<Arc<Class>>,
    default_class: Option<String>,
    /// Pods that use the claim and are not scheduled yet.
    waiting: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Bind the claim to this volume.
    Bind(String),
    /// Set the default class.
    Classify(String),
    /// Request a volume from this provisioner.
    Provision(String),
    /// Nothing to do now.
    Wait(Option<Note>),
    /// The claim is lost.
    Lose(Note),
}

/// Decides what to do about a claim. Pure: no I/O, no clock.
fn decide(claim: &Claim, seen: &Seen) -> Step {
    if claim.is_annotated(BIND_COMPLETED) {
        return decide_bound(claim, seen);
    }
    if claim.spec.volume_name.is_empty() {
        return decide_free(claim, seen);
    }
    let Some(volume) = &seen.named else { return Step::Wait(None) };
    let name = &volume.metadata.name;
    if volume.is_for(claim) {
        return Step::Bind(name.clone());
    }
    if volume.spec.claim_ref.is_some() {
        let words = format!("volume {name:?} already bound to a different claim.");
        return Step::Wait(Some(warning("FailedBinding", words)));
    }
    match matching::objection(claim, volume) {
        None => Step::Bind(name.clone()),
        Some(why) => {
            let words = format!("Cannot bind to requested volume {name:?}: {why}");
            Step::Wait(Some(warning("VolumeMismatch", words)))
        }
    }
}

fn decide_bound(claim: &Claim, seen: &Seen) -> Step {
    if claim.spec.volume_name.is_empty() {
        let words = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return Step::Lose(warning("ClaimLost", words));
    }
    let Some(volume) = &seen.named else {
        let words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return Step::Lose(warning("ClaimLost", words));
    };
    match &volume.spec.claim_ref {
        Some(other) if other.uid != claim.metadata.uid => {
            let words = "Two claims are bound to the same volume, this one is bound incorrectly";
            Step::Lose(warning("ClaimMisbound", words))
        }
        _ => Step::Bind(volume.metadata.name.clone()),
    }
}

fn decide_free(claim: &Claim, seen: &Seen) -> Step {
    if let Some(volume) = &seen.best {
        return Step::Bind(volume.metadata.name.clone());
    }
    if let Some(class) = &seen.default_class
        && !claim.has_class()
    {
        return Step::Classify(class.clone());
    }
    let class = seen.class.as_ref();
    if class.is_some_and(|class| class.waits()) && !claim.is_annotated(SELECTED_NODE) {
        return Step::Wait(Some(match seen.waiting.as_slice() {
            [] => normal("WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
            [pod] => normal("WaitForPodScheduled", format!("waiting for pod {pod} to be scheduled")),
            pods => {
                normal("WaitForPodScheduled", format!("waiting for pods {} to be scheduled", pods.join(",")))
            }
        }));
    }
    let name = claim.class();
    if name.is_empty() {
        let words = "no persistent volumes available for this claim and no storage class is set";
        return Step::Wait(Some(normal("FailedBinding", words)));
    }
    let Some(class) = class else {
        let words = format!("storageclass.storage.k8s.io {name:?} not found");
        return Step::Wait(Some(warning("ProvisioningFailed", words)));
    };
    let provisioner = class.provisioner.as_str();
    match MOVED.iter().find(|(old, _)| *old == provisioner) {
        Some((_, driver)) => Step::Provision((*driver).to_owned()),
        None if provisioner.starts_with("kubernetes.io/") => {
            let words = format!("no volume plugin matched name: {provisioner}");
            Step::Wait(Some(warning("ProvisioningFailed", words)))
        }
        None => Step::Provision(provisioner.to_owned()),
    }
}

fn see(context: &Context, claim: &Claim) -> Seen {
    let named = match claim.spec.volume_name.as_str() {
        "" => None,
        name => context.store.get(VOLUMES, "", name).map(|volume| volume.view::<Volume>()),
    };
    if claim.is_annotated(BIND_COMPLETED) || !claim.spec.volume_name.is_empty() {
        return Seen { named, ..Seen::default() };
    }
    let class = class(context, claim.class());
    let delayed = class.as_ref().is_some_and(|class| class.waits());
    let volumes = context.store.list(VOLUMES, None).objects;
    let best = matching::best(claim, volumes.iter().map(|volume| volume.view::<Volume>()), delayed);
    let default_class = if claim.has_class() { None } else { default_storage_class(&context.store) };
    let waiting = if delayed && best.is_none() { waiting_pods(context, claim) } else { Vec::new() };
    Seen { named, best, class, default_class, waiting }
}

pub(super) struct Claims;

impl Controller for Claims {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = CLAIMS.into();
        let claims = context.store.list(CLAIMS, None).objects;
        claims.iter().map(|claim| Key::new(&storage, &claim.namespace, &claim.name)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let claims: Arc<str> = CLAIMS.into();
        match storage.as_ref() {
            CLAIMS if event.kind != EventKind::Deleted => {
                keys.push(Key::new(&claims, &event.object.namespace, &event.object.name));
            }
            VOLUMES => {
                let volume = event.object.view::<Volume>();
                if let Some(claim) = &volume.spec.claim_ref {
                    keys.push(Key::new(&claims, &claim.namespace, &claim.name));
                } else if volume.status.phase == "Available" || event.kind == EventKind::Deleted {
                    keys.extend(unbound(context));
                }
            }
            CLASSES if event.kind != EventKind::Deleted => keys.extend(unbound(context)),
            _ => {}
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(CLAIMS, &key.namespace, &key.name) else {
            return Ok(Next::Rest);
        };
        let claim = object.view::<Claim>();
        match decide(&claim, &see(context, &claim)) {
            Step::Bind(volume) => {
                if let Some(volume) = context.store.get(VOLUMES, "", &volume) {
                    bind::bind(context, &volume, &object).await?;
                }
            }
            Step::Classify(class) => {
                let mut document = object.value();
                document["spec"]["storageClassName"] = class.into();
                context.actor.update(Component::ControllerManager, Part::Main, document).await?;
            }
            Step::Provision(provisioner) => provision(context, &object, &provisioner).await?,
            Step::Wait(note) => {
                if let Some(note) = note {
                    tell(context, &object, note);
                }
                bind::set_claim_phase(context, &object, "Pending", None).await?;
            }
            Step::Lose(note) => {
                if claim.status.phase != "Lost" {
                    bind::set_claim_phase(context, &object, "Lost", None).await?;
                    tell(context, &object, note);
                }
            }
        }
        Ok(Next::Rest)
    }
}

/// Returns the claims that are not bound yet.
fn unbound(context: &Context) -> Vec<Key> {
    let storage: Arc<str> = CLAIMS.into();
    let claims = context.store.list(CLAIMS, None).objects;
    let unbound = claims.iter().filter(|claim| !claim.view::<Claim>().is_annotated(BIND_COMPLETED));
    unbound.map(|claim| Key::new(&storage, &claim.namespace, &claim.name)).collect()
}

/// Requests a volume by annotation from the named provisioner.
async fn provision(context: &Context, object: &Object, provisioner: &str) -> Result<(), Failure> {
    let mut document = object.value();
    let annotations = &mut document["metadata"]["annotations"];
    let asked = PROVISIONER.iter().all(|key| annotations[*key] == provisioner);
    if !asked {
        for key in PROVISIONER {
            annotations[key] = provisioner.into();
        }
        context.actor.update(Component::ControllerManager, Part::Main, document).await?;
    }
    let words = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    tell(context, object, normal("ExternalProvisioning", words));
    Ok(())
}

fn tell(context: &Context, object: &Object, note: Note) {
    let about = About::new("v1", "PersistentVolumeClaim", object);
    let Note { kind, reason, message } = note;
    match kind {
        Kind::Normal => context.events.normal(COMPONENT, about, reason, message),
        Kind::Warning => context.events.warning(COMPONENT, about, reason, message),
    }
}
