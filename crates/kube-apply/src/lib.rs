//! Objects onto a cluster and off it, over a `kube::Client` and nothing else.
//!
//! Modules in reading order: what is wanted ([`object`], [`manifest`]), what the cluster knows ([`discovery`]) and where each
//! object goes in it ([`target`]), whose it is ([`owner`]), what comes before what ([`order`]), writing ([`apply`]),
//! who hears of it ([`tell`]), what can go wrong ([`error`]).

pub mod apply;
pub mod discovery;
pub mod error;
pub mod manifest;
pub mod object;
pub mod order;
pub mod owner;
pub mod target;
pub mod tell;

pub use apply::{Applied, Options, Way};
pub use discovery::Discovery;
pub use error::{ApplyError, Failure, Why};
pub use object::{Id, Object, ParseError};
pub use owner::Ownership;
pub use target::{Placed, Target};
pub use tell::{Outcome, Silent, Step, Tell};
