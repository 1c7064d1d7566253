//! Tests of pod rows and pod resources.

#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use serde_json::json;

use super::*;

fn pod(value: Value) -> Pod {
    Pod::from_object(serde_json::from_value(value).unwrap(), &StringInterner::default())
}

fn scheduled_pod(phase: &str, spec: Value) -> Value {
    let mut pod =
        json!({"metadata": {"name": "p", "namespace": "x"}, "spec": spec, "status": {"phase": phase}});
    pod["spec"]["nodeName"] = "n".into();
    pod
}

/// CPU request and limit, memory request and limit, and whether CPU and memory are unlimited.
fn pod_totals(spec: Value) -> (i64, i64, i64, i64, bool, bool) {
    let pod = pod(scheduled_pod("Running", spec));
    let PodResources { cpu, memory } = *pod.allocation().unwrap().1;
    (cpu.request, cpu.limit, memory.request, memory.limit, cpu.unlimited, memory.unlimited)
}

fn container(requests: Value, limits: Value) -> Value {
    json!({"image": "i", "resources": {"requests": requests, "limits": limits}})
}

#[test]
fn pod_resources_follow_kubernetes_rules() {
    let mi = 1 << 20;
    let cpu = |amount: &str| container(json!({"cpu": amount}), json!({"cpu": amount}));
    let always = |mut container: Value| {
        container["restartPolicy"] = "Always".into();
        container
    };
    let both = container(json!({"cpu": "100m", "memory": "64Mi"}), json!({"cpu": "1", "memory": "128Mi"}));
    #[rustfmt::skip]
    let table = [
        // Containers are added.
        (json!({"containers": [both, both]}), (200, 2000, 128 * mi, 256 * mi, false, false)),
        // A container without resources adds nothing and is unlimited.
        (json!({"containers": [both, {"image": "i"}]}), (100, 1000, 64 * mi, 128 * mi, true, true)),
        (json!({"containers": [cpu("100m")]}), (100, 100, 0, 0, false, true)),
        // A limit of zero is no limit.
        (json!({"containers": [container(json!({}), json!({"cpu": "0", "memory": "1Mi"}))]}), (0, 0, 0, mi, true, false)),
        // The largest init container counts if it exceeds the containers.
        (json!({"containers": [cpu("100m")], "initContainers": [cpu("2"), cpu("1")]}), (2000, 2000, 0, 0, false, true)),
        (json!({"containers": [cpu("3")], "initContainers": [cpu("2")]}), (3000, 3000, 0, 0, false, true)),
        // Sidecars are added to the containers and to later init containers.
        (json!({"containers": [cpu("100m")], "initContainers": [always(cpu("1"))]}), (1100, 1100, 0, 0, false, true)),
        (json!({"containers": [cpu("100m")], "initContainers": [always(cpu("1")), cpu("2")]}), (3000, 3000, 0, 0, false, true)),
        // An init container without a limit ends; a sidecar without one does not.
        (json!({"containers": [both], "initContainers": [{"image": "i"}]}), (100, 1000, 64 * mi, 128 * mi, false, false)),
        (json!({"containers": [both], "initContainers": [always(json!({"image": "i"}))]}), (100, 1000, 64 * mi, 128 * mi, true, true)),
        // Overhead adds to requests, and to limits if any.
        (json!({"containers": [both], "overhead": {"cpu": "50m", "memory": "1Mi"}}), (150, 1050, 65 * mi, 129 * mi, false, false)),
        (json!({"containers": [{"image": "i"}], "overhead": {"cpu": "50m"}}), (50, 0, 0, 0, true, true)),
        // Pod-level resources replace the sum.
        (json!({"containers": [{"image": "i"}], "resources": {"requests": {"cpu": "4"}, "limits": {"cpu": "5"}}}), (4000, 5000, 0, 0, false, true)),
        (json!({}), (0, 0, 0, 0, false, false)),
    ];
    for (spec, expected) in table {
        assert_eq!(pod_totals(spec.clone()), expected, "{spec}");
    }
}

#[test]
fn finished_and_unscheduled_pods_use_nothing() {
    let spec = || json!({"containers": [container(json!({"cpu": "1"}), json!({}))]});
    for (phase, running) in [
        ("Pending", Some(false)),
        ("Running", Some(true)),
        ("Unknown", Some(false)),
        ("Succeeded", None),
        ("Failed", None),
    ] {
        let pod = pod(scheduled_pod(phase, spec()));
        assert_eq!(pod.allocation().map(|(_, _, running)| running), running, "{phase}");
    }
    for node in [json!(null), json!("")] {
        let mut unplaced = scheduled_pod("Pending", spec());
        unplaced["spec"]["nodeName"] = node;
        assert_eq!(pod(unplaced).allocation(), None);
    }
}

#[test]
fn pod_is_healthy_when_succeeded_or_ready() {
    let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
    for (phase, conditions, healthy) in [
        ("Succeeded", json!([]), true),
        ("Running", ready("True"), true),
        ("Running", ready("False"), false),
        ("Running", json!([]), false),
        ("Pending", ready("True"), false),
        ("Failed", ready("True"), false),
        ("Unknown", ready("True"), false),
        ("", json!([]), false),
    ] {
        let told = json!({"metadata": {"name": "p"}, "status": {"phase": phase, "conditions": conditions}});
        assert_eq!(pod(told).is_healthy(), healthy, "{phase}");
    }
}

#[test]
fn a_row_as_the_console_reads_it() {
    let told = json!({
        "metadata": {"name": "web-0", "namespace": "uabc", "uid": "77", "creationTimestamp": "2026-01-02T03:04:05Z",
                     "labels": {"tier": "front", "app": "web", "empty": ""}},
        "spec": {"nodeName": "edge-1", "containers": [{"image": "nginx:1.25"}, {"image": "nginx:1.25"}], "initContainers": [{"image": "busybox"}]},
        "status": {"phase": "Running", "podIP": "10.1.0.9", "hostIP": "fd00::1",
                   "containerStatuses": [{"restartCount": 3, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}, {"restartCount": 1}]},
    });
    insta::assert_json_snapshot!(pod(told).row());
    let bare = pod(json!({"metadata": {"name": "p"}})).row();
    assert_eq!((bare.named.create_time.as_str(), bare.pod_ip.as_str(), bare.status), ("", "", "Unknown"));
    assert_eq!((bare.named.images.len(), bare.named.label_map.len()), (0, 0));
}
