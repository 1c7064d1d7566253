//! Tests of pool rows.

use serde_json::{Value, json};

use super::*;
use crate::interner::StringInterner;

fn pool(value: Value) -> Pool {
    Pool::from_object(serde_json::from_value(value).unwrap())
}

fn node(name: &str, os: &str, ready: &str) -> Arc<Node> {
    let told = json!({"metadata": {"name": name, "labels": {"kubernetes.io/os": os}},
                      "status": {"conditions": [{"type": "Ready", "status": ready}]}});
    Arc::new(Node::from_object(&serde_json::from_value(told).unwrap(), &StringInterner::default()))
}

#[test]
fn pool_status_by_member_counts() {
    #[rustfmt::skip]
    let table = [
        (false, 0, 0, "Empty"), (false, 2, 2, "Ready"), (false, 2, 1, "Degraded"), (false, 2, 0, "NotReady"),
        (true, 2, 2, "Deleting"), (true, 0, 0, "Deleting"), (false, -1, -1, "Empty"),
    ];
    for (deleting, total_num, healthy_num, expected) in table {
        assert_eq!(status(deleting, Members { total_num, healthy_num }), expected);
    }
}

#[test]
fn row_counts_come_from_status_or_members() {
    let members = [node("a", "linux", "True"), node("b", "windows", "Unknown"), node("c", "linux", "False")];
    let told = |status: Value| json!({"metadata": {"name": "p"}, "spec": {"type": "Edge"}, "status": status});
    #[rustfmt::skip]
    let table = [
        (told(json!({"readyNodeNum": 7, "unreadyNodeNum": 1})), true, (8, 7), "Degraded"),
        (told(json!({"readyNodeNum": 7, "unreadyNodeNum": 1})), false, (3, 1), "Degraded"),
        (told(json!({"unreadyNodeNum": 1})), true, (1, 0), "NotReady"),
        (told(json!({})), true, (0, 0), "Empty"),
        (told(json!(null)), true, (3, 1), "Degraded"),
        (json!({"metadata": {"name": "p"}}), true, (3, 1), "Degraded"),
    ];
    for (told, whole, (total_num, healthy_num), status) in table {
        let row = pool(told.clone()).row(&members, whole);
        assert_eq!((row.node_status, row.status), (Members { total_num, healthy_num }, status), "{told}");
        assert_eq!((row.os.as_str(), row.nodes), ("linux,windows", vec!["a".into(), "b".into(), "c".into()]));
    }
}

#[test]
fn a_row_as_the_console_reads_it() {
    let told = json!({
        "apiVersion": "apps.openyurt.io/v1beta2",
        "metadata": {"name": "hangzhou", "creationTimestamp": "2021-12-01T08:00:00Z", "labels": {"openyurt/tenant": "uabc"}},
        "spec": {"type": "Edge", "labels": {"region": "hz"}, "annotations": {"a": "b"}, "hostNetwork": true, "interConnectivity": true,
                 "taints": [{"key": "edge", "effect": "NoSchedule"}]},
        "status": {"readyNodeNum": 1, "unreadyNodeNum": 1, "nodes": ["a", "b"], "leaderEndpoints": []},
    });
    insta::assert_json_snapshot!(pool(told).row(&[node("a", "linux", "True")], true));
    let bare = pool(json!({"metadata": {"name": "p"}})).row(&[], true);
    assert_eq!((bare.pool_type.as_str(), bare.os.as_str(), bare.create_time.as_str()), ("", "", ""));
}
