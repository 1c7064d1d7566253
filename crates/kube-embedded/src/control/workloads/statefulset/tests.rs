//! Tests of StatefulSets without nodes: the test sets the status of pods.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;

const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const DB: &str = "/apis/apps/v1/namespaces/default/statefulsets/db";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// A set `db` with additional fields in its spec.
fn set(more: Value) -> Value {
    let mut spec = json!({
        "serviceName": "db", "replicas": 3, "selector": {"matchLabels": {"app": "db"}},
        "template": template("app:1"),
    });
    let Value::Object(more) = more else { panic!("fields are an object") };
    spec.as_object_mut().unwrap().extend(more);
    json!({"metadata": {"name": "db"}, "spec": spec})
}

fn template(image: &str) -> Value {
    json!({"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": image}]}})
}

fn data() -> Value {
    json!([{"metadata": {"name": "data"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}}])
}

/// The pods: name, image, phase.
async fn pods(world: &TestCluster) -> Vec<String> {
    let pods = world.list(PODS).await;
    let line = |pod: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let deleting = if pod["metadata"]["deletionTimestamp"].is_null() { "" } else { " going" };
        format!(
            "{} {} {}{deleting}",
            text(&pod["metadata"]["name"]),
            text(&pod["spec"]["containers"][0]["image"]),
            text(&pod["status"]["phase"])
        )
    };
    pods.iter().map(line).collect()
}

async fn status(world: &TestCluster) -> Value {
    let mut status = world.get(DB).await["status"].clone();
    let same = status["currentRevision"] == status["updateRevision"];
    for field in ["currentRevision", "updateRevision"] {
        status.as_object_mut().unwrap().remove(field);
    }
    status["same"] = same.into();
    status
}

#[tokio::test]
async fn ordered_set_creates_ascending_and_deletes_descending() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({}))).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Pending"]);
    world.set_pod_phase("default", "db-0", "Running", true).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Running", "db-1 app:1 Pending"]);
    world.make_pods_ready("default").await;
    assert_eq!(
        status(&world).await,
        json!({"observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "currentReplicas": 3,
            "updatedReplicas": 3, "collisionCount": 0, "availableReplicas": 3, "same": true})
    );
    world.patch(DB, json!({"spec": {"replicas": 2}})).await;
    world.patch(DB, json!({"spec": {"replicas": 1}})).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Running"]);
    assert_eq!(
        world.list_events("default", "StatefulSet").await,
        [
            "SuccessfulCreate: Create Pod db-0 in StatefulSet db successful",
            "SuccessfulCreate: Create Pod db-1 in StatefulSet db successful",
            "SuccessfulCreate: Create Pod db-2 in StatefulSet db successful",
            "SuccessfulDelete: Delete Pod db-2 in StatefulSet db successful",
            "SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful",
        ]
    );
}

#[tokio::test]
async fn rolling_update_replaces_from_highest_ordinal_to_partition() {
    let world = TestCluster::without_nodes().await;
    let partition = |at: i64| json!({"spec": {"updateStrategy": {"rollingUpdate": {"partition": at}}}});
    world.create(SETS, set(json!({"updateStrategy": {"rollingUpdate": {"partition": 1}}}))).await;
    world.make_pods_ready("default").await;
    world.patch(DB, json!({"spec": {"template": template("app:2")}})).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Running", "db-1 app:1 Running", "db-2 app:2 Pending"]);
    world.make_pods_ready("default").await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Running", "db-1 app:2 Running", "db-2 app:2 Running"]);
    let halfway = status(&world).await;
    assert_eq!((&halfway["currentReplicas"], &halfway["updatedReplicas"]), (&json!(1), &json!(2)));
    assert_eq!(halfway["same"], false);
    world.delete(&format!("{PODS}/db-0")).await;
    assert_eq!(pods(&world).await[0], "db-0 app:1 Pending", "below the partition it comes back as it was");
    world.make_pods_ready("default").await;
    world.patch(DB, partition(0)).await;
    world.make_pods_ready("default").await;
    assert_eq!(pods(&world).await[0], "db-0 app:2 Running");
    let done = status(&world).await;
    assert_eq!((&done["currentReplicas"], &done["same"]), (&json!(3), &json!(true)));
}

#[tokio::test]
async fn rolling_update_without_partition_replaces_all() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({"updateStrategy": {"type": "RollingUpdate"}}))).await;
    world.make_pods_ready("default").await;
    assert_eq!(world.get(DB).await["spec"]["updateStrategy"], json!({"type": "RollingUpdate"}));
    world.patch(DB, json!({"spec": {"template": template("app:2")}})).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Running", "db-1 app:1 Running", "db-2 app:2 Pending"]);
    world.delete(&format!("{PODS}/db-0")).await;
    assert_eq!(
        pods(&world).await[0],
        "db-0 app:1 Pending",
        "lost during the update, it comes back as it was"
    );
    world.make_pods_ready("default").await;
    assert_eq!(pods(&world).await, ["db-0 app:2 Running", "db-1 app:2 Running", "db-2 app:2 Running"]);
}

#[tokio::test]
async fn a_broken_template_blocks_an_ordered_set_until_its_pod_is_deleted() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({}))).await;
    world.make_pods_ready("default").await;
    world.patch(DB, json!({"spec": {"template": template("broken")}})).await;
    world.set_pod_phase("default", "db-2", "Running", false).await;
    world.patch(DB, json!({"spec": {"template": template("app:3")}})).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Running", "db-1 app:1 Running", "db-2 broken Running"]);
    world.delete(&format!("{PODS}/db-2")).await;
    world.make_pods_ready("default").await;
    assert_eq!(pods(&world).await, ["db-0 app:3 Running", "db-1 app:3 Running", "db-2 app:3 Running"]);
}

#[tokio::test]
async fn a_parallel_set_does_not_wait() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({"podManagementPolicy": "Parallel", "ordinals": {"start": 5}}))).await;
    assert_eq!(pods(&world).await, ["db-5 app:1 Pending", "db-6 app:1 Pending", "db-7 app:1 Pending"]);
    world.patch(DB, json!({"spec": {"replicas": 1}})).await;
    assert_eq!(pods(&world).await, ["db-5 app:1 Pending"]);
}

#[tokio::test]
async fn available_replicas_respect_min_ready_seconds() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({"replicas": 2, "minReadySeconds": 10}))).await;
    world.set_pod_phase("default", "db-0", "Running", true).await;
    let early = status(&world).await;
    assert_eq!((&early["readyReplicas"], &early["availableReplicas"]), (&json!(1), &json!(0)));
    world.advance(9).await;
    assert_eq!(pods(&world).await.len(), 1);
    world.advance(1).await;
    assert_eq!(pods(&world).await.len(), 2);
    assert_eq!(status(&world).await["availableReplicas"], 1);
}

#[tokio::test]
async fn revisions_are_reused_renumbered_and_pruned() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({"replicas": 1, "revisionHistoryLimit": 1}))).await;
    for image in ["app:2", "app:1", "app:3", "app:4"] {
        world.make_pods_ready("default").await;
        world.patch(DB, json!({"spec": {"template": template(image)}})).await;
    }
    world.make_pods_ready("default").await;
    let mut kept = world.list("/apis/apps/v1/namespaces/default/controllerrevisions").await;
    kept.sort_by_key(|revision| revision["revision"].as_i64());
    let line = |revision: &Value| {
        let container = &revision["data"]["spec"]["template"]["spec"]["containers"][0];
        format!("{} {}", revision["revision"], container["image"].as_str().unwrap())
    };
    assert_eq!(kept.iter().map(line).collect::<Vec<_>>(), ["4 app:3", "5 app:4"]);
    let hash = &kept[0]["metadata"]["labels"]["controller.kubernetes.io/hash"];
    assert_eq!(kept[0]["metadata"]["name"], format!("db-{}", hash.as_str().unwrap()));
}

#[tokio::test]
async fn claim_retention_policy_is_applied() {
    let world = TestCluster::without_nodes().await;
    let policy = json!({"whenScaled": "Delete", "whenDeleted": "Retain"});
    let spec = json!({"replicas": 2, "volumeClaimTemplates": data(), "persistentVolumeClaimRetentionPolicy": policy});
    world.create(SETS, set(spec)).await;
    world.make_pods_ready("default").await;
    let names = |claims: Vec<Value>| -> Vec<String> {
        claims.iter().map(|claim| claim["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(world.list(CLAIMS).await), ["data-db-0", "data-db-1"]);
    let claim = world.get(&format!("{CLAIMS}/data-db-1")).await;
    assert_eq!(claim["metadata"]["labels"], json!({"app": "db"}));
    assert_eq!(claim["metadata"]["ownerReferences"], Value::Null);
    let pod = world.get(&format!("{PODS}/db-1")).await;
    assert_eq!(pod["spec"]["volumes"][0]["persistentVolumeClaim"], json!({"claimName": "data-db-1"}));
    world.patch(DB, json!({"spec": {"replicas": 1}})).await;
    assert_eq!(names(world.list(CLAIMS).await), ["data-db-0"], "that of the pod that is too many has gone");
    world.patch(DB, json!({"spec": {"replicas": 2}})).await;
    world.make_pods_ready("default").await;
    assert_eq!(names(world.list(CLAIMS).await), ["data-db-0", "data-db-1"]);
    let both = json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    world.patch(DB, json!({"spec": {"persistentVolumeClaimRetentionPolicy": both}})).await;
    let claim = world.get(&format!("{CLAIMS}/data-db-1")).await;
    assert_eq!(claim["metadata"]["ownerReferences"][0]["kind"], "StatefulSet");
    world.delete(DB).await;
    assert_eq!(names(world.list(CLAIMS).await), Vec::<String>::new());
    assert_eq!(pods(&world).await, Vec::<String>::new());
}

#[tokio::test]
async fn finished_and_lost_pods_are_recreated_and_orphans_adopted() {
    let world = TestCluster::without_nodes().await;
    world.create(SETS, set(json!({"replicas": 1}))).await;
    world.set_pod_phase("default", "db-0", "Failed", false).await;
    assert_eq!(pods(&world).await, ["db-0 app:1 Pending"]);
    world.make_pods_ready("default").await;
    let uid = world.get(&format!("{PODS}/db-0")).await["metadata"]["uid"].clone();
    world.delete(&format!("{DB}?propagationPolicy=Orphan")).await;
    assert_eq!(world.get(&format!("{PODS}/db-0")).await["metadata"]["ownerReferences"], Value::Null);
    world
        .patch(
            &format!("{PODS}/db-0"),
            json!({"metadata": {"labels": {"statefulset.kubernetes.io/pod-name": null}}}),
        )
        .await;
    world.create(SETS, set(json!({"replicas": 1}))).await;
    let pod = world.get(&format!("{PODS}/db-0")).await;
    assert_eq!(
        (&pod["metadata"]["uid"], &pod["metadata"]["ownerReferences"][0]["name"]),
        (&uid, &json!("db"))
    );
    assert_eq!(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"], "db-0");
}

#[tokio::test]
async fn refused_writes_are_reported() {
    let world = TestCluster::without_nodes().await;
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}});
    world.create("/api/v1/namespaces/default/resourcequotas", quota).await;
    world.create(SETS, set(json!({"replicas": 2}))).await;
    world.make_pods_ready("default").await;
    let told = world.list_events("default", "StatefulSet").await;
    assert_eq!(
        told[1],
        "FailedCreate: Create Pod db-1 in StatefulSet db failed error: pods \"db-1\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
}
