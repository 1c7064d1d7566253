//! The ephemeral volume controller: creates the claims of pods' ephemeral volumes, owned by the pod.

use std::sync::Arc;

use serde_json::{Value, json};

use super::PODS;
use super::view::CLAIMS;
use crate::control::events::InvolvedObject;
use crate::control::queue::{Action, Controller};
use crate::control::view::Pod;
use crate::control::{Component, Context, ReconcileError};
use crate::error::ApiError;
use crate::store::{Event, EventKind, Key, Object};

const COMPONENT: &str = "ephemeral_volume";

/// The claim's name: `<pod>-<volume>`.
pub fn claim_name(pod: &Pod, volume: &Value) -> String {
    format!("{}-{}", pod.metadata.name, volume["name"].as_str().unwrap_or_default())
}

fn needs_claims(object: &Object) -> bool {
    !object.is_deleting
        && object.view::<Pod>().spec.volumes.iter().any(|volume| !volume["ephemeral"].is_null())
}

pub(super) struct Ephemeral;

impl Controller for Ephemeral {
    fn initial_keys(&self, context: &Context) -> Vec<Key> {
        let storage: Arc<str> = PODS.into();
        let pods = context.store.list(PODS, None).objects;
        let wanting = pods.iter().filter(|pod| needs_claims(pod));
        wanting.map(|pod| Key::new(&storage, &pod.namespace, &pod.name)).collect()
    }

    fn keys_for_event(&self, _: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let object = &event.object;
        if storage.as_ref() == PODS && event.kind == EventKind::Added && needs_claims(object) {
            keys.push(Key::new(storage, &object.namespace, &object.name));
        }
        // A conflicting claim, or a claim of a pod, has been deleted.
        if storage.as_ref() == CLAIMS && event.kind == EventKind::Deleted {
            let pods: Arc<str> = PODS.into();
            let ends = object.name.match_indices('-');
            keys.extend(ends.map(|(at, _)| Key::new(&pods, &object.namespace, &object.name[..at])));
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let found = context.store.get(PODS, &key.namespace, &key.name);
        let Some(object) = found.filter(|pod| needs_claims(pod)) else { return Ok(Action::AwaitChange) };
        let pod = object.view::<Pod>();
        for volume in pod.spec.volumes.iter().filter(|volume| !volume["ephemeral"].is_null()) {
            let name = claim_name(&pod, volume);
            let made = match context.store.get(CLAIMS, &object.namespace, &name) {
                Some(claim) if claim.controller_uid.as_ref() == Some(&object.uid) => continue,
                Some(_) => {
                    let words = format!(
                        "PVC {}/{name} was not created for pod {}/{} (pod is not owner)",
                        object.namespace, object.namespace, object.name
                    );
                    Err(ApiError::new(409, "Conflict", words))
                }
                None => {
                    let claim = claim(&object, &volume["ephemeral"]["volumeClaimTemplate"], &name);
                    let made = context.client.create(Component::ControllerManager, claim).await;
                    let words =
                        |error: ApiError| ApiError::new(500, "", format!("create PVC {name}: {error}"));
                    made.map(drop).map_err(words)
                }
            };
            if let Err(error) = made {
                let about = InvolvedObject::new("v1", "Pod", &object);
                let words =
                    format!("ephemeral volume {}: {error}", volume["name"].as_str().unwrap_or_default());
                context.events.warning(COMPONENT, about, "FailedBinding", words);
                return Err(error.into());
            }
        }
        Ok(Action::AwaitChange)
    }
}

/// Builds the claim from a pod's claim template.
fn claim(pod: &Object, template: &Value, name: &str) -> Value {
    let mut metadata = json!({
        "name": name, "namespace": pod.namespace,
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    for part in ["labels", "annotations"] {
        if !template["metadata"][part].is_null() {
            metadata[part] = template["metadata"][part].clone();
        }
    }
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"]})
}
