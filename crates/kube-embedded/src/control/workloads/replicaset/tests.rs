//! Tests of `ReplicaSets` without kubelet: the test sets the status of pods.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn template() -> Value {
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

fn set(replicas: i64) -> Value {
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template()}})
}

fn bare_pod(name: &str, app: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"app": app}}, "spec": template()["spec"]})
}

async fn status(world: &TestCluster) -> Value {
    world.get(&format!("{SETS}/web")).await["status"].take()
}

async fn names(world: &TestCluster) -> Vec<String> {
    let mut pods = world.list(PODS).await;
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    pods.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn replica_set_creates_counts_and_deletes_pods() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(3)).await;
    let pods = world.list(PODS).await;
    assert_eq!(pods.len(), 3);
    assert_eq!(pods[0]["metadata"]["generateName"], "web-");
    assert_eq!(pods[0]["metadata"]["ownerReferences"][0]["kind"], "ReplicaSet");
    world.make_pods_ready("default").await;
    let whole = json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 3, "availableReplicas": 3,
        "terminatingReplicas": 0, "observedGeneration": 1});
    assert_eq!(status(&world).await, whole);
    // The pod that is not ready is deleted first.
    let weak = names(&world).await.remove(1);
    world.set_pod_phase("default", &weak, "Running", false).await;
    world.patch(&format!("{SETS}/web"), json!({"spec": {"replicas": 2}})).await;
    assert!(!names(&world).await.contains(&weak));
    let told = world.list_events("default", "ReplicaSet").await;
    assert_eq!(told.iter().filter(|said| said.starts_with("SuccessfulCreate: Created pod: web-")).count(), 3);
    assert_eq!(told.last().unwrap(), &format!("SuccessfulDelete: Deleted pod: {weak}"));
    world.patch(&format!("{SETS}/web"), json!({"spec": {"replicas": 0}})).await;
    assert_eq!(
        status(&world).await,
        json!({"replicas": 0, "terminatingReplicas": 0, "observedGeneration": 3})
    );
}

#[tokio::test]
async fn matching_pod_is_adopted_and_other_is_released() {
    let world = TestCluster::without_nodes().await;
    world.create(PODS, bare_pod("stray", "web")).await;
    world.create(SETS, set(2)).await;
    let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(names(&world).await.len(), 2, "the stray one counts");
    assert_eq!(owner(&world.get(&format!("{PODS}/stray")).await), "web");
    world.patch(&format!("{PODS}/stray"), json!({"metadata": {"labels": {"app": "other"}}})).await;
    assert_eq!(owner(&world.get(&format!("{PODS}/stray")).await), Value::Null);
    assert_eq!(names(&world).await.len(), 3, "it was replaced");
    // The pod matches again and is one too many: the lowest ranked is deleted.
    world.patch(&format!("{PODS}/stray"), json!({"metadata": {"labels": {"app": "web"}}})).await;
    assert_eq!(names(&world).await.len(), 2);
}

#[tokio::test]
async fn a_finished_pod_is_replaced_and_a_deleted_one_too() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(1)).await;
    let first = names(&world).await.remove(0);
    world.set_pod_phase("default", &first, "Failed", false).await;
    assert_eq!(names(&world).await.len(), 2);
    assert_eq!(status(&world).await["replicas"], 1);
    let second = names(&world).await.into_iter().find(|name| *name != first).unwrap();
    world.delete(&format!("{PODS}/{second}")).await;
    assert!(!names(&world).await.contains(&second));
    assert_eq!(status(&world).await["replicas"], 1);
}

#[tokio::test]
async fn refused_pod_creation_is_reported_once_and_cleared() {
    let world = TestCluster::without_nodes().await;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}});
    world.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    world.create(SETS, set(10)).await;
    assert_eq!(names(&world).await.len(), 3);
    let failure = status(&world).await["conditions"][0].take();
    assert_eq!((&failure["type"], &failure["reason"]), (&json!("ReplicaFailure"), &json!("FailedCreate")));
    let message = failure["message"].as_str().unwrap();
    assert!(
        message.contains("exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3"),
        "{message}"
    );
    let told = world.list_events("default", "ReplicaSet").await;
    assert!(told.iter().any(|said| said.starts_with("FailedCreate: Error creating: pods \"web-")));
    world.delete("/api/v1/namespaces/default/resourcequotas/few").await;
    world.patch(&format!("{SETS}/web"), json!({"metadata": {"labels": {"look": "again"}}})).await;
    assert_eq!(names(&world).await.len(), 10);
    assert_eq!(status(&world).await["conditions"], Value::Null);
}

#[tokio::test]
async fn available_replicas_respect_min_ready_seconds() {
    let world = TestCluster::without_nodes().await;
    let mut slow = set(2);
    slow["spec"]["minReadySeconds"] = 10.into();
    world.create(SETS, slow).await;
    world.make_pods_ready("default").await;
    let counts = |status: &Value| (status["readyReplicas"].as_i64(), status["availableReplicas"].as_i64());
    assert_eq!(counts(&status(&world).await), (Some(2), None));
    world.advance(9).await;
    assert_eq!(counts(&status(&world).await), (Some(2), None));
    world.advance(1).await;
    assert_eq!(counts(&status(&world).await), (Some(2), Some(2)));
}

#[tokio::test]
async fn replication_controller_manages_pods() {
    let world = TestCluster::without_nodes().await;
    world.create(PODS, bare_pod("stranger", "other")).await;
    let old = json!({"metadata": {"name": "old"}, "spec": {"replicas": 2, "template": template()}});
    world.create("/api/v1/namespaces/default/replicationcontrollers", old).await;
    world.make_pods_ready("default").await;
    let status = world.get("/api/v1/namespaces/default/replicationcontrollers/old").await["status"].take();
    let whole = json!({"replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 2, "availableReplicas": 2,
        "observedGeneration": 1});
    assert_eq!(status, whole);
    assert_eq!(names(&world).await.len(), 3, "the stranger is none of its pods");
    let told = world.list_events("default", "ReplicationController").await;
    assert!(told[0].starts_with("SuccessfulCreate: Created pod: old-"), "{told:?}");
}

#[tokio::test]
async fn a_refusal_before_a_name_was_generated_names_its_prefix() {
    let world = TestCluster::without_nodes().await;
    let mut unknown = set(1);
    unknown["spec"]["template"]["spec"]["priorityClassName"] = "nope".into();
    world.create(SETS, unknown).await;
    let message = status(&world).await["conditions"][0]["message"].take();
    assert_eq!(message, "pods \"web-\" is forbidden: no PriorityClass with name nope was found");
}
