//! Binding of a claim and a volume: up to four small writes, after each of which a crash is safe.

use std::sync::Arc;

use serde_json::{Value, json};

use super::view::{BIND_COMPLETED, BOUND_BY_CONTROLLER, Claim, Volume};
use crate::clock::rfc3339;
use crate::control::{Component, Context, ObjectPart, ReconcileError};
use crate::store::Object;

async fn update(context: &Context, part: ObjectPart, document: Value) -> Result<Arc<Object>, ReconcileError> {
    Ok(context.client.update(Component::ControllerManager, part, document).await?)
}

/// Performs the missing writes of a binding, the volume first: its `claimRef` reserves it.
pub async fn bind(
    context: &Context,
    volume: &Arc<Object>,
    claim: &Arc<Object>,
) -> Result<(), ReconcileError> {
    let volume = match with_claim_ref(volume, claim) {
        Some(document) => update(context, ObjectPart::Main, document).await?,
        None => volume.clone(),
    };
    let volume = set_volume_phase(context, &volume, "Bound", "").await?;
    let claim = match with_volume_name(claim, &volume) {
        Some(document) => update(context, ObjectPart::Main, document).await?,
        None => claim.clone(),
    };
    set_claim_phase(context, &claim, "Bound", Some(&volume)).await
}

/// Returns the volume with its `claimRef`, unless it is set already.
fn with_claim_ref(object: &Object, claim: &Object) -> Option<Value> {
    let (volume, wanted) = (object.view::<Volume>(), claim.view::<Claim>());
    let reference = volume.spec.claim_ref.as_ref();
    let done = reference.is_some_and(|reference| reference.uid == *claim.uid) && volume.is_for(&wanted);
    if done {
        return None;
    }
    let mut document = object.value();
    document["spec"]["claimRef"] = claim_ref(claim);
    if !volume.is_for(&wanted) {
        document["metadata"]["annotations"][BOUND_BY_CONTROLLER] = "yes".into();
    }
    Some(document)
}

/// The `claimRef` for a claim.
pub fn claim_ref(claim: &Object) -> Value {
    json!({
        "kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": claim.namespace, "name": claim.name,
        "uid": claim.uid, "resourceVersion": claim.version.to_string(),
    })
}

/// Returns the claim with its `volumeName`, unless the binding is complete.
fn with_volume_name(object: &Object, volume: &Object) -> Option<Value> {
    let claim = object.view::<Claim>();
    let chosen = *claim.spec.volume_name == *volume.name;
    if chosen && claim.has_annotation(BIND_COMPLETED) {
        return None;
    }
    let mut document = object.value();
    let annotations = &mut document["metadata"]["annotations"];
    annotations[BIND_COMPLETED] = "yes".into();
    if !chosen {
        annotations[BOUND_BY_CONTROLLER] = "yes".into();
        document["spec"]["volumeName"] = volume.name.as_ref().into();
    }
    Some(document)
}

/// Sets the phase of a claim, and its capacity and access modes.
pub async fn set_claim_phase(
    context: &Context,
    object: &Object,
    phase: &str,
    volume: Option<&Object>,
) -> Result<(), ReconcileError> {
    let mut document = object.value();
    let before = document["status"].clone();
    let status = &mut document["status"];
    let turns = status["phase"] != phase;
    status["phase"] = phase.into();
    match volume.map(Object::value) {
        Some(volume) => {
            status["accessModes"] = volume["spec"]["accessModes"].clone();
            // After binding they may differ: a volume can be resized before its claim.
            if turns {
                status["capacity"] = volume["spec"]["capacity"].clone();
            }
        }
        None => {
            for field in ["accessModes", "capacity"] {
                status.as_object_mut().map(|status| status.remove(field));
            }
        }
    }
    if *status != before {
        update(context, ObjectPart::Status, document).await?;
    }
    Ok(())
}

pub async fn set_volume_phase(
    context: &Context,
    object: &Arc<Object>,
    phase: &str,
    message: &str,
) -> Result<Arc<Object>, ReconcileError> {
    let mut document = object.value();
    let status = &mut document["status"];
    if status["phase"] == phase {
        return Ok(object.clone());
    }
    status["phase"] = phase.into();
    status["lastPhaseTransitionTime"] = rfc3339(context.clock.now()).into();
    if message.is_empty() {
        status.as_object_mut().map(|status| status.remove("message"));
    } else {
        status["message"] = message.into();
    }
    update(context, ObjectPart::Status, document).await
}

/// Unbinds a volume: one that a user reserved for a claim stays reserved, any other becomes available.
pub async fn unbind(context: &Context, object: &Arc<Object>) -> Result<(), ReconcileError> {
    let mut document = object.value();
    let by_us = object.view::<Volume>().has_annotation(BOUND_BY_CONTROLLER);
    if by_us {
        document["spec"].as_object_mut().map(|spec| spec.remove("claimRef"));
        let annotations = document["metadata"]["annotations"].as_object_mut();
        annotations.map(|annotations| annotations.remove(BOUND_BY_CONTROLLER));
    } else {
        document["spec"]["claimRef"].as_object_mut().map(|claim| claim.remove("uid"));
    }
    let object = update(context, ObjectPart::Main, document).await?;
    set_volume_phase(context, &object, "Available", "").await.map(drop)
}
