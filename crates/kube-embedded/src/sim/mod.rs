//! What is pretended: nodes, and what happens on them. No container ever runs.
//!
//! Everything else about workloads is decided by the same rules as in a real cluster (`crate::control::workloads`);
//! this module takes the place of machines, kubelets, the scheduler and providers of volumes and addresses.

mod addresses;

use crate::control::Control;

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
}
