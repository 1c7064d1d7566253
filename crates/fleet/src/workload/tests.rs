//! Tests of workload rows.

use serde_json::{Value, json};

use super::*;

fn workload(value: Value) -> Workload {
    Workload::from_object(&serde_json::from_value(value).unwrap(), &StringInterner::default())
}

#[test]
fn workload_is_healthy_when_desired_replicas_are_ready_and_observed() {
    #[rustfmt::skip]
    let table = [
        (json!({"replicas": 3}), json!({"replicas": 3, "readyReplicas": 3, "observedGeneration": 2}), true),
        (json!({"replicas": 3}), json!({"replicas": 3, "readyReplicas": 2, "observedGeneration": 2}), false),
        (json!({"replicas": 3}), json!({"replicas": 4, "readyReplicas": 4, "observedGeneration": 2}), true),
        // A workload with 0 of 0 replicas is unhealthy if replicas are desired.
        (json!({"replicas": 3}), json!({"observedGeneration": 2}), false),
        (json!({}), json!({"observedGeneration": 2}), false),
        (json!({}), json!({"readyReplicas": 1, "observedGeneration": 2}), true),
        (json!({"replicas": 0}), json!({"observedGeneration": 2}), true),
        // The controller has not observed the latest generation.
        (json!({"replicas": 3}), json!({"readyReplicas": 3, "observedGeneration": 1}), false),
        (json!({"replicas": 3}), json!({"readyReplicas": 3}), false),
        (json!({"replicas": 3}), json!(null), false),
    ];
    for (spec, status, healthy) in table {
        let mut told = json!({"metadata": {"name": "w", "generation": 2}, "spec": spec, "status": status});
        if status.is_null() {
            told.as_object_mut().unwrap().remove("status");
        }
        assert_eq!(workload(told.clone()).is_healthy(), healthy, "{told}");
    }
}

#[test]
fn omitted_fields_are_zero() {
    let row = workload(json!({"metadata": {"name": "w", "namespace": "x"}, "spec": {"template": {}}})).row();
    assert_eq!(row.status, Replicas { replicas: 0, ready_replicas: 0 });
    assert_eq!((row.desired_replicas, row.available_replicas, row.updated_replicas), (1, 0, 0));
    let text = serde_json::to_value(&row).unwrap();
    assert_eq!((&text["image"], &text["labels"], &text["labelMap"]), (&json!([]), &json!(""), &json!({})));
}

#[test]
fn rows_as_the_console_reads_them() {
    let template = json!({"spec": {"containers": [{"image": "b"}, {"image": "a"}, {"image": "a"}], "initContainers": [{"image": "i"}]}});
    let metadata = json!({"name": "web", "namespace": "uabc", "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 1,
                          "labels": {"tier": "front", "app": "web"}});
    let deployment = json!({
        "metadata": metadata, "spec": {"replicas": 3, "paused": true, "template": template},
        "status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 1, "updatedReplicas": 3, "observedGeneration": 1},
    });
    insta::assert_json_snapshot!("deployment", workload(deployment).row());
    let daemons = json!({
        "metadata": metadata, "spec": {"template": template},
        "status": {"currentNumberScheduled": 4, "desiredNumberScheduled": 5, "numberReady": 3, "numberAvailable": 2,
                   "updatedNumberScheduled": 1, "observedGeneration": 1},
    });
    let daemons =
        Workload::from_daemon_set(&serde_json::from_value(daemons).unwrap(), &StringInterner::default());
    assert!(!daemons.is_healthy());
    insta::assert_json_snapshot!("daemonset", daemons.row());
}
