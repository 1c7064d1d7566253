//! The words and rules of the platform. Pure: no cluster, no network, no clock of its own.
//!
//! Modules in reading order: what things are called ([`ids`]), names of Kubernetes objects ([`names`]), what may be written into a field ([`fields`]), who may
//! do what ([`roles`], [`scopes`]), who asks ([`actor`]), how a failure is to be treated ([`failure`]), what time it is ([`clock`]),
//! how much of something there is ([`quantity`]) and how much of it objects take ([`resources`]), how something that runs is
//! seen ([`status`]), and the life of a release ([`release`]).

pub mod actor;
pub mod clock;
pub mod failure;
pub mod fields;
pub mod ids;
pub mod names;
pub mod quantity;
pub mod release;
pub mod resources;
pub mod roles;
pub mod scopes;
pub mod status;

pub use actor::{Actor, Place, Refusal};
pub use failure::Kind;
