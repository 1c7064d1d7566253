//! Kubernetes events on a `HelmRelease`: one whenever the reason of its `Ready` condition changes.

use kube::Resource;
use kube::runtime::events::{Event, EventType};
use kube_types::conditions::find_condition;
use kube_types::release::conditions::READY;
use kube_types::{HelmRelease, HelmReleaseStatus};

use crate::controller::ReleaseController;

/// Reasons without an event: they only say that an operation is in progress.
const SILENT_REASONS: &[&str] = &["Progressing", "Busy"];

/// The maximum length of an event note, in characters.
const MAX_NOTE_LEN: usize = 1024;

impl ReleaseController {
    /// Writes the event for a status change. A failed write is logged and not retried.
    pub(crate) async fn publish_status_event(
        &self,
        before: Option<&HelmReleaseStatus>,
        updated: &HelmRelease,
    ) {
        let ready = |status: &HelmReleaseStatus| find_condition(&status.conditions, READY).cloned();
        let was = before.and_then(ready).map(|condition| condition.reason);
        let Some(now) = updated.status.as_ref().and_then(ready) else { return };
        if was.as_deref() == Some(&now.reason) || SILENT_REASONS.contains(&now.reason.as_str()) {
            return;
        }
        let good = now.status == "True" || now.reason == "Paused";
        let event = Event {
            type_: if good { EventType::Normal } else { EventType::Warning },
            reason: now.reason,
            note: Some(now.message.chars().take(MAX_NOTE_LEN).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &updated.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }
}
