//! Waits until objects are ready, or removed.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Event;
use tokio::time::{Instant, sleep, timeout_at};

use super::events::{Warnings, watch_warnings};
use super::observe::{ObservedChange, observe};
use super::{Readiness, WaitStrategy, can_be_unready, evaluate};
use crate::error::{ObjectError, ObjectErrorKind};
use crate::object::{Object, ObjectId};
use crate::progress::{ProgressEvent, ProgressSink};
use crate::target::{ResolvedObject, Target};

/// Warning events are read only if the wait lasts longer than this.
const WARNING_EVENTS_DELAY: Duration = Duration::from_secs(1);

/// Objects that were not ready when the wait ended: at the deadline, or because the remaining ones failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReadyError {
    pub objects: Vec<(ObjectId, String)>,
    /// Whether the deadline passed. If not, an object has failed.
    pub timed_out: bool,
}

impl NotReadyError {
    pub fn kind(&self) -> domain::ErrorKind {
        if self.timed_out { domain::ErrorKind::Timeout } else { domain::ErrorKind::Precondition }
    }
}

impl std::fmt::Display for NotReadyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let objects: Vec<_> = self.objects.iter().map(|(id, why)| format!("{id}: {why}")).collect();
        write!(f, "not ready: {}", objects.join("; "))
    }
}

impl std::error::Error for NotReadyError {}

/// Waits until all objects are ready or the deadline passes. Returns earlier if an object failed and all others are
/// ready or failed.
pub async fn wait_until_ready(
    target: &Target,
    objects: &[Object],
    strategy: WaitStrategy,
    deadline: Instant,
    progress: &dyn ProgressSink,
) -> Result<(), NotReadyError> {
    let placed = target.resolve(objects).await.map_err(|failures| NotReadyError {
        objects: failures
            .into_iter()
            .map(|failure| (failure.id.clone(), failure.error.to_string()))
            .collect(),
        timed_out: false,
    })?;
    let named = |placed: &ResolvedObject| !placed.object.name().is_empty();
    let waited: Vec<ResolvedObject> = placed
        .into_iter()
        .filter(|placed| named(placed) && can_be_unready(placed.object.value(), strategy))
        .collect();
    if waited.is_empty() {
        return Ok(());
    }
    let mut watch = ReadinessWatch::new(target, waited, strategy, progress);
    let in_time = timeout_at(deadline, watch.wait_until_settled()).await.is_ok();
    watch.result(!in_time)
}

/// State of a wait.
struct ReadinessWatch<'a> {
    target: &'a Target,
    progress: &'a dyn ProgressSink,
    strategy: WaitStrategy,
    objects: Vec<ResolvedObject>,
    states: Vec<Readiness>,
    warnings: Warnings,
}

impl<'a> ReadinessWatch<'a> {
    fn new(
        target: &'a Target,
        objects: Vec<ResolvedObject>,
        strategy: WaitStrategy,
        progress: &'a dyn ProgressSink,
    ) -> Self {
        let states = vec![Readiness::Absent; objects.len()];
        Self { target, progress, strategy, objects, states, warnings: Warnings::default() }
    }

    /// Runs until every object is ready or failed.
    async fn wait_until_settled(&mut self) {
        let mut seen = observe(self.target, &self.objects);
        let mut complaints = stream::pending().boxed();
        let (mut asked, soon) = (false, sleep(WARNING_EVENTS_DELAY));
        tokio::pin!(soon);
        while !self.is_settled() {
            tokio::select! {
                Some(next) = seen.next() => self.handle_change(next),
                Some(event) = complaints.next() => self.handle_warning(&event),
                () = &mut soon, if !asked => {
                    asked = true;
                    complaints = watch_warnings(&self.target.client, self.namespaces());
                }
                else => return,
            }
        }
    }

    /// Namespaces of objects that are not ready.
    fn namespaces(&self) -> BTreeSet<String> {
        self.unready().filter_map(|(at, _)| self.objects[at].id().namespace).collect()
    }

    fn handle_warning(&mut self, event: &Event) {
        let waiting: Vec<usize> = self.unready().map(|(at, _)| at).collect();
        for at in waiting {
            if self.warnings.record(event, &self.objects[at].id()) {
                self.report(at);
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.states.iter().all(|state| matches!(state, Readiness::Ready | Readiness::Failed(_)))
    }

    fn unready(&self) -> impl Iterator<Item = (usize, &Readiness)> {
        self.states.iter().enumerate().filter(|(_, state)| **state != Readiness::Ready)
    }

    fn handle_change(&mut self, seen: ObservedChange) {
        match seen {
            ObservedChange::Present(at, live) => self.set_state(at, evaluate(&live, self.strategy)),
            // A completed hook may delete itself.
            ObservedChange::Absent(at)
                if self.strategy == WaitStrategy::HookOnly && self.states[at] == Readiness::Ready => {}
            ObservedChange::Absent(at) => self.set_state(at, Readiness::Absent),
            ObservedChange::Unwatchable(places, why) => {
                for at in places {
                    self.set_state(at, Readiness::Failed(why.clone()));
                }
            }
        }
    }

    fn set_state(&mut self, at: usize, state: Readiness) {
        if self.states[at] != state {
            self.states[at] = state;
            self.report(at);
        }
    }

    fn report(&self, at: usize) {
        let id = self.objects[at].id();
        let event = self.warnings.get(&id).map(ToOwned::to_owned);
        self.progress.report(match &self.states[at] {
            Readiness::Ready => ProgressEvent::Ready { id },
            Readiness::Failed(reason) => ProgressEvent::Failed { id, reason: reason.clone() },
            other => ProgressEvent::Waiting { id, reason: reason(other), event },
        });
    }

    fn result(&self, timed_out: bool) -> Result<(), NotReadyError> {
        let late = self.unready().map(|(at, state)| {
            let id = self.objects[at].id();
            let why = match self.warnings.get(&id) {
                Some(event) => format!("{}; last warning: {event}", reason(state)),
                None => reason(state),
            };
            (id, why)
        });
        let objects: Vec<_> = late.collect();
        if objects.is_empty() { Ok(()) } else { Err(NotReadyError { objects, timed_out }) }
    }
}

fn reason(state: &Readiness) -> String {
    match state {
        Readiness::Ready => "it is ready".to_owned(),
        Readiness::Progressing(reason) | Readiness::Failed(reason) => reason.clone(),
        Readiness::Absent => "not found".to_owned(),
        Readiness::Terminating => "it is being deleted".to_owned(),
    }
}

/// Waits until all objects are deleted or the deadline passes. Objects that remain or cannot be watched are failures.
pub(crate) async fn wait_until_deleted(
    target: &Target,
    objects: &[ResolvedObject],
    deadline: Instant,
    progress: &dyn ProgressSink,
) -> Vec<ObjectError> {
    let mut left: Vec<Option<String>> = vec![Some("it still exists".to_owned()); objects.len()];
    let mut seen = observe(target, objects);
    let all_gone = async {
        while left.iter().any(Option::is_some) {
            match seen.next().await {
                Some(ObservedChange::Absent(at)) => left[at] = None,
                // The awaited object was deleted; this is a new one with its name.
                Some(ObservedChange::Present(at, live))
                    if live["metadata"]["deletionTimestamp"].is_null() =>
                {
                    left[at] = None;
                }
                Some(ObservedChange::Present(at, live)) => {
                    let reason = deletion_reason(&live);
                    progress.report(ProgressEvent::Waiting {
                        id: objects[at].id(),
                        reason: reason.clone(),
                        event: None,
                    });
                    left[at] = Some(reason);
                }
                Some(ObservedChange::Unwatchable(places, why)) => {
                    for at in places {
                        left[at] = Some(why.clone());
                    }
                    return;
                }
                None => return,
            }
        }
    };
    // `left` records whether it finished in time.
    let _ = timeout_at(deadline, all_gone).await;
    let late = left.into_iter().zip(objects).filter_map(|(why, placed)| Some((why?, placed)));
    late.map(|(message, placed)| {
        ObjectError::new(
            &placed.object,
            placed.id(),
            ObjectErrorKind::Api { kind: domain::ErrorKind::Timeout, message },
        )
    })
    .collect()
}

/// Finalizers that block the deletion.
fn deletion_reason(live: &serde_json::Value) -> String {
    let finalizers = live["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = finalizers.iter().filter_map(serde_json::Value::as_str).collect();
    match names.as_slice() {
        [] => "it is being deleted".to_owned(),
        names => format!("it is being deleted and waits for finalizers {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
