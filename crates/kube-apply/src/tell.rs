//! Progress events per object, for terminals, status updates and logs.

use crate::object::Id;

/// Progress event of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The object is about to be written.
    Applying {
        id: Id,
    },
    Applied {
        id: Id,
        outcome: Outcome,
    },
    /// The object is not ready, with the reason and the last warning event.
    Waiting {
        id: Id,
        reason: String,
        event: Option<String>,
    },
    Ready {
        id: Id,
    },
    /// The object cannot become ready without intervention.
    Failed {
        id: Id,
        reason: String,
    },
    Removing {
        id: Id,
    },
    /// Deleted, or already missing.
    Removed {
        id: Id,
    },
    /// Kept by its annotation or because it has another owner.
    Kept {
        id: Id,
        reason: String,
    },
}

/// Result of writing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Created,
    Changed,
    Unchanged,
}

/// Receives progress events, from any task.
pub trait Tell: Send + Sync {
    fn tell(&self, step: Step);
}

/// Discards all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Tell for Silent {
    fn tell(&self, _: Step) {}
}
