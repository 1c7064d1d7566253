//! Status view of everything that runs on a cluster or a host: expected and realtime status.
//!
//! See also: `crate::release` maps the states of a release to it.

use serde::{Deserialize, Serialize};

/// Expected status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedStatus {
    NotInstalled,
    Running,
    Stopped,
}

/// Last observed status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RealtimeStatus {
    NotInstalled,
    Running,
    Stopped,
    Failed,
    /// Serialised as `unknow`, which existing clients expect.
    #[serde(rename = "unknow", alias = "unknown")]
    Unknown,
    Installing,
    Starting,
    Stopping,
    Restarting,
}

/// Status category common to all kinds of objects, for filters and colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StatusCategory {
    Good,
    Moving,
    Attention,
    Bad,
    Resting,
    Unknown,
    /// No object exists.
    None,
}

impl StatusCategory {
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

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatusView {
    pub expect: ExpectedStatus,
    pub realtime: RealtimeStatus,
}
