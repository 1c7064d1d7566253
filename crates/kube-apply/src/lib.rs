//! Applies objects to a cluster and removes them, over a `kube::Client`.
//!
//! Modules:
//!
//! - [`object`], [`manifest`]: desired objects and their parser
//! - [`discovery`]: kinds that the cluster serves
//! - [`target`]: client, namespace and the resolution of objects
//! - `reserved`: objects that another identity writes
//! - [`owner`]: ownership by a Helm release
//! - [`order`]: install and uninstall order
//! - [`mod@apply`]: plan and write
//! - [`mod@remove`], delete
//! - [`mod@live`], read
//! - [`logs`]: logs of pods
//! - [`ready`]: readiness and waiting
//! - [`fit`]: capacity of quotas and nodes
//! - [`drift`]: changes by other clients
//! - [`mod@diff`]: differences between manifests
//! - [`mask`]: masks sensitive values
//! - [`tell`]: progress events
//! - [`error`], errors

pub mod apply;
mod call;
mod compute;
pub mod diff;
pub mod discovery;
pub mod drift;
pub mod error;
pub mod fit;
pub mod live;
pub mod logs;
mod managers;
pub mod manifest;
pub mod mask;
pub mod merge;
pub mod object;
pub mod order;
pub mod owner;
pub mod ready;
pub mod remove;
mod reserved;
pub mod target;
pub mod tell;
#[cfg(test)]
mod testing;
mod write;

pub use apply::{Applied, Looked, Options, Way, apply, look};
pub use diff::{Difference, diff};
pub use discovery::Discovery;
pub use error::{ApplyError, Failure, Why};
pub use live::{Live, live};
pub use mask::Mask;
pub use object::{Id, Object, ParseError};
pub use owner::Ownership;
pub use ready::{NotReady, State, Strategy};
pub use remove::{Removal, RemoveError, Removed, remove};
pub use reserved::Reserved;
pub use target::{Placed, Target};
pub use tell::{Outcome, Silent, Step, Tell};
