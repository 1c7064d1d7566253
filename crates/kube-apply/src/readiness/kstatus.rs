//! Readiness by kstatus, as used by Helm 4.

use serde_json::Value;

use super::Readiness::{self, *};
use super::fields::{
    condition, condition_message, conditions, count, group_kind, is_condition_true, number, text,
};

/// Rule of one kind.
type Rule = fn(&Value) -> Readiness;

/// Kinds with a rule of their own. All others are judged by their conditions.
#[rustfmt::skip]
const RULES: &[(&str, &str, Rule)] = &[
    ("",       "Service",               service),
    ("",       "Pod",                   pod),
    ("",       "PersistentVolumeClaim", persistent_volume_claim),
    ("apps",   "Deployment",            deployment),
    ("apps",   "ReplicaSet",            replica_set),
    ("apps",   "StatefulSet",           stateful_set),
    ("apps",   "DaemonSet",             daemon_set),
    ("batch",  "Job",                   job),
    ("policy", "PodDisruptionBudget",   always_ready),
    ("apiextensions.k8s.io",   "CustomResourceDefinition", crd),
    ("apiregistration.k8s.io", "APIService",               api_service),
];

/// Kubernetes kinds that are ready once they exist.
#[rustfmt::skip]
const READY_ON_CREATION: &[(&str, &str)] = &[
    ("", "ConfigMap"), ("", "Secret"), ("", "ServiceAccount"), ("", "LimitRange"), ("", "ResourceQuota"),
    ("batch", "CronJob"), ("networking.k8s.io", "Ingress"), ("networking.k8s.io", "IngressClass"),
    ("networking.k8s.io", "NetworkPolicy"), ("scheduling.k8s.io", "PriorityClass"), ("storage.k8s.io", "StorageClass"),
    ("rbac.authorization.k8s.io", "Role"), ("rbac.authorization.k8s.io", "RoleBinding"),
    ("rbac.authorization.k8s.io", "ClusterRole"), ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"),
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"),
];

pub fn can_be_unready(live: &Value) -> bool {
    // A paused Deployment does not progress until it is resumed.
    let paused = group_kind(live) == ("apps", "Deployment") && live["spec"]["paused"] == true;
    !paused && !READY_ON_CREATION.contains(&group_kind(live))
}

/// `jobs`: Jobs must have completed, not only started.
pub fn evaluate(live: &Value, jobs: bool) -> Readiness {
    if let Some(state) = generic(live) {
        return state;
    }
    let (group, kind) = group_kind(live);
    if jobs && (group, kind) == ("batch", "Job") {
        return completed_job(live);
    }
    match RULES.iter().find(|row| (row.0, row.1) == (group, kind)) {
        Some(row) => row.2(live),
        None if READY_ON_CREATION.contains(&(group, kind)) => Ready,
        None => custom(live, group),
    }
}

/// Hooks: Jobs and Pods must have completed, other kinds must exist.
pub fn evaluate_hook(live: &Value) -> Readiness {
    match group_kind(live) {
        ("batch", "Job") => completed_job(live),
        ("", "Pod") => match text(live, "/status/phase") {
            "Succeeded" => Ready,
            "Failed" => Failed(format!("pod {} failed", text(live, "/metadata/name"))),
            "" => Progressing("pod is not observed yet".to_owned()),
            phase => Progressing(format!("pod is in the phase {phase}")),
        },
        _ => Ready,
    }
}

/// Rules that apply to every kind.
fn generic(live: &Value) -> Option<Readiness> {
    if !text(live, "/metadata/deletionTimestamp").is_empty() {
        return Some(Terminating);
    }
    let generations = number(live, "/metadata/generation").zip(number(live, "/status/observedGeneration"));
    if let Some((generation, observed)) = generations.filter(|(generation, observed)| generation != observed)
    {
        return Some(Progressing(format!("generation is {generation}, but the observed one is {observed}")));
    }
    conditions(live).filter(|condition| condition["status"] == "True").find_map(|condition| {
        match text(condition, "/type") {
            "Reconciling" => Some(Progressing(condition_message(condition))),
            "Stalled" => Some(Failed(condition_message(condition))),
            _ => None,
        }
    })
}

/// A kind without a rule is judged by its `Ready` condition, if it has one.
fn custom(live: &Value, group: &str) -> Readiness {
    match condition(live, "Ready") {
        Some(ready) if ready["status"] == "True" => Ready,
        Some(ready) => Progressing(condition_message(ready)),
        // Knative kinds always have the condition once their controller has observed them.
        None if group.ends_with(".knative.dev") => {
            Progressing("not observed by its controller yet".to_owned())
        }
        None => Ready,
    }
}

fn always_ready(_: &Value) -> Readiness {
    Ready
}

/// The first row (observed, desired, label) that is below its desired number.
fn below_desired(lines: &[(i64, i64, &str)]) -> Option<Readiness> {
    let line = lines.iter().find(|(there, wanted, _)| there < wanted)?;
    Some(Progressing(format!("{}: {}/{}", line.2, line.0, line.1)))
}

fn above_desired(there: i64, wanted: i64) -> Option<Readiness> {
    (there > wanted).then(|| Progressing(format!("Pending termination: {}", there.saturating_sub(wanted))))
}

fn desired_replicas(live: &Value) -> i64 {
    number(live, "/spec/replicas").unwrap_or(1)
}

fn deployment(live: &Value) -> Readiness {
    // Without a progress deadline the controller reports no progress.
    let no_deadline =
        number(live, "/spec/progressDeadlineSeconds").is_none_or(|after| after == i64::from(i32::MAX));
    let progressing = condition(live, "Progressing");
    if progressing.is_some_and(|condition| condition["reason"] == "ProgressDeadlineExceeded") {
        return Failed("Progress deadline exceeded".to_owned());
    }
    let rolled_out = progressing.is_some_and(|condition| {
        condition["status"] == "True" && condition["reason"] == "NewReplicaSetAvailable"
    });
    let wanted = desired_replicas(live);
    let there = count(live, "/status/replicas");
    let updated = count(live, "/status/updatedReplicas");
    below_desired(&[(there, wanted, "Replicas"), (updated, wanted, "Updated")])
        .or_else(|| above_desired(there, wanted))
        .or_else(|| {
            below_desired(&[
                (count(live, "/status/availableReplicas"), updated, "Available"),
                (count(live, "/status/readyReplicas"), wanted, "Ready"),
            ])
        })
        .or_else(|| (!no_deadline && !rolled_out).then(|| Progressing("ReplicaSet not Available".to_owned())))
        .or_else(|| {
            (!is_condition_true(live, "Available"))
                .then(|| Progressing("Deployment not Available".to_owned()))
        })
        .unwrap_or(Ready)
}

fn replica_set(live: &Value) -> Readiness {
    if let Some(failure) = condition(live, "ReplicaFailure").filter(|condition| condition["status"] == "True")
    {
        return Progressing(condition_message(failure));
    }
    let wanted = desired_replicas(live);
    below_desired(&[
        (count(live, "/status/fullyLabeledReplicas"), wanted, "Labelled"),
        (count(live, "/status/availableReplicas"), wanted, "Available"),
        (count(live, "/status/readyReplicas"), wanted, "Ready"),
    ])
    .or_else(|| above_desired(count(live, "/status/replicas"), wanted))
    .unwrap_or(Ready)
}

fn stateful_set(live: &Value) -> Readiness {
    if text(live, "/spec/updateStrategy/type") == "OnDelete" {
        return Ready;
    }
    let wanted = desired_replicas(live);
    let there = count(live, "/status/replicas");
    let begun = below_desired(&[
        (there, wanted, "Replicas"),
        (count(live, "/status/readyReplicas"), wanted, "Ready"),
    ])
    .or_else(|| above_desired(there, wanted));
    if let Some(state) = begun {
        return state;
    }
    // Only ordinals from the partition on are updated.
    if let Some(partition) = number(live, "/spec/updateStrategy/rollingUpdate/partition") {
        let updated = count(live, "/status/updatedReplicas");
        return below_desired(&[(updated, wanted.saturating_sub(partition), "Updated")]).unwrap_or(Ready);
    }
    below_desired(&[(count(live, "/status/currentReplicas"), wanted, "Current")])
        .or_else(|| {
            let same = text(live, "/status/currentRevision") == text(live, "/status/updateRevision");
            (!same).then(|| Progressing("Waiting for updated revision to match current".to_owned()))
        })
        .unwrap_or(Ready)
}

fn daemon_set(live: &Value) -> Readiness {
    if number(live, "/status/observedGeneration").is_none() {
        return Progressing("not observed by its controller yet".to_owned());
    }
    let Some(wanted) = number(live, "/status/desiredNumberScheduled") else {
        return Progressing("desired number of pods is not known yet".to_owned());
    };
    below_desired(&[
        (count(live, "/status/currentNumberScheduled"), wanted, "Current"),
        (count(live, "/status/updatedNumberScheduled"), wanted, "Updated"),
        (count(live, "/status/numberAvailable"), wanted, "Available"),
        (count(live, "/status/numberReady"), wanted, "Ready"),
    ])
    .unwrap_or(Ready)
}

fn persistent_volume_claim(live: &Value) -> Readiness {
    match text(live, "/status/phase") {
        "Bound" => Ready,
        "" => Progressing("PVC is not Bound".to_owned()),
        phase => Progressing(format!("PVC is not Bound. phase: {phase}")),
    }
}

fn pod(live: &Value) -> Readiness {
    match text(live, "/status/phase") {
        "Succeeded" | "Failed" => Ready,
        "Running" if is_condition_true(live, "Ready") => Ready,
        "Running" => match crash_looping(live) {
            names if names.is_empty() => Progressing("Pod is running but is not Ready".to_owned()),
            names => Failed(format!("Containers in CrashLoop state: {}", names.join(","))),
        },
        "Pending" => {
            let scheduled =
                condition(live, "PodScheduled").filter(|condition| condition["status"] == "False");
            Progressing(scheduled.map_or_else(|| "Pod is in the Pending phase".to_owned(), condition_message))
        }
        _ => Progressing("Pod phase not available".to_owned()),
    }
}

fn crash_looping(live: &Value) -> Vec<&str> {
    let statuses = live["status"]["containerStatuses"].as_array().map(Vec::as_slice).unwrap_or_default();
    let looping = statuses.iter().filter(|status| status["state"]["waiting"]["reason"] == "CrashLoopBackOff");
    looping.map(|status| text(status, "/name")).collect()
}

fn finished_job(live: &Value) -> Option<Readiness> {
    if is_condition_true(live, "Complete") {
        return Some(Ready);
    }
    let failed = condition(live, "Failed").filter(|condition| condition["status"] == "True")?;
    Some(Failed(format!("Job failed: {}", condition_message(failed))))
}

fn job(live: &Value) -> Readiness {
    finished_job(live).unwrap_or_else(|| match text(live, "/status/startTime") {
        "" => Progressing("Job not started".to_owned()),
        _ => Ready,
    })
}

fn completed_job(live: &Value) -> Readiness {
    finished_job(live).unwrap_or_else(|| {
        let number = |field: &str| count(live, &format!("/status/{field}"));
        let (active, succeeded, failed) = (number("active"), number("succeeded"), number("failed"));
        Progressing(format!("Job in progress. active: {active}, succeeded: {succeeded}, failed: {failed}"))
    })
}

fn service(live: &Value) -> Readiness {
    if text(live, "/spec/type") == "LoadBalancer" && text(live, "/spec/clusterIP").is_empty() {
        return Progressing("ClusterIP not set. Service type: LoadBalancer".to_owned());
    }
    Ready
}

fn crd(live: &Value) -> Readiness {
    let refused = condition(live, "NamesAccepted").filter(|condition| condition["status"] == "False");
    if let Some(refused) = refused {
        return Failed(condition_message(refused));
    }
    match condition(live, "Established") {
        Some(established) if established["status"] == "True" => Ready,
        Some(established) if established["status"] == "False" && established["reason"] != "Installing" => {
            Failed(condition_message(established))
        }
        _ => Progressing("Install in progress".to_owned()),
    }
}

fn api_service(live: &Value) -> Readiness {
    match condition(live, "Available").filter(|condition| condition["status"] != "True") {
        Some(available) => Progressing(condition_message(available)),
        None => Ready,
    }
}
