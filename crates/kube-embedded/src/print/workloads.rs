//! Rows of workload kinds, and of disruption budgets and autoscalers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::{age_since, human_duration, parse_time};
use super::selector::{labels, requirements, selector};
use super::{Cells, age, condition_status, name, text_or_default};
use crate::rules::accessors::{bool_or_false, entries, int, items, non_empty_text, text};

/// Names and images of the containers below `spec`.
fn container_names_and_images(spec: &Value) -> (String, String) {
    let join = |field: &str| {
        items(&spec["containers"]).iter().map(|c| text(&c[field])).collect::<Vec<_>>().join(",")
    };
    (join("name"), join("image"))
}

pub fn pod(pod: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let state = super::pod::pod_state(pod);
    let restarts = match state.last_restart {
        Some(at) if state.restarts != 0 => {
            format!("{} ({} ago)", state.restarts, human_duration(now.duration_since(at)))
        }
        _ => state.restarts.to_string(),
    };
    let gates = items(&spec["readinessGates"]);
    let open =
        gates.iter().filter(|gate| condition_status(status, text(&gate["conditionType"])) == Some("True"));
    let gates =
        if gates.is_empty() { "<none>".to_owned() } else { format!("{}/{}", open.count(), gates.len()) };
    vec![
        name(pod),
        format!("{}/{}", state.ready, state.total).into(),
        state.reason.into(),
        restarts.into(),
        age(pod, now),
        text_or_default(&status["podIPs"][0]["ip"], "<none>"),
        text_or_default(&spec["nodeName"], "<none>"),
        text_or_default(&status["nominatedNodeName"], "<none>"),
        gates.into(),
    ]
}

pub fn pod_template(template: &Value, _: Timestamp) -> Cells {
    let inner = &template["template"];
    let (names, images) = container_names_and_images(&inner["spec"]);
    vec![name(template), names.into(), images.into(), labels(&inner["metadata"]["labels"]).into()]
}

pub fn replication_controller(object: &Value, now: Timestamp) -> Cells {
    replicas(object, now, labels(&object["spec"]["selector"]))
}

pub fn replica_set(object: &Value, now: Timestamp) -> Cells {
    replicas(object, now, selector(&object["spec"]["selector"]))
}

fn replicas(object: &Value, now: Timestamp, selector: String) -> Cells {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = container_names_and_images(&spec["template"]["spec"]);
    vec![
        name(object),
        int(&spec["replicas"]).into(),
        int(&status["replicas"]).into(),
        int(&status["readyReplicas"]).into(),
        age(object, now),
        names.into(),
        images.into(),
        selector.into(),
    ]
}

pub fn deployment(object: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = container_names_and_images(&spec["template"]["spec"]);
    vec![
        name(object),
        format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"])).into(),
        int(&status["updatedReplicas"]).into(),
        int(&status["availableReplicas"]).into(),
        age(object, now),
        names.into(),
        images.into(),
        requirements(&spec["selector"]).into(),
    ]
}

pub fn stateful_set(object: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = container_names_and_images(&spec["template"]["spec"]);
    let ready = format!("{}/{}", int(&status["readyReplicas"]), int(&spec["replicas"]));
    vec![name(object), ready.into(), age(object, now), names.into(), images.into()]
}

pub fn daemon_set(object: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&object["spec"], &object["status"]);
    let (names, images) = container_names_and_images(&spec["template"]["spec"]);
    vec![
        name(object),
        int(&status["desiredNumberScheduled"]).into(),
        int(&status["currentNumberScheduled"]).into(),
        int(&status["numberReady"]).into(),
        int(&status["updatedNumberScheduled"]).into(),
        int(&status["numberAvailable"]).into(),
        labels(&spec["template"]["spec"]["nodeSelector"]).into(),
        age(object, now),
        names.into(),
        images.into(),
        selector(&spec["selector"]).into(),
    ]
}

/// The conditions shown as a Job's status; the first true one counts.
const FINAL_JOB_CONDITIONS: &[(&str, &str)] = &[("Complete", "Complete"), ("Failed", "Failed")];
const OTHER_JOB_CONDITIONS: &[&str] = &["Suspended", "FailureTarget", "SuccessCriteriaMet"];

pub fn job(job: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&job["spec"], &job["status"]);
    let holds = |kind: &str| condition_status(status, kind) == Some("True");
    let finished = FINAL_JOB_CONDITIONS.iter().find(|(kind, _)| holds(kind)).map(|(_, shown)| *shown);
    let shown = finished.unwrap_or_else(|| {
        if !job["metadata"]["deletionTimestamp"].is_null() {
            return "Terminating";
        }
        OTHER_JOB_CONDITIONS.iter().find(|kind| holds(kind)).copied().unwrap_or("Running")
    });
    let (succeeded, parallelism) = (int(&status["succeeded"]), int(&spec["parallelism"]));
    let completions = match spec["completions"].as_i64() {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    };
    let duration = parse_time(&status["startTime"]).map(|start| {
        let end = parse_time(&status["completionTime"]).unwrap_or(now);
        human_duration(end.duration_since(start))
    });
    let (names, images) = container_names_and_images(&spec["template"]["spec"]);
    vec![
        name(job),
        shown.into(),
        completions.into(),
        duration.unwrap_or_default().into(),
        age(job, now),
        names.into(),
        images.into(),
        selector(&spec["selector"]).into(),
    ]
}

pub fn cron_job(object: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&object["spec"], &object["status"]);
    let last = &status["lastScheduleTime"];
    let last = if last.is_null() { "<none>".to_owned() } else { age_since(last, now) };
    let suspend = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let template = &spec["jobTemplate"]["spec"];
    let (names, images) = container_names_and_images(&template["template"]["spec"]);
    vec![
        name(object),
        text(&spec["schedule"]).into(),
        spec["timeZone"].as_str().unwrap_or("<none>").into(),
        suspend.into(),
        items(&status["active"]).len().into(),
        last.into(),
        age(object, now),
        names.into(),
        images.into(),
        selector(&template["selector"]).into(),
    ]
}

pub fn controller_revision(object: &Value, now: Timestamp) -> Cells {
    let owners = items(&object["metadata"]["ownerReferences"]);
    let owner = owners.iter().find(|owner| bool_or_false(&owner["controller"])).map(|owner| {
        let group = text(&owner["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
        let kind = text(&owner["kind"]).to_lowercase();
        let kind = if group.is_empty() { kind } else { format!("{kind}.{group}") };
        format!("{kind}/{}", text(&owner["name"]))
    });
    let owner = owner.unwrap_or_else(|| "<none>".to_owned());
    vec![name(object), owner.into(), int(&object["revision"]).into(), age(object, now)]
}

pub fn disruption_budget(object: &Value, now: Timestamp) -> Cells {
    let shown = |value: &Value| match value {
        Value::Null => Value::from("N/A"),
        Value::Number(number) => number.to_string().into(),
        other => other.clone(),
    };
    vec![
        name(object),
        shown(&object["spec"]["minAvailable"]),
        shown(&object["spec"]["maxUnavailable"]),
        int(&object["status"]["disruptionsAllowed"]).into(),
        age(object, now),
    ]
}

pub fn autoscaler(object: &Value, now: Timestamp) -> Cells {
    let (spec, status) = (&object["spec"], &object["status"]);
    let target = &spec["scaleTargetRef"];
    let fewest = spec["minReplicas"].as_i64();
    vec![
        name(object),
        format!("{}/{}", text(&target["kind"]), text(&target["name"])).into(),
        metric_targets(spec, status).into(),
        fewest.map_or_else(|| "<unset>".to_owned(), |n| n.to_string()).into(),
        int(&spec["maxReplicas"]).into(),
        int(&status["currentReplicas"]).into(),
        age(object, now),
    ]
}

/// Current and target values of an autoscaler: `cpu: 12%/80%`, at most two.
fn metric_targets(spec: &Value, status: &Value) -> String {
    // Version 1 has one metric, in its own fields.
    let old = &spec["targetCPUUtilizationPercentage"];
    if old.is_number() {
        let target = json!({"metrics": [resource_metric(old)]});
        let current = &status["currentCPUUtilizationPercentage"];
        let current = json!({"currentMetrics": [{"resource": {"current": {"averageUtilization": current}}}]});
        return metric_targets(&target, &current);
    }
    let specs = items(&spec["metrics"]);
    if specs.is_empty() {
        return "<none>".to_owned();
    }
    let shown =
        specs.iter().enumerate().map(|(at, metric)| metric_text(metric, &status["currentMetrics"][at]));
    let first = shown.take(2).collect::<Vec<_>>().join(", ");
    if specs.len() > 2 { format!("{first} + {} more...", specs.len() - 2) } else { first }
}

fn resource_metric(utilization: &Value) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": utilization});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}

/// One metric: current and target value.
fn metric_text(metric: &Value, status: &Value) -> String {
    let kind = text(&metric["type"]);
    let field = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let (wanted, current) = (&metric[field]["target"], &status[field]["current"]);
    let current = |of: &str| text_or(&current[of], "<unknown>");
    let average = non_empty_text(&wanted["averageValue"]);
    match (field, average) {
        ("pods", _) => format!("{}/{}", current("averageValue"), average.unwrap_or("0")),
        ("resource" | "containerResource", Some(average)) => {
            format!("{}: {}/{average}", text(&metric[field]["name"]), current("averageValue"))
        }
        ("resource" | "containerResource", None) => {
            let percent = |value: &Value| value.as_i64().map(|percent| format!("{percent}%"));
            let now = percent(&status[field]["current"]["averageUtilization"]);
            let target = percent(&wanted["averageUtilization"]).unwrap_or_else(|| "<auto>".to_owned());
            let now = now.unwrap_or_else(|| "<unknown>".to_owned());
            format!("{}: {now}/{target}", text(&metric[field]["name"]))
        }
        (_, Some(average)) => format!("{}/{average} (avg)", current("averageValue")),
        (_, None) => format!("{}/{}", current("value"), text_or(&wanted["value"], "<nil>")),
    }
}

fn text_or(value: &Value, otherwise: &str) -> String {
    non_empty_text(value).unwrap_or(otherwise).to_owned()
}

pub fn quota(object: &Value, now: Timestamp) -> Cells {
    let status = &object["status"];
    let line = |limits: bool| {
        let hard = entries(&status["hard"]).filter(|(of, _)| of.starts_with("limits.") == limits);
        let each = hard.map(|(of, hard)| {
            let used = non_empty_text(&status["used"][of.as_str()]).unwrap_or("0");
            format!("{of}: {used}/{}", text(hard))
        });
        each.collect::<Vec<_>>().join(", ")
    };
    vec![name(object), line(false).into(), line(true).into(), age(object, now)]
}

pub fn priority_class(object: &Value, now: Timestamp) -> Cells {
    vec![
        name(object),
        int(&object["value"]).into(),
        bool_or_false(&object["globalDefault"]).into(),
        age(object, now),
        text(&object["preemptionPolicy"]).into(),
    ]
}

pub fn scale(object: &Value, now: Timestamp) -> Cells {
    vec![
        name(object),
        int(&object["spec"]["replicas"]).into(),
        int(&object["status"]["replicas"]).into(),
        age(object, now),
    ]
}
