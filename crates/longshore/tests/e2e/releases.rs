//! Helm releases on a cluster that other clients use as well.
//!
//! Modules:
//!
//! - [`charts`]: charts for tests
//! - [`cli`]: the command line for releases
//! - [`public`]: public charts, compared with the real Helm
//! - [`interop`]: the platform, the `longshore` command line and the real Helm on the same releases
//! - [`escalation`]: attempts to gain another user's rights through a release
//! - [`canary`]: secrets that must not leak
//! - [`faults`]: servers that are killed or stopped during operations
//! - [`repairs`]: state that rollback, plans and concurrent changes must preserve

pub mod charts;

mod canary;
mod cli;
mod escalation;
mod faults;
mod interop;
mod public;
mod repairs;
