//! What objects take of a cluster: the one place where pods, workloads and claims are summed up.
//!
//! Asked by whoever wants to know before anything is written whether it would fit (quota, nodes), by dry runs, by the
//! doors that show a release's resources. The words are those of `ResourceQuota` and the sums those of Kubernetes'
//! scheduler and quota, over objects as they stand in a manifest, where the API server has filled in no defaults.
//!
//! Modules in reading order: lists of amounts and what one pod asks for ([`amounts`]), how many pods an object brings
//! ([`Workload`]), what an object takes of a quota ([`Usage`]), the same as walm's clients read it ([`walm`]).
//!
//! Always true: the usage of several objects is the sum of theirs. What cannot be read as an amount counts as absent:
//! validation speaks about it.
//! Elsewhere: the defaults of `LimitRanges`, which nodes a pod may run on.

pub mod amounts;
mod usage;
pub mod walm;
mod workload;

pub use amounts::{Amounts, Side};
pub use usage::{Usage, computing, of_claim, of_service};
pub use workload::Workload;
