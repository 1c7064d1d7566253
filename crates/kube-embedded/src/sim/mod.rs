//! The simulation: nodes, kubelets, scheduler and providers of volumes and addresses. No container ever runs.
//!
//! Workload controllers are the same as without simulation (`crate::control::workloads`). This module replaces the parts of a cluster that
//! need machines.
//!
//! Modules:
//! - `nodes`: node status, taints and leases
//! - `scheduler`: binds pods to nodes
//! - `kubelet`: the lifecycle of a pod
//! - `eviction`: taint eviction
//! - `orphans`: deletes pods whose node is gone
//! - `volume`: provisions volumes for claims
//! - `addresses`: load balancer and Ingress addresses

mod addresses;
mod eviction;
mod kubelet;
mod nodes;
mod orphans;
pub(crate) mod scheduler;
pub(crate) mod volume;

use std::sync::Arc;

pub(crate) use nodes::SIMULATED_LABEL;

use crate::control::view::Pod;
use crate::control::{Context, RunningControllers};
use crate::store::{Key, Object};

const NODES: &str = "nodes";
const PODS: &str = "pods";

/// Settings of the simulated cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// How many nodes the first start creates: `node-0`, `node-1`, ...
    pub nodes: u32,
    /// Capacity of each node.
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

pub(crate) fn start(control: &mut RunningControllers) {
    if control.context().simulation.as_ref().is_some_and(|simulation| simulation.addresses) {
        control.start_controller(addresses::Addresses);
    }
    control.start_controller(nodes::Nodes::default());
    control.start_controller(nodes::leases::Leases);
    control.start_controller(scheduler::Scheduler::default());
    control.start_controller(kubelet::Kubelet::default());
    control.start_controller(eviction::Evictions::default());
    control.start_controller(orphans::Orphans::default());
    control.start_controller(volume::Provisioner);
}

fn key_of(storage: &str, object: &Object) -> Key {
    Key::new(&storage.into(), &object.namespace, &object.name)
}

/// Returns the pods on a node. Scans all pods; called for changes of nodes, which are rare.
fn pods_on(context: &Context, node: &str) -> Vec<Arc<Object>> {
    let mut pods = context.store.list(PODS, None).objects;
    pods.retain(|pod| pod.view::<Pod>().spec.node_name == node);
    pods
}
