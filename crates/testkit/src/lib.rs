//! Test fixtures shared by several crates. A dev-dependency only.
//!
//! Modules:
//! - [`world`]: embedded cluster with the platform's CRDs
//! - [`fault`]: fault injection for requests
//! - [`gossip`]: fault injection for watches
//! - [`kill`]: crashes at every write
//! - [`unheld`]: client that does not know one annotation
//! - [`clock`]: manual clock
//! - [`until`]: waiting for a condition
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod clock;
pub mod fault;
pub mod gossip;
pub mod kill;
pub mod unheld;
pub mod until;
pub mod world;

pub use clock::HeldClock;
pub use fault::{Blow, Fault};
pub use gossip::Gossip;
pub use kill::every_kill_point;
pub use unheld::unheld;
pub use until::until;
pub use world::World;
