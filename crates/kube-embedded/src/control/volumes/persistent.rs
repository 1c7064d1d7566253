//! The volume half of the persistent volume controller: phases, and the reclaim policy after the claim is deleted.

use std::sync::Arc;

use super::view::{CLAIMS, Claim, PROVISIONED_BY, VOLUMES, Volume};
use super::{COMPONENT, bind, matching};
use crate::control::events::About;
use crate::control::queue::{Controller, Next};
use crate::control::{Context, Failure, Preconditions, Propagation, settled};
use crate::store::{Event, EventKind, Key, Object};

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Rest,
    Phase(&'static str),
    /// Its claim is bound to another volume.
    Unbind,
    /// The claim and the volume do not match; Events go to both.
    Mismatch,
    /// Its claim is gone: the volume is released, then reclaimed.
    Reclaim(Reclaim),
}

#[derive(Debug, PartialEq, Eq)]
enum Reclaim {
    /// It is retained, or another component deletes it.
    Leave,
    Recycle,
    Delete,
    Fail(&'static str, String),
}

/// `claim` is the object that `claimRef` refers to, if it still exists with that uid.
fn decide(volume: &Volume, claim: Option<&Claim>) -> Step {
    let reference = volume.spec.claim_ref.as_ref();
    if reference.is_none_or(|reference| reference.uid.is_empty()) {
        return Step::Phase("Available");
    }
    let Some(claim) = claim else { return Step::Reclaim(reclaim(volume)) };
    match claim.spec.volume_name.as_str() {
        "" if !matching::same_mode(claim, volume) => Step::Mismatch,
        // The claim's side of the binding is not written yet.
        "" => Step::Rest,
        name if name == volume.metadata.name => Step::Phase("Bound"),
        _ if volume.is_annotated(PROVISIONED_BY)
            && volume.spec.persistent_volume_reclaim_policy == "Delete" =>
        {
            Step::Reclaim(reclaim(volume))
        }
        _ => Step::Unbind,
    }
}

/// The action for a volume's reclaim policy. The controller itself can recycle two kinds of volumes and delete one.
fn reclaim(volume: &Volume) -> Reclaim {
    let name = &volume.metadata.name;
    let spec = &volume.spec;
    match spec.persistent_volume_reclaim_policy.as_str() {
        "Recycle" if spec.nfs.is_some() || spec.host_path.is_some() => Reclaim::Recycle,
        "Recycle" => {
            Reclaim::Fail("VolumeFailedRecycle", "No recycler plugin found for the volume!".to_owned())
        }
        "Delete" => {
            let maker = volume.metadata.annotations.get(PROVISIONED_BY).map_or("", String::as_str);
            let elsewhere = !maker.is_empty() && !maker.starts_with("kubernetes.io/");
            match &spec.host_path {
                _ if elsewhere || spec.csi.is_some() => Reclaim::Leave,
                Some(host) if host.path.strip_prefix("/tmp/").is_some_and(|rest| !rest.is_empty()) => {
                    Reclaim::Delete
                }
                Some(host) => Reclaim::Fail(
                    "VolumeFailedDelete",
                    format!("host_path deleter only supports /tmp/.+ but received provided {}", host.path),
                ),
                None => Reclaim::Fail(
                    "VolumeFailedDelete",
                    format!(
                        "error getting deleter volume plugin for volume {name:?}: no deletable volume plugin matched"
                    ),
                ),
            }
        }
        _ => Reclaim::Leave,
    }
}

pub(super) struct Volumes;

impl Controller for Volumes {
    fn everything(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = VOLUMES.into();
        let volumes = context.store.list(VOLUMES, None).objects;
        volumes.iter().map(|volume| Key::new(&storage, "", &volume.name)).collect()
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
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

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let Some(object) = context.store.get(VOLUMES, "", &key.name) else { return Ok(Next::Rest) };
        let volume = object.view::<Volume>();
        let reference = volume.spec.claim_ref.as_ref();
        let named = reference.and_then(|claim| context.store.get(CLAIMS, &claim.namespace, &claim.name));
        let claim = named.filter(|claim| reference.is_some_and(|reference| reference.uid == *claim.uid));
        match decide(&volume, claim.as_ref().map(|claim| claim.view::<Claim>()).as_deref()) {
            Step::Rest => {}
            Step::Phase(phase) => drop(bind::set_volume_phase(context, &object, phase, "").await?),
            Step::Unbind => bind::unbind(context, &object).await?,
            Step::Mismatch => {
                if let Some(claim) = claim {
                    tell_mismatch(context, &object, &claim);
                }
            }
            Step::Reclaim(reclaim) => self.reclaim(context, &object, reclaim).await?,
        }
        Ok(Next::Rest)
    }
}

impl Volumes {
    async fn reclaim(
        &self,
        context: &Context,
        object: &Arc<Object>,
        reclaim: Reclaim,
    ) -> Result<(), Failure> {
        let volume = object.view::<Volume>();
        if !matches!(volume.status.phase.as_str(), "Released" | "Failed") {
            // This write triggers another reconcile.
            return bind::set_volume_phase(context, object, "Released", "").await.map(drop);
        }
        let about = || About::new("v1", "PersistentVolume", object);
        match reclaim {
            Reclaim::Leave => Ok(()),
            Reclaim::Recycle => {
                context.events.normal(COMPONENT, about(), "VolumeRecycled", "Volume recycled");
                bind::unbind(context, object).await
            }
            Reclaim::Delete => {
                let key = Key::new(&VOLUMES.into(), "", &object.name);
                let this = Preconditions { uid: &object.uid, version: None };
                Ok(settled(context.actor.delete(&key, this, Propagation::Background).await)?)
            }
            Reclaim::Fail(..) if volume.status.phase == "Failed" => Ok(()),
            Reclaim::Fail(reason, message) => {
                bind::set_volume_phase(context, object, "Failed", &message).await?;
                context.events.warning(COMPONENT, about(), reason, message);
                Ok(())
            }
        }
    }
}

fn tell_mismatch(context: &Context, volume: &Object, claim: &Object) {
    let words = format!(
        "Cannot bind PersistentVolume to requested PersistentVolumeClaim {:?} due to incompatible volumeMode.",
        claim.name
    );
    let about = About::new("v1", "PersistentVolume", volume);
    context.events.warning(COMPONENT, about, "VolumeMismatch", words);
    let words = format!(
        "Cannot bind PersistentVolume {:?} to requested PersistentVolumeClaim due to incompatible volumeMode.",
        volume.name
    );
    let about = About::new("v1", "PersistentVolumeClaim", claim);
    context.events.warning(COMPONENT, about, "VolumeMismatch", words);
}
