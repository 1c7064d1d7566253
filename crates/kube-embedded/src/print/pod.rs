//! The state of a pod in its row.
//!
//! The status column shows the reason of the container that blocks the pod: the first init container that has not finished,
//! else a main container with a reason, else the phase.

use jiff::Timestamp;
use serde_json::Value;

use super::age::moment;
use super::condition;
use crate::rules::read::{filled, int, items, text, truth};

/// The state shown in a pod's row.
pub struct State {
    pub ready: usize,
    pub total: usize,
    pub reason: String,
    pub restarts: i64,
    /// The time of the last restart.
    pub restarted: Option<Timestamp>,
}

pub fn state(pod: &Value) -> State {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let init = items(&spec["initContainers"]);
    let is_sidecar = |name: &str| {
        let found = init.iter().find(|c| text(&c["name"]) == name);
        found.is_some_and(|c| text(&c["restartPolicy"]) == "Always")
    };
    let sidecars = init.iter().filter(|c| text(&c["restartPolicy"]) == "Always").count();
    let mut state = State {
        ready: 0,
        total: items(&spec["containers"]).len() + sidecars,
        reason: filled(&status["reason"]).unwrap_or_else(|| text(&status["phase"])).to_owned(),
        restarts: 0,
        restarted: None,
    };
    let gated = items(&status["conditions"]).iter().any(|condition| {
        text(&condition["type"]) == "PodScheduled" && text(&condition["reason"]) == "SchedulingGated"
    });
    if gated {
        "SchedulingGated".clone_into(&mut state.reason);
    }

    let mut sidecar_restarts = (0, None);
    let mut initializing = false;
    for (at, container) in items(&status["initContainerStatuses"]).iter().enumerate() {
        let sidecar = is_sidecar(text(&container["name"]));
        count(container, &mut state.restarts, &mut state.restarted);
        if sidecar {
            count(container, &mut sidecar_restarts.0, &mut sidecar_restarts.1);
        }
        let ended = &container["state"]["terminated"];
        if !ended.is_null() && int(&ended["exitCode"]) == 0 {
            continue;
        }
        if sidecar && truth(&container["started"]) {
            state.ready += usize::from(truth(&container["ready"]));
            continue;
        }
        let waiting = filled(&container["state"]["waiting"]["reason"]);
        state.reason = match waiting.filter(|reason| *reason != "PodInitializing") {
            _ if !ended.is_null() => format!("Init:{}", how_ended(ended)),
            Some(waiting) => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", init.len()),
        };
        initializing = true;
        break;
    }

    if !initializing || condition(status, "Initialized") == Some("True") {
        (state.restarts, state.restarted) = sidecar_restarts;
        containers(status, &mut state);
    }

    let finished = matches!(text(&status["phase"]), "Succeeded" | "Failed");
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        if text(&status["reason"]) == "NodeLost" {
            "Unknown".clone_into(&mut state.reason);
        } else if !finished {
            "Terminating".clone_into(&mut state.reason);
        }
    }
    state
}

/// Evaluates the main containers, last to first, so that the first one takes precedence.
fn containers(status: &Value, state: &mut State) {
    let mut running = false;
    let mut failure = None;
    for container in items(&status["containerStatuses"]).iter().rev() {
        count(container, &mut state.restarts, &mut state.restarted);
        let now = &container["state"];
        let ended = &now["terminated"];
        if let Some(waiting) = filled(&now["waiting"]["reason"]) {
            waiting.clone_into(&mut state.reason);
        } else if !ended.is_null() {
            state.reason = how_ended(ended);
            if int(&ended["exitCode"]) != 0 {
                failure = Some(state.reason.clone());
            }
        } else if truth(&container["ready"]) && !now["running"].is_null() {
            running = true;
            state.ready += 1;
        }
    }
    if state.reason == "Completed" {
        if running && condition(status, "Ready") == Some("True") {
            "Running".clone_into(&mut state.reason);
        } else if let Some(failure) = failure {
            state.reason = failure;
        } else if running {
            "NotReady".clone_into(&mut state.reason);
        }
    }
}

/// Adds a container's restarts, and records the latest time.
fn count(container: &Value, restarts: &mut i64, restarted: &mut Option<Timestamp>) {
    *restarts = restarts.saturating_add(int(&container["restartCount"]));
    *restarted = (*restarted).max(moment(&container["lastState"]["terminated"]["finishedAt"]));
}

fn how_ended(ended: &Value) -> String {
    match (filled(&ended["reason"]), int(&ended["signal"])) {
        (Some(reason), _) => reason.to_owned(),
        (None, 0) => format!("ExitCode:{}", int(&ended["exitCode"])),
        (None, signal) => format!("Signal:{signal}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_word_for_a_pod() {
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let ended = |code: i64, reason: &str| json!({"name": "i", "state": {"terminated": {"exitCode": code, "reason": reason}}});
        let up = json!({"ready": true, "state": {"running": {}}});
        let table = [
            ("Pending, 0/1", json!({"phase": "Pending"})),
            ("Running, 1/1", json!({"phase": "Running", "containerStatuses": [up]})),
            ("CrashLoopBackOff, 0/1", json!({"containerStatuses": [waiting("CrashLoopBackOff")]})),
            ("Init:0/1, 0/1", json!({"initContainerStatuses": [waiting("PodInitializing")]})),
            ("Init:Error, 0/1", json!({"initContainerStatuses": [ended(1, "Error")]})),
            ("Init:ExitCode:3, 0/1", json!({"initContainerStatuses": [ended(3, "")]})),
            ("Completed, 0/1", json!({"containerStatuses": [ended(0, "Completed")]})),
            ("NotReady, 1/1", json!({"containerStatuses": [ended(0, "Completed"), up]})),
            ("Evicted, 0/1", json!({"phase": "Failed", "reason": "Evicted"})),
            (
                "SchedulingGated, 0/1",
                json!({"phase": "Pending",
                       "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
            ),
        ];
        for (expected, status) in table {
            let spec = json!({"containers": [{}], "initContainers": [{"name": "i"}]});
            let shown = state(&json!({"spec": spec, "status": status}));
            assert_eq!(format!("{}, {}/{}", shown.reason, shown.ready, shown.total), expected);
        }
    }
}
