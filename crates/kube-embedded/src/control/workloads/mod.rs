//! From what people ask for to pods: the controllers of workloads, as a controller manager runs them.
//!
//! They share how pods are made and claimed (`pods`).

mod cronjob;
mod job;
pub(crate) mod pods;
mod ttl;

use super::Control;

pub(super) fn start(control: &mut Control) {
    control.run(job::Jobs::default());
    control.run(cronjob::CronJobs::default());
    control.run(ttl::EndedJobs);
}
