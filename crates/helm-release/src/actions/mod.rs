//! Helm's actions on a release. Every action that writes holds the lock of the release name.
//!
//! A process may die at any call of an action: the records written so far describe the operation, and [`recover`] or
//! the next action continues from there.
//!
//! Modules:
//!
//! - [`options`]: options of every action
//! - [`history`]: decides the next step from the history of a release
//! - [`inventory`]: objects that may be in the cluster
//! - [`values`]: values of the next revision
//! - [`post_render`]: changes rendered objects before they are written
//! - [`operation`]: parts that all actions share; one module per action follows

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod crds;
mod document;
pub mod history;
mod install;
mod inventory;
mod operation;
pub mod options;
mod post_render;
mod recover;
mod rollback;
mod test;
mod uninstall;
mod upgrade;
mod values;

#[cfg(test)]
mod tests;

pub use options::{
    ActionOptions, ApplyMode, CapacityCheck, ContentSource, DryRun, Install, PostRenderer, Propagation,
    RecoveryOutcome, Rollback, Test, Uninstall, UninstallResult, Upgrade, ValuesPolicy, WaitMode,
};
