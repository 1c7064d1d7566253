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

/// How something does, in one word for all kinds of things: what lists are filtered by and what has a colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    Good,
    Moving,
    Attention,
    Bad,
    Resting,
    Unknown,
    /// There is nothing of it.
    None,
}

impl Family {
    pub const ALL: [Self; 7] =
        [Self::Good, Self::Moving, Self::Attention, Self::Bad, Self::Resting, Self::Unknown, Self::None];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Moving => "moving",
            Self::Attention => "attention",
            Self::Bad => "bad",
            Self::Resting => "resting",
            Self::Unknown => "unknown",
            Self::None => "none",
        }
    }

    pub fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct View {
    pub expect: Expect,
    pub realtime: Realtime,
}
