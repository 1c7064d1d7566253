//! What is pretended: nodes, and what happens on them. No container ever runs.
//!
//! Everything else about workloads is decided by the same rules as in a real cluster (`crate::control::workloads`);
//! this module takes the place of machines, kubelets, the scheduler and providers of volumes and addresses: `nodes`
//! (their status, taints and leases), `scheduler`, `kubelet` (the life of a pod), `eviction` (by taints), `orphans` (pods
//! whose node is gone), `volume` (what claims get), `addresses` (of load balancers and Ingresses).

mod addresses;
mod eviction;
mod kubelet;
mod nodes;
mod orphans;
pub(crate) mod scheduler;
pub(crate) mod volume;

use std::sync::Arc;

pub(crate) use nodes::SIMULATED;

use crate::control::view::Pod;
use crate::control::{Context, Control};
use crate::store::{Key, Object};

const NODES: &str = "nodes";
const PODS: &str = "pods";

/// How the pretended cluster looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// How many nodes there are from the first start: `node-0`, `node-1`, ...
    pub nodes: u32,
    /// What each has.
    pub cpu: String,
    pub memory: String,
    pub pods: u32,
    /// Services of type `LoadBalancer` and Ingresses get an address; without it they stay pending, as on a real cluster that has
    /// no provider of addresses.
    pub addresses: bool,
}

impl Default for Simulation {
    fn default() -> Self {
        Self { nodes: 3, cpu: "32".to_owned(), memory: "256Gi".to_owned(), pods: 110, addresses: false }
    }
}

pub(crate) fn start(control: &mut Control) {
    if control.context().simulation.as_ref().is_some_and(|simulation| simulation.addresses) {
        control.run(addresses::Addresses);
    }
    control.run(nodes::Nodes::default());
    control.run(nodes::leases::Leases);
    control.run(scheduler::Scheduler::default());
    control.run(kubelet::Kubelet::default());
    control.run(eviction::Evictions::default());
    control.run(orphans::Orphans::default());
    control.run(volume::Provisioner);
}

fn key_of(storage: &str, object: &Object) -> Key {
    Key::new(&storage.into(), &object.namespace, &object.name)
}

/// The pods on a node. All pods are looked at: asked when something happens to a node, which is rare.
fn pods_on(context: &Context, node: &str) -> Vec<Arc<Object>> {
    let mut pods = context.store.list(PODS, None).objects;
    pods.retain(|pod| pod.view::<Pod>().spec.node_name == node);
    pods
}
