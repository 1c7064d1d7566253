//! Claim and volume protection: finalizers delay the deletion of claims used by pods and of volumes bound to claims.

use std::sync::Arc;

use super::view::{CLAIMS, Claim, VOLUMES, Volume};
use super::{PODS, pods_using, used_claims};
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::{Component, Context, ObjectPart, ReconcileError, has_finalizer, remove_from_list};
use crate::store::{Event, EventKind, Key, Object};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

pub(super) struct Claims;

impl Controller for Claims {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        all_keys(context, CLAIMS)
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        match storage.as_ref() {
            CLAIMS if event.kind != EventKind::Deleted => {
                keys.push(Key::new(storage, &event.object.namespace, &event.object.name));
            }
            // A pod that is deleted may have been the last user of a claim.
            PODS if event.kind == EventKind::Deleted || event.object.is_deleting => {
                let pod = event.object.view::<Pod>();
                let claims =
                    used_claims(&pod).map(|name| Key::new(&CLAIMS.into(), &pod.metadata.namespace, &name));
                keys.extend(claims.filter(|claim| {
                    context
                        .store
                        .get(CLAIMS, &claim.namespace, &claim.name)
                        .is_some_and(|claim| claim.is_deleting)
                }));
            }
            _ => {}
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(CLAIMS, &key.namespace, &key.name) else {
            return Ok(Action::AwaitChange);
        };
        let is_used =
            || pods_using(context, &object.view::<Claim>()).any(|(_, pod)| is_protected_by(&pod, &object));
        protect(context, &object, CLAIM_FINALIZER, is_used).await
    }
}

/// Whether a pod that names a claim protects it. A pod without a node does not.
fn is_protected_by(pod: &Pod, claim: &Object) -> bool {
    let named = pod.spec.volumes.iter().any(|v| v["persistentVolumeClaim"]["claimName"] == *claim.name);
    let is_over = pod.metadata.is_deleting() && pod.metadata.deletion_grace_period_seconds == Some(0);
    let own = claim.controller_uid.as_deref() == Some(pod.metadata.uid.as_str());
    !pod.spec.node_name.is_empty() && (named || (own && !is_over))
}

pub(super) struct Volumes;

impl Controller for Volumes {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        all_keys(context, VOLUMES)
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if storage.as_ref() == VOLUMES && event.kind != EventKind::Deleted {
            keys.push(Key::new(storage, "", &event.object.name));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let Some(object) = context.store.get(VOLUMES, "", &key.name) else { return Ok(Action::AwaitChange) };
        let is_used = || object.view::<Volume>().status.phase == "Bound";
        protect(context, &object, VOLUME_FINALIZER, is_used).await
    }
}

fn all_keys(context: &Context, storage: &str) -> Vec<Key> {
    let name: Arc<str> = storage.into();
    let objects = context.store.list(storage, None).objects;
    objects.iter().map(|object| Key::new(&name, &object.namespace, &object.name)).collect()
}

/// Adds the finalizer if it is missing; removes it from an object that is being deleted and is not in use.
async fn protect(
    context: &Context,
    object: &Object,
    finalizer: &str,
    is_used: impl Fn() -> bool,
) -> Result<Action, ReconcileError> {
    let mut document = object.value();
    let held = has_finalizer(&document, finalizer);
    let metadata = &mut document["metadata"];
    if object.is_deleting && held && !is_used() {
        remove_from_list(metadata, "finalizers", |found| found == finalizer);
    } else if !object.is_deleting && !held {
        match metadata["finalizers"].as_array_mut() {
            Some(finalizers) => finalizers.push(finalizer.into()),
            None => metadata["finalizers"] = serde_json::json!([finalizer]),
        }
    } else {
        return Ok(Action::AwaitChange);
    }
    context.client.update(Component::ControllerManager, ObjectPart::Main, document).await?;
    Ok(Action::AwaitChange)
}
