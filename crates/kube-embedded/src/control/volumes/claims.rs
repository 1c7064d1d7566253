//! The claim half of the persistent volume controller: binds each claim to a matching volume, or requests one from a provisioner.
//!
//! A claim that has been bound never gets another volume: without its volume it is lost.

use std::sync::Arc;

use super::view::{
    BIND_COMPLETED, CLAIMS, CLASSES, Claim, PROVISIONER, SELECTED_NODE, StorageClass, VOLUMES, Volume, class,
};
use super::{COMPONENT, bind, matching, unscheduled_pods};
use crate::admission::defaults::default_storage_class;
use crate::control::events::{EventType, InvolvedObject};
use crate::control::queue::{Action, Controller};
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::store::{Event, EventKind, Key, Object};

/// In-tree provisioners, and the CSI drivers that replace them.
#[rustfmt::skip]
const MIGRATED_PROVISIONERS: &[(&str, &str)] = &[
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
struct ClaimEvent {
    kind: EventType,
    reason: &'static str,
    message: String,
}

fn normal(reason: &'static str, message: impl Into<String>) -> ClaimEvent {
    ClaimEvent { kind: EventType::Normal, reason, message: message.into() }
}

fn warning(reason: &'static str, message: impl Into<String>) -> ClaimEvent {
    ClaimEvent { kind: EventType::Warning, reason, message: message.into() }
}

/// The observed state that a decision about a claim needs.
#[derive(Default)]
struct ClaimObservation {
    /// The volume that the claim names.
    named_volume: Option<Arc<Volume>>,
    /// The best match for a claim without `volumeName`.
    best_match: Option<Arc<Volume>>,
    class: Option<Arc<StorageClass>>,
    default_class: Option<String>,
    /// Pods that use the claim and are not scheduled yet.
    waiting_pods: Vec<String>,
}

#[derive(Debug, PartialEq, Eq)]
enum ClaimAction {
    /// Bind the claim to this volume.
    Bind(String),
    /// Set the default class.
    SetDefaultClass(String),
    /// Request a volume from this provisioner.
    Provision(String),
    /// Nothing to do now.
    Wait(Option<ClaimEvent>),
    /// The claim is lost.
    MarkLost(ClaimEvent),
}

/// Decides what to do about a claim. Pure: no I/O, no clock.
fn decide(claim: &Claim, observed: &ClaimObservation) -> ClaimAction {
    if claim.has_annotation(BIND_COMPLETED) {
        return decide_bound(claim, observed);
    }
    if claim.spec.volume_name.is_empty() {
        return decide_unbound(claim, observed);
    }
    let Some(volume) = &observed.named_volume else { return ClaimAction::Wait(None) };
    let name = &volume.metadata.name;
    if volume.is_for(claim) {
        return ClaimAction::Bind(name.clone());
    }
    if volume.spec.claim_ref.is_some() {
        let words = format!("volume {name:?} already bound to a different claim.");
        return ClaimAction::Wait(Some(warning("FailedBinding", words)));
    }
    match matching::mismatch_reason(claim, volume) {
        None => ClaimAction::Bind(name.clone()),
        Some(why) => {
            let words = format!("Cannot bind to requested volume {name:?}: {why}");
            ClaimAction::Wait(Some(warning("VolumeMismatch", words)))
        }
    }
}

fn decide_bound(claim: &Claim, observed: &ClaimObservation) -> ClaimAction {
    if claim.spec.volume_name.is_empty() {
        let words = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return ClaimAction::MarkLost(warning("ClaimLost", words));
    }
    let Some(volume) = &observed.named_volume else {
        let words = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return ClaimAction::MarkLost(warning("ClaimLost", words));
    };
    match &volume.spec.claim_ref {
        Some(other) if other.uid != claim.metadata.uid => {
            let words = "Two claims are bound to the same volume, this one is bound incorrectly";
            ClaimAction::MarkLost(warning("ClaimMisbound", words))
        }
        _ => ClaimAction::Bind(volume.metadata.name.clone()),
    }
}

fn decide_unbound(claim: &Claim, observed: &ClaimObservation) -> ClaimAction {
    if let Some(volume) = &observed.best_match {
        return ClaimAction::Bind(volume.metadata.name.clone());
    }
    if let Some(class) = &observed.default_class
        && !claim.has_class()
    {
        return ClaimAction::SetDefaultClass(class.clone());
    }
    let class = observed.class.as_ref();
    if class.is_some_and(|class| class.waits_for_consumer()) && !claim.has_annotation(SELECTED_NODE) {
        return ClaimAction::Wait(Some(match observed.waiting_pods.as_slice() {
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
        return ClaimAction::Wait(Some(normal("FailedBinding", words)));
    }
    let Some(class) = class else {
        let words = format!("storageclass.storage.k8s.io {name:?} not found");
        return ClaimAction::Wait(Some(warning("ProvisioningFailed", words)));
    };
    let provisioner = class.provisioner.as_str();
    match MIGRATED_PROVISIONERS.iter().find(|(old, _)| *old == provisioner) {
        Some((_, driver)) => ClaimAction::Provision((*driver).to_owned()),
        None if provisioner.starts_with("kubernetes.io/") => {
            let words = format!("no volume plugin matched name: {provisioner}");
            ClaimAction::Wait(Some(warning("ProvisioningFailed", words)))
        }
        None => ClaimAction::Provision(provisioner.to_owned()),
    }
}

fn observe(context: &Context, claim: &Claim) -> ClaimObservation {
    let named = match claim.spec.volume_name.as_str() {
        "" => None,
        name => context.store.get(VOLUMES, "", name).map(|volume| volume.view::<Volume>()),
    };
    if claim.has_annotation(BIND_COMPLETED) || !claim.spec.volume_name.is_empty() {
        return ClaimObservation { named_volume: named, ..ClaimObservation::default() };
    }
    let class = class(context, claim.class());
    let delayed = class.as_ref().is_some_and(|class| class.waits_for_consumer());
    let volumes = context.store.list(VOLUMES, None).objects;
    let best = matching::best_match(claim, volumes.iter().map(|volume| volume.view::<Volume>()), delayed);
    let default_class = if claim.has_class() { None } else { default_storage_class(&context.store) };
    let waiting = if delayed && best.is_none() { unscheduled_pods(context, claim) } else { Vec::new() };
    ClaimObservation { named_volume: named, best_match: best, class, default_class, waiting_pods: waiting }
}

pub(super) struct Claims;

impl Controller for Claims {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = CLAIMS.into();
        let claims = context.store.list(CLAIMS, None).objects;
        claims.iter().map(|claim| Key::new(&storage, &claim.namespace, &claim.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
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
                    keys.extend(unbound_claims(context));
                }
            }
            CLASSES if event.kind != EventKind::Deleted => keys.extend(unbound_claims(context)),
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(CLAIMS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let claim = object.view::<Claim>();
        match decide(&claim, &observe(context, &claim)) {
            ClaimAction::Bind(volume) => {
                if let Some(volume) = context.store.get(VOLUMES, "", &volume) {
                    bind::bind(context, &volume, &object).await?;
                }
            }
            ClaimAction::SetDefaultClass(class) => {
                let mut document = object.value();
                document["spec"]["storageClassName"] = class.into();
                context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?;
            }
            ClaimAction::Provision(provisioner) => provision(context, &object, &provisioner).await?,
            ClaimAction::Wait(note) => {
                if let Some(note) = note {
                    record_event(context, &object, note);
                }
                bind::set_claim_phase(context, &object, "Pending", None).await?;
            }
            ClaimAction::MarkLost(note) => {
                if claim.status.phase != "Lost" {
                    bind::set_claim_phase(context, &object, "Lost", None).await?;
                    record_event(context, &object, note);
                }
            }
        }
        Ok(Action::AwaitChange)
    }
}

/// Returns the claims that are not bound yet.
fn unbound_claims(context: &Context) -> Vec<Key> {
    let storage: Arc<str> = CLAIMS.into();
    let claims = context.store.list(CLAIMS, None).objects;
    let unbound = claims.iter().filter(|claim| !claim.view::<Claim>().has_annotation(BIND_COMPLETED));
    unbound.map(|claim| Key::new(&storage, &claim.namespace, &claim.name)).collect()
}

/// Requests a volume by annotation from the named provisioner.
async fn provision(context: &Context, object: &Object, provisioner: &str) -> Result<(), ReconcileError> {
    let mut document = object.value();
    let annotations = &mut document["metadata"]["annotations"];
    let asked = PROVISIONER.iter().all(|key| annotations[*key] == provisioner);
    if !asked {
        for key in PROVISIONER {
            annotations[key] = provisioner.into();
        }
        context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?;
    }
    let words = format!(
        "Waiting for a volume to be created either by the external provisioner '{provisioner}' or manually by the system administrator. If volume creation is delayed, please verify that the provisioner is running and correctly registered."
    );
    record_event(context, object, normal("ExternalProvisioning", words));
    Ok(())
}

fn record_event(context: &Context, object: &Object, note: ClaimEvent) {
    let about = InvolvedObject::new("v1", "PersistentVolumeClaim", object);
    let ClaimEvent { kind, reason, message } = note;
    match kind {
        EventType::Normal => context.events.normal(COMPONENT, about, reason, message),
        EventType::Warning => context.events.warning(COMPONENT, about, reason, message),
    }
}
