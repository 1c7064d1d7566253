//! Tests of autoscalers and their targets, without metrics.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const HPAS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn deployment(world: &TestCluster, name: &str, replicas: i64) {
    let labels = json!({"app": name});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"replicas": replicas, "selector": {"matchLabels": labels}, "template": template});
    world.create(DEPLOYMENTS, json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn autoscaler(world: &TestCluster, name: &str, mut spec: Value) {
    if spec["scaleTargetRef"].is_null() {
        spec["scaleTargetRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": name});
    }
    spec["maxReplicas"] = 5.into();
    world.create(HPAS, json!({"metadata": {"name": name}, "spec": spec})).await;
}

async fn status(world: &TestCluster, name: &str) -> Value {
    world.get(&format!("{HPAS}/{name}")).await["status"].clone()
}

fn condition(status: &Value, at: usize) -> String {
    let text = |key: &str| status["conditions"][at][key].as_str().unwrap_or_default();
    format!("{} {} {}: {}", text("type"), text("status"), text("reason"), text("message"))
}

const GOT: &str =
    "AbleToScale True SucceededGetScale: the HPA controller was able to get the target's current scale";
const NO_CPU: &str = "failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from \
    resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";

#[tokio::test]
async fn autoscaler_reports_missing_metrics() {
    let world = TestCluster::without_nodes().await;
    deployment(&world, "web", 3).await;
    autoscaler(&world, "web", json!({})).await;
    world.advance(14).await;
    assert_eq!(status(&world, "web").await, json!({"currentMetrics": null, "desiredReplicas": 0}));
    world.advance(1).await;
    let seen = status(&world, "web").await;
    assert_eq!((condition(&seen, 0).as_str(), seen["conditions"].as_array().unwrap().len()), (GOT, 2));
    let expected = format!(
        "ScalingActive False FailedGetResourceMetric: the HPA was unable to compute the replica count: {NO_CPU}"
    );
    assert_eq!(condition(&seen, 1), expected);
    assert_eq!((&seen["currentReplicas"], &seen["desiredReplicas"]), (&json!(3), &json!(0)));
    assert_eq!(seen["currentMetrics"], json!([{"type": ""}]));
    let mut told = world.list_events("default", "HorizontalPodAutoscaler").await;
    told.sort();
    let whole = format!(
        "FailedComputeMetricsReplicas: invalid metrics (1 invalid out of 1), first error is: failed to get cpu resource metric value: {NO_CPU}"
    );
    assert_eq!(told, [whole, format!("FailedGetResourceMetric: {NO_CPU}")]);
    let version = world.get(&format!("{HPAS}/web")).await["metadata"]["resourceVersion"].clone();
    world.advance(60).await;
    assert_eq!(world.get(&format!("{HPAS}/web")).await["metadata"]["resourceVersion"], version);
}

#[tokio::test]
async fn autoscaler_scales_target_into_limits() {
    let world = TestCluster::without_nodes().await;
    for (name, replicas, least) in [("few", 1, 2), ("many", 9, 1), ("none", 0, 1)] {
        deployment(&world, name, replicas).await;
        autoscaler(&world, name, json!({"minReplicas": least})).await;
    }
    world.advance(15).await;
    for (name, replicas) in [("few", 2), ("many", 5)] {
        let seen = status(&world, name).await;
        let expected = format!(
            "AbleToScale True SucceededRescale: the HPA controller was able to update the target scale to {replicas}"
        );
        assert_eq!(condition(&seen, 0), expected);
        assert_eq!(
            (&seen["desiredReplicas"], &seen["lastScaleTime"]),
            (&json!(replicas), &json!("2026-01-02T03:04:20Z"))
        );
        assert_eq!(world.get(&format!("{DEPLOYMENTS}/{name}")).await["spec"]["replicas"], replicas);
    }
    let seen = status(&world, "none").await;
    let expected = "ScalingActive False ScalingDisabled: scaling is disabled since the replica count of the target is zero";
    assert_eq!(condition(&seen, 1), expected);
    let mut told = world.list_events("default", "HorizontalPodAutoscaler").await;
    told.sort();
    let rescaled = |what: &str| format!("SuccessfulRescale: New size: {what}");
    let expected = [
        rescaled("2; reason: Current number of replicas below Spec.MinReplicas"),
        rescaled("5; reason: Current number of replicas above Spec.MaxReplicas"),
    ];
    assert_eq!(told, expected);
    world.advance(15).await;
    assert_eq!(condition(&status(&world, "few").await, 0), GOT);
}

#[tokio::test]
async fn autoscaler_reports_target_without_scale() {
    let world = TestCluster::without_nodes().await;
    let target = |kind: &str, version: &str| json!({"scaleTargetRef": {"apiVersion": version, "kind": kind, "name": "x"}});
    for (name, target, why) in [
        ("a", target("Deployment", "apps/v1"), "deployments.apps \"x\" not found"),
        ("b", target("Bar", "foo/v1"), "no matches for kind \"Bar\" in group \"foo\""),
        ("c", target("DaemonSet", "apps/v1"), "the server could not find the requested resource"),
    ] {
        autoscaler(&world, name, target).await;
        world.advance(15).await;
        let expected = format!(
            "AbleToScale False FailedGetScale: the HPA controller was unable to get the target's current scale: {why}"
        );
        assert_eq!(condition(&status(&world, name).await, 0), expected);
    }
}

#[tokio::test]
async fn each_source_of_metrics_has_its_words() {
    let world = TestCluster::without_nodes().await;
    deployment(&world, "web", 1).await;
    let value = json!({"type": "AverageValue", "averageValue": "10"});
    let of = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
    let metrics = json!([
        {"type": "Object", "object": {"metric": {"name": "m"}, "describedObject": of, "target": value}},
        {"type": "External", "external": {"metric": {"name": "q"}, "target": {"type": "Value", "value": "1"}}},
        {"type": "Pods", "pods": {"metric": {"name": "p"}, "target": value}},
    ]);
    autoscaler(&world, "web", json!({"metrics": metrics})).await;
    world.advance(15).await;
    let mut told = world.list_events("default", "HorizontalPodAutoscaler").await;
    told.sort();
    insta::assert_snapshot!(told.join("\n"));
}

#[tokio::test]
async fn autoscalers_of_the_same_pods_are_ambiguous() {
    let world = TestCluster::without_nodes().await;
    deployment(&world, "web", 1).await;
    for name in ["a", "b"] {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        autoscaler(&world, name, json!({"scaleTargetRef": target})).await;
    }
    world.advance(15).await;
    let expected = "ScalingActive False AmbiguousSelector: pods by selector app=web are controlled by multiple HPAs: [default/a default/b]";
    assert_eq!(condition(&status(&world, "a").await, 1), expected);
}
