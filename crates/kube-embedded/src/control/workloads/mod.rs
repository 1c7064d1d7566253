//! Workload controllers, as in kube-controller-manager.
//!
//! They share the creation and adoption of pods (`pods`). StatefulSets and DaemonSets share their history (`revisions`).

mod cronjob;
mod daemonset;
pub(crate) mod deployment;
mod job;
pub(crate) mod pods;
pub(crate) mod replicaset;
mod revisions;
mod statefulset;
mod ttl;

use super::RunningControllers;

pub(super) fn start(control: &mut RunningControllers) {
    control.start_controller(deployment::Deployments);
    control.start_controller(replicaset::REPLICA_SETS);
    control.start_controller(replicaset::REPLICATION_CONTROLLERS);
    control.start_controller(statefulset::StatefulSets);
    control.start_controller(daemonset::DaemonSets::default());
    control.start_controller(job::Jobs::default());
    control.start_controller(cronjob::CronJobs::default());
    control.start_controller(ttl::EndedJobs);
}
