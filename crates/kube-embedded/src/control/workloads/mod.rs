//! From what people ask for to pods: the controllers of workloads, as a controller manager runs them.
//!
//! They share how pods are made and claimed (`pods`). StatefulSets and DaemonSets keep their past (`revisions`).

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
