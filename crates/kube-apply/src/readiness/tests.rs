//! Snapshot of the whole readiness table.

use std::fmt::Write;

use serde_json::{Value, json};

use super::*;

/// An object with this kind, spec and status, observed by its controller.
fn object(api_version: &str, kind: &str, spec: &Value, status: &Value) -> Value {
    let mut status = status.clone();
    if status.get("observedGeneration").is_none() {
        status["observedGeneration"] = json!(1);
    }
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "generation": 1}, "spec": spec, "status": status})
}

fn describe(state: &Readiness) -> String {
    match state {
        Readiness::Ready => "ready".to_owned(),
        Readiness::Progressing(why) => format!("… {why}"),
        Readiness::Failed(why) => format!("✗ {why}"),
        Readiness::Absent => "absent".to_owned(),
        Readiness::Terminating => "going".to_owned(),
    }
}

fn available(true_: &str) -> Value {
    json!([{"type": "Available", "status": true_}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}])
}

/// Every kind with a rule, by each strategy.
#[test]
fn every_kind_by_every_strategy() {
    let rolling = json!({"replicas": 2, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}, "progressDeadlineSeconds": 600});
    let set = json!({"replicas": 2, "updateStrategy": {"type": "RollingUpdate"}});
    let part = json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}});
    let daemon = json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}});
    let condition = |sort: &str, status: &str, reason: &str| json!({"conditions": [{"type": sort, "status": status, "reason": reason, "message": "m"}]});
    let cases: Vec<(&str, Value)> = vec![
        ("deployment: new", object("apps/v1", "Deployment", &rolling, &json!({}))),
        (
            "deployment: unobserved",
            object(
                "apps/v1",
                "Deployment",
                &rolling,
                &json!({"observedGeneration": 0, "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": available("True")}),
            ),
        ),
        (
            "deployment: half",
            object(
                "apps/v1",
                "Deployment",
                &rolling,
                &json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 1, "availableReplicas": 1, "conditions": available("True")}),
            ),
        ),
        (
            "deployment: old ones left",
            object(
                "apps/v1",
                "Deployment",
                &rolling,
                &json!({"replicas": 3, "updatedReplicas": 2, "readyReplicas": 3, "availableReplicas": 2, "conditions": available("True")}),
            ),
        ),
        (
            "deployment: all",
            object(
                "apps/v1",
                "Deployment",
                &rolling,
                &json!({"replicas": 2, "updatedReplicas": 2, "readyReplicas": 2, "availableReplicas": 2, "conditions": available("True")}),
            ),
        ),
        (
            "deployment: too late",
            object(
                "apps/v1",
                "Deployment",
                &rolling,
                &condition("Progressing", "False", "ProgressDeadlineExceeded"),
            ),
        ),
        (
            "replicaset: one short",
            object(
                "apps/v1",
                "ReplicaSet",
                &json!({"replicas": 2}),
                &json!({"replicas": 2, "fullyLabeledReplicas": 2, "availableReplicas": 1, "readyReplicas": 1}),
            ),
        ),
        (
            "replicaset: failure",
            object(
                "apps/v1",
                "ReplicaSet",
                &json!({"replicas": 2}),
                &condition("ReplicaFailure", "True", "FailedCreate"),
            ),
        ),
        (
            "statefulset: one short",
            object(
                "apps/v1",
                "StatefulSet",
                &set,
                &json!({"replicas": 2, "readyReplicas": 1, "updatedReplicas": 2}),
            ),
        ),
        (
            "statefulset: revisions differ",
            object(
                "apps/v1",
                "StatefulSet",
                &set,
                &json!({"replicas": 2, "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "b"}),
            ),
        ),
        (
            "statefulset: all",
            object(
                "apps/v1",
                "StatefulSet",
                &set,
                &json!({"replicas": 2, "readyReplicas": 2, "currentReplicas": 2, "updatedReplicas": 2, "currentRevision": "a", "updateRevision": "a"}),
            ),
        ),
        (
            "statefulset: partition before",
            object(
                "apps/v1",
                "StatefulSet",
                &part,
                &json!({"replicas": 3, "readyReplicas": 3, "currentReplicas": 3, "currentRevision": "a", "updateRevision": "b"}),
            ),
        ),
        (
            "statefulset: partition reached",
            object(
                "apps/v1",
                "StatefulSet",
                &part,
                &json!({"replicas": 3, "readyReplicas": 3, "updatedReplicas": 1, "currentReplicas": 2, "currentRevision": "a", "updateRevision": "b"}),
            ),
        ),
        (
            "statefulset: on delete",
            object("apps/v1", "StatefulSet", &json!({"updateStrategy": {"type": "OnDelete"}}), &json!({})),
        ),
        (
            "daemonset: unseen",
            json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"generation": 1}, "spec": daemon}),
        ),
        (
            "daemonset: one short",
            object(
                "apps/v1",
                "DaemonSet",
                &daemon,
                &json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1, "numberReady": 1}),
            ),
        ),
        (
            "daemonset: none updated",
            object(
                "apps/v1",
                "DaemonSet",
                &daemon,
                &json!({"desiredNumberScheduled": 2, "currentNumberScheduled": 2}),
            ),
        ),
        ("pod: pending", object("v1", "Pod", &json!({}), &json!({"phase": "Pending"}))),
        (
            "pod: unschedulable",
            object(
                "v1",
                "Pod",
                &json!({}),
                &json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes"}]}),
            ),
        ),
        (
            "pod: crash loop",
            object(
                "v1",
                "Pod",
                &json!({}),
                &json!({"phase": "Running", "containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}),
            ),
        ),
        (
            "pod: ready",
            object(
                "v1",
                "Pod",
                &json!({}),
                &json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}),
            ),
        ),
        ("pod: succeeded", object("v1", "Pod", &json!({}), &json!({"phase": "Succeeded"}))),
        ("pod: failed", object("v1", "Pod", &json!({}), &json!({"phase": "Failed"}))),
        (
            "job: not started",
            object("batch/v1", "Job", &json!({"completions": 1, "backoffLimit": 2}), &json!({})),
        ),
        (
            "job: running",
            object(
                "batch/v1",
                "Job",
                &json!({"completions": 1, "backoffLimit": 2}),
                &json!({"startTime": "t", "active": 1, "failed": 1}),
            ),
        ),
        (
            "job: complete",
            object(
                "batch/v1",
                "Job",
                &json!({"completions": 1, "backoffLimit": 2}),
                &json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}),
            ),
        ),
        (
            "job: failed",
            object(
                "batch/v1",
                "Job",
                &json!({"completions": 1, "backoffLimit": 2}),
                &json!({"failed": 3, "conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded"}]}),
            ),
        ),
        ("claim: pending", object("v1", "PersistentVolumeClaim", &json!({}), &json!({"phase": "Pending"}))),
        ("claim: bound", object("v1", "PersistentVolumeClaim", &json!({}), &json!({"phase": "Bound"}))),
        ("service: cluster", object("v1", "Service", &json!({"clusterIP": "10.0.0.1"}), &json!({}))),
        (
            "service: balancer pending",
            object("v1", "Service", &json!({"type": "LoadBalancer", "clusterIP": "10.0.0.1"}), &json!({})),
        ),
        ("service: external name", object("v1", "Service", &json!({"type": "ExternalName"}), &json!({}))),
        ("crd: new", object("apiextensions.k8s.io/v1", "CustomResourceDefinition", &json!({}), &json!({}))),
        (
            "crd: names taken",
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                &json!({}),
                &condition("NamesAccepted", "False", "Taken"),
            ),
        ),
        (
            "crd: established",
            object(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                &json!({}),
                &condition("Established", "True", ""),
            ),
        ),
        ("budget", object("policy/v1", "PodDisruptionBudget", &json!({}), &json!({}))),
        (
            "apiservice: unavailable",
            object(
                "apiregistration.k8s.io/v1",
                "APIService",
                &json!({}),
                &condition("Available", "False", "MissingEndpoints"),
            ),
        ),
        ("custom: nothing said", object("x.dev/v1", "Thing", &json!({}), &json!({}))),
        (
            "custom: not ready",
            object("x.dev/v1", "Thing", &json!({}), &condition("Ready", "False", "Reconciling")),
        ),
        ("custom: ready", object("x.dev/v1", "Thing", &json!({}), &condition("Ready", "True", ""))),
        ("custom: stalled", object("x.dev/v1", "Thing", &json!({}), &condition("Stalled", "True", "Broken"))),
        ("custom: unobserved", object("x.dev/v1", "Thing", &json!({}), &json!({"observedGeneration": 0}))),
        ("knative: new", object("serving.knative.dev/v1", "Service", &json!({}), &json!({}))),
        (
            "knative: ready",
            object("serving.knative.dev/v1", "Service", &json!({}), &condition("Ready", "True", "")),
        ),
        ("configmap", json!({"apiVersion": "v1", "kind": "ConfigMap"})),
        ("going", json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"deletionTimestamp": "t"}})),
    ];
    let strategies = [
        ("watcher", WaitStrategy::Watcher),
        ("  +jobs", WaitStrategy::WatcherWithJobs),
        ("legacy ", WaitStrategy::Legacy),
        ("  +jobs", WaitStrategy::LegacyWithJobs),
        ("hook   ", WaitStrategy::HookOnly),
    ];
    let mut picture = String::new();
    for (name, live) in cases {
        writeln!(picture, "{name}").unwrap();
        for (by, strategy) in strategies {
            writeln!(picture, "    {by}  {}", describe(&evaluate(&live, strategy))).unwrap();
        }
    }
    insta::assert_snapshot!(picture);
}
