//! Applies objects to a cluster and removes them, over a `kube::Client`.
//!
//! Modules:
//!
//! - [`object`], [`manifest`]: desired objects and their parser
//! - [`discovery`]: kinds that the cluster serves
//! - [`target`]: client, namespace and the resolution of objects
//! - `reserved`: objects that another identity writes
//! - `compute`: executor of work on large objects
//! - [`ownership`]: ownership by a Helm release
//! - [`order`]: install and uninstall order
//! - [`mod@apply`]: plan and write
//! - [`mod@remove`], delete
//! - [`mod@live`], read
//! - [`logs`]: logs of pods
//! - [`readiness`]: readiness and waiting
//! - [`capacity`]: capacity of quotas and nodes
//! - [`drift`]: changes by other clients
//! - [`mod@diff`]: differences between manifests
//! - [`mask`]: masks sensitive values
//! - [`progress`]: progress events
//! - [`error`], errors

pub mod apply;
pub mod capacity;
mod compute;
pub mod diff;
pub mod discovery;
pub mod drift;
pub mod error;
mod field_managers;
pub mod live;
pub mod logs;
pub mod manifest;
pub mod mask;
pub mod merge;
pub mod object;
pub mod order;
pub mod ownership;
pub mod progress;
pub mod readiness;
pub mod remove;
mod request;
mod reserved;
pub mod target;
#[cfg(test)]
mod testing;
mod write;

pub use apply::{ApplyOptions, ApplyPlan, ApplyResult, ApplyStrategy, UntrustedBases, apply, plan};
pub use compute::{Compute, ComputePool};
pub use diff::{ObjectDiff, diff};
pub use discovery::Discovery;
pub use error::{ApplyError, ObjectError, ObjectErrorKind};
pub use live::{LiveObject, read_live};
pub use mask::Mask;
pub use object::{Object, ObjectId, ParseError};
pub use ownership::Ownership;
pub use progress::{NoProgress, ProgressEvent, ProgressSink, WriteOutcome};
pub use readiness::{NotReadyError, Readiness, WaitStrategy};
pub use remove::{RemoveError, RemoveOptions, RemoveResult, remove};
pub use reserved::ReservedObjects;
pub use target::{ResolvedObject, Target};
