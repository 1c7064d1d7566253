//! What tests of several rooms share. A dev-dependency only.
//!
//! Modules in reading order: a cluster with our kinds in it ([`world`]), a line to it that can be cut ([`fault`]) or whose watches
//! do not tell the truth ([`gossip`]), work that is
//! killed at every point where it can be ([`kill`]), somebody who knows nothing of our marks ([`unheld`]), a clock that stands still ([`clock`]), and waiting ([`until`]).
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
