//! What the volumes of a pod mean for where it can go.

use std::sync::Arc;

use serde_json::Value;

use crate::access::text;
use crate::control::Context;
use crate::control::view::Pod;
use crate::store::Object;

pub(super) const CLAIMS: &str = "persistentvolumeclaims";
pub(super) const VOLUMES: &str = "persistentvolumes";
pub(super) const CLASSES: &str = "storageclasses.storage.k8s.io";

/// Which node a claim is waiting to be provisioned for.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

#[derive(Debug, Default)]
pub(super) struct Volumes {
    /// The node selectors of its volumes: the node must match each.
    pub reachable: Vec<Value>,
    /// Claims whose volume is made when it is known where the pod goes.
    pub to_provision: Vec<Arc<Object>>,
}

/// The claims of a pod: name, and the volume that it is made for by the pod itself, if so.
fn claims(pod: &Pod) -> impl Iterator<Item = (String, bool)> {
    pod.spec.volumes.iter().filter_map(|volume| {
        if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some((name.to_owned(), false));
        }
        let own = || (format!("{}-{}", pod.metadata.name, text(volume, "name")), true);
        (!volume["ephemeral"].is_null()).then(own)
    })
}

/// What can be said before any node is looked at; `Err` is why none will do.
pub(super) fn look(context: &Context, pod: &Pod) -> Result<Volumes, String> {
    let mut found = Volumes::default();
    let mut unbound = false;
    for (name, is_own) in claims(pod) {
        let Some(claim) = context.store.get(CLAIMS, &pod.metadata.namespace, &name) else {
            return Err(if is_own {
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{name}\""
                )
            } else {
                format!("persistentvolumeclaim \"{name}\" not found")
            });
        };
        if claim.deleting {
            return Err(format!("persistentvolumeclaim \"{name}\" is being deleted"));
        }
        let value = claim.value();
        if value["status"]["phase"] == "Lost" {
            return Err(format!(
                "persistentvolumeclaim \"{name}\" bound to non-existent persistentvolume \"{}\"",
                text(&value["spec"], "volumeName")
            ));
        }
        let volume = value["spec"]["volumeName"].as_str().filter(|_| value["status"]["phase"] == "Bound");
        match volume {
            Some(volume) => {
                let volume = context.store.get(VOLUMES, "", volume).map(|volume| volume.value());
                let required = volume.map(|volume| volume["spec"]["nodeAffinity"]["required"].clone());
                found.reachable.extend(required.filter(|required| !required.is_null()));
            }
            None if waits_for_consumer(context, &value) => found.to_provision.push(claim),
            None => unbound = true,
        }
    }
    if unbound {
        return Err("pod has unbound immediate PersistentVolumeClaims".to_owned());
    }
    Ok(found)
}

/// Its class binds when a pod that uses it has been scheduled.
fn waits_for_consumer(context: &Context, claim: &Value) -> bool {
    let class = text(&claim["spec"], "storageClassName");
    let class = context.store.get(CLASSES, "", class).map(|class| class.value());
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}
