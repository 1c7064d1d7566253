//! Tests of node rows.

#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use serde_json::json;

use super::*;
use crate::resources::{PodResources, RequestAndLimit};

fn node(value: Value) -> Node {
    Node::from_object(&serde_json::from_value(value).unwrap(), &StringInterner::default())
}

fn row(value: Value) -> NodeRow {
    node(value).row(&NodeAllocation::default(), MeasuredUsage::default())
}

fn conditions(conditions: Value) -> Value {
    json!({"metadata": {"name": "n"}, "status": {"conditions": conditions}})
}

#[test]
fn node_status_follows_from_ready_condition() {
    let ready = |status: &str| json!([{"type": "MemoryPressure", "status": "True"}, {"type": "Ready", "status": status}]);
    #[rustfmt::skip]
    let table = [
        (conditions(ready("True")), "Ready", true),
        (conditions(ready("False")), "NotReady", false),
        (conditions(ready("Unknown")), "Unknown", false),
        (conditions(ready("")), "Unknown", false),
        (conditions(json!([{"type": "MemoryPressure", "status": "True"}])), "Unknown", false),
        (json!({"metadata": {"name": "n"}, "status": {}}), "Unknown", false),
        (json!({"metadata": {"name": "n"}}), "Unknown", false),
        (json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}}), "Unknown,SchedulingDisabled", false),
        (
            json!({"metadata": {"name": "n"}, "spec": {"unschedulable": true}, "status": {"conditions": ready("True")}}),
            "Ready,SchedulingDisabled", true,
        ),
    ];
    for (told, status, ready) in table {
        assert_eq!(
            (row(told.clone()).status.as_str(), node(told.clone()).is_ready()),
            (status, ready),
            "{told}"
        );
    }
}

#[test]
fn role_pool_address_edge_and_autonomy() {
    let labelled = |labels: Value| row(json!({"metadata": {"name": "n", "labels": labels}}));
    for (labels, role) in [
        (json!({"node-role.kubernetes.io/master": ""}), "master"),
        (json!({"node-role.kubernetes.io/control-plane": ""}), "master"),
        (json!({"node-role.kubernetes.io/worker": ""}), "node"),
        (json!({}), "node"),
        (json!(null), "node"),
    ] {
        assert_eq!(labelled(labels).role, role);
    }
    for (labels, pool) in [
        (json!({"apps.openyurt.io/nodepool": "a", "apps.openyurt.io/desired-nodepool": "b"}), "a"),
        (json!({"apps.openyurt.io/desired-nodepool": "b"}), "b"),
        (json!({"apps.openyurt.io/nodepool": "", "apps.openyurt.io/desired-nodepool": "b"}), "b"),
        (json!({}), ""),
    ] {
        assert_eq!(labelled(labels).node_pool, pool);
    }
    for (value, edge) in [("true", true), ("false", false), ("", false)] {
        assert_eq!(labelled(json!({"openyurt.io/is-edge-worker": value})).edge, edge);
    }
    for (annotations, autonomy) in [
        (json!({"node.beta.openyurt.io/autonomy": "true"}), true),
        (json!({"node.beta.alibabacloud.com/autonomy": "true"}), true),
        (
            json!({"node.beta.alibabacloud.com/autonomy": "true", "node.beta.openyurt.io/autonomy": "false"}),
            false,
        ),
        (json!({}), false),
        (json!(null), false),
    ] {
        assert_eq!(row(json!({"metadata": {"name": "n", "annotations": annotations}})).autonomy, autonomy);
    }
    let addresses =
        |addresses: Value| row(json!({"metadata": {"name": "n"}, "status": {"addresses": addresses}})).ip;
    let of = |kind: &str, address: &str| json!({"type": kind, "address": address});
    for (told, ip) in [
        (
            json!([of("Hostname", "h"), of("ExternalIP", "2"), of("InternalIP", "1"), of("InternalIP", "3")]),
            "1",
        ),
        (json!([of("Hostname", "h"), of("ExternalIP", "2")]), "2"),
        (json!([of("InternalDNS", "d"), of("Hostname", "h")]), "h"),
        (json!([of("InternalDNS", "d")]), ""),
        (json!([]), ""),
    ] {
        assert_eq!(addresses(told), ip);
    }
}

#[test]
fn a_row_as_the_console_reads_it() {
    let told = json!({
        "metadata": {
            "name": "edge-1", "uid": "0f1e", "creationTimestamp": "2021-12-01T08:00:00Z",
            "labels": {"openyurt/tenant": "uabc", "kubernetes.io/os": "linux", "openyurt.io/is-edge-worker": "true",
                       "apps.openyurt.io/nodepool": "hangzhou"},
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": {"taints": [{"key": "openyurt/tenant", "value": "uabc", "effect": "NoSchedule"}]},
        "status": {
            "capacity": {"cpu": "4", "memory": "7969000Ki", "ephemeral-storage": "40Gi", "pods": "110"},
            "allocatable": {"cpu": "3920m", "memory": "7Gi"},
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown",
                            "message": "Kubelet stopped posting node status."}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.7"}],
            "nodeInfo": {"kernelVersion": "5.10", "containerRuntimeVersion": "containerd://1.7", "osImage": "Debian 12",
                         "operatingSystem": "linux", "kubeletVersion": "v1.30.0", "kubeProxyVersion": "", "architecture": "arm64"},
        },
    });
    let mut load = NodeAllocation::default();
    let share = |request, limit, unlimited| RequestAndLimit { request, limit, unlimited };
    let gi = 1 << 30;
    load.add(&PodResources { cpu: share(850, 2000, false), memory: share(gi, 2 * gi, true) }, true);
    load.add(&PodResources { cpu: share(0, 0, false), memory: share(gi / 5, 0, false) }, false);
    let used = MeasuredUsage { cpu: Some(412), memory: None };
    insta::assert_json_snapshot!(node(told).row(&load, used));
}
