//! Readiness of objects, and waiting for it.
//!
//! [`judge`] is pure: it maps a live object to a [`State`] by one table for each of Helm's two rule sets. [`wait`]
//! observes objects by watches and does not poll.

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

/// Readiness of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Ready,
    /// In progress; names the missing part.
    Progressing(String),
    /// Failed; does not become ready without intervention.
    Failed(String),
    Absent,
    Terminating,
}

/// Rule set of readiness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Helm 4's `watcher` strategy: kstatus.
    Watcher,
    /// As `Watcher`; Jobs must also have completed.
    WatcherWithJobs,
    /// Helm 3's rules, Helm 4's `legacy` strategy.
    Legacy,
    /// As `Legacy`; Jobs must also have completed.
    LegacyWithJobs,
    /// For hooks: Jobs and Pods must have completed; other kinds are ready.
    HookOnly,
}

/// Readiness of a live object.
pub fn judge(live: &Value, strategy: Strategy) -> State {
    match strategy {
        Strategy::Watcher => kstatus::judge(live, false),
        Strategy::WatcherWithJobs => kstatus::judge(live, true),
        Strategy::Legacy => legacy::judge(live, false),
        Strategy::LegacyWithJobs => legacy::judge(live, true),
        Strategy::HookOnly => kstatus::judge_hook(live),
    }
}

/// Whether an existing object of this kind can be anything but ready.
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
