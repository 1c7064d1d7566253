//! Tests of simulated nodes under a manual clock: creation, cordon, loss, recovery and removal.

use serde_json::{Value, json};

use crate::access::User;
use crate::cluster::{Cluster, Config};
use crate::control::test_cluster::TestCluster;
use crate::sim::Simulation;

const PODS: &str = "/api/v1/namespaces/default/pods";

#[expect(clippy::needless_pass_by_value, reason = "what is passed is written in place")]
fn pod(name: &str, node: &str, tolerations: Value) -> Value {
    let containers = json!([{"name": "c", "image": "i"}]);
    json!({"metadata": {"name": name},
        "spec": {"nodeName": node, "tolerations": tolerations, "containers": containers}})
}

async fn condition(world: &TestCluster, path: &str, kind: &str) -> String {
    let object = world.get(path).await;
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|condition| condition["type"] == kind);
    found.map_or("-", |condition| condition["status"].as_str().unwrap()).to_owned()
}

async fn names(world: &TestCluster, path: &str) -> Vec<String> {
    world
        .list(path)
        .await
        .iter()
        .map(|object| object["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

async fn taints(world: &TestCluster, node: &str) -> Vec<String> {
    let node = world.get(&format!("/api/v1/nodes/{node}")).await;
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints
        .iter()
        .map(|taint| format!("{}:{}", taint["key"].as_str().unwrap(), taint["effect"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn nodes_are_ready_and_renew_their_leases() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    assert_eq!(names(&world, "/api/v1/nodes").await, ["node-0", "node-1", "node-2"]);
    assert_eq!(condition(&world, "/api/v1/nodes/node-1", "Ready").await, "True");
    assert_eq!(taints(&world, "node-1").await, [""; 0]);
    let node = json!({"metadata": {"name": "theirs"}});
    world.create("/api/v1/nodes", node).await;
    assert_eq!(condition(&world, "/api/v1/nodes/theirs", "Ready").await, "True");
    let theirs = world.get("/api/v1/nodes/theirs").await;
    assert_eq!(
        (&theirs["spec"]["podCIDR"], &theirs["status"]["capacity"]["pods"]),
        (&json!("10.128.12.0/22"), &json!("110"))
    );
    let node = json!({"metadata": {"name": "real", "labels": {"sim.longshore.dev/node": "false"}}});
    world.create("/api/v1/nodes", node).await;
    assert_eq!(condition(&world, "/api/v1/nodes/real", "Ready").await, "-");

    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    assert_eq!(names(&world, leases).await, ["node-0", "node-1", "node-2", "theirs"]);
    let renewed = async || world.get(&format!("{leases}/node-0")).await["spec"]["renewTime"].clone();
    assert_eq!(renewed().await, "2026-01-02T03:04:05.000000Z");
    world.advance(29).await;
    assert_eq!(renewed().await, "2026-01-02T03:04:05.000000Z");
    world.advance(1).await;
    assert_eq!(renewed().await, "2026-01-02T03:04:35.000000Z");
    let told = world.list_events("default", "Node").await;
    assert!(
        told.contains(&"RegisteredNode: Node theirs event: Registered Node theirs in Controller".to_owned())
    );
    world.delete("/api/v1/nodes/theirs").await;
    assert_eq!(names(&world, leases).await, ["node-0", "node-1", "node-2"], "a lease goes with its node");
}

#[tokio::test]
async fn lost_node_loses_its_pods_and_recovers() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    world.create(PODS, pod("plain", "node-0", json!([]))).await;
    world.create(PODS, pod("patient", "node-0", json!([{"operator": "Exists"}]))).await;
    let lost = |value: Value| json!({"metadata": {"annotations": {"sim.longshore.dev/lost": value}}});
    world.patch("/api/v1/nodes/node-0", lost(json!("true"))).await;
    world.advance(39).await;
    assert_eq!(condition(&world, "/api/v1/nodes/node-0", "Ready").await, "True");
    world.advance(1).await;
    assert_eq!(condition(&world, "/api/v1/nodes/node-0", "Ready").await, "Unknown");
    assert_eq!(condition(&world, "/api/v1/nodes/node-0", "NetworkUnavailable").await, "False");
    let unreachable =
        ["node.kubernetes.io/unreachable:NoSchedule", "node.kubernetes.io/unreachable:NoExecute"];
    assert_eq!(taints(&world, "node-0").await, unreachable);
    assert_eq!(condition(&world, &format!("{PODS}/plain"), "Ready").await, "False");
    world.create(PODS, pod("late", "node-0", json!([{"operator": "Exists"}]))).await;
    world.advance(299).await;
    assert_eq!(world.get(&format!("{PODS}/plain")).await["metadata"]["deletionTimestamp"], Value::Null);
    world.advance(1).await;
    let plain = world.get(&format!("{PODS}/plain")).await;
    assert!(plain["metadata"]["deletionTimestamp"].is_string(), "it waits for its kubelet");
    assert_eq!(condition(&world, &format!("{PODS}/plain"), "DisruptionTarget").await, "True");

    world.patch("/api/v1/nodes/node-0", lost(Value::Null)).await;
    assert_eq!(condition(&world, "/api/v1/nodes/node-0", "Ready").await, "True");
    assert_eq!(taints(&world, "node-0").await, [""; 0]);
    assert_eq!(names(&world, PODS).await, ["late", "patient"]);
    for name in ["late", "patient"] {
        assert_eq!(condition(&world, &format!("{PODS}/{name}"), "Ready").await, "True", "{name}");
    }
    let told = world.list_events("default", "Pod").await;
    for line in
        ["NodeNotReady: Node is not ready", "TaintManagerEviction: Marking for deletion Pod default/plain"]
    {
        assert!(told.contains(&line.to_owned()), "{line}: {told:?}");
    }
}

#[tokio::test]
async fn pods_are_evicted_from_tainted_or_deleted_node() {
    let world = TestCluster::with_simulation(Simulation::default()).await;
    let tolerant =
        json!([{"key": "out", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    world.create(PODS, pod("tolerant", "node-0", tolerant)).await;
    world.create(PODS, pod("plain", "node-0", json!([]))).await;
    world.create(PODS, pod("other", "node-1", json!([]))).await;
    world.create(PODS, pod("nowhere", "node-99", json!([]))).await;
    let taint = json!({"spec": {"taints": [{"key": "out", "value": "1", "effect": "NoExecute"}]}});
    world.patch("/api/v1/nodes/node-0", taint).await;
    assert_eq!(names(&world, PODS).await, ["nowhere", "other", "tolerant"]);
    world.advance(5).await;
    assert_eq!(names(&world, PODS).await, ["nowhere", "other"]);
    world.delete("/api/v1/nodes/node-1").await;
    world.advance(35).await;
    assert_eq!(names(&world, PODS).await, ["other"]);
    world.advance(5).await;
    assert_eq!(names(&world, PODS).await, [""; 0]);
}

#[tokio::test]
async fn configured_nodes_are_made_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = async |nodes: u32| {
        let cluster = loop {
            let simulation = Some(Simulation { nodes, ..Simulation::default() });
            let data = Some(folder.path().to_owned());
            match Cluster::open(Config { data_dir: data, simulation, ..Config::default() }).await {
                Ok(cluster) => break cluster,
                // The controllers of the previous cluster may still hold the store open.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        cluster.wait_until_idle().await;
        let nodes = cluster.store().list("nodes", None).objects;
        (cluster, nodes.iter().map(|node| node.name.to_string()).collect::<Vec<_>>())
    };
    let (cluster, nodes) = open(2).await;
    assert_eq!(nodes, ["node-0", "node-1"]);
    let client = cluster.client(User::admin());
    let request = http::Request::delete("/api/v1/nodes/node-0").body(Vec::new().into()).unwrap();
    assert!(client.send(request).await.unwrap().status().is_success());
    cluster.wait_until_idle().await;
    cluster.stop();
    drop((client, cluster));
    let (cluster, nodes) = open(3).await;
    assert_eq!(nodes, ["node-1", "node-2"]);
    cluster.stop();
}

#[tokio::test]
async fn health_of_node_with_real_kubelet_follows_its_lease() {
    const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    const NODE: &str = "/api/v1/nodes/edge";
    let world = TestCluster::without_nodes().await;
    let kubelet = world.cluster.client(User::named("system:node:edge", &["system:nodes"]));
    let send = async |method: &str, path: &str, body: Value| {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let body = body.to_string().into_bytes().into();
        let answer = kubelet.send(request.body(body).unwrap()).await.unwrap();
        assert!(answer.status().is_success(), "{method} {path}: {}", answer.status());
        world.wait_until_idle().await;
    };
    let renewed = || json!(crate::clock::rfc3339_micro(crate::clock::Clock::now(world.clock.as_ref())));
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    send("POST", "/api/v1/nodes", json!({"metadata": {"name": "edge"}})).await;
    assert_eq!(condition(&world, NODE, "Ready").await, "-", "nobody answers for it");
    assert_eq!(taints(&world, "edge").await, ["node.kubernetes.io/not-ready:NoSchedule"]);
    send("PATCH", &format!("{NODE}/status"), ready.clone()).await;
    assert_eq!(taints(&world, "edge").await, [""; 0]);
    send(
        "POST",
        LEASES,
        json!({"metadata": {"name": "edge"}, "spec": {"holderIdentity": "edge", "renewTime": renewed()}}),
    )
    .await;
    world.advance(30).await;
    send("PATCH", &format!("{LEASES}/edge"), json!({"spec": {"renewTime": renewed()}})).await;
    world.advance(30).await;
    assert_eq!(condition(&world, NODE, "Ready").await, "True", "it has renewed its Lease");
    world.advance(11).await;
    assert_eq!(condition(&world, NODE, "Ready").await, "Unknown");
    assert!(taints(&world, "edge").await.contains(&"node.kubernetes.io/unreachable:NoExecute".to_owned()));
    send("PATCH", &format!("{LEASES}/edge"), json!({"spec": {"renewTime": renewed()}})).await;
    send("PATCH", &format!("{NODE}/status"), ready).await;
    assert_eq!(condition(&world, NODE, "Ready").await, "True", "it is back");
    assert_eq!(taints(&world, "edge").await, [""; 0]);
}
