//! One view of everything that runs, on a cluster or on a host: what was asked for, and what was last seen.
//!
//! Elsewhere: how the states of a release map onto it (`crate::release`).

use serde::{Deserialize, Serialize};

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Expect {
    NotInstalled,
    Running,
    Stopped,
}

/// What was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Realtime {
    NotInstalled,
    Running,
    Stopped,
    Failed,
    /// Spelled so by those who read it.
    #[serde(rename = "unknow", alias = "unknown")]
    Unknown,
    Installing,
    Starting,
    Stopping,
    Restarting,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub expect: Expect,
    pub realtime: Realtime,
}
