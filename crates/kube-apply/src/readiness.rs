//! Readiness of objects, and waiting for it.
//!
//! [`evaluate`] is pure: it maps a live object to a [`Readiness`] by one table for each of Helm's two rule sets. [`wait`]
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
pub(crate) use wait::wait_until_deleted;
pub use wait::{NotReadyError, wait_until_ready};

/// Readiness of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
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
pub enum WaitStrategy {
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
pub fn evaluate(live: &Value, strategy: WaitStrategy) -> Readiness {
    match strategy {
        WaitStrategy::Watcher => kstatus::evaluate(live, false),
        WaitStrategy::WatcherWithJobs => kstatus::evaluate(live, true),
        WaitStrategy::Legacy => legacy::evaluate(live, false),
        WaitStrategy::LegacyWithJobs => legacy::evaluate(live, true),
        WaitStrategy::HookOnly => kstatus::evaluate_hook(live),
    }
}

/// Whether an existing object of this kind can be anything but ready.
fn can_be_unready(live: &Value, strategy: WaitStrategy) -> bool {
    match strategy {
        WaitStrategy::Watcher | WaitStrategy::WatcherWithJobs => kstatus::can_be_unready(live),
        WaitStrategy::Legacy | WaitStrategy::LegacyWithJobs => {
            legacy::can_be_unready(live, strategy == WaitStrategy::LegacyWithJobs)
        }
        WaitStrategy::HookOnly => matches!(fields::group_kind(live), ("batch", "Job") | ("", "Pod")),
    }
}

#[cfg(test)]
mod tests;
