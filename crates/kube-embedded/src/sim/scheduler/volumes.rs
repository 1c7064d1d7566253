//! Volume filters: where a pod can run because of its claims.

use std::sync::Arc;

use serde_json::Value;

use crate::access::text;
use crate::control::Context;
use crate::control::view::Pod;
use crate::store::Object;

pub(super) const CLAIMS: &str = "persistentvolumeclaims";
pub(super) const VOLUMES: &str = "persistentvolumes";
pub(super) const CLASSES: &str = "storageclasses.storage.k8s.io";

/// Annotation of a claim: the node for which its volume is to be provisioned.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

#[derive(Debug, Default)]
pub(super) struct PodVolumes {
    /// The node affinity of its bound volumes: a node must match each.
    pub reachable: Vec<Value>,
    /// Claims with delayed binding, provisioned when the pod's node is chosen.
    pub to_provision: Vec<Arc<Object>>,
}

/// The claims of a pod: the name, and whether it is generated for an ephemeral volume of the pod.
fn claims(pod: &Pod) -> impl Iterator<Item = (String, bool)> {
    pod.spec.volumes.iter().filter_map(|volume| {
        if let Some(name) = volume["persistentVolumeClaim"]["claimName"].as_str() {
            return Some((name.to_owned(), false));
        }
        let own = || (format!("{}-{}", pod.metadata.name, text(volume, "name")), true);
        (!volume["ephemeral"].is_null()).then(own)
    })
}

/// Checks that do not depend on a node; `Err` is the message why no node fits.
pub(super) fn check_volumes(context: &Context, pod: &Pod) -> Result<PodVolumes, String> {
    let mut found = PodVolumes::default();
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
        if claim.is_deleting {
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

/// Whether the claim's class binds only when a pod that uses it is scheduled.
fn waits_for_consumer(context: &Context, claim: &Value) -> bool {
    let class = text(&claim["spec"], "storageClassName");
    let class = context.store.get(CLASSES, "", class).map(|class| class.value());
    class.is_some_and(|class| class["volumeBindingMode"] == "WaitForFirstConsumer")
}
