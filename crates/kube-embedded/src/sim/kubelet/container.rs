//! The lifecycle of one container: computes its next status from its current one. Pure: no I/O, no clock.
//!
//! The whole state of a container is in its status: start time, exit, restart count. So a restarted kubelet continues where
//! the previous one stopped.

#![warn(clippy::arithmetic_side_effects)]

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::clock::rfc3339;

/// The first delay of the crash loop back-off; each further restart doubles it, up to [`MAX_BACK_OFF`].
const MIN_BACK_OFF: i64 = 10;
const MAX_BACK_OFF: i64 = 300;
/// A container that ran for this long is restarted at once, without back-off.
const BACK_OFF_RESET_AFTER: SignedDuration = SignedDuration::from_mins(10);
/// The kubelet reports `ErrImagePull` for this long, then `ImagePullBackOff`.
const ERR_IMAGE_PULL_DURATION: SignedDuration = SignedDuration::from_secs(10);

/// How a container runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerScript {
    pub start: StartOutcome,
    /// Time from the start until it is ready; `None` is never.
    pub ready_after: Option<SignedDuration>,
    pub end: Option<ContainerEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StartOutcome {
    Starts,
    /// Blocked by something outside the container.
    Blocked,
    ImagePullFails,
    /// A ConfigMap, Secret or key that its environment needs is missing.
    ConfigMissing(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ContainerEnd {
    pub after: SignedDuration,
    pub code: i64,
    pub reason: &'static str,
}

impl ContainerScript {
    pub const RUNS: Self =
        Self { start: StartOutcome::Starts, ready_after: Some(SignedDuration::ZERO), end: None };

    /// Exits with code 0 right after the start.
    pub fn completes() -> Self {
        Self {
            end: Some(ContainerEnd { after: SignedDuration::ZERO, code: 0, reason: "Completed" }),
            ..Self::RUNS
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RestartPolicy {
    Always,
    OnFailure,
    Never,
}

/// A container with the pod's context.
pub(super) struct SimulatedContainer<'a> {
    pub name: &'a str,
    pub image: &'a str,
    pub script: &'a ContainerScript,
    pub restart_policy: RestartPolicy,
    /// An init container: the main containers start when it has terminated.
    pub is_init: bool,
    /// `<pod>_<namespace>(<uid>)`, the format of kubelet messages.
    pub pod: &'a str,
    /// The pod's uid, from which container ids are made.
    pub uid: &'a str,
    /// The waiting reason while it may not start.
    pub waiting_reason: &'static str,
    /// The start time of the pod.
    pub pod_start: Timestamp,
}

/// An Event to record: whether it is a warning, the reason, the message.
pub(super) type ContainerEvent = (bool, &'static str, String);

pub(super) struct ContainerUpdate {
    pub status: Value,
    pub next: Option<Timestamp>,
    pub events: Vec<ContainerEvent>,
}

/// The state of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ContainerState {
    Waiting(String, String),
    Running(Timestamp),
    Terminated(TerminatedState),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct TerminatedState {
    started_at: Timestamp,
    finished_at: Timestamp,
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

impl SimulatedContainer<'_> {
    /// Returns the next status at `now`; `old` is the stored one, null for a new container.
    pub fn advance(&self, old: &Value, now: Timestamp) -> ContainerUpdate {
        let mut events = Vec::new();
        let mut next = None;
        let mut count = old["restartCount"].as_i64().unwrap_or(0);
        let mut last = TerminatedState::from_json(&old["lastState"]["terminated"]);
        let mut state = ContainerState::from_json(&old["state"]);
        let mut begun_now = false;
        loop {
            state = match state {
                ContainerState::Waiting(..) if last.is_some() => {
                    let ended = last.as_ref().expect("it was looked at");
                    let due = saturating_add(ended.finished_at, back_off(count));
                    if now < due {
                        next = Some(due);
                        break;
                    }
                    count = count.saturating_add(1);
                    begun_now = true;
                    events.extend(self.start_events());
                    ContainerState::Running(now)
                }
                ContainerState::Waiting(reason, message) => {
                    if let Some(waiting) = self.waiting_state(now, &mut next) {
                        if (&reason, &message) != (&waiting.0, &waiting.1) {
                            events.extend(self.waiting_events(&waiting));
                        }
                        state = ContainerState::Waiting(waiting.0, waiting.1);
                        break;
                    }
                    begun_now = true;
                    events.extend(self.start_events());
                    ContainerState::Running(now)
                }
                ContainerState::Running(since) => {
                    let Some(end) = &self.script.end else { break };
                    let due = saturating_add(since, end.after);
                    // The running state is always written before the terminated one.
                    if begun_now || now < due {
                        next = Some(due.max(now));
                        break;
                    }
                    ContainerState::Terminated(TerminatedState {
                        started_at: since,
                        finished_at: now,
                        code: end.code,
                        reason: end.reason.to_owned(),
                        id: self.container_id(count),
                    })
                }
                ContainerState::Terminated(ended) => {
                    if !self.is_restarted_after(ended.code) {
                        state = ContainerState::Terminated(ended);
                        break;
                    }
                    let ran_well = ended.finished_at.duration_since(ended.started_at) >= BACK_OFF_RESET_AFTER;
                    last = Some(ended);
                    if count == 0 || ran_well {
                        count = count.saturating_add(1);
                        begun_now = true;
                        events.extend(self.start_events());
                        ContainerState::Running(now)
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
                        events.push((true, "BackOff", telling));
                        ContainerState::Waiting("CrashLoopBackOff".to_owned(), message)
                    }
                }
            };
        }
        let (is_ready, ready_at) = self.readiness(&state, now);
        let next = [next, ready_at].into_iter().flatten().min();
        ContainerUpdate { status: self.status(&state, last.as_ref(), count, is_ready), next, events }
    }

    /// Returns the waiting reason and message, if the container cannot start.
    fn waiting_state(&self, now: Timestamp, next: &mut Option<Timestamp>) -> Option<(String, String)> {
        match &self.script.start {
            StartOutcome::Starts => None,
            StartOutcome::Blocked => Some((self.waiting_reason.to_owned(), String::new())),
            StartOutcome::ConfigMissing(why) => Some(("CreateContainerConfigError".to_owned(), why.clone())),
            StartOutcome::ImagePullFails => {
                let until = saturating_add(self.pod_start, ERR_IMAGE_PULL_DURATION);
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

    fn is_restarted_after(&self, code: i64) -> bool {
        match self.restart_policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => code != 0,
            RestartPolicy::Never => false,
        }
    }

    /// Whether it is ready, and when it will be if only time is missing.
    fn readiness(&self, state: &ContainerState, now: Timestamp) -> (bool, Option<Timestamp>) {
        match (state, self.script.ready_after) {
            (ContainerState::Running(since), Some(after)) => {
                let at = saturating_add(*since, after);
                (at <= now, Some(at).filter(|at| *at > now))
            }
            _ => (false, None),
        }
    }

    fn start_events(&self) -> [ContainerEvent; 3] {
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

    fn waiting_events(&self, (reason, message): &(String, String)) -> Vec<ContainerEvent> {
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

    fn container_id(&self, count: i64) -> String {
        let name = format!("{}/{}/{count}", self.uid, self.name);
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, name.as_bytes());
        digest.as_ref().iter().fold("simulated://".to_owned(), |mut id, byte| {
            let digit = |value: u8| char::from_digit(value.into(), 16).expect("half a byte is one digit");
            id.extend([digit(byte >> 4), digit(byte & 15)]);
            id
        })
    }

    fn status(
        &self,
        state: &ContainerState,
        last: Option<&TerminatedState>,
        count: i64,
        is_ready: bool,
    ) -> Value {
        let has_begun = !matches!(state, ContainerState::Waiting(..)) || last.is_some();
        // An init container that succeeded is ready, as a kubelet reports it.
        let is_done = matches!(state, ContainerState::Terminated(ended) if ended.code == 0) && self.is_init;
        let mut status = json!({
            "name": self.name, "image": self.image, "imageID": "", "restartCount": count,
            "ready": is_ready || is_done, "started": matches!(state, ContainerState::Running(_)),
            "state": state.to_json(), "lastState": last.map_or(json!({}), |last| json!({"terminated": last.to_json()})),
        });
        if has_begun {
            status["imageID"] = format!("simulated://{}", self.image).into();
            status["containerID"] = self.container_id(count).into();
        }
        status
    }
}

impl ContainerState {
    fn from_json(state: &Value) -> Self {
        if let Some(ended) = TerminatedState::from_json(&state["terminated"]) {
            return Self::Terminated(ended);
        }
        if let Some(since) = time(&state["running"]["startedAt"]) {
            return Self::Running(since);
        }
        let text = |key: &str| state["waiting"][key].as_str().unwrap_or_default().to_owned();
        Self::Waiting(text("reason"), text("message"))
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Waiting(reason, message) if message.is_empty() => json!({"waiting": {"reason": reason}}),
            Self::Waiting(reason, message) => json!({"waiting": {"reason": reason, "message": message}}),
            Self::Running(since) => json!({"running": {"startedAt": rfc3339(*since)}}),
            Self::Terminated(ended) => json!({"terminated": ended.to_json()}),
        }
    }
}

impl TerminatedState {
    fn from_json(terminated: &Value) -> Option<Self> {
        let at = time(&terminated["finishedAt"])?;
        let text = |key: &str| terminated[key].as_str().unwrap_or_default().to_owned();
        Some(Self {
            started_at: time(&terminated["startedAt"]).unwrap_or(at),
            finished_at: at,
            code: terminated["exitCode"].as_i64().unwrap_or(0),
            reason: text("reason"),
            id: text("containerID"),
        })
    }

    fn to_json(&self) -> Value {
        json!({
            "exitCode": self.code, "reason": self.reason, "startedAt": rfc3339(self.started_at),
            "finishedAt": rfc3339(self.finished_at), "containerID": self.id,
        })
    }
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// Times come from a status that any client may write: the sum saturates at the last valid time.
fn saturating_add(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// The back-off before the next start of a container with this restart count.
fn back_off(restarts: i64) -> SignedDuration {
    let doublings = u32::try_from(restarts.clamp(1, 16).saturating_sub(1)).unwrap_or(0);
    SignedDuration::from_secs((MIN_BACK_OFF << doublings).min(MAX_BACK_OFF))
}

/// Formats whole seconds as Go does: `10s`, `1m20s`.
fn go_duration(seconds: i64) -> String {
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
