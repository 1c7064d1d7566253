//! Progress events per object, for terminals, status updates and logs.

use crate::object::ObjectId;

/// Progress event of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgressEvent {
    /// The object is about to be written.
    Applying {
        id: ObjectId,
    },
    Applied {
        id: ObjectId,
        outcome: WriteOutcome,
    },
    /// The object is not ready, with the reason and the last warning event.
    Waiting {
        id: ObjectId,
        reason: String,
        event: Option<String>,
    },
    Ready {
        id: ObjectId,
    },
    /// The object cannot become ready without intervention.
    Failed {
        id: ObjectId,
        reason: String,
    },
    Removing {
        id: ObjectId,
    },
    /// Deleted, or already missing.
    Removed {
        id: ObjectId,
    },
    /// Kept by its annotation or because it has another owner.
    Kept {
        id: ObjectId,
        reason: String,
    },
}

/// Result of writing an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    Created,
    Changed,
    Unchanged,
}

/// Receives progress events, from any task.
pub trait ProgressSink: Send + Sync {
    fn report(&self, step: ProgressEvent);
}

/// Discards all events.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl ProgressSink for NoProgress {
    fn report(&self, _: ProgressEvent) {}
}
