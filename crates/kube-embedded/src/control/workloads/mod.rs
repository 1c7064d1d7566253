//! From what people ask for to pods: the controllers of workloads, as a controller manager runs them.
//!
//! They share how pods are made and claimed (`pods`).

pub(crate) mod pods;
pub(crate) mod replicaset;

use super::Control;

pub(super) fn start(control: &mut Control) {
    control.run(replicaset::REPLICA_SETS);
    control.run(replicaset::REPLICATION_CONTROLLERS);
}
