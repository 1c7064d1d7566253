//! Readiness by Helm 3's rules, which Helm 4 offers as `legacy`.
//!
//! Helm reads the new `ReplicaSet` of a Deployment and the pods of other workloads. Here the status of the object
//! itself suffices: where it cannot distinguish old pods during a rollout, the object counts as not ready yet. The
//! final result is the same.

use serde_json::Value;

use super::Readiness::{self, *};
use super::fields::{count, group_kind, is_condition_true, number, scaled_value, text};

/// Kinds with a rule. All others are ready once they exist.
const KINDS_WITH_RULES: &[(&str, &str)] = &[
    ("", "Pod"),
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("", "ReplicationController"),
    ("apps", "Deployment"),
    ("apps", "DaemonSet"),
    ("apps", "StatefulSet"),
    ("apps", "ReplicaSet"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

pub fn can_be_unready(live: &Value, jobs: bool) -> bool {
    KINDS_WITH_RULES.contains(&group_kind(live)) || (jobs && group_kind(live) == ("batch", "Job"))
}

pub fn evaluate(live: &Value, jobs: bool) -> Readiness {
    match group_kind(live) {
        ("", "Pod") if is_condition_true(live, "Ready") => Ready,
        ("", "Pod") => progressing("Pod is not ready"),
        ("", "PersistentVolumeClaim") if text(live, "/status/phase") == "Bound" => Ready,
        ("", "PersistentVolumeClaim") => progressing("PersistentVolumeClaim is not bound"),
        ("", "Service") => service(live),
        ("batch", "Job") if jobs => job(live),
        ("apps", "Deployment") => deployment(live),
        ("apps", "DaemonSet") => daemon_set(live),
        ("apps", "StatefulSet") => stateful_set(live),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replicas(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => crd(live),
        _ => Ready,
    }
}

fn progressing(why: &str) -> Readiness {
    Progressing(why.to_owned())
}

/// An object whose last change was not observed by its controller is not judged yet.
fn unobserved_generation(live: &Value) -> Option<Readiness> {
    let (generation, observed) =
        (number(live, "/metadata/generation"), number(live, "/status/observedGeneration"));
    (generation.unwrap_or(0) != observed.unwrap_or(0))
        .then(|| progressing("the last change has not been observed yet"))
}

fn require_count(there: i64, wanted: i64, what: &str) -> Readiness {
    if there < wanted { Progressing(format!("{what}: {there}/{wanted}")) } else { Ready }
}

fn service(live: &Value) -> Readiness {
    let spec = &live["spec"];
    if spec["type"] == "ExternalName" {
        return Ready;
    }
    if text(spec, "/clusterIP").is_empty() {
        return progressing("Service does not have cluster IP address");
    }
    let some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let pending = spec["type"] == "LoadBalancer"
        && !some(&spec["externalIPs"])
        && !some(&live["status"]["loadBalancer"]["ingress"]);
    if pending { progressing("Service does not have load balancer ingress IP address") } else { Ready }
}

fn job(live: &Value) -> Readiness {
    if count(live, "/status/failed") > number(live, "/spec/backoffLimit").unwrap_or(6) {
        return Failed(format!(
            "job is failed: {}/{}",
            text(live, "/metadata/namespace"),
            text(live, "/metadata/name")
        ));
    }
    match number(live, "/spec/completions") {
        Some(wanted) => require_count(count(live, "/status/succeeded"), wanted, "Job is not completed"),
        None => Ready,
    }
}

fn deployment(live: &Value) -> Readiness {
    if live["spec"]["paused"] == true {
        return Ready;
    }
    if let Some(state) = unobserved_generation(live) {
        return state;
    }
    let wanted = number(live, "/spec/replicas").unwrap_or(1);
    let rolling = live.pointer("/spec/strategy/rollingUpdate/maxUnavailable");
    let unavailable = if text(live, "/spec/strategy/type") == "RollingUpdate" && wanted > 0 {
        scaled_value(rolling, wanted, false).unwrap_or(0).min(wanted)
    } else {
        0
    };
    // Ready pods may be old ones; at least this many are new.
    let old = count(live, "/status/replicas").saturating_sub(count(live, "/status/updatedReplicas")).max(0);
    let ready = count(live, "/status/readyReplicas").saturating_sub(old).max(0);
    require_count(ready, wanted.saturating_sub(unavailable), "Deployment does not have enough pods ready")
}

fn daemon_set(live: &Value) -> Readiness {
    if let Some(state) = unobserved_generation(live) {
        return state;
    }
    if text(live, "/spec/updateStrategy/type") != "RollingUpdate" {
        return Ready;
    }
    let wanted = count(live, "/status/desiredNumberScheduled");
    let updated = count(live, "/status/updatedNumberScheduled");
    if updated != wanted {
        return Progressing(format!("DaemonSet does not have enough Pods scheduled: {updated}/{wanted}"));
    }
    let unavailable =
        scaled_value(live.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"), wanted, true);
    let wanted = wanted.saturating_sub(unavailable.unwrap_or(wanted));
    require_count(count(live, "/status/numberReady"), wanted, "DaemonSet does not have enough Pods ready")
}

fn stateful_set(live: &Value) -> Readiness {
    if let Some(state) = unobserved_generation(live) {
        return state;
    }
    if text(live, "/spec/updateStrategy/type") != "RollingUpdate" {
        return Ready;
    }
    let partition = count(live, "/spec/updateStrategy/rollingUpdate/partition");
    let wanted = number(live, "/spec/replicas").unwrap_or(1);
    let updated = count(live, "/status/updatedReplicas");
    if updated < wanted.saturating_sub(partition) {
        return require_count(
            updated,
            wanted.saturating_sub(partition),
            "StatefulSet does not have enough Pods scheduled",
        );
    }
    let ready = count(live, "/status/readyReplicas");
    if ready != wanted {
        return Progressing(format!("StatefulSet does not have enough Pods ready: {ready}/{wanted}"));
    }
    let same = text(live, "/status/currentRevision") == text(live, "/status/updateRevision");
    if partition == 0 && !same {
        return progressing("StatefulSet is not ready, currentRevision does not match updateRevision");
    }
    Ready
}

fn replicas(live: &Value) -> Readiness {
    let there = count(live, "/status/replicas");
    unobserved_generation(live)
        .unwrap_or_else(|| require_count(count(live, "/status/readyReplicas"), there, "pods are not ready"))
}

fn crd(live: &Value) -> Readiness {
    // A name conflict is not reported here: objects that need the kind fail.
    let names_taken = super::fields::condition(live, "NamesAccepted")
        .is_some_and(|condition| condition["status"] == "False");
    if is_condition_true(live, "Established") || names_taken {
        Ready
    } else {
        progressing("Install in progress")
    }
}
