//! Kubernetes events on a `HelmRelease`: one whenever the reason of its `Ready` condition changes.

use kube::Resource;
use kube::runtime::events::{Event, EventType};
use kube_types::progress::condition;
use kube_types::release::conditions::READY;
use kube_types::{HelmRelease, HelmReleaseStatus};

use crate::lead::Controller;

/// Reasons without an event: they only say that an operation is in progress.
const QUIET: &[&str] = &["Progressing", "Busy"];

/// The maximum length of an event note, in characters.
const NOTE: usize = 1024;

impl Controller {
    /// Writes the event for a status change. A failed write is logged and not retried.
    pub(crate) async fn announce(&self, before: Option<&HelmReleaseStatus>, told: &HelmRelease) {
        let ready = |status: &HelmReleaseStatus| condition(&status.conditions, READY).cloned();
        let was = before.and_then(ready).map(|condition| condition.reason);
        let Some(now) = told.status.as_ref().and_then(ready) else { return };
        if was.as_deref() == Some(&now.reason) || QUIET.contains(&now.reason.as_str()) {
            return;
        }
        let good = now.status == "True" || now.reason == "Paused";
        let event = Event {
            type_: if good { EventType::Normal } else { EventType::Warning },
            reason: now.reason,
            note: Some(now.message.chars().take(NOTE).collect()),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.events.publish(&event, &told.object_ref(&())).await {
            tracing::warn!(%error, "cannot write an event");
        }
    }
}
