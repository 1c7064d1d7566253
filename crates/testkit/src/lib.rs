//! Test fixtures shared by several crates. A dev-dependency only.
//!
//! Modules:
//! - [`test_cluster`]: embedded cluster with the platform's CRDs
//! - [`fault`]: fault injection for requests
//! - [`faulty_watch`]: fault injection for watches
//! - [`kill_points`]: crashes at every write
//! - [`without_annotation`]: client that does not know one annotation
//! - [`clock`]: manual clock
//! - [`wait_for`]: waiting for a condition
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

pub mod clock;
pub mod fault;
pub mod faulty_watch;
pub mod kill_points;
pub mod test_cluster;
pub mod wait_for;
pub mod without_annotation;

pub use clock::ManualClock;
pub use fault::{FailurePoint, FaultInjector};
pub use faulty_watch::FaultyWatch;
pub use kill_points::every_kill_point;
pub use test_cluster::TestCluster;
pub use wait_for::wait_for;
pub use without_annotation::without_annotation;
