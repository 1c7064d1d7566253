//! Tests of DaemonSets on nodes without kubelet: the test sets the status of pods.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const SETS: &str = "/apis/apps/v1/namespaces/default/daemonsets";
const AGENT: &str = "/apis/apps/v1/namespaces/default/daemonsets/agent";
const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

fn node(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"sim.longshore.dev/node": "false", "name": name}},
        "status": {"allocatable": {"cpu": "1", "pods": "10"}, "capacity": {"cpu": "1", "pods": "10"}}})
}

/// Without grace period, because no kubelet terminates the pods.
fn template(image: &str) -> Value {
    let spec = json!({"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 0});
    json!({"metadata": {"labels": {"app": "agent"}}, "spec": spec})
}

fn set(more: Value) -> Value {
    let mut spec = json!({"selector": {"matchLabels": {"app": "agent"}}, "template": template("app:1")});
    let Value::Object(more) = more else { panic!("fields are an object") };
    spec.as_object_mut().unwrap().extend(more);
    json!({"metadata": {"name": "agent"}, "spec": spec})
}

/// A cluster with nodes whose initial taints are removed.
async fn world(nodes: &[&str]) -> TestCluster {
    let world = TestCluster::without_nodes().await;
    for name in nodes {
        world.create(NODES, node(name)).await;
        world.patch(&format!("{NODES}/{name}"), json!({"spec": {"taints": null}})).await;
    }
    world
}

/// Node, image and phase of each pod, by node.
async fn pods(world: &TestCluster) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut lines: Vec<_> = world
        .list(PODS)
        .await
        .iter()
        .map(|pod| {
            let affinity = &pod["spec"]["affinity"]["nodeAffinity"];
            let term = &affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0];
            let node = text(&term["matchFields"][0]["values"][0]);
            format!(
                "{node} {} {}",
                text(&pod["spec"]["containers"][0]["image"]),
                text(&pod["status"]["phase"])
            )
        })
        .collect();
    lines.sort();
    lines
}

async fn status(world: &TestCluster) -> Value {
    world.get(AGENT).await["status"].clone()
}

#[tokio::test]
async fn daemon_set_follows_nodes() {
    let world = world(&["a", "b"]).await;
    world.create(SETS, set(json!({}))).await;
    assert_eq!(pods(&world).await, ["a app:1 Pending", "b app:1 Pending"]);
    assert_eq!(
        status(&world).await,
        json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 0,
            "numberUnavailable": 2, "observedGeneration": 1, "updatedNumberScheduled": 2})
    );
    world.make_pods_ready("default").await;
    assert_eq!(
        status(&world).await,
        json!({"currentNumberScheduled": 2, "desiredNumberScheduled": 2, "numberMisscheduled": 0, "numberReady": 2,
            "numberAvailable": 2, "observedGeneration": 1, "updatedNumberScheduled": 2})
    );
    let pod = &world.list(PODS).await[0];
    assert_eq!(pod["metadata"]["labels"]["pod-template-generation"], "1");
    assert_eq!(pod["metadata"]["generateName"], "agent-");
    world.create(NODES, node("c")).await;
    assert_eq!(pods(&world).await.len(), 2, "a new node is not ready yet");
    world.patch(&format!("{NODES}/c"), json!({"spec": {"taints": null}})).await;
    assert_eq!(pods(&world).await[2], "c app:1 Pending");
    world.patch(&format!("{NODES}/a"), json!({"spec": {"unschedulable": true}})).await;
    assert_eq!(pods(&world).await.len(), 3, "a cordon does not matter");
}

#[tokio::test]
async fn daemon_set_respects_labels_and_taints() {
    let world = world(&["a", "b"]).await;
    world.create(SETS, set(json!({}))).await;
    world.make_pods_ready("default").await;
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": effect}]}});
    world.patch(&format!("{NODES}/a"), taint("NoSchedule")).await;
    assert_eq!(pods(&world).await.len(), 2, "one that is there may stay");
    assert_eq!(status(&world).await["numberMisscheduled"], 1);
    world.patch(&format!("{NODES}/a"), taint("NoExecute")).await;
    assert_eq!(pods(&world).await, ["b app:1 Running"]);
    let mut chosen = template("app:1");
    chosen["spec"]["nodeSelector"] = json!({"name": "none"});
    world.patch(AGENT, json!({"spec": {"template": chosen}})).await;
    assert_eq!(pods(&world).await, Vec::<String>::new());
    assert_eq!(
        status(&world).await,
        json!({"currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0, "numberReady": 0,
            "observedGeneration": 2})
    );
}

#[tokio::test]
async fn rolling_update_replaces_one_by_one() {
    let world = world(&["a", "b"]).await;
    world.create(SETS, set(json!({}))).await;
    world.make_pods_ready("default").await;
    world.patch(AGENT, json!({"spec": {"template": template("app:2")}})).await;
    assert_eq!(pods(&world).await, ["a app:2 Pending", "b app:1 Running"]);
    world.make_pods_ready("default").await;
    assert_eq!(pods(&world).await, ["a app:2 Running", "b app:2 Running"]);
    let revisions = world.list("/apis/apps/v1/namespaces/default/controllerrevisions").await;
    assert_eq!(revisions.len(), 2);
    world.patch(AGENT, json!({"spec": {"template": template("app:1")}})).await;
    world.make_pods_ready("default").await;
    let mut numbers: Vec<_> = world
        .list("/apis/apps/v1/namespaces/default/controllerrevisions")
        .await
        .iter()
        .map(|revision| revision["revision"].as_i64())
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [Some(2), Some(3)], "the old one is the newest again");
}

#[tokio::test]
async fn surge_creates_new_pod_before_deletion() {
    let world = world(&["a"]).await;
    let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}});
    world.create(SETS, set(json!({"updateStrategy": strategy}))).await;
    world.make_pods_ready("default").await;
    world.patch(AGENT, json!({"spec": {"template": template("app:2")}})).await;
    assert_eq!(pods(&world).await, ["a app:1 Running", "a app:2 Pending"]);
    world.make_pods_ready("default").await;
    assert_eq!(pods(&world).await, ["a app:2 Running"]);
}

#[tokio::test]
async fn on_delete_strategy_replaces_only_deleted_pods() {
    let world = world(&["a"]).await;
    world.create(SETS, set(json!({"updateStrategy": {"type": "OnDelete"}}))).await;
    world.make_pods_ready("default").await;
    world.patch(AGENT, json!({"spec": {"template": template("app:2")}})).await;
    assert_eq!(pods(&world).await, ["a app:1 Running"]);
    assert_eq!(status(&world).await["updatedNumberScheduled"], Value::Null);
    let name = world.list(PODS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
    world.delete(&format!("{PODS}/{name}")).await;
    assert_eq!(pods(&world).await, ["a app:2 Pending"]);
}

#[tokio::test]
async fn failing_pod_is_recreated_with_backoff() {
    let world = world(&["a"]).await;
    world.create(SETS, set(json!({}))).await;
    let fail = async || {
        let name = world.list(PODS).await[0]["metadata"]["name"].as_str().unwrap().to_owned();
        world.set_pod_phase("default", &name, "Failed", false).await;
    };
    fail().await;
    assert_eq!(pods(&world).await, ["a app:1 Pending"], "the first time at once");
    fail().await;
    assert_eq!(pods(&world).await, ["a app:1 Failed"]);
    world.advance(1).await;
    assert_eq!(pods(&world).await, ["a app:1 Pending"]);
    let told = world.list_events("default", "DaemonSet").await;
    assert!(
        told.iter().any(|words| words.starts_with("FailedDaemonPod: Found failed daemon pod default/agent-"))
    );
}
