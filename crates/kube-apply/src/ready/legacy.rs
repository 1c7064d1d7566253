//! Readiness by Helm 3's rules, which Helm 4 offers as `legacy`.
//!
//! Helm reads the new `ReplicaSet` of a Deployment and the pods of other workloads. Here the status of the object
//! itself suffices: where it cannot distinguish old pods during a rollout, the object counts as not ready yet. The
//! final result is the same.

use serde_json::Value;

use super::State::{self, *};
use super::fields::{count, group_kind, holds, number, share, text};

/// Kinds with a rule. All others are ready once they exist.
const JUDGED: &[(&str, &str)] = &[
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

pub fn is_judged(live: &Value, jobs: bool) -> bool {
    JUDGED.contains(&group_kind(live)) || (jobs && group_kind(live) == ("batch", "Job"))
}

pub fn judge(live: &Value, jobs: bool) -> State {
    match group_kind(live) {
        ("", "Pod") if holds(live, "Ready") => Ready,
        ("", "Pod") => waiting("Pod is not ready"),
        ("", "PersistentVolumeClaim") if text(live, "/status/phase") == "Bound" => Ready,
        ("", "PersistentVolumeClaim") => waiting("PersistentVolumeClaim is not bound"),
        ("", "Service") => service(live),
        ("batch", "Job") if jobs => job(live),
        ("apps", "Deployment") => deployment(live),
        ("apps", "DaemonSet") => daemon_set(live),
        ("apps", "StatefulSet") => stateful_set(live),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replicas(live),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(live),
        _ => Ready,
    }
}

fn waiting(why: &str) -> State {
    Progressing(why.to_owned())
}

/// An object whose last change was not observed by its controller is not judged yet.
fn unseen(live: &Value) -> Option<State> {
    let (generation, observed) =
        (number(live, "/metadata/generation"), number(live, "/status/observedGeneration"));
    (generation.unwrap_or(0) != observed.unwrap_or(0))
        .then(|| waiting("the last change has not been observed yet"))
}

fn enough(there: i64, wanted: i64, what: &str) -> State {
    if there < wanted { Progressing(format!("{what}: {there}/{wanted}")) } else { Ready }
}

fn service(live: &Value) -> State {
    let spec = &live["spec"];
    if spec["type"] == "ExternalName" {
        return Ready;
    }
    if text(spec, "/clusterIP").is_empty() {
        return waiting("Service does not have cluster IP address");
    }
    let some = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
    let pending = spec["type"] == "LoadBalancer"
        && !some(&spec["externalIPs"])
        && !some(&live["status"]["loadBalancer"]["ingress"]);
    if pending { waiting("Service does not have load balancer ingress IP address") } else { Ready }
}

fn job(live: &Value) -> State {
    if count(live, "/status/failed") > number(live, "/spec/backoffLimit").unwrap_or(6) {
        return Failed(format!(
            "job is failed: {}/{}",
            text(live, "/metadata/namespace"),
            text(live, "/metadata/name")
        ));
    }
    match number(live, "/spec/completions") {
        Some(wanted) => enough(count(live, "/status/succeeded"), wanted, "Job is not completed"),
        None => Ready,
    }
}

fn deployment(live: &Value) -> State {
    if live["spec"]["paused"] == true {
        return Ready;
    }
    if let Some(state) = unseen(live) {
        return state;
    }
    let wanted = number(live, "/spec/replicas").unwrap_or(1);
    let rolling = live.pointer("/spec/strategy/rollingUpdate/maxUnavailable");
    let unavailable = if text(live, "/spec/strategy/type") == "RollingUpdate" && wanted > 0 {
        share(rolling, wanted, false).unwrap_or(0).min(wanted)
    } else {
        0
    };
    // Ready pods may be old ones; at least this many are new.
    let old = count(live, "/status/replicas").saturating_sub(count(live, "/status/updatedReplicas")).max(0);
    let ready = count(live, "/status/readyReplicas").saturating_sub(old).max(0);
    enough(ready, wanted.saturating_sub(unavailable), "Deployment does not have enough pods ready")
}

fn daemon_set(live: &Value) -> State {
    if let Some(state) = unseen(live) {
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
    let unavailable = share(live.pointer("/spec/updateStrategy/rollingUpdate/maxUnavailable"), wanted, true);
    let wanted = wanted.saturating_sub(unavailable.unwrap_or(wanted));
    enough(count(live, "/status/numberReady"), wanted, "DaemonSet does not have enough Pods ready")
}

fn stateful_set(live: &Value) -> State {
    if let Some(state) = unseen(live) {
        return state;
    }
    if text(live, "/spec/updateStrategy/type") != "RollingUpdate" {
        return Ready;
    }
    let partition = count(live, "/spec/updateStrategy/rollingUpdate/partition");
    let wanted = number(live, "/spec/replicas").unwrap_or(1);
    let updated = count(live, "/status/updatedReplicas");
    if updated < wanted.saturating_sub(partition) {
        return enough(
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
        return waiting("StatefulSet is not ready, currentRevision does not match updateRevision");
    }
    Ready
}

fn replicas(live: &Value) -> State {
    let there = count(live, "/status/replicas");
    unseen(live).unwrap_or_else(|| enough(count(live, "/status/readyReplicas"), there, "pods are not ready"))
}

fn definition(live: &Value) -> State {
    // A name conflict is not reported here: objects that need the kind fail.
    let names_taken = super::fields::condition(live, "NamesAccepted")
        .is_some_and(|condition| condition["status"] == "False");
    if holds(live, "Established") || names_taken { Ready } else { waiting("Install in progress") }
}
