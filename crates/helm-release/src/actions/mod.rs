//! Helm's actions on a release. Every action that writes holds the lock of the release name.
//!
//! A process may die at any call of an action: the records written so far describe the operation, and [`recover`] or
//! the next action continues from there.
//!
//! Modules:
//!
//! - [`ask`]: options of every action
//! - [`plan`]: decides the next step from the history of a release
//! - [`footprint`]: objects that may be in the cluster
//! - [`values`]: values of the next revision
//! - [`post_render`]: changes rendered objects before they are written
//! - [`operation`]: parts that all actions share; one module per action follows

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod ask;
mod crds;
mod document;
mod footprint;
mod install;
mod operation;
pub mod plan;
mod post_render;
mod recover;
mod rollback;
mod test;
mod uninstall;
mod upgrade;
mod values;

#[cfg(test)]
mod tests;

pub use ask::{
    Applying, Content, DryRun, Install, PostRender, Propagation, Recovered, Rollback, Room, Run, Test,
    Uninstall, Uninstalled, Upgrade, Values, Wait,
};
