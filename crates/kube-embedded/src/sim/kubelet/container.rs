//! The lifecycle of one container: computes its next status from its current one. Pure: no I/O, no clock.
//!
//! The whole state of a container is in its status: start time, exit, restart count. So a restarted kubelet continues where
//! the previous one stopped.

#![warn(clippy::arithmetic_side_effects)]

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::clock::rfc3339;

/// The first delay of the crash loop back-off; each further restart doubles it, up to [`LONGEST_BACK_OFF`].
const FIRST_BACK_OFF: i64 = 10;
const LONGEST_BACK_OFF: i64 = 300;
/// A container that ran for this long is restarted at once, without back-off.
const RAN_WELL: SignedDuration = SignedDuration::from_mins(10);
/// The kubelet reports `ErrImagePull` for this long, then `ImagePullBackOff`.
const PULLS_FOR: SignedDuration = SignedDuration::from_secs(10);

/// How a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Script {
    pub start: Start,
    /// Time from the start until it is ready; `None` is never.
    pub ready_after: Option<SignedDuration>,
    pub end: Option<End>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Fine,
    /// Blocked by something outside the container.
    NotYet,
    NoImage,
    /// A ConfigMap, Secret or key that its environment needs is missing.
    NoConfig(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub after: SignedDuration,
    pub code: i64,
    pub reason: &'static str,
}

impl Script {
    pub const RUNS: Self = Self { start: Start::Fine, ready_after: Some(SignedDuration::ZERO), end: None };

    /// Exits with code 0 right after the start.
    pub fn completes() -> Self {
        Self { end: Some(End { after: SignedDuration::ZERO, code: 0, reason: "Completed" }), ..Self::RUNS }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Restarts {
    Always,
    OnFailure,
    Never,
}

/// A container with the pod's context.
pub(super) struct Container<'a> {
    pub name: &'a str,
    pub image: &'a str,
    pub script: &'a Script,
    pub restarts: Restarts,
    /// An init container: the main containers start when it has terminated.
    pub is_initial: bool,
    /// `<pod>_<namespace>(<uid>)`, the format of kubelet messages.
    pub pod: &'a str,
    /// The pod's uid, from which container ids are made.
    pub uid: &'a str,
    /// The waiting reason while it may not start.
    pub waits_for: &'static str,
    /// The start time of the pod.
    pub pod_start: Timestamp,
}

/// An Event to record: whether it is a warning, the reason, the message.
pub(super) type Word = (bool, &'static str, String);

pub(super) struct Outcome {
    pub status: Value,
    pub next: Option<Timestamp>,
    pub told: Vec<Word>,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Waiting(String, String),
    Running(Timestamp),
    Ended(Ended),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ended {
    begun: Timestamp,
    at: Timestamp,
    code: i64,
    reason: String,
    id: String,
}

pub(super) fn is_running(status: &Value) -> bool {
    !status["state"]["running"].is_null()
}

/// Returns the exit code of a container that has terminated for good.
pub(super) fn exit_code(status: &Value) -> Option<i64> {
    status["state"]["terminated"]["exitCode"].as_i64()
}

impl Container<'_> {
    /// Returns the next status at `now`; `old` is the stored one, null for a new container.
    pub fn step(&self, old: &Value, now: Timestamp) -> Outcome {
        let mut told = Vec::new();
        let mut next = None;
        let mut count = old["restartCount"].as_i64().unwrap_or(0);
        let mut last = Ended::read(&old["lastState"]["terminated"]);
        let mut state = State::read(&old["state"]);
        let mut begun_now = false;
        loop {
            state = match state {
                State::Waiting(..) if last.is_some() => {
                    let ended = last.as_ref().expect("it was looked at");
                    let due = later(ended.at, back_off(count));
                    if now < due {
                        next = Some(due);
                        break;
                    }
                    count = count.saturating_add(1);
                    begun_now = true;
                    told.extend(self.told_of_start());
                    State::Running(now)
                }
                State::Waiting(reason, message) => {
                    if let Some(waiting) = self.wait(now, &mut next) {
                        if (&reason, &message) != (&waiting.0, &waiting.1) {
                            told.extend(self.told_of_waiting(&waiting));
                        }
                        state = State::Waiting(waiting.0, waiting.1);
                        break;
                    }
                    begun_now = true;
                    told.extend(self.told_of_start());
                    State::Running(now)
                }
                State::Running(since) => {
                    let Some(end) = &self.script.end else { break };
                    let due = later(since, end.after);
                    // The running state is always written before the terminated one.
                    if begun_now || now < due {
                        next = Some(due.max(now));
                        break;
                    }
                    State::Ended(Ended {
                        begun: since,
                        at: now,
                        code: end.code,
                        reason: end.reason.to_owned(),
                        id: self.id(count),
                    })
                }
                State::Ended(ended) => {
                    if !self.restarts_after(ended.code) {
                        state = State::Ended(ended);
                        break;
                    }
                    let ran_well = ended.at.duration_since(ended.begun) >= RAN_WELL;
                    last = Some(ended);
                    if count == 0 || ran_well {
                        count = count.saturating_add(1);
                        begun_now = true;
                        told.extend(self.told_of_start());
                        State::Running(now)
                    } else {
                        let pause = back_off(count).as_secs();
                        let message = format!(
                            "back-off {} restarting failed container={} pod={}",
                            go_duration(pause),
                            self.name,
                            self.pod
                        );
                        let telling =
                            format!("Back-off restarting failed container {} in pod {}", self.name, self.pod);
                        told.push((true, "BackOff", telling));
                        State::Waiting("CrashLoopBackOff".to_owned(), message)
                    }
                }
            };
        }
        let (is_ready, ready_at) = self.readiness(&state, now);
        let next = [next, ready_at].into_iter().flatten().min();
        Outcome { status: self.status(&state, last.as_ref(), count, is_ready), next, told }
    }

    /// Returns the waiting reason and message, if the container cannot start.
    fn wait(&self, now: Timestamp, next: &mut Option<Timestamp>) -> Option<(String, String)> {
        match &self.script.start {
            Start::Fine => None,
            Start::NotYet => Some((self.waits_for.to_owned(), String::new())),
            Start::NoConfig(why) => Some(("CreateContainerConfigError".to_owned(), why.clone())),
            Start::NoImage => {
                let until = later(self.pod_start, PULLS_FOR);
                let image = self.image;
                Some(if now < until {
                    *next = Some(until);
                    ("ErrImagePull".to_owned(), format!("failed to pull image \"{image}\": not found"))
                } else {
                    let message = format!("Back-off pulling image \"{image}\": ErrImagePull: not found");
                    ("ImagePullBackOff".to_owned(), message)
                })
            }
        }
    }

    fn restarts_after(&self, code: i64) -> bool {
        match self.restarts {
            Restarts::Always => true,
            Restarts::OnFailure => code != 0,
            Restarts::Never => false,
        }
    }

    /// Whether it is ready, and when it will be if only time is missing.
    fn readiness(&self, state: &State, now: Timestamp) -> (bool, Option<Timestamp>) {
        match (state, self.script.ready_after) {
            (State::Running(since), Some(after)) => {
                let at = later(*since, after);
                (at <= now, Some(at).filter(|at| *at > now))
            }
            _ => (false, None),
        }
    }

    fn told_of_start(&self) -> [Word; 3] {
        let image = self.image;
        [
            (
                false,
                "Pulled",
                format!(
                    "Container image \"{image}\" already present on machine and can be accessed by the pod"
                ),
            ),
            (false, "Created", "Container created".to_owned()),
            (false, "Started", "Container started".to_owned()),
        ]
    }

    fn told_of_waiting(&self, (reason, message): &(String, String)) -> Vec<Word> {
        let image = self.image;
        match reason.as_str() {
            "ErrImagePull" => vec![
                (true, "Failed", format!("Failed to pull image \"{image}\": not found")),
                (true, "Failed", "Error: ErrImagePull".to_owned()),
            ],
            "ImagePullBackOff" => vec![
                (false, "BackOff", format!("Back-off pulling image \"{image}\"")),
                (true, "Failed", "Error: ImagePullBackOff".to_owned()),
            ],
            "CreateContainerConfigError" => vec![(true, "Failed", format!("Error: {message}"))],
            _ => Vec::new(),
        }
    }

    fn id(&self, count: i64) -> String {
        let name = format!("{}/{}/{count}", self.uid, self.name);
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, name.as_bytes());
        digest.as_ref().iter().fold("simulated://".to_owned(), |mut id, byte| {
            let digit = |value: u8| char::from_digit(value.into(), 16).expect("half a byte is one digit");
            id.extend([digit(byte >> 4), digit(byte & 15)]);
            id
        })
    }

    fn status(&self, state: &State, last: Option<&Ended>, count: i64, is_ready: bool) -> Value {
        let has_begun = !matches!(state, State::Waiting(..)) || last.is_some();
        // An init container that succeeded is ready, as a kubelet reports it.
        let is_done = matches!(state, State::Ended(ended) if ended.code == 0) && self.is_initial;
        let mut status = json!({
            "name": self.name, "image": self.image, "imageID": "", "restartCount": count,
            "ready": is_ready || is_done, "started": matches!(state, State::Running(_)),
            "state": state.write(), "lastState": last.map_or(json!({}), |last| json!({"terminated": last.write()})),
        });
        if has_begun {
            status["imageID"] = format!("simulated://{}", self.image).into();
            status["containerID"] = self.id(count).into();
        }
        status
    }
}

impl State {
    fn read(state: &Value) -> Self {
        if let Some(ended) = Ended::read(&state["terminated"]) {
            return Self::Ended(ended);
        }
        if let Some(since) = time(&state["running"]["startedAt"]) {
            return Self::Running(since);
        }
        let text = |key: &str| state["waiting"][key].as_str().unwrap_or_default().to_owned();
        Self::Waiting(text("reason"), text("message"))
    }

    fn write(&self) -> Value {
        match self {
            Self::Waiting(reason, message) if message.is_empty() => json!({"waiting": {"reason": reason}}),
            Self::Waiting(reason, message) => json!({"waiting": {"reason": reason, "message": message}}),
            Self::Running(since) => json!({"running": {"startedAt": rfc3339(*since)}}),
            Self::Ended(ended) => json!({"terminated": ended.write()}),
        }
    }
}

impl Ended {
    fn read(terminated: &Value) -> Option<Self> {
        let at = time(&terminated["finishedAt"])?;
        let text = |key: &str| terminated[key].as_str().unwrap_or_default().to_owned();
        Some(Self {
            begun: time(&terminated["startedAt"]).unwrap_or(at),
            at,
            code: terminated["exitCode"].as_i64().unwrap_or(0),
            reason: text("reason"),
            id: text("containerID"),
        })
    }

    fn write(&self) -> Value {
        json!({
            "exitCode": self.code, "reason": self.reason, "startedAt": rfc3339(self.begun),
            "finishedAt": rfc3339(self.at), "containerID": self.id,
        })
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Times come from a status that any client may write: the sum saturates at the last valid time.
fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The back-off before the next start of a container with this restart count.
fn back_off(restarts: i64) -> SignedDuration {
    let doublings = u32::try_from(restarts.clamp(1, 16).saturating_sub(1)).unwrap_or(0);
    SignedDuration::from_secs((FIRST_BACK_OFF << doublings).min(LONGEST_BACK_OFF))
}

/// Formats whole seconds as Go does: `10s`, `1m20s`.
fn go_duration(seconds: i64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
