//! The simulated volume provisioner: creates, resizes and deletes volumes without content.
//!
//! It serves claims whose class names it, as the external provisioner of a CSI driver does: it writes a PersistentVolume for
//! the claim and leaves the binding to the volume controllers. A new cluster has one StorageClass for it, which is the
//! default.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::volumes::view::{
    BIND_COMPLETED, CLAIMS, Claim, PROVISIONED_BY, PROVISIONER, SELECTED_NODE, StorageClass, VOLUMES, Volume,
    class,
};
use crate::control::volumes::{claim_ref, provisioned_name};
use crate::control::{
    Component, Context, ObjectPart, Preconditions, Propagation, ReconcileError, ignore_not_found_or_conflict,
};
use crate::store::{Event, EventKind, Key, Object};

/// The provisioner's name in classes, annotations and Events.
pub const NAME: &str = "sim.longshore.dev/volume";
/// The driver's name in volumes, where a slash is not allowed.
const DRIVER: &str = "sim.longshore.dev";
/// The Event source of volume resizing.
const EXPANDER: &str = "volume_expand";

/// The default StorageClass of a simulated cluster.
pub fn standard_class() -> Value {
    json!({
        "kind": "StorageClass", "apiVersion": "storage.k8s.io/v1",
        "metadata": {
            "name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": NAME, "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate",
        "allowVolumeExpansion": true,
    })
}

#[derive(Debug, PartialEq, Eq)]
enum ProvisionerAction {
    Nothing,
    Provision,
    Expand,
}

/// Decides the provisioner's next step for a claim. Pure: no I/O, no clock.
fn decide(claim: &Claim, class: Option<&StorageClass>, volume: Option<&Volume>) -> ProvisionerAction {
    let asked = claim.metadata.annotations.get(PROVISIONER[0]).is_some_and(|name| name == NAME);
    if !claim.has_annotation(BIND_COMPLETED) {
        let placed =
            class.is_some_and(|class| !class.waits_for_consumer() || claim.has_annotation(SELECTED_NODE));
        let free = claim.spec.volume_name.is_empty() && volume.is_none() && !claim.metadata.is_deleting();
        return if asked && placed && free {
            ProvisionerAction::Provision
        } else {
            ProvisionerAction::Nothing
        };
    }
    let ours = volume.is_some_and(is_own_volume);
    if ours && claim.status.phase == "Bound" && claim.request() > claim.capacity() {
        return ProvisionerAction::Expand;
    }
    ProvisionerAction::Nothing
}

fn is_own_volume(volume: &Volume) -> bool {
    volume.metadata.annotations.get(PROVISIONED_BY).is_some_and(|name| name == NAME)
}

/// Builds the volume for a claim. It can be reached from every node.
fn build_volume(claim: &Object, class: &StorageClass) -> Value {
    let document = claim.value();
    let spec = &document["spec"];
    let name = provisioned_name(&claim.uid);
    let mut volume = json!({
        "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {PROVISIONED_BY: NAME}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "volumeMode": spec["volumeMode"],
            "storageClassName": class.metadata.name,
            "persistentVolumeReclaimPolicy": class.reclaim_policy,
            "claimRef": claim_ref(claim),
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    });
    if !class.mount_options.is_empty() {
        volume["spec"]["mountOptions"] = json!(class.mount_options);
    }
    if !spec["volumeAttributesClassName"].is_null() {
        volume["spec"]["volumeAttributesClassName"] = spec["volumeAttributesClassName"].clone();
    }
    volume
}

pub struct Provisioner;

impl Controller for Provisioner {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let keys = |storage: &'static str| {
            let name: Arc<str> = storage.into();
            let objects = context.store.list(storage, None).objects;
            objects.into_iter().map(move |object| Key::new(&name, &object.namespace, &object.name))
        };
        keys(CLAIMS).chain(keys(VOLUMES)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if matches!(storage.as_ref(), CLAIMS | VOLUMES) && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(&key.storage, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        if key.storage.as_ref() == VOLUMES {
            return delete_released(context, &object).await;
        }
        let claim = object.view::<Claim>();
        let class = class(context, claim.class());
        let name = match claim.spec.volume_name.as_str() {
            "" => provisioned_name(&object.uid),
            name => name.to_owned(),
        };
        let volume = context.store.get(VOLUMES, "", &name);
        let seen = volume.as_ref().map(|volume| volume.view::<Volume>());
        match (decide(&claim, class.as_deref(), seen.as_deref()), class, volume) {
            (ProvisionerAction::Provision, Some(class), _) => provision(context, &object, &class).await?,
            (ProvisionerAction::Expand, _, Some(volume)) => expand(context, &object, &volume).await?,
            _ => {}
        }
        Ok(Action::AwaitChange)
    }
}

async fn provision(context: &Context, claim: &Object, class: &StorageClass) -> Result<(), ReconcileError> {
    let about = || InvolvedObject::new("v1", "PersistentVolumeClaim", claim);
    let words = format!(
        "External provisioner is provisioning volume for claim \"{}/{}\"",
        claim.namespace, claim.name
    );
    context.events.normal(NAME, about(), "Provisioning", words);
    match context.client.create(Component::ControllerManager, build_volume(claim, class)).await {
        Err(error) if error.reason == "AlreadyExists" => Ok(()),
        Err(error) => {
            let words =
                format!("failed to provision volume with StorageClass {:?}: {error}", class.metadata.name);
            context.events.warning(NAME, about(), "ProvisioningFailed", words);
            Err(error.into())
        }
        Ok(volume) => {
            let words = format!("Successfully provisioned volume {}", volume.name);
            context.events.normal(NAME, about(), "ProvisioningSucceeded", words);
            Ok(())
        }
    }
}

/// Resizes a claim to its request: first the volume, then the claim.
async fn expand(context: &Context, claim: &Object, volume: &Object) -> Result<(), ReconcileError> {
    let about = || InvolvedObject::new("v1", "PersistentVolumeClaim", claim);
    let mut document = claim.value();
    let size = document["spec"]["resources"]["requests"]["storage"].clone();
    if volume.view::<Volume>().capacity() < claim.view::<Claim>().request() {
        let words = "waiting for an external controller to expand this PVC";
        context.events.normal(EXPANDER, about(), "ExternalExpanding", words);
        let words = format!("External resizer is resizing volume {}", volume.name);
        context.events.normal(NAME, about(), "Resizing", words);
        let mut grown = volume.value();
        grown["spec"]["capacity"]["storage"] = size.clone();
        context.client.update(Component::ControllerManager, ObjectPart::Main, grown).await?;
    }
    document["status"]["capacity"]["storage"] = size;
    context.client.update(Component::ControllerManager, ObjectPart::Status, document).await?;
    context.events.normal(NAME, about(), "VolumeResizeSuccessful", "Resize volume succeeded");
    Ok(())
}

/// Deletes a released volume of this provisioner if its reclaim policy says so.
async fn delete_released(context: &Context, object: &Object) -> Result<Action, ReconcileError> {
    let volume = object.view::<Volume>();
    let deletable = volume.spec.persistent_volume_reclaim_policy == "Delete" && !object.is_deleting;
    if volume.status.phase == "Released" && deletable && is_own_volume(&volume) {
        let key = Key::new(&VOLUMES.into(), "", &object.name);
        let this = Preconditions { uid: &object.uid, version: None };
        ignore_not_found_or_conflict(context.client.delete(&key, this, Propagation::Background).await)?;
    }
    Ok(Action::AwaitChange)
}
