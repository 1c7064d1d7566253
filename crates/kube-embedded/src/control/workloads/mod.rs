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

use super::Control;

pub(super) fn start(control: &mut Control) {
    control.run(deployment::Deployments);
    control.run(replicaset::REPLICA_SETS);
    control.run(replicaset::REPLICATION_CONTROLLERS);
    control.run(statefulset::StatefulSets);
    control.run(daemonset::DaemonSets::default());
    control.run(job::Jobs::default());
    control.run(cronjob::CronJobs::default());
    control.run(ttl::EndedJobs);
}
