//! Tests of disruption budgets and evictions through the API.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";

/// Creates a pod; it is ready unless its name says otherwise.
async fn create_ready_pod(world: &TestCluster, name: &str, metadata: Value) {
    let mut pod = json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pod["metadata"]["name"] = name.into();
    pod["metadata"]["labels"] = json!({"app": "web"});
    world.create(PODS, pod).await;
    if !name.starts_with("pending") {
        world.set_pod_phase("default", name, "Running", !name.starts_with("sick")).await;
    }
}

async fn budget(world: &TestCluster, spec: Value) {
    let mut budget = json!({"metadata": {"name": "b"}, "spec": spec});
    budget["spec"]["selector"] = json!({"matchLabels": {"app": "web"}});
    world.create(BUDGETS, budget).await;
}

/// Formats as `allowed healthy/desired of expected reason`.
async fn status(world: &TestCluster) -> String {
    let status = &world.get(&format!("{BUDGETS}/b")).await["status"];
    format!(
        "{} {}/{} of {} {}",
        status["disruptionsAllowed"],
        status["currentHealthy"],
        status["desiredHealthy"],
        status["expectedPods"],
        status["conditions"][0]["reason"].as_str().unwrap_or_default()
    )
}

/// Returns the status code, and the cause if there is one.
async fn evict(world: &TestCluster, pod: &str, query: &str, options: Value) -> (u16, String) {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod},
        "deleteOptions": options});
    let path = format!("{PODS}/{pod}/eviction{query}");
    let (code, answer) = world.send("POST", &path, "application/json", eviction).await;
    world.wait_until_idle().await;
    let cause = answer["details"]["causes"][0]["message"].as_str();
    (code, cause.or(answer["message"].as_str()).unwrap_or_default().to_owned())
}

#[tokio::test]
async fn min_available_limits_evictions() {
    let world = TestCluster::without_nodes().await;
    budget(&world, json!({"minAvailable": 1})).await;
    assert_eq!(status(&world).await, "0 0/1 of 0 InsufficientPods");
    assert_eq!(world.list_events("default", "PodDisruptionBudget").await, ["NoPods: No matching pods found"]);
    create_ready_pod(&world, "a", json!({"finalizers": ["x.dev/held"]})).await;
    create_ready_pod(&world, "b", json!({})).await;
    create_ready_pod(&world, "sick", json!({})).await;
    assert_eq!(status(&world).await, "1 2/1 of 3 SufficientPods");

    assert_eq!(evict(&world, "a", "?dryRun=All", Value::Null).await, (201, String::new()));
    assert_eq!(status(&world).await, "1 2/1 of 3 SufficientPods");
    assert_eq!(evict(&world, "a", "", json!({"gracePeriodSeconds": 0})).await, (201, String::new()));
    assert_eq!(status(&world).await, "0 1/1 of 3 InsufficientPods");
    let pod = world.get(&format!("{PODS}/a")).await;
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!((&target["reason"], &target["status"]), (&json!("EvictionByEvictionAPI"), &json!("True")));

    let refused = "The disruption budget b needs 1 healthy pods and has 1 currently";
    assert_eq!(evict(&world, "b", "", Value::Null).await, (429, refused.to_owned()));
    // An unhealthy pod does not reduce the healthy ones.
    assert_eq!(evict(&world, "sick", "", Value::Null).await, (201, String::new()));
}

/// Defines a custom kind that manages pods: fleets have a scale subresource, rafts do not.
async fn create_crd(world: &TestCluster, kind: &str, subresources: Value) {
    let plural = format!("{}s", kind.to_lowercase());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions = json!([{"name": "v1", "served": true, "storage": true, "subresources": subresources,
        "schema": {"openAPIV3Schema": schema}}]);
    let crd = json!({"metadata": {"name": format!("{plural}.x.dev")}, "spec": {"group": "x.dev",
        "scope": "Namespaced", "names": {"plural": plural, "kind": kind}, "versions": versions}});
    world.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
}

/// Creates a manager and returns the owner reference for its pods.
async fn create_manager(world: &TestCluster, kind: &str, name: &str) -> Value {
    let manager = json!({"apiVersion": "x.dev/v1", "kind": kind, "metadata": {"name": name},
        "spec": {"replicas": 3}});
    let path = format!("/apis/x.dev/v1/namespaces/default/{}s", kind.to_lowercase());
    let uid = world.create(&path, manager).await["metadata"]["uid"].clone();
    json!({"ownerReferences": [{"apiVersion": "x.dev/v1", "kind": kind, "name": name, "uid": uid,
        "controller": true}]})
}

#[tokio::test]
async fn percentage_applies_to_replicas_of_controllers() {
    let world = TestCluster::without_nodes().await;
    let paths = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    create_crd(&world, "Fleet", json!({"scale": paths})).await;
    create_crd(&world, "Raft", json!({})).await;
    budget(&world, json!({"maxUnavailable": "50%"})).await;
    let fleet = create_manager(&world, "Fleet", "f").await;
    create_ready_pod(&world, "a", fleet.clone()).await;
    create_ready_pod(&world, "b", fleet).await;
    assert_eq!(status(&world).await, "1 2/1 of 3 SufficientPods");

    create_ready_pod(&world, "c", json!({})).await;
    assert_eq!(status(&world).await, "2 3/1 of 3 SufficientPods");
    let told = world.list_events("default", "PodDisruptionBudget").await;
    assert!(told.iter().any(|told| told.starts_with("UnmanagedPods: ") && told.contains("{app: web,}")));

    create_ready_pod(&world, "d", create_manager(&world, "Raft", "r").await).await;
    assert_eq!(status(&world).await, "0 3/1 of 3 SyncFailed");
    let refused = "The disruption budget b does not allow evicting pods currently because it failed sync: \
        rafts.x.dev does not implement the scale subresource";
    assert_eq!(evict(&world, "a", "", Value::Null).await, (429, refused.to_owned()));
}

#[tokio::test]
async fn evicted_pod_counts_again_after_deletion_timeout() {
    let world = TestCluster::without_nodes().await;
    budget(&world, json!({"minAvailable": 0})).await;
    create_ready_pod(&world, "a", json!({})).await;
    let wrong = json!({"preconditions": {"uid": "x"}});
    assert_eq!(evict(&world, "a", "", wrong).await.0, 409);
    let disrupted = world.get(&format!("{BUDGETS}/b")).await["status"]["disruptedPods"].clone();
    assert_eq!(disrupted, json!({"a": "2026-01-02T03:04:05Z"}));
    assert_eq!(status(&world).await, "0 0/0 of 1 InsufficientPods");
    world.advance(119).await;
    assert_eq!(status(&world).await, "0 0/0 of 1 InsufficientPods");
    world.advance(1).await;
    assert_eq!(status(&world).await, "1 1/0 of 1 SufficientPods");
    let told = world.list_events("default", "Pod").await;
    let stays = "NotDeleted: Pod was expected by PDB default/default to be deleted but it wasn't";
    assert_eq!(told.last().map(String::as_str), Some(stays));
}

#[tokio::test]
async fn eviction_of_pods_without_budget_and_with_two_budgets() {
    let world = TestCluster::without_nodes().await;
    budget(&world, json!({"maxUnavailable": 0})).await;
    create_ready_pod(&world, "pending", json!({})).await;
    create_ready_pod(&world, "a", json!({})).await;
    create_ready_pod(&world, "sick", json!({})).await;
    assert_eq!(evict(&world, "pending", "", Value::Null).await.0, 201);
    let refused = "The disruption budget b does not allow evicting pods currently";
    assert_eq!(evict(&world, "a", "", Value::Null).await, (429, refused.to_owned()));
    assert_eq!(evict(&world, "sick", "", Value::Null).await.0, 429);
    let policy = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
    world.patch(&format!("{BUDGETS}/b"), policy).await;
    assert_eq!(evict(&world, "sick", "", Value::Null).await.0, 201);

    let second = json!({"metadata": {"name": "c"}, "spec": {"selector": {}, "minAvailable": 0}});
    world.create(BUDGETS, second).await;
    let twice =
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    assert_eq!(evict(&world, "a", "", Value::Null).await, (500, twice.to_owned()));
}

#[tokio::test]
async fn disruption_target_condition_is_reset_when_pod_was_not_deleted() {
    let world = TestCluster::without_nodes().await;
    create_ready_pod(&world, "a", json!({})).await;
    let target = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "lastTransitionTime": "2026-01-02T03:04:05Z"});
    world.patch(&format!("{PODS}/a/status"), json!({"status": {"conditions": [target]}})).await;
    let target = async || world.get(&format!("{PODS}/a")).await["status"]["conditions"][0].clone();
    world.advance(119).await;
    assert_eq!(target().await["status"], "True");
    world.advance(1).await;
    assert_eq!((&target().await["status"], target().await.get("reason")), (&json!("False"), None));
}
