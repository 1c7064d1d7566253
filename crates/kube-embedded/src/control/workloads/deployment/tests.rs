//! Tests of Deployments without kubelet: the test sets the status of pods.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const WEB: &str = "/apis/apps/v1/namespaces/default/deployments/web";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn web(spec: &Value) -> Value {
    let mut deployment = json!({"metadata": {"name": "web"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}}});
    for (key, value) in spec.as_object().unwrap() {
        deployment["spec"][key] = value.clone();
    }
    deployment
}

fn image(tag: &str) -> Value {
    json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": format!("i:{tag}")}]}}}})
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `tag size revision[ (history)]` of each `ReplicaSet`, by tag.
async fn sets(world: &TestCluster) -> Vec<String> {
    let mut sets: Vec<_> = world
        .list(SETS)
        .await
        .iter()
        .map(|set| {
            let notes = &set["metadata"]["annotations"];
            let history = text(&notes["deployment.kubernetes.io/revision-history"]);
            let history = if history.is_empty() { history } else { format!(" ({history})") };
            let image = text(&set["spec"]["template"]["spec"]["containers"][0]["image"]);
            format!(
                "{} {} {}{history}",
                &image[2..],
                set["spec"]["replicas"],
                text(&notes["deployment.kubernetes.io/revision"])
            )
        })
        .collect();
    sets.sort();
    sets
}

/// The recorded Events, with the names of sets as `SET`.
async fn deployment_events(world: &TestCluster) -> Vec<String> {
    let told = world.list_events("default", "Deployment").await;
    told.iter()
        .map(|said| {
            said.split(' ')
                .map(|word| if word.starts_with("web-") { "SET" } else { word })
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect()
}

async fn status(world: &TestCluster) -> Value {
    world.get(WEB).await["status"].take()
}

/// Status and reason of a condition.
async fn condition(world: &TestCluster, kind: &str) -> String {
    let status = status(world).await;
    let found = status["conditions"].as_array().unwrap().iter().find(|condition| condition["type"] == kind);
    found.map_or_else(String::new, |found| format!("{} {}", text(&found["status"]), text(&found["reason"])))
}

#[tokio::test]
async fn deployment_is_rolled_out() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({}))).await;
    assert_eq!(condition(&world, "Progressing").await, "True ReplicaSetUpdated");
    assert_eq!(condition(&world, "Available").await, "False MinimumReplicasUnavailable");
    world.make_pods_ready("default").await;
    let deployment = world.get(WEB).await;
    let set = world.list(SETS).await.remove(0);
    let hash = text(&set["metadata"]["labels"]["pod-template-hash"]);
    assert_eq!(set["metadata"]["name"], format!("web-{hash}"));
    let mut counters = deployment["status"].clone();
    let conditions = counters.as_object_mut().unwrap().remove("conditions").unwrap();
    assert_eq!(
        counters,
        json!({"observedGeneration": 1, "replicas": 3, "updatedReplicas": 3, "readyReplicas": 3,
        "availableReplicas": 3, "terminatingReplicas": 0})
    );
    let now = "2026-01-02T03:04:05Z";
    assert_eq!(
        conditions,
        json!([
            {"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable",
                "message": "Deployment has minimum availability.", "lastUpdateTime": now, "lastTransitionTime": now},
            {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                "message": format!("ReplicaSet \"web-{hash}\" has successfully progressed."),
                "lastUpdateTime": now, "lastTransitionTime": now},
        ])
    );
    assert_eq!(deployment["metadata"]["annotations"], json!({"deployment.kubernetes.io/revision": "1"}));
    assert_eq!(
        set["metadata"]["annotations"],
        json!({"deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3", "deployment.kubernetes.io/max-replicas": "4"})
    );
    assert_eq!(deployment_events(&world).await, ["ScalingReplicaSet: Scaled up replica set SET from 0 to 3"]);
}

#[tokio::test]
async fn rolling_update_can_be_rolled_back() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({"replicas": 2, "revisionHistoryLimit": 1}))).await;
    world.make_pods_ready("default").await;
    world.patch(WEB, image("2")).await;
    assert_eq!(sets(&world).await, ["1 2 1", "2 1 2"], "one more while the first new one starts");
    world.make_pods_ready("default").await;
    assert_eq!(sets(&world).await, ["1 0 1", "2 2 2"]);
    let steps = [
        "up replica set SET from 0 to 2",
        "up replica set SET from 0 to 1",
        "down replica set SET from 2 to 1",
        "up replica set SET from 1 to 2",
        "down replica set SET from 1 to 0",
    ];
    let steps = steps.map(|step| format!("ScalingReplicaSet: Scaled {step}"));
    assert_eq!(deployment_events(&world).await, steps);
    world.patch(WEB, image("1")).await;
    world.make_pods_ready("default").await;
    assert_eq!(sets(&world).await, ["1 2 3 (1)", "2 0 2"]);
    assert_eq!(condition(&world, "Progressing").await, "True NewReplicaSetAvailable");
    assert_eq!(world.get(WEB).await["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "3");
    world.patch(WEB, image("3")).await;
    world.make_pods_ready("default").await;
    assert_eq!(sets(&world).await, ["1 0 3 (1)", "3 2 4"], "only one old revision is kept");
}

#[tokio::test]
async fn rollout_stops_at_progress_deadline_when_pod_does_not_start() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({"progressDeadlineSeconds": 60}))).await;
    world.make_pods_ready("default").await;
    world.patch(WEB, image("2")).await;
    world.advance(60).await;
    assert_eq!(condition(&world, "Progressing").await, "True ReplicaSetUpdated");
    world.advance(2).await;
    assert_eq!(condition(&world, "Progressing").await, "False ProgressDeadlineExceeded");
    assert_eq!(condition(&world, "Available").await, "True MinimumReplicasAvailable");
    world.make_pods_ready("default").await;
    assert_eq!(condition(&world, "Progressing").await, "True NewReplicaSetAvailable", "late, but it came");
}

#[tokio::test]
async fn recreate_waits_until_the_old_pods_are_gone() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({"strategy": {"type": "Recreate"}}))).await;
    world.make_pods_ready("default").await;
    let pods = world.list(PODS).await;
    let held = format!("{PODS}/{}", text(&pods[0]["metadata"]["name"]));
    world.patch(&held, json!({"metadata": {"finalizers": ["example.com/hold"]}})).await;
    world.patch(WEB, image("2")).await;
    assert_eq!(sets(&world).await, ["1 0 1"]);
    world.patch(&held, json!({"metadata": {"finalizers": []}})).await;
    assert_eq!(sets(&world).await, ["1 0 1", "2 3 2"]);
}

#[tokio::test]
async fn paused_deployment_scales_without_rollout() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({"replicas": 4}))).await;
    world.make_pods_ready("default").await;
    world.patch(WEB, json!({"spec": {"paused": true}})).await;
    assert_eq!(condition(&world, "Progressing").await, "Unknown DeploymentPaused");
    world.patch(WEB, image("2")).await;
    assert_eq!(sets(&world).await, ["1 4 1"]);
    world.patch(WEB, json!({"spec": {"replicas": 6}})).await;
    assert_eq!(sets(&world).await, ["1 6 1"]);
    world.patch(WEB, json!({"spec": {"paused": false}})).await;
    assert_eq!(sets(&world).await, ["1 5 1", "2 3 2"], "it rolls on");
    world.patch(WEB, json!({"spec": {"paused": true, "replicas": 12}})).await;
    assert_eq!(sets(&world).await, ["1 9 1", "2 6 2"], "in proportion");
    world.patch(WEB, json!({"spec": {"paused": false}})).await;
    world.make_pods_ready("default").await;
    assert_eq!(sets(&world).await, ["1 0 1", "2 12 2"]);
}

#[tokio::test]
async fn hash_collision_is_avoided() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({"paused": true}))).await;
    let twin = world.create("/apis/apps/v1/namespaces/kube-public/deployments", web(&json!({}))).await;
    assert_eq!(twin["metadata"]["name"], "web");
    let twin = world.list("/apis/apps/v1/namespaces/kube-public/replicasets").await.remove(0);
    let taken = text(&twin["metadata"]["name"]);
    let other = json!({"metadata": {"name": taken}, "spec": {"replicas": 0, "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    world.create(SETS, other).await;
    world.patch(WEB, json!({"spec": {"paused": false}})).await;
    world.make_pods_ready("default").await;
    let status = status(&world).await;
    assert_eq!((&status["collisionCount"], &status["readyReplicas"]), (&json!(1), &json!(3)));
}

#[tokio::test]
async fn failed_replica_set_creation_is_reported() {
    let world = TestCluster::without_nodes().await;
    let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"count/replicasets.apps": "0"}}});
    world.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    world.create(DEPLOYMENTS, web(&json!({}))).await;
    assert_eq!(condition(&world, "Progressing").await, "False ReplicaSetCreateError");
    let said = deployment_events(&world).await;
    assert!(said[0].starts_with("ReplicaSetCreateError: Failed to create new replica set"), "{said:?}");
}

#[tokio::test]
async fn pod_creation_failure_is_reported_by_deployment() {
    let world = TestCluster::without_nodes().await;
    let quota = json!({"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}});
    world.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    world.create(DEPLOYMENTS, web(&json!({}))).await;
    assert_eq!(condition(&world, "ReplicaFailure").await, "True FailedCreate");
    world
        .patch("/api/v1/namespaces/default/resourcequotas/few", json!({"spec": {"hard": {"pods": "9"}}}))
        .await;
    let set = text(&world.list(SETS).await[0]["metadata"]["name"]);
    world.patch(&format!("{SETS}/{set}"), json!({"metadata": {"labels": {"look": "again"}}})).await;
    world.make_pods_ready("default").await;
    assert_eq!(condition(&world, "ReplicaFailure").await, "");
    assert_eq!(status(&world).await["readyReplicas"], 3);
}

#[tokio::test]
async fn orphaned_sets_are_adopted() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({}))).await;
    world.make_pods_ready("default").await;
    let uid = |set: &Value| text(&set["metadata"]["uid"]);
    let before = uid(&world.list(SETS).await[0]);
    let (code, _) =
        world.send("DELETE", WEB, "application/json", json!({"propagationPolicy": "Orphan"})).await;
    world.wait_until_idle().await;
    assert_eq!((code, world.list(PODS).await.len()), (200, 3));
    assert_eq!(world.list(SETS).await[0]["metadata"]["ownerReferences"], Value::Null);
    world.create(DEPLOYMENTS, web(&json!({}))).await;
    let sets = world.list(SETS).await;
    assert_eq!((sets.len(), uid(&sets[0])), (1, before));
    assert_eq!(sets[0]["metadata"]["ownerReferences"][0]["kind"], "Deployment");
    assert_eq!(condition(&world, "Progressing").await, "True NewReplicaSetAvailable");
    assert_eq!(world.get(WEB).await["metadata"]["annotations"]["deployment.kubernetes.io/revision"], "1");
}

#[tokio::test]
async fn deletion_of_deployment_deletes_sets_and_pods() {
    let world = TestCluster::without_nodes().await;
    for policy in ["Background", "Foreground"] {
        world.create(DEPLOYMENTS, web(&json!({}))).await;
        world.make_pods_ready("default").await;
        world.send("DELETE", WEB, "application/json", json!({"propagationPolicy": policy})).await;
        world.wait_until_idle().await;
        for path in [DEPLOYMENTS, SETS, PODS] {
            assert!(world.list(path).await.is_empty(), "{policy} {path}");
        }
    }
}

#[tokio::test]
async fn rollout_waits_for_min_ready_seconds() {
    let world = TestCluster::without_nodes().await;
    world.create(DEPLOYMENTS, web(&json!({"replicas": 1, "minReadySeconds": 10}))).await;
    world.make_pods_ready("default").await;
    world.advance(10).await;
    world.patch(WEB, image("2")).await;
    world.make_pods_ready("default").await;
    assert_eq!(sets(&world).await, ["1 1 1", "2 1 2"]);
    world.advance(10).await;
    assert_eq!(sets(&world).await, ["1 0 1", "2 1 2"]);
    world.patch(WEB, json!({"spec": {"minReadySeconds": 0}})).await;
    let spec = world.list(SETS).await.remove(0)["spec"].take();
    assert!(spec["minReadySeconds"].is_null() || spec["replicas"] == 0);
}
