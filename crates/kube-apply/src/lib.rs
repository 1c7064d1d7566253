//! Objects onto a cluster and off it, over a `kube::Client` and nothing else.
//!
//! Modules in reading order: what is wanted ([`object`], [`manifest`]), what the cluster knows ([`discovery`]) and where each
//! object goes in it ([`target`]), as whom (`reserved`), whose it is ([`owner`]), what comes before what ([`order`]), writing ([`apply`]), taking away
//! ([`remove`]), what is there ([`live`]), what its pods print ([`logs`]) and how far it has come ([`ready`]), whether it would fit ([`fit`]), what was changed
//! behind our back ([`drift`]), what is different ([`diff`], without what is secret: [`mask`]), who hears of it ([`tell`]), what
//! can go wrong ([`error`]).

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
