//! Progress sink that masks sensitive text.

use kube_apply::{Mask, Step, Tell};

/// Forwards progress events with sensitive text masked.
pub struct Quiet<'q> {
    pub mask: &'q Mask,
    pub tell: &'q dyn Tell,
}

impl Tell for Quiet<'_> {
    fn tell(&self, step: Step) {
        let over = |text: String| self.mask.over(&text);
        self.tell.tell(match step {
            Step::Waiting { id, reason, event } => {
                Step::Waiting { id, reason: over(reason), event: event.map(over) }
            }
            Step::Failed { id, reason } => Step::Failed { id, reason: over(reason) },
            Step::Kept { id, reason } => Step::Kept { id, reason: over(reason) },
            told @ (Step::Applying { .. }
            | Step::Applied { .. }
            | Step::Ready { .. }
            | Step::Removing { .. }
            | Step::Removed { .. }) => told,
        });
    }
}
