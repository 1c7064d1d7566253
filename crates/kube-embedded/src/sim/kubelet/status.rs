//! The status of a pod, computed from the statuses of its containers. Pure: no I/O, no clock.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::behaviour::{self, Directive};
use super::container::{
    self, ContainerEnd, ContainerScript, RestartPolicy, SimulatedContainer, StartOutcome, exit_code,
    is_running,
};
use crate::access::{items, text};
use crate::clock::rfc3339;
use crate::control::view::{self, Pod};

/// The field of a container list in the spec, and the field of its statuses.
type ContainerListFields = (&'static str, &'static str);

const INIT_CONTAINERS: ContainerListFields = ("initContainers", "initContainerStatuses");
const CONTAINERS: ContainerListFields = ("containers", "containerStatuses");
const EPHEMERAL_CONTAINERS: ContainerListFields = ("ephemeralContainers", "ephemeralContainerStatuses");

/// The pod's context that the kubelet has resolved.
pub(super) struct PodEnvironment {
    pub host_ip: String,
    pub pod_ip: String,
    /// A volume cannot be mounted.
    pub has_unmountable_volume: bool,
    /// The missing configuration per container, in the order of the pod's lists: init containers, then main containers.
    pub missing_config: [Vec<Option<String>>; 2],
    pub now: Timestamp,
}

/// The new status, and when to reconcile again.
pub(super) struct PodStatusUpdate {
    pub status: Value,
    pub next: Option<Timestamp>,
    /// Events to record, each with the field path of its container.
    pub events: Vec<(String, container::ContainerEvent)>,
}

/// Whether the pod's containers terminate by themselves: it belongs to a Job, or is a hook or test of a chart.
pub(super) fn completes(pod: &Pod) -> bool {
    let of_job = pod.metadata.owner_references.iter().any(|owner| owner.kind == "Job");
    let is_hook =
        pod.metadata.annotations.contains_key("helm.sh/hook") && pod.spec.restart_policy != "Always";
    of_job || is_hook
}

fn script(words: &[Directive], default: ContainerScript, start: StartOutcome) -> ContainerScript {
    let mut script = ContainerScript { start, ..default };
    for word in words {
        let ends = |after, code, reason| Some(ContainerEnd { after, code, reason });
        match *word {
            Directive::SlowReady(after) => script.ready_after = Some(after),
            Directive::NeverReady => script.ready_after = None,
            Directive::CrashLoop(code) => {
                script.ready_after = None;
                script.end = ends(SignedDuration::ZERO, code, exit_reason(code));
            }
            Directive::ImagePullFail if script.start == StartOutcome::Starts => {
                script.start = StartOutcome::ImagePullFails;
            }
            Directive::ConfigError if script.start == StartOutcome::Starts => {
                script.start =
                    StartOutcome::ConfigMissing("secret \"sim.longshore.dev\" not found".to_owned());
            }
            Directive::OutOfMemory(after) => script.end = ends(after, 137, "OOMKilled"),
            Directive::Exit(code, after) => script.end = ends(after, code, exit_reason(code)),
            Directive::ImagePullFail
            | Directive::ConfigError
            | Directive::Unschedulable
            | Directive::StuckTerminating => {}
        }
    }
    script
}

fn exit_reason(code: i64) -> &'static str {
    if code == 0 { "Completed" } else { "Error" }
}

/// Computes the next status of a pod. `old` is its stored status.
pub(super) fn next_status(pod: &Pod, old: &Value, environment: &PodEnvironment) -> PodStatusUpdate {
    let now = environment.now;
    let start = old["startTime"].as_str().and_then(|time| time.parse().ok()).unwrap_or(now);
    let of_pod = match pod.spec.restart_policy.as_str() {
        "Never" => RestartPolicy::Never,
        "OnFailure" => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    };
    let waits_for = if pod.spec.init_containers.is_empty() { "ContainerCreating" } else { "PodInitializing" };
    let full_name = format!("{}_{}({})", pod.metadata.name, pod.metadata.namespace, pod.metadata.uid);
    let mut report = PodStatusUpdate { status: old.clone(), next: None, events: Vec::new() };
    let mut step = |spec: &view::Container,
                    script: ContainerScript,
                    restarts: RestartPolicy,
                    list: ContainerListFields| {
        let is_initial = list == INIT_CONTAINERS && spec.restart_policy != "Always";
        let found = items(old, list.1).iter().find(|status| status["name"] == *spec.name);
        let container = SimulatedContainer {
            name: &spec.name,
            image: &spec.image,
            script: &script,
            restart_policy: restarts,
            is_init: is_initial,
            pod: &full_name,
            uid: &pod.metadata.uid,
            waiting_reason: waits_for,
            pod_start: start,
        };
        let outcome = container.advance(found.unwrap_or(&Value::Null), now);
        report.next = [report.next, outcome.next].into_iter().flatten().min();
        let field = format!("spec.{}{{{}}}", list.0, spec.name);
        report.events.extend(outcome.events.into_iter().map(|word| (field.clone(), word)));
        outcome.status
    };

    let begin = |may_start: bool, missing: Option<&Option<String>>| match missing.and_then(Option::as_ref) {
        _ if !may_start || environment.has_unmountable_volume => StartOutcome::Blocked,
        Some(why) => StartOutcome::ConfigMissing(why.clone()),
        None => StartOutcome::Starts,
    };
    let mut initialised = true;
    let mut initial = Vec::new();
    for (at, spec) in pod.spec.init_containers.iter().enumerate() {
        let is_sidecar = spec.restart_policy == "Always";
        let words = behaviour::container_directives(pod, &spec.name, true);
        let default = if is_sidecar { ContainerScript::RUNS } else { ContainerScript::completes() };
        let script = script(&words, default, begin(initialised, environment.missing_config[0].get(at)));
        let restarts = match of_pod {
            _ if is_sidecar => RestartPolicy::Always,
            RestartPolicy::Never => RestartPolicy::Never,
            _ => RestartPolicy::OnFailure,
        };
        let status = step(spec, script, restarts, INIT_CONTAINERS);
        initialised &= if is_sidecar { is_running(&status) } else { exit_code(&status) == Some(0) };
        initial.push(status);
    }
    let mut others = Vec::new();
    for (at, spec) in pod.spec.containers.iter().enumerate() {
        let words = behaviour::container_directives(pod, &spec.name, false);
        let default = if completes(pod) { ContainerScript::completes() } else { ContainerScript::RUNS };
        let script = script(&words, default, begin(initialised, environment.missing_config[1].get(at)));
        others.push(step(spec, script, of_pod, CONTAINERS));
    }
    let ephemeral = pod.spec.ephemeral_containers.iter();
    let ephemeral: Vec<Value> = ephemeral
        .map(|spec| step(spec, ContainerScript::RUNS, RestartPolicy::Never, EPHEMERAL_CONTAINERS))
        .collect();
    let phase = phase(pod, &initial, &others, of_pod);
    if matches!(phase, "Succeeded" | "Failed") {
        // Sidecars are stopped when the main containers have terminated.
        for status in initial.iter_mut().filter(|status| is_running(status)) {
            let since = status["state"]["running"]["startedAt"].clone();
            status["state"] = json!({"terminated": {"exitCode": 0, "reason": "Completed",
                "startedAt": since, "finishedAt": rfc3339(now), "containerID": status["containerID"]}});
            status["ready"] = false.into();
            status["started"] = false.into();
        }
    }
    let mut status = std::mem::take(&mut report.status);
    status["phase"] = phase.into();
    status["observedGeneration"] = pod.metadata.generation.into();
    status["startTime"] = rfc3339(start).into();
    if !environment.host_ip.is_empty() {
        status["hostIP"] = environment.host_ip.as_str().into();
        status["hostIPs"] = json!([{"ip": environment.host_ip}]);
    }
    if !environment.pod_ip.is_empty() && !environment.has_unmountable_volume {
        status["podIP"] = environment.pod_ip.as_str().into();
        status["podIPs"] = json!([{"ip": environment.pod_ip}]);
    }
    conditions(pod, &mut status, (&initial, &others), phase, environment);
    for (list, statuses) in
        [(INIT_CONTAINERS, initial), (CONTAINERS, others), (EPHEMERAL_CONTAINERS, ephemeral)]
    {
        if !statuses.is_empty() {
            status[list.1] = statuses.into();
        }
    }
    report.status = status;
    report
}

/// Returns the phase, as a kubelet derives it.
fn phase(pod: &Pod, initial: &[Value], others: &[Value], restarts: RestartPolicy) -> &'static str {
    let failed_to_begin = |(spec, status): (&view::Container, &Value)| {
        spec.restart_policy != "Always" && exit_code(status).is_some_and(|code| code != 0)
    };
    if restarts == RestartPolicy::Never && pod.spec.init_containers.iter().zip(initial).any(failed_to_begin) {
        return "Failed";
    }
    let has_begun =
        |status: &Value| status["state"]["waiting"].is_null() || !status["lastState"]["terminated"].is_null();
    if !others.iter().all(has_begun) {
        return "Pending";
    }
    let codes: Option<Vec<i64>> = others.iter().map(exit_code).collect();
    match codes {
        Some(codes) if codes.iter().all(|code| *code == 0) => "Succeeded",
        Some(_) => "Failed",
        None => "Running",
    }
}

fn names(statuses: &[&Value]) -> String {
    let names: Vec<&str> = statuses.iter().map(|status| text(status, "name")).collect();
    format!("[{}]", names.join(" "))
}

fn conditions(
    pod: &Pod,
    status: &mut Value,
    (initial, others): (&[Value], &[Value]),
    phase: &str,
    environment: &PodEnvironment,
) {
    let is_sidecar = |status: &Value| {
        let specs = pod.spec.init_containers.iter();
        specs.into_iter().any(|spec| status["name"] == *spec.name && spec.restart_policy == "Always")
    };
    let has_network = !environment.has_unmountable_volume && phase != "Succeeded" && phase != "Failed";
    let is_begun = |status: &&Value| {
        if is_sidecar(status) { status["started"] == true } else { status["ready"] == true }
    };
    let incomplete: Vec<&Value> = initial.iter().filter(|status| !is_begun(status)).collect();
    let any_started = others.iter().any(|status| !is_waiting(status));
    let serving = initial.iter().filter(|status| is_sidecar(status)).chain(others);
    let unready: Vec<&Value> = serving.filter(|status| status["ready"] != true).collect();

    let initialised = match phase {
        "Succeeded" => ("True", "PodCompleted", String::new()),
        _ if incomplete.is_empty() || any_started => ("True", "", String::new()),
        _ => {
            let message = format!("containers with incomplete status: {}", names(&incomplete));
            ("False", "ContainersNotInitialized", message)
        }
    };
    let ready = match phase {
        "Succeeded" => ("False", "PodCompleted", String::new()),
        "Failed" => ("False", "PodFailed", String::new()),
        _ if unready.is_empty() => ("True", "", String::new()),
        _ => {
            let message = format!("containers with unready status: {}", names(&unready));
            ("False", "ContainersNotReady", message)
        }
    };
    let network = if has_network { "True" } else { "False" };
    let now = rfc3339(environment.now);
    let mut put = |kind: &str, (truth, reason, message): (&str, &str, String)| {
        set_condition(status, kind, (truth, reason, &message), &now);
    };
    put("PodReadyToStartContainers", (network, "", String::new()));
    put("Initialized", initialised);
    // No other component sets the conditions of readiness gates here.
    for gate in &pod.spec.readiness_gates {
        if ready.0 == "True" {
            put(text(gate, "conditionType"), ("True", "", String::new()));
        }
    }
    put("Ready", ready.clone());
    put("ContainersReady", ready);
    put("PodScheduled", ("True", "", String::new()));
}

fn is_waiting(status: &Value) -> bool {
    !status["state"]["waiting"].is_null() && status["lastState"]["terminated"].is_null()
}

/// Sets a pod condition; `lastTransitionTime` changes only with the status.
pub(super) fn set_condition(
    status: &mut Value,
    kind: &str,
    (truth, reason, message): (&str, &str, &str),
    now: &str,
) {
    let mut condition =
        json!({"type": kind, "status": truth, "lastProbeTime": null, "lastTransitionTime": now});
    for (key, text) in [("reason", reason), ("message", message)] {
        if !text.is_empty() {
            condition[key] = text.into();
        }
    }
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let conditions = status["conditions"].as_array_mut().expect("it was made a list");
    match conditions.iter_mut().find(|found| found["type"] == kind) {
        None => conditions.push(condition),
        Some(found) => {
            if found["status"] == truth {
                condition["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = condition;
        }
    }
}
