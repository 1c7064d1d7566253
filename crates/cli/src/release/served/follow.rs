//! Follows an operation until it is done.
//!
//! The platform does the work. Interrupting the command does not stop the operation.

use std::time::{Duration, Instant};

use kube_apply::{Id, Step, Tell};
use serde_json::Value;

use super::{Release, absent, items, text};
use crate::helm::Refusal;
use crate::platform::Failure;
use crate::platform::client::segment;
use crate::platform::events::Events;
use crate::platform::output::tame;
use crate::release::progress::Progress;

/// Condition to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// All objects are written and the hooks have run.
    Deployed,
    /// All objects are ready too.
    Ready,
    /// The release does not exist any more.
    Gone,
}

/// State of an operation with respect to the condition.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    NotYet,
    Done,
    Failed(String),
}

/// Poll interval of objects while there are no events.
const LOOK: Duration = Duration::from_secs(1);
/// How long the platform may be unreachable.
const PATIENCE: Duration = Duration::from_mins(1);
/// Exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Waits until the condition holds. Prints progress to standard error.
pub async fn follow(release: &Release<'_>, operation: &str, until: Until) -> Result<(), Refusal> {
    let interrupted = async {
        // Without signal handling, only the end of the operation is awaited.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        done = listen(release, operation, until) => done,
        () = interrupted => {
            let why = format!("interrupted: the platform goes on with it; see `{}`", release.look_again());
            Err(Refusal { code: INTERRUPTED, ..why.into() })
        }
    }
}

async fn listen(release: &Release<'_>, operation: &str, until: Until) -> Result<(), Refusal> {
    let client = &release.served.client;
    let path = format!("operations/{}", segment(operation));
    let mut telling = Telling { progress: Progress::new(), notes: Vec::new() };
    let mut heard = Instant::now();
    loop {
        let ended = match client.events(&format!("{path}/progress")).await {
            Ok(mut events) => {
                heard = Instant::now();
                until_end(release, &mut events, until, &mut telling).await
            }
            Err(failure) => Err(failure),
        };
        match ended {
            Ok(End::Done) => return Ok(()),
            Ok(End::Failed(why)) => return Err(why.into()),
            // There are no further events of a deleted release.
            Ok(End::NotYet) => match absent(client.get(&path).await) {
                Ok(None) if until == Until::Gone => return Ok(()),
                Ok(None) => return Err(format!("there is no release {:?} any more", release.name).into()),
                Ok(Some(_)) | Err(Failure::Unreachable { .. } | Failure::Silent { .. }) => {}
                Err(failure) => return Err(failure.into()),
            },
            Err(Failure::Refused(problem))
                if until == Until::Gone && problem.status == http::StatusCode::NOT_FOUND =>
            {
                return Ok(());
            }
            // The platform may be restarting.
            Err(Failure::Unreachable { .. } | Failure::Silent { .. }) if heard.elapsed() < PATIENCE => {}
            Err(failure) => {
                let again = release.look_again();
                return Err(format!("{failure}; the work goes on without us, see `{again}`").into());
            }
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn until_end(
    release: &Release<'_>,
    events: &mut Events,
    until: Until,
    telling: &mut Telling,
) -> Result<End, Failure> {
    loop {
        match tokio::time::timeout(LOOK, events.next()).await {
            Ok(told) => match told? {
                None => return Ok(End::NotYet),
                Some(operation) => {
                    let end = end(&operation, until);
                    if end == End::NotYet {
                        telling.steps(release, &operation);
                    } else {
                        if until == Until::Ready {
                            telling.objects(release).await;
                        }
                        return Ok(end);
                    }
                }
            },
            Err(_) if until == Until::Ready => telling.objects(release).await,
            Err(_) => {}
        }
    }
}

/// Whether the condition holds. Pure: no I/O, no clock.
fn end(operation: &Value, until: Until) -> End {
    let step_of = |name: &str| items(operation, "steps").iter().find(|step| step["name"] == name);
    let state_of =
        |name: &str| step_of(name).map_or(("", ""), |step| (text(step, "/state"), text(step, "/note")));
    let needed: &[&str] = match until {
        Until::Deployed => &["dispatched", "deployed"],
        Until::Ready => &["dispatched", "deployed", "ready"],
        Until::Gone => &["removed"],
    };
    let states: Vec<_> = needed.iter().map(|name| state_of(name)).collect();
    if let Some((_, note)) = states.iter().find(|(state, _)| *state == "failed") {
        return End::Failed(tame(if note.is_empty() { "it failed" } else { note }));
    }
    // A step that is running although it has ended before has failed and is being retried. The failure is reported
    // immediately.
    if let Some(tried) =
        step_of("deployed").filter(|step| step["state"] == "running" && step["at"].is_string())
    {
        return End::Failed(format!("{}; the platform tries it again", tame(text(tried, "/note"))));
    }
    if text(operation, "/state") == "cancelled" {
        return End::Failed("somebody asked for something else of this release meanwhile".to_owned());
    }
    if states.iter().all(|(state, _)| *state == "done") { End::Done } else { End::NotYet }
}

/// Progress printed so far.
struct Telling {
    progress: Progress,
    notes: Vec<String>,
}

impl Telling {
    /// Prints why an operation waits, each reason once.
    fn steps(&mut self, release: &Release<'_>, operation: &Value) {
        for step in items(operation, "steps").iter().filter(|step| text(step, "/state") == "running") {
            let note = text(step, "/note");
            // For objects that are not ready, details are printed per object.
            if text(step, "/name") != "ready"
                && !note.is_empty()
                && !self.notes.iter().any(|told| told == note)
            {
                eprintln!("{}: {}", release.name, tame(note));
                self.notes.push(note.to_owned());
            }
        }
    }

    /// Prints the progress of objects that are not ready.
    async fn objects(&self, release: &Release<'_>) {
        // Before the first deployment there are no objects. Failures are reported by the operation.
        let Ok(seen) = release.get("/resources").await else { return };
        for object in items(&seen, "objects") {
            if let Some(step) = step(object) {
                self.progress.tell(step);
            }
        }
    }
}

fn step(object: &Value) -> Option<Step> {
    let part = |place: &str| tame(text(object, place));
    let namespace = Some(part("/namespace")).filter(|namespace| !namespace.is_empty());
    let group =
        text(object, "/apiVersion").rsplit_once('/').map(|(group, _)| tame(group)).unwrap_or_default();
    let id = Id { group, kind: part("/kind"), namespace, name: part("/name") };
    let event = Some(part("/event")).filter(|event| !event.is_empty());
    match text(object, "/state") {
        "ready" => Some(Step::Ready { id }),
        "progressing" | "failed" => Some(Step::Waiting { id, reason: part("/reason"), event }),
        "absent" => Some(Step::Waiting { id, reason: "it is not there".to_owned(), event }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_waited_for_decides_when_it_is_over() {
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
            (operation("queued", &[accepted, ("dispatched", "queued", "")]), End::NotYet, End::NotYet),
            (
                operation("failed", &[accepted, ("dispatched", "failed", "quota")]),
                End::Failed("quota".into()),
                End::Failed("quota".into()),
            ),
            (
                operation("running", &[accepted, dispatched, deployed, ("ready", "running", "0 of 1")]),
                End::Done,
                End::NotYet,
            ),
            (
                operation("failed", &[accepted, dispatched, deployed, ("ready", "failed", "crashes")]),
                End::Done,
                End::Failed("crashes".into()),
            ),
            (
                operation("done", &[accepted, dispatched, deployed, ("ready", "done", "")]),
                End::Done,
                End::Done,
            ),
            (
                operation("cancelled", &[accepted, dispatched, ("deployed", "queued", "")]),
                End::Failed("somebody asked for something else of this release meanwhile".into()),
                End::Failed("somebody asked for something else of this release meanwhile".into()),
            ),
        ];
        for (operation, of_deployed, of_ready) in rows {
            assert_eq!(end(&operation, Until::Deployed), of_deployed, "{operation}");
            assert_eq!(end(&operation, Until::Ready), of_ready, "{operation}");
        }
        let leaving = operation("running", &[("removed", "running", "hook")]);
        assert_eq!(end(&leaving, Until::Gone), End::NotYet);
    }
}
