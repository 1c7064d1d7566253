//! Volume controllers.
//!
//! Modules:
//! - `claims`: binds claims or requests volumes; uses `bind` and `matching`
//! - `persistent`: volumes and their reclaim policy
//! - `protection`: finalizers of claims and volumes in use
//! - `ephemeral`: claims of ephemeral volumes
//!
//! See also: `crate::sim::volume` provisions volumes; the scheduler picks nodes for pods with unbound claims.

mod bind;
mod claims;
mod ephemeral;
mod matching;
mod persistent;
mod protection;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use std::sync::Arc;

use super::view::Pod;
use super::{Context, RunningControllers};
use crate::store::Object;
use view::Claim;

pub(crate) use bind::claim_ref;

/// The Event source for claims and volumes.
const COMPONENT: &str = "persistentvolume-controller";
const PODS: &str = "pods";

pub(super) fn start(control: &mut RunningControllers) {
    control.start_controller(claims::Claims);
    control.start_controller(persistent::Volumes);
    control.start_controller(protection::Claims);
    control.start_controller(protection::Volumes);
    control.start_controller(ephemeral::Ephemeral);
}

/// The name of the volume that is provisioned for a claim.
pub(crate) fn provisioned_name(claim_uid: &str) -> String {
    format!("pvc-{claim_uid}")
}

/// The claims that a pod uses, by name, including the claims of its ephemeral volumes.
fn used_claims(pod: &Pod) -> impl Iterator<Item = String> {
    pod.spec.volumes.iter().filter_map(|volume| {
        let named = volume["persistentVolumeClaim"]["claimName"].as_str().map(str::to_owned);
        let own = || (!volume["ephemeral"].is_null()).then(|| ephemeral::claim_name(pod, volume));
        named.or_else(own)
    })
}

/// The pods in a claim's namespace that use it.
fn pods_using(context: &Context, claim: &Claim) -> impl Iterator<Item = (Arc<Object>, Arc<Pod>)> {
    let pods = context.store.list(PODS, Some(&claim.metadata.namespace)).objects;
    let name = claim.metadata.name.clone();
    pods.into_iter().filter_map(move |object| {
        let pod = object.view::<Pod>();
        let uses = used_claims(&pod).any(|used| used == name);
        uses.then_some((object, pod))
    })
}

/// Returns the pods that use a claim and are not scheduled yet.
fn unscheduled_pods(context: &Context, claim: &Claim) -> Vec<String> {
    let waiting =
        pods_using(context, claim).filter(|(_, pod)| !pod.is_finished() && pod.spec.node_name.is_empty());
    waiting.map(|(object, _)| object.name.to_string()).collect()
}
