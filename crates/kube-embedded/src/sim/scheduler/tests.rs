//! Tests of the scheduler: pods that are bound, and pods that are unschedulable, with the messages.

use serde_json::{Value, json};

use crate::control::test_cluster::TestCluster;
use crate::sim::Simulation;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn world() -> TestCluster {
    TestCluster::with_simulation(Simulation { cpu: "4".to_owned(), ..Simulation::default() }).await
}

#[expect(clippy::needless_pass_by_value, reason = "what is passed is written in place")]
fn pod(name: &str, spec: Value) -> Value {
    let mut whole = json!({"containers": [{"name": "c", "image": "app:1"}]});
    for (key, value) in spec.as_object().into_iter().flatten() {
        whole[key] = value.clone();
    }
    json!({"metadata": {"name": name, "labels": {"app": name}}, "spec": whole})
}

fn with_cpu_request(cpu: &str) -> Value {
    json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}])
}

/// Returns the node of a pod, or the message why it has none.
async fn node_or_message(world: &TestCluster, name: &str) -> String {
    let pod = world.get(&format!("{PODS}/{name}")).await;
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        return node.to_owned();
    }
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let message = conditions.iter().find_map(|condition| condition["message"].as_str().map(str::to_owned));
    message.unwrap_or_else(|| "left alone".to_owned())
}

const NO_PREEMPTION_MESSAGE: &str = "no new claims to deallocate, preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";

#[tokio::test]
async fn unschedulable_pod_reports_reason() {
    let world = world().await;
    let port = json!({"nodeSelector": {"kubernetes.io/hostname": "node-0"},
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "hostPort": 8080}]}]});
    let near = |kind: &str, app: &str, topology: &str| {
        json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": topology, "labelSelector": {"matchLabels": {"app": app}}}]}}})
    };
    let spread = json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"app": "x"}}}]});
    let named = |node: &str, cpu: &str| {
        json!({"containers": with_cpu_request(cpu), "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [node]}]}]}}}})
    };
    let claim = json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "zz"}}]});
    let three = |reason: &str| format!("0/3 nodes are available: 3 {reason}. {NO_PREEMPTION_MESSAGE}");
    let some = |reasons: &str| {
        format!(
            "0/3 nodes are available: {reasons}. no new claims to deallocate, preemption: 0/3 nodes are available: \
             1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
        )
    };
    let gates = json!({"schedulingGates": [{"name": "x.y/z"}]});
    let table = [
        ("big", json!({"containers": with_cpu_request("100")}), three("Insufficient cpu")),
        ("selective", json!({"nodeSelector": {"x": "y"}}), three("node(s) didn't match Pod's node affinity/selector")),
        ("port-1", port.clone(), "node-0".to_owned()),
        (
            "port-2",
            port,
            some("1 node(s) didn't have free ports for the requested pod ports, 2 node(s) didn't match Pod's node affinity/selector"),
        ),
        ("lonely", near("podAffinity", "nope", "kubernetes.io/hostname"), three("node(s) didn't match pod affinity rules")),
        (
            "shy",
            near("podAntiAffinity", "port-1", "kubernetes.io/os"),
            "0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules. no new claims to deallocate, \
             preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
                .to_owned(),
        ),
        ("near", near("podAffinity", "port-1", "kubernetes.io/hostname"), "node-0".to_owned()),
        ("even", spread, three("node(s) didn't match pod topology spread constraints (missing required label)")),
        ("absent", named("node-77", "1"), three("node(s) didn't satisfy plugin(s) [NodeAffinity]")),
        (
            "daemon",
            named("node-0", "100"),
            format!("0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]. {NO_PREEMPTION_MESSAGE}"),
        ),
        ("claim", claim, "0/3 nodes are available: persistentvolumeclaim \"zz\" not found. not found".to_owned()),
        ("gated", gates, "Scheduling is blocked due to non-empty scheduling gates".to_owned()),
        ("other", json!({"schedulerName": "mine"}), "left alone".to_owned()),
        ("byhand", json!({"nodeName": "node-2"}), "node-2".to_owned()),
    ];
    for (name, spec, expected) in table {
        world.create(PODS, pod(name, spec)).await;
        assert_eq!(node_or_message(&world, name).await, expected, "{name}");
    }
    let told = world.list_events("default", "Pod").await;
    assert!(told.contains(&format!("FailedScheduling: {}", three("Insufficient cpu"))), "{told:?}");
}

#[tokio::test]
async fn pending_pod_is_scheduled_when_capacity_is_added() {
    let world = world().await;
    for name in ["a", "b", "c"] {
        world.create(PODS, pod(name, json!({"containers": with_cpu_request("3")}))).await;
    }
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(node_or_message(&world, name).await);
    }
    nodes.sort();
    assert_eq!(nodes, ["node-0", "node-1", "node-2"], "they go where there is room");
    world.create(PODS, pod("d", json!({"containers": with_cpu_request("3")}))).await;
    assert!(
        node_or_message(&world, "d")
            .await
            .starts_with("0/3 nodes are available: 3 Insufficient cpu. no new claims")
    );
    world.delete(&format!("{PODS}/b")).await;
    assert!(node_or_message(&world, "d").await.starts_with("node-"));
    world.create(PODS, pod("e", json!({"containers": with_cpu_request("3")}))).await;
    let node = json!({"metadata": {"name": "more"}, "status": {"allocatable": {"cpu": "8", "memory": "1Gi", "pods": "5"}}});
    world.create("/api/v1/nodes", node).await;
    assert_eq!(node_or_message(&world, "e").await, "more");
}

#[tokio::test]
async fn cordoned_and_tainted_nodes_get_no_pods() {
    let world = world().await;
    world.patch("/api/v1/nodes/node-0", json!({"spec": {"unschedulable": true}})).await;
    let node = world.get("/api/v1/nodes/node-0").await;
    assert_eq!(node["spec"]["taints"][0]["key"], "node.kubernetes.io/unschedulable");
    let taint = json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}});
    world.patch("/api/v1/nodes/node-1", taint.clone()).await;
    for name in ["a", "b"] {
        world.create(PODS, pod(name, json!({}))).await;
        assert_eq!(node_or_message(&world, name).await, "node-2");
    }
    world.patch("/api/v1/nodes/node-2", taint).await;
    world.create(PODS, pod("c", json!({}))).await;
    let expected =
        "0/3 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s). ";
    assert_eq!(node_or_message(&world, "c").await, format!("{expected}{NO_PREEMPTION_MESSAGE}"));
    world.patch("/api/v1/nodes/node-0", json!({"spec": {"unschedulable": null}})).await;
    assert_eq!(node_or_message(&world, "c").await, "node-0");
}

#[tokio::test]
async fn spread_and_anti_affinity_separate_pods() {
    let world = world().await;
    let spread = json!({"topologySpreadConstraints": [{"topologyKey": "kubernetes.io/hostname", "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {"matchLabels": {"tier": "web"}}}]});
    let apart = json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"tier": "db"}}}]}}});
    for (tier, spec) in [("web", spread), ("db", apart)] {
        let mut nodes = Vec::new();
        for at in 0..3 {
            let name = format!("{tier}-{at}");
            let mut pod = pod(&name, spec.clone());
            pod["metadata"]["labels"] = json!({"tier": tier});
            world.create(PODS, pod).await;
            nodes.push(node_or_message(&world, &name).await);
        }
        nodes.sort();
        assert_eq!(nodes, ["node-0", "node-1", "node-2"], "{tier}");
    }
    let mut other = pod("plain", json!({}));
    other["metadata"]["labels"] = json!({"tier": "db"});
    world.create(PODS, other).await;
    let why = node_or_message(&world, "plain").await;
    assert!(
        why.starts_with(
            "0/3 nodes are available: 3 node(s) didn't satisfy existing pods anti-affinity rules."
        ),
        "{why}"
    );
}
