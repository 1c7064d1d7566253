//! Tests of rows and tables.

use std::sync::Arc;

use super::*;

fn resource(group: &str, kind: &str, columns: &[(&str, &str, &str)]) -> Resource {
    let columns = columns.iter().map(|(name, ty, path)| PrinterColumn {
        name: (*name).into(),
        ty: (*ty).into(),
        format: "".into(),
        description: "".into(),
        priority: 0,
        json_path: (*path).into(),
    });
    Resource {
        group: group.into(),
        version: "v1".into(),
        name: "".into(),
        singular: "".into(),
        kind: kind.into(),
        list_kind: "".into(),
        namespaced: true,
        short_names: Box::new([]),
        categories: Box::new([]),
        verbs: Box::new([]),
        subresources: Box::new([]),
        columns: columns.collect(),
        storage: "".into(),
        storage_version: "v1".into(),
        types: Arc::default(),
        ty: 0,
        custom: None,
    }
}

fn now() -> Timestamp {
    "2026-01-02T00:00:00Z".parse().unwrap()
}

#[test]
fn printers_are_unique_per_kind() {
    let mut kinds: Vec<_> = PRINTERS.iter().map(|(group, kind, _)| (group, kind)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), PRINTERS.len());
}

#[test]
fn printers_do_not_panic_on_empty_object() {
    for (_, _, row) in PRINTERS {
        for object in [json!({}), json!(null), json!([]), json!({"spec": [], "status": 3, "metadata": "x"})] {
            row(&object, now());
        }
    }
}

#[test]
fn rows_are_those_of_kubernetes() {
    let made = json!({"name": "x", "creationTimestamp": "2026-01-01T23:58:00Z"});
    let port = json!({"port": 80, "nodePort": 30080, "protocol": "TCP"});
    let metric =
        json!({"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}});
    let table = [
        (
            "",
            "Service",
            json!({"spec": {"type": "LoadBalancer", "clusterIPs": ["10.96.0.9"], "ports": [port]}}),
            json!(["x", "LoadBalancer", "10.96.0.9", "<pending>", "80:30080/TCP", "2m", "<none>"]),
        ),
        (
            "",
            "Node",
            json!({"spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
            json!([
                "x",
                "Ready,SchedulingDisabled",
                "<none>",
                "2m",
                "",
                "<none>",
                "<none>",
                "<unknown>",
                "<unknown>",
                "<unknown>"
            ]),
        ),
        (
            "",
            "ResourceQuota",
            json!({"status": {"hard": {"pods": "50", "limits.cpu": "1"}, "used": {"pods": "7"}}}),
            json!(["x", "pods: 7/50", "limits.cpu: 0/1", "2m"]),
        ),
        (
            "autoscaling",
            "HorizontalPodAutoscaler",
            json!({"spec": {"scaleTargetRef": {"kind": "D", "name": "d"}, "maxReplicas": 3, "metrics": [metric]}}),
            json!(["x", "D/d", "cpu: <unknown>/80%", "<unset>", 3, 0, "2m"]),
        ),
        ("rbac.authorization.k8s.io", "Role", json!({}), json!(["x", "2026-01-01T23:58:00Z"])),
    ];
    for (group, kind, mut object, cells) in table {
        object["metadata"] = made.clone();
        assert_eq!(Value::from(super::cells(&resource(group, kind, &[]), &object, now())), cells, "{kind}");
    }
}

#[test]
fn custom_resource_cells_follow_column_type() {
    let columns = resource(
        "",
        "",
        &[
            ("Name", "string", ""),
            ("Size", "integer", ".spec.size"),
            ("Text", "string", ".spec.list"),
            ("Made", "date", ".metadata.creationTimestamp"),
            ("Odd", "boolean", ".spec.size"),
            ("Gone", "string", ".spec.gone"),
        ],
    );
    let object = json!({"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"},
                        "spec": {"size": 3, "list": [1, "a"]}});
    let cells = custom_cells(&columns.columns, &object, now());
    assert_eq!(Value::from(cells), json!(["x", 3, "[1,\"a\"]", "24h", null, null]));
}

#[test]
fn table_includes_requested_objects() {
    let kind = resource("", "Pod", &[("Name", "string", "")]);
    let pod = json!({"metadata": {"name": "p", "resourceVersion": "7"}, "status": {"phase": "Failed"}});
    let form = TableOptions { include: IncludeObject::None, version: "v1", headers: false };
    let told = single_object_table(&kind, &pod, form, now());
    assert_eq!(told["metadata"], json!({"resourceVersion": "7"}));
    assert_eq!(told["columnDefinitions"], Value::Null);
    assert_eq!(told["rows"][0]["object"], Value::Null);
    assert_eq!(told["rows"][0]["conditions"][0]["reason"], "Failed");
    let form = TableOptions { include: IncludeObject::Object, headers: true, ..form };
    let told = table(&kind, [&pod], &json!({}), form, now());
    assert_eq!(told["rows"][0]["object"]["kind"], "Pod");
    assert_eq!(told["columnDefinitions"][0]["name"], "Name");

    let plain = resource("", "LimitRange", &[("Name", "string", ""), ("Created At", "date", "")]);
    assert_eq!(table(&plain, [], &json!({}), form, now())["rows"], Value::Null);
    assert_eq!(table(&kind, [], &json!({}), form, now())["rows"], json!([]));
}

#[test]
fn partial_metadata_has_no_compatibility_annotations() {
    let set =
        json!({"metadata": {"name": "a", "annotations": {"deprecated.daemonset.template.generation": "1"}}});
    assert_eq!(partial_object_metadata(&set, "v1")["metadata"], json!({"name": "a"}));
}
