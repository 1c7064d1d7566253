//! The volume half of the persistent volume controller: phases, and the reclaim policy after the claim is deleted.

use std::sync::Arc;

use super::view::{CLAIMS, Claim, PROVISIONED_BY, VOLUMES, Volume};
use super::{COMPONENT, bind, matching};
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::{Context, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict};
use crate::store::{Event, EventKind, Key, Object};

#[derive(Debug, PartialEq, Eq)]
enum VolumeAction {
    Nothing,
    SetPhase(&'static str),
    /// Its claim is bound to another volume.
    Unbind,
    /// The claim and the volume do not match; Events go to both.
    Mismatch,
    /// Its claim is gone: the volume is released, then reclaimed.
    Reclaim(ReclaimAction),
}

#[derive(Debug, PartialEq, Eq)]
enum ReclaimAction {
    /// It is retained, or another component deletes it.
    Leave,
    Recycle,
    Delete,
    Fail(&'static str, String),
}

/// `claim` is the object that `claimRef` refers to, if it still exists with that uid.
fn decide(volume: &Volume, claim: Option<&Claim>) -> VolumeAction {
    let reference = volume.spec.claim_ref.as_ref();
    if reference.is_none_or(|reference| reference.uid.is_empty()) {
        return VolumeAction::SetPhase("Available");
    }
    let Some(claim) = claim else { return VolumeAction::Reclaim(reclaim(volume)) };
    match claim.spec.volume_name.as_str() {
        "" if !matching::same_mode(claim, volume) => VolumeAction::Mismatch,
        // The claim's side of the binding is not written yet.
        "" => VolumeAction::Nothing,
        name if name == volume.metadata.name => VolumeAction::SetPhase("Bound"),
        _ if volume.has_annotation(PROVISIONED_BY)
            && volume.spec.persistent_volume_reclaim_policy == "Delete" =>
        {
            VolumeAction::Reclaim(reclaim(volume))
        }
        _ => VolumeAction::Unbind,
    }
}

/// The action for a volume's reclaim policy. The controller itself can recycle two kinds of volumes and delete one.
fn reclaim(volume: &Volume) -> ReclaimAction {
    let name = &volume.metadata.name;
    let spec = &volume.spec;
    match spec.persistent_volume_reclaim_policy.as_str() {
        "Recycle" if spec.nfs.is_some() || spec.host_path.is_some() => ReclaimAction::Recycle,
        "Recycle" => {
            ReclaimAction::Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned())
        }
        "Delete" => {
            let maker = volume.metadata.annotations.get(PROVISIONED_BY).map_or("", String::as_str);
            let elsewhere = !maker.is_empty() && !maker.starts_with("kubernetes.io/");
            match &spec.host_path {
                _ if elsewhere || spec.csi.is_some() => ReclaimAction::Leave,
                Some(host) if host.path.strip_prefix("/tmp/").is_some_and(|rest| !rest.is_empty()) => {
                    ReclaimAction::Delete
                }
                Some(host) => ReclaimAction::Fail(
                    "VolumeFailedDelete",
                    format!("host_path deleter only supports /tmp/.+ but received provided {}", host.path),
                ),
                None => ReclaimAction::Fail(
                    "VolumeFailedDelete",
                    format!(
                        "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
                    ),
                ),
            }
        }
        _ => ReclaimAction::Leave,
    }
}

pub(super) struct Volumes;

impl Controller for Volumes {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = VOLUMES.into();
        let volumes = context.store.list(VOLUMES, None).objects;
        volumes.iter().map(|volume| Key::new(&storage, "", &volume.name)).collect()
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        match storage.as_ref() {
            VOLUMES => keys.push(Key::new(storage, "", &event.object.name)),
            // Volumes that name the deleted claim, whether or not it was bound to them.
            CLAIMS if event.kind == EventKind::Deleted => {
                let volumes = context.store.list(VOLUMES, None).objects;
                let of_claim = |volume: &Object| {
                    let reference = &volume.view::<Volume>().spec.claim_ref;
                    reference.as_ref().is_some_and(|claim| *claim.uid == *event.object.uid)
                };
                let freed = volumes.iter().filter(|volume| of_claim(volume));
                keys.extend(freed.map(|volume| Key::new(&VOLUMES.into(), "", &volume.name)));
            }
            CLAIMS => {
                let claim = event.object.view::<Claim>();
                let names = [claim.spec.volume_name.clone(), super::provisioned_name(&claim.metadata.uid)];
                let names = names.iter().filter(|name| !name.is_empty());
                keys.extend(names.map(|name| Key::new(&VOLUMES.into(), "", name)));
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(VOLUMES, "", &key.name) else { return Ok(Action::AwaitChange) };
        let volume = object.view::<Volume>();
        let reference = volume.spec.claim_ref.as_ref();
        let named = reference.and_then(|claim| context.store.get(CLAIMS, &claim.namespace, &claim.name));
        let claim = named.filter(|claim| reference.is_some_and(|reference| reference.uid == *claim.uid));
        match decide(&volume, claim.as_ref().map(|claim| claim.view::<Claim>()).as_deref()) {
            VolumeAction::Nothing => {}
            VolumeAction::SetPhase(phase) => drop(bind::set_volume_phase(context, &object, phase, "").await?),
            VolumeAction::Unbind => bind::unbind(context, &object).await?,
            VolumeAction::Mismatch => {
                if let Some(claim) = claim {
                    record_mismatch(context, &object, &claim);
                }
            }
            VolumeAction::Reclaim(reclaim) => self.reclaim(context, &object, reclaim).await?,
        }
        Ok(Action::AwaitChange)
    }
}

impl Volumes {
    async fn reclaim(
        &self,
        context: &Context,
        object: &Arc<Object>,
        reclaim: ReclaimAction,
    ) -> Result<(), ReconcileError> {
        let volume = object.view::<Volume>();
        if !matches!(volume.status.phase.as_str(), "Released" | "Failed") {
            // This write triggers another reconcile.
            return bind::set_volume_phase(context, object, "Released", "").await.map(drop);
        }
        let about = || InvolvedObject::new("v1", "PersistentVolume", object);
        match reclaim {
            ReclaimAction::Leave => Ok(()),
            ReclaimAction::Recycle => {
                context.events.normal(COMPONENT, about(), "VolumeRecycled", "Volume recycled");
                bind::unbind(context, object).await
            }
            ReclaimAction::Delete => {
                let key = Key::new(&VOLUMES.into(), "", &object.name);
                let this = Preconditions { uid: &object.uid, version: None };
                Ok(ignore_not_found_or_conflict(
                    context.client.delete(&key, this, Propagation::Background).await,
                )?)
            }
            ReclaimAction::Fail(..) if volume.status.phase == "Failed" => Ok(()),
            ReclaimAction::Fail(reason, message) => {
                bind::set_volume_phase(context, object, "Failed", &message).await?;
                context.events.warning(COMPONENT, about(), reason, message);
                Ok(())
            }
        }
    }
}

fn record_mismatch(context: &Context, volume: &Object, claim: &Object) {
    let words = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
        claim.name
    );
    let about = InvolvedObject::new("v1", "PersistentVolume", volume);
    context.events.warning(COMPONENT, about, "VolumeMismatch", words);
    let words = format!(
        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
        volume.name
    );
    let about = InvolvedObject::new("v1", "PersistentVolumeClaim", claim);
    context.events.warning(COMPONENT, about, "VolumeMismatch", words);
}
