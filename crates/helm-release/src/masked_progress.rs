//! Progress sink that masks sensitive text.

use kube_apply::{Mask, ProgressEvent, ProgressSink};

/// Forwards progress events with sensitive text masked.
pub struct MaskedProgress<'q> {
    pub mask: &'q Mask,
    pub progress: &'q dyn ProgressSink,
}

impl ProgressSink for MaskedProgress<'_> {
    fn report(&self, step: ProgressEvent) {
        let over = |text: String| self.mask.mask_text(&text);
        self.progress.report(match step {
            ProgressEvent::Waiting { id, reason, event } => {
                ProgressEvent::Waiting { id, reason: over(reason), event: event.map(over) }
            }
            ProgressEvent::Failed { id, reason } => ProgressEvent::Failed { id, reason: over(reason) },
            ProgressEvent::Kept { id, reason } => ProgressEvent::Kept { id, reason: over(reason) },
            told @ (ProgressEvent::Applying { .. }
            | ProgressEvent::Applied { .. }
            | ProgressEvent::Ready { .. }
            | ProgressEvent::Removing { .. }
            | ProgressEvent::Removed { .. }) => told,
        });
    }
}
