//! Events of Kubernetes, for those who describe a release: one for each new reason of being ready or not.

use kube::Resource;
use kube::runtime::events::{Event, EventType};
use kube_types::progress::condition;
use kube_types::release::conditions::READY;
use kube_types::{HelmRelease, HelmReleaseStatus};

use crate::lead::Controller;

/// That something is under way is no news.
const QUIET: &[&str] = &["Progressing", "Busy"];

/// How long a note may be.
const NOTE: usize = 1024;

impl Controller {
    /// What cannot be told is no reason to do anything again.
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
