//! Whether an object has become what it was meant to be, and waiting until it has.
//!
//! [`judge`] is pure: from what the cluster says of an object to a [`State`], by one table for each of Helm's two ways of
//! judging. [`wait`] looks by watches and never asks twice.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod events;
mod fields;
mod kstatus;
mod legacy;
mod observe;
mod wait;

use serde_json::Value;

pub use events::last_warnings;
pub(crate) use wait::wait_gone;
pub use wait::{NotReady, wait};

/// How far an object has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// It is on its way, and this is missing.
    Progressing(String),
    /// It will not become ready unless somebody does something.
    Failed(String),
    Absent,
    Terminating,
}

/// By whose rules it is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Helm 4's `watcher`: kstatus.
    Watcher,
    /// The same, and Jobs must have completed.
    WatcherWithJobs,
    /// Helm 3's, and Helm 4's `legacy`.
    Legacy,
    /// The same, and Jobs must have completed.
    LegacyWithJobs,
    /// For hooks: Jobs and Pods must have completed, and nothing else is waited for.
    HookOnly,
}

/// How far an object is that looks like this.
pub fn judge(live: &Value, strategy: Strategy) -> State {
    match strategy {
        Strategy::Watcher => kstatus::judge(live, false),
        Strategy::WatcherWithJobs => kstatus::judge(live, true),
        Strategy::Legacy => legacy::judge(live, false),
        Strategy::LegacyWithJobs => legacy::judge(live, true),
        Strategy::HookOnly => kstatus::judge_hook(live),
    }
}

/// Whether an object of that kind can be anything but ready once it is there.
fn is_judged(live: &Value, strategy: Strategy) -> bool {
    match strategy {
        Strategy::Watcher | Strategy::WatcherWithJobs => kstatus::is_judged(live),
        Strategy::Legacy | Strategy::LegacyWithJobs => {
            legacy::is_judged(live, strategy == Strategy::LegacyWithJobs)
        }
        Strategy::HookOnly => matches!(fields::group_kind(live), ("batch", "Job") | ("", "Pod")),
    }
}

#[cfg(test)]
mod tests;
