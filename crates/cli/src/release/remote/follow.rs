//! Follows an operation until it is done.
//!
//! The platform does the work. Interrupting the command does not stop the operation.

use std::time::{Duration, Instant};

use kube_apply::{ObjectId, ProgressEvent, ProgressSink};
use serde_json::Value;

use super::{ReleaseRef, ignore_not_found, items, str_at};
use crate::helm::CommandError;
use crate::platform::PlatformError;
use crate::platform::client::encode_segment;
use crate::platform::events::EventStream;
use crate::platform::output::escape_control;
use crate::release::progress::StderrProgress;

/// Condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitGoal {
    /// All objects are written and the hooks have run.
    Deployed,
    /// All objects are ready too.
    Ready,
    /// The release does not exist any more.
    Deleted,
}

/// State of an operation with respect to the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OperationState {
    Pending,
    Done,
    Failed(String),
}

/// Poll interval of objects while there are no events.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// How long the platform may be unreachable.
const UNREACHABLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Exit code after Ctrl-C.
const INTERRUPTED_EXIT_CODE: u8 = 130;

/// Waits until the condition holds. Prints progress to standard error.
pub async fn follow(release: &ReleaseRef<'_>, operation: &str, goal: WaitGoal) -> Result<(), CommandError> {
    let interrupted = async {
        // Without signal handling, only the end of the operation is awaited.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        done = follow_events(release, operation, goal) => done,
        () = interrupted => {
            let why = format!("interrupted: the platform continues the operation, see `{}`", release.status_command());
            Err(CommandError { code: INTERRUPTED_EXIT_CODE, ..why.into() })
        }
    }
}

async fn follow_events(
    release: &ReleaseRef<'_>,
    operation: &str,
    until: WaitGoal,
) -> Result<(), CommandError> {
    let client = &release.platform.client;
    let path = format!("operations/{}", encode_segment(operation));
    let mut printer = ProgressPrinter { progress: StderrProgress::new(), printed_notes: Vec::new() };
    let mut last_contact = Instant::now();
    loop {
        let ended = match client.open_event_stream(&format!("{path}/progress")).await {
            Ok(mut events) => {
                last_contact = Instant::now();
                wait_until_end(release, &mut events, until, &mut printer).await
            }
            Err(failure) => Err(failure),
        };
        match ended {
            Ok(OperationState::Done) => return Ok(()),
            Ok(OperationState::Failed(why)) => return Err(why.into()),
            // There are no further events of a deleted release.
            Ok(OperationState::Pending) => match ignore_not_found(client.get(&path).await) {
                Ok(None) if until == WaitGoal::Deleted => return Ok(()),
                Ok(None) => return Err(format!("release {:?} no longer exists", release.name).into()),
                Ok(Some(_)) | Err(PlatformError::Unreachable { .. } | PlatformError::Timeout { .. }) => {}
                Err(failure) => return Err(failure.into()),
            },
            Err(PlatformError::Api(problem))
                if until == WaitGoal::Deleted && problem.status == http::StatusCode::NOT_FOUND =>
            {
                return Ok(());
            }
            // The platform may be restarting.
            Err(PlatformError::Unreachable { .. } | PlatformError::Timeout { .. })
                if last_contact.elapsed() < UNREACHABLE_TIMEOUT => {}
            Err(failure) => {
                let again = release.status_command();
                return Err(format!("{failure}; the platform continues the operation, see `{again}`").into());
            }
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

async fn wait_until_end(
    release: &ReleaseRef<'_>,
    events: &mut EventStream,
    until: WaitGoal,
    telling: &mut ProgressPrinter,
) -> Result<OperationState, PlatformError> {
    loop {
        match tokio::time::timeout(POLL_INTERVAL, events.next()).await {
            Ok(told) => match told? {
                None => return Ok(OperationState::Pending),
                Some(operation) => {
                    let end = operation_state(&operation, until);
                    if end == OperationState::Pending {
                        telling.print_steps(release, &operation);
                    } else {
                        if until == WaitGoal::Ready {
                            telling.print_objects(release).await;
                        }
                        return Ok(end);
                    }
                }
            },
            Err(_) if until == WaitGoal::Ready => telling.print_objects(release).await,
            Err(_) => {}
        }
    }
}

/// Whether the condition holds. Pure: no I/O, no clock.
fn operation_state(operation: &Value, until: WaitGoal) -> OperationState {
    let step_of = |name: &str| items(operation, "steps").iter().find(|step| step["name"] == name);
    let state_of =
        |name: &str| step_of(name).map_or(("", ""), |step| (str_at(step, "/state"), str_at(step, "/note")));
    let needed: &[&str] = match until {
        WaitGoal::Deployed => &["dispatched", "deployed"],
        WaitGoal::Ready => &["dispatched", "deployed", "ready"],
        WaitGoal::Deleted => &["removed"],
    };
    let states: Vec<_> = needed.iter().map(|name| state_of(name)).collect();
    if let Some((_, note)) = states.iter().find(|(state, _)| *state == "failed") {
        return OperationState::Failed(escape_control(if note.is_empty() { "it failed" } else { note }));
    }
    // A step that is running although it has ended before has failed and is being retried. The failure is reported
    // immediately.
    if let Some(tried) =
        step_of("deployed").filter(|step| step["state"] == "running" && step["at"].is_string())
    {
        return OperationState::Failed(format!(
            "{}; the platform retries it",
            escape_control(str_at(tried, "/note"))
        ));
    }
    if str_at(operation, "/state") == "cancelled" {
        return OperationState::Failed("superseded by a later operation on this release".to_owned());
    }
    if states.iter().all(|(state, _)| *state == "done") {
        OperationState::Done
    } else {
        OperationState::Pending
    }
}

/// Progress printed so far.
struct ProgressPrinter {
    progress: StderrProgress,
    printed_notes: Vec<String>,
}

impl ProgressPrinter {
    /// Prints why an operation waits, each reason once.
    fn print_steps(&mut self, release: &ReleaseRef<'_>, operation: &Value) {
        for step in items(operation, "steps").iter().filter(|step| str_at(step, "/state") == "running") {
            let note = str_at(step, "/note");
            // For objects that are not ready, details are printed per object.
            if str_at(step, "/name") != "ready"
                && !note.is_empty()
                && !self.printed_notes.iter().any(|told| told == note)
            {
                eprintln!("{}: {}", release.name, escape_control(note));
                self.printed_notes.push(note.to_owned());
            }
        }
    }

    /// Prints the progress of objects that are not ready.
    async fn print_objects(&self, release: &ReleaseRef<'_>) {
        // Before the first deployment there are no objects. Failures are reported by the operation.
        let Ok(seen) = release.get("/resources").await else { return };
        for object in items(&seen, "objects") {
            if let Some(step) = object_progress(object) {
                self.progress.report(step);
            }
        }
    }
}

fn object_progress(object: &Value) -> Option<ProgressEvent> {
    let part = |place: &str| escape_control(str_at(object, place));
    let namespace = Some(part("/namespace")).filter(|namespace| !namespace.is_empty());
    let group = str_at(object, "/apiVersion")
        .rsplit_once('/')
        .map(|(group, _)| escape_control(group))
        .unwrap_or_default();
    let id = ObjectId { group, kind: part("/kind"), namespace, name: part("/name") };
    let event = Some(part("/event")).filter(|event| !event.is_empty());
    match str_at(object, "/state") {
        "ready" => Some(ProgressEvent::Ready { id }),
        "progressing" | "failed" => Some(ProgressEvent::Waiting { id, reason: part("/reason"), event }),
        "absent" => Some(ProgressEvent::Waiting { id, reason: "not found".to_owned(), event }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn operation_state_depends_on_wait_goal() {
        let operation = |state: &str, steps: &[(&str, &str, &str)]| {
            let steps: Vec<Value> = steps
                .iter()
                .map(|(name, state, note)| json!({"name": name, "state": state, "note": note}))
                .collect();
            json!({"state": state, "steps": steps})
        };
        let accepted = ("accepted", "done", "");
        let dispatched = ("dispatched", "done", "");
        let deployed = ("deployed", "done", "");
        let rows = [
            (
                operation("queued", &[accepted, ("dispatched", "queued", "")]),
                OperationState::Pending,
                OperationState::Pending,
            ),
            (
                operation("failed", &[accepted, ("dispatched", "failed", "quota")]),
                OperationState::Failed("quota".into()),
                OperationState::Failed("quota".into()),
            ),
            (
                operation("running", &[accepted, dispatched, deployed, ("ready", "running", "0 of 1")]),
                OperationState::Done,
                OperationState::Pending,
            ),
            (
                operation("failed", &[accepted, dispatched, deployed, ("ready", "failed", "crashes")]),
                OperationState::Done,
                OperationState::Failed("crashes".into()),
            ),
            (
                operation("done", &[accepted, dispatched, deployed, ("ready", "done", "")]),
                OperationState::Done,
                OperationState::Done,
            ),
            (
                operation("cancelled", &[accepted, dispatched, ("deployed", "queued", "")]),
                OperationState::Failed("superseded by a later operation on this release".into()),
                OperationState::Failed("superseded by a later operation on this release".into()),
            ),
        ];
        for (operation, of_deployed, of_ready) in rows {
            assert_eq!(operation_state(&operation, WaitGoal::Deployed), of_deployed, "{operation}");
            assert_eq!(operation_state(&operation, WaitGoal::Ready), of_ready, "{operation}");
        }
        let leaving = operation("running", &[("removed", "running", "hook")]);
        assert_eq!(operation_state(&leaving, WaitGoal::Deleted), OperationState::Pending);
    }
}
