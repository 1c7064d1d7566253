//! Progress, object by object, for whoever watches: a terminal, a status, a log.

use crate::object::Id;

/// What has happened to one object, or keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It is about to be written.
    Applying {
        id: Id,
    },
    Applied {
        id: Id,
        outcome: Outcome,
    },
    /// It is not ready: why, and the last that Kubernetes said of it.
    Waiting {
        id: Id,
        reason: String,
        event: Option<String>,
    },
    Ready {
        id: Id,
    },
    /// It cannot become ready by itself.
    Failed {
        id: Id,
        reason: String,
    },
    Removing {
        id: Id,
    },
    /// It is gone, or was not there.
    Removed {
        id: Id,
    },
    /// It stays, because it says so itself or is not ours.
    Kept {
        id: Id,
        reason: String,
    },
}

/// What became of an object that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Changed,
    Unchanged,
}

/// Hears of every step, from any task.
pub trait Tell: Send + Sync {
    fn tell(&self, step: Step);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Tell for Silent {
    fn tell(&self, _: Step) {}
}
