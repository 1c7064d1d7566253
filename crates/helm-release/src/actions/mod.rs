//! The acts: what can be done with a release, each under the hold on its name.
//!
//! Modules in reading order: what can be asked ([`ask`]), what the history allows ([`plan`]), what may still be in the
//! cluster ([`footprint`]), which values hold ([`values`]) and what others change in a rendering ([`post_render`]); then what
//! all acts share ([`operation`]), and the acts themselves. Every act can be killed at any call: what it has written by then
//! says what it was about, and [`recover`] or the next act goes on from there.

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
