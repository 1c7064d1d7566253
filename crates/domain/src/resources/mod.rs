//! Resource usage of pods, workloads and claims.
//!
//! Used by capacity checks (quota, nodes), dry runs, and the handlers that show a release's resources. Names match
//! `ResourceQuota`, and sums match Kubernetes' scheduler and quota. The objects are as written in a manifest, without
//! defaults of the API server.
//!
//! Modules:
//! - [`resource_list`]: resource lists, effective resources of a pod
//! - [`Workload`]: pod counts of workloads
//! - [`QuotaUsage`]: quota usage
//! - [`walm`]: the same in walm's response format
//!
//! Invariants:
//! - The usage of several objects is the sum of their usages.
//! - An invalid quantity counts as absent; validation reports it.
//!
//! Not covered: the defaults of `LimitRanges`, and which nodes a pod may run on.

pub mod resource_list;
mod usage;
pub mod walm;
mod workload;

pub use resource_list::{ResourceField, ResourceList};
pub use usage::{QuotaUsage, claim_usage, compute_resources, service_usage};
pub use workload::Workload;
