//! The state of a pod in its row.
//!
//! The status column shows the reason of the container that blocks the pod: the first init container that has not finished,
//! else a main container with a reason, else the phase.

use jiff::Timestamp;
use serde_json::Value;

use super::age::parse_time;
use super::condition_status;
use crate::rules::accessors::{bool_or_false, int, items, non_empty_text, text};

/// The state shown in a pod's row.
pub struct PodState {
    pub ready: usize,
    pub total: usize,
    pub reason: String,
    pub restarts: i64,
    /// The time of the last restart.
    pub last_restart: Option<Timestamp>,
}

pub fn pod_state(pod: &Value) -> PodState {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let init = items(&spec["initContainers"]);
    let is_sidecar = |name: &str| {
        let found = init.iter().find(|c| text(&c["name"]) == name);
        found.is_some_and(|c| text(&c["restartPolicy"]) == "Always")
    };
    let sidecars = init.iter().filter(|c| text(&c["restartPolicy"]) == "Always").count();
    let mut state = PodState {
        ready: 0,
        total: items(&spec["containers"]).len() + sidecars,
        reason: non_empty_text(&status["reason"]).unwrap_or_else(|| text(&status["phase"])).to_owned(),
        restarts: 0,
        last_restart: None,
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
        add_restarts(container, &mut state.restarts, &mut state.last_restart);
        if sidecar {
            add_restarts(container, &mut sidecar_restarts.0, &mut sidecar_restarts.1);
        }
        let ended = &container["state"]["terminated"];
        if !ended.is_null() && int(&ended["exitCode"]) == 0 {
            continue;
        }
        if sidecar && bool_or_false(&container["started"]) {
            state.ready += usize::from(bool_or_false(&container["ready"]));
            continue;
        }
        let waiting = non_empty_text(&container["state"]["waiting"]["reason"]);
        state.reason = match waiting.filter(|reason| *reason != "PodInitializing") {
            _ if !ended.is_null() => format!("Init:{}", termination_reason(ended)),
            Some(waiting) => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", init.len()),
        };
        initializing = true;
        break;
    }

    if !initializing || condition_status(status, "Initialized") == Some("True") {
        (state.restarts, state.last_restart) = sidecar_restarts;
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
fn containers(status: &Value, state: &mut PodState) {
    let mut running = false;
    let mut failure = None;
    for container in items(&status["containerStatuses"]).iter().rev() {
        add_restarts(container, &mut state.restarts, &mut state.last_restart);
        let now = &container["state"];
        let ended = &now["terminated"];
        if let Some(waiting) = non_empty_text(&now["waiting"]["reason"]) {
            waiting.clone_into(&mut state.reason);
        } else if !ended.is_null() {
            state.reason = termination_reason(ended);
            if int(&ended["exitCode"]) != 0 {
                failure = Some(state.reason.clone());
            }
        } else if bool_or_false(&container["ready"]) && !now["running"].is_null() {
            running = true;
            state.ready += 1;
        }
    }
    if state.reason == "Completed" {
        if running && condition_status(status, "Ready") == Some("True") {
            "Running".clone_into(&mut state.reason);
        } else if let Some(failure) = failure {
            state.reason = failure;
        } else if running {
            "NotReady".clone_into(&mut state.reason);
        }
    }
}

/// Adds a container's restarts, and records the latest time.
fn add_restarts(container: &Value, restarts: &mut i64, restarted: &mut Option<Timestamp>) {
    *restarts = restarts.saturating_add(int(&container["restartCount"]));
    *restarted = (*restarted).max(parse_time(&container["lastState"]["terminated"]["finishedAt"]));
}

fn termination_reason(ended: &Value) -> String {
    match (non_empty_text(&ended["reason"]), int(&ended["signal"])) {
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
    fn pod_state_shows_blocking_reason() {
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
            let shown = pod_state(&json!({"spec": spec, "status": status}));
            assert_eq!(format!("{}, {}/{}", shown.reason, shown.ready, shown.total), expected);
        }
    }
}
