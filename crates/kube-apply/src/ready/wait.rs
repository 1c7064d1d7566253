//! Waits until objects are ready, or removed.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Event;
use tokio::time::{Instant, sleep, timeout_at};

use super::events::{Warnings, warnings};
use super::observe::{Seen, observe};
use super::{State, Strategy, is_judged, judge};
use crate::error::{Failure, Why};
use crate::object::{Id, Object};
use crate::target::{Placed, Target};
use crate::tell::{Step, Tell};

/// Warning events are read only if the wait lasts longer than this.
const SOON: Duration = Duration::from_secs(1);

/// Objects that were not ready when the wait ended: at the deadline, or because the remaining ones failed for good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    pub objects: Vec<(Id, String)>,
    /// Whether the deadline passed. If not, an object has failed.
    pub timed_out: bool,
}

impl NotReady {
    pub fn kind(&self) -> domain::Kind {
        if self.timed_out { domain::Kind::Timeout } else { domain::Kind::Precondition }
    }
}

impl std::fmt::Display for NotReady {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let objects: Vec<_> = self.objects.iter().map(|(id, why)| format!("{id}: {why}")).collect();
        write!(f, "not ready: {}", objects.join("; "))
    }
}

impl std::error::Error for NotReady {}

/// Waits until all objects are ready or the deadline passes. Returns earlier if an object failed and all others are
/// ready or failed.
pub async fn wait(
    target: &Target,
    objects: &[Object],
    strategy: Strategy,
    deadline: Instant,
    tell: &dyn Tell,
) -> Result<(), NotReady> {
    let placed = target.place(objects).await.map_err(|failures| NotReady {
        objects: failures.into_iter().map(|failure| (failure.id.clone(), failure.why.to_string())).collect(),
        timed_out: false,
    })?;
    let named = |placed: &Placed| !placed.object.name().is_empty();
    let waited: Vec<Placed> = placed
        .into_iter()
        .filter(|placed| named(placed) && is_judged(placed.object.value(), strategy))
        .collect();
    if waited.is_empty() {
        return Ok(());
    }
    let mut watch = Watch::new(target, waited, strategy, tell);
    let in_time = timeout_at(deadline, watch.until_settled()).await.is_ok();
    watch.verdict(!in_time)
}

/// State of a wait.
struct Watch<'a> {
    target: &'a Target,
    tell: &'a dyn Tell,
    strategy: Strategy,
    objects: Vec<Placed>,
    states: Vec<State>,
    warnings: Warnings,
}

impl<'a> Watch<'a> {
    fn new(target: &'a Target, objects: Vec<Placed>, strategy: Strategy, tell: &'a dyn Tell) -> Self {
        let states = vec![State::Absent; objects.len()];
        Self { target, tell, strategy, objects, states, warnings: Warnings::default() }
    }

    /// Runs until every object is ready or failed.
    async fn until_settled(&mut self) {
        let mut seen = observe(self.target, &self.objects);
        let mut complaints = stream::pending().boxed();
        let (mut asked, soon) = (false, sleep(SOON));
        tokio::pin!(soon);
        while !self.is_settled() {
            tokio::select! {
                Some(next) = seen.next() => self.see(next),
                Some(event) = complaints.next() => self.hear(&event),
                () = &mut soon, if !asked => {
                    asked = true;
                    complaints = warnings(&self.target.client, self.namespaces());
                }
                else => return,
            }
        }
    }

    /// Namespaces of objects that are not ready.
    fn namespaces(&self) -> BTreeSet<String> {
        self.waiting().filter_map(|(at, _)| self.objects[at].id().namespace).collect()
    }

    fn hear(&mut self, event: &Event) {
        let waiting: Vec<usize> = self.waiting().map(|(at, _)| at).collect();
        for at in waiting {
            if self.warnings.hear(event, &self.objects[at].id()) {
                self.tell_of(at);
            }
        }
    }

    fn is_settled(&self) -> bool {
        self.states.iter().all(|state| matches!(state, State::Ready | State::Failed(_)))
    }

    fn waiting(&self) -> impl Iterator<Item = (usize, &State)> {
        self.states.iter().enumerate().filter(|(_, state)| **state != State::Ready)
    }

    fn see(&mut self, seen: Seen) {
        match seen {
            Seen::There(at, live) => self.turn(at, judge(&live, self.strategy)),
            // A completed hook may delete itself.
            Seen::Gone(at) if self.strategy == Strategy::HookOnly && self.states[at] == State::Ready => {}
            Seen::Gone(at) => self.turn(at, State::Absent),
            Seen::Blind(places, why) => {
                for at in places {
                    self.turn(at, State::Failed(why.clone()));
                }
            }
        }
    }

    fn turn(&mut self, at: usize, state: State) {
        if self.states[at] != state {
            self.states[at] = state;
            self.tell_of(at);
        }
    }

    fn tell_of(&self, at: usize) {
        let id = self.objects[at].id();
        let event = self.warnings.about(&id).map(ToOwned::to_owned);
        self.tell.tell(match &self.states[at] {
            State::Ready => Step::Ready { id },
            State::Failed(reason) => Step::Failed { id, reason: reason.clone() },
            other => Step::Waiting { id, reason: reason(other), event },
        });
    }

    fn verdict(&self, timed_out: bool) -> Result<(), NotReady> {
        let late = self.waiting().map(|(at, state)| {
            let id = self.objects[at].id();
            let why = match self.warnings.about(&id) {
                Some(event) => format!("{}; last warning: {event}", reason(state)),
                None => reason(state),
            };
            (id, why)
        });
        let objects: Vec<_> = late.collect();
        if objects.is_empty() { Ok(()) } else { Err(NotReady { objects, timed_out }) }
    }
}

fn reason(state: &State) -> String {
    match state {
        State::Ready => "it is ready".to_owned(),
        State::Progressing(reason) | State::Failed(reason) => reason.clone(),
        State::Absent => "it is not there".to_owned(),
        State::Terminating => "it is being deleted".to_owned(),
    }
}

/// Waits until all objects are deleted or the deadline passes. Objects that remain or cannot be watched are failures.
pub(crate) async fn wait_gone(
    target: &Target,
    objects: &[Placed],
    deadline: Instant,
    tell: &dyn Tell,
) -> Vec<Failure> {
    let mut left: Vec<Option<String>> = vec![Some("it is still there".to_owned()); objects.len()];
    let mut seen = observe(target, objects);
    let all_gone = async {
        while left.iter().any(Option::is_some) {
            match seen.next().await {
                Some(Seen::Gone(at)) => left[at] = None,
                // The awaited object was deleted; this is a new one with its name.
                Some(Seen::There(at, live)) if live["metadata"]["deletionTimestamp"].is_null() => {
                    left[at] = None;
                }
                Some(Seen::There(at, live)) => {
                    let reason = holding(&live);
                    tell.tell(Step::Waiting { id: objects[at].id(), reason: reason.clone(), event: None });
                    left[at] = Some(reason);
                }
                Some(Seen::Blind(places, why)) => {
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
        Failure::new(&placed.object, placed.id(), Why::Cluster { kind: domain::Kind::Timeout, message })
    })
    .collect()
}

/// Finalizers that block the deletion.
fn holding(live: &serde_json::Value) -> String {
    let finalizers = live["metadata"]["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<&str> = finalizers.iter().filter_map(serde_json::Value::as_str).collect();
    match names.as_slice() {
        [] => "it is being deleted".to_owned(),
        names => format!("it is being deleted, held by {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
