//! Rules of the kinds that run pods, and of the kinds that limit pods.
//!
//! From the inside out: the parts of a pod (`volume`, `container`, `scheduling`, ...), the pod's spec
//! and its templates, then one file per controller. Each kind has one row in [`RULES`].

mod claim_spec;
mod container;
mod defaulting;
mod defaults;
mod env;
mod failure_policy;
mod job_status;
mod legacy_volume;
mod mount;
mod paths;
pub mod podspec;
mod probe;
mod projected;
mod resources;
pub mod schedule;
pub mod scheduling;
mod security;
mod selector;
mod status;
mod template;
pub mod volume;
mod warnings;

pub mod autoscaling;
mod autoscaling_v1;
pub mod cronjob;
pub mod daemonset;
pub mod deployment;
pub mod disruption;
pub mod job;
pub mod limits;
pub mod pod;
pub mod replicaset;
pub mod revision;
pub mod statefulset;
pub mod subresource;

use super::KindRules;

pub use self::claim_spec::validate_spec as validate_claim_spec;
pub use self::schedule::validate as check_schedule;

pub const RULES: &[KindRules] = &[
    pod::RULES,
    revision::POD_TEMPLATE,
    replicaset::REPLICATION_CONTROLLER,
    deployment::RULES,
    replicaset::REPLICA_SET,
    statefulset::RULES,
    daemonset::RULES,
    revision::CONTROLLER_REVISION,
    job::RULES,
    cronjob::RULES,
    autoscaling::RULES,
    disruption::BUDGET,
    disruption::PRIORITY_CLASS,
    limits::LIMIT_RANGE,
    limits::QUOTA,
];

#[cfg(test)]
mod tests {
    use super::RULES;

    #[test]
    fn rules_are_unique_per_workload_kind() {
        let mut kinds: Vec<_> = RULES.iter().map(|rules| (rules.group, rules.kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        assert_eq!(kinds.len(), 15);
        assert_eq!(kinds.len(), RULES.len());
    }
}
