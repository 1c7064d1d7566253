//! Tests of the pool controller on an embedded cluster.

use std::time::Duration;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use testkit::{FaultInjector, TestCluster, every_kill_point, wait_for};

use crate::testing::{self, FleetHarness, api, id, node_object, pool_object};
use crate::{ManagePools, Settings};

const POOLS: (&str, &str) = ("apps.openyurt.io/v1alpha1", "NodePool");
const DESIRED_POOL_LABEL: &str = "apps.openyurt.io/desired-nodepool";
const POOL_LABEL: &str = "apps.openyurt.io/nodepool";
const PREVIOUS_ATTRIBUTES: &str = "nodepool.openyurt.io/previous-attributes";

async fn patch_node(world: &TestCluster, name: &str, patch: Value) {
    api(world, "v1", "Node").await.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn get_pool(world: &TestCluster, name: &str) -> Value {
    serde_json::to_value(api(world, POOLS.0, POOLS.1).await.get(name).await.unwrap()).unwrap()
}

fn pool_status(ready: i64, unready: i64, nodes: &[&str]) -> Value {
    let mut status = json!({"readyNodeNum": ready, "unreadyNodeNum": unready});
    if !nodes.is_empty() {
        status["nodes"] = json!(nodes);
    }
    status
}

/// Status of a pool, with an empty list of nodes removed.
fn status(pool: &Value) -> Value {
    let mut status = pool["status"].clone();
    if status["nodes"] == json!([]) {
        status.as_object_mut().unwrap().remove("nodes");
    }
    status
}

/// Taint keys of a node, except keys that Kubernetes sets on new nodes.
fn taint_keys(node: &Value) -> Vec<String> {
    let keys =
        node["spec"]["taints"].as_array().into_iter().flatten().filter_map(|taint| taint["key"].as_str());
    keys.filter(|key| !key.starts_with("node.kubernetes.io/")).map(str::to_owned).collect()
}

#[tokio::test]
async fn node_joins_desired_pool_and_is_restored_on_leave() {
    let stage = FleetHarness::new().await;
    let world = &stage.world;
    let spec = json!({"type": "Edge", "labels": {"region": "hz"}, "taints": [{"key": "edge", "effect": "NoSchedule"}]});
    stage.put(pool_object("hangzhou", spec, None)).await;
    stage
        .put(node_object("edge-1", json!({DESIRED_POOL_LABEL: "hangzhou", "region": "before"}), "True"))
        .await;
    stage.put(node_object("edge-2", json!({DESIRED_POOL_LABEL: "hangzhou"}), "Unknown")).await;
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.run_pool_controller().await });
    wait_for("both are members", async || {
        (status(&get_pool(world, "hangzhou").await) == pool_status(1, 1, &["edge-1", "edge-2"])).then_some(())
    })
    .await;
    let node = stage.node("edge-1").await;
    assert_eq!(
        (&node["metadata"]["labels"][POOL_LABEL], &node["metadata"]["labels"]["region"]),
        (&json!("hangzhou"), &json!("hz"))
    );
    assert_eq!(taint_keys(&node), ["edge"]);
    assert!(node["metadata"]["annotations"][PREVIOUS_ATTRIBUTES].as_str().unwrap().contains("before"));

    // Changed attributes of the pool are applied to its nodes.
    api(world, POOLS.0, POOLS.1)
        .await
        .patch(
            "hangzhou",
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"labels": {"region": null, "tier": "1"}}})),
        )
        .await
        .unwrap();
    wait_for("the labels have changed", async || {
        let labels = stage.node("edge-1").await["metadata"]["labels"].clone();
        (labels["tier"] == "1" && labels["region"] == "before").then_some(())
    })
    .await;

    patch_node(world, "edge-1", json!({"metadata": {"labels": {DESIRED_POOL_LABEL: null}}})).await;
    wait_for("it has left", async || {
        (status(&get_pool(world, "hangzhou").await) == pool_status(0, 1, &["edge-2"])).then_some(())
    })
    .await;
    let node = stage.node("edge-1").await;
    assert_eq!(node["metadata"]["labels"], json!({"region": "before"}));
    assert!(
        node["metadata"]["annotations"][PREVIOUS_ATTRIBUTES].is_null() && taint_keys(&node).is_empty(),
        "{node}"
    );

    // A deleted node is not a member. A deleted pool's nodes are restored.
    api(world, POOLS.0, POOLS.1).await.delete("hangzhou", &DeleteParams::default()).await.unwrap();
    wait_for("its last node is free", async || {
        let node = stage.node("edge-2").await;
        (node["metadata"]["labels"] == json!({DESIRED_POOL_LABEL: "hangzhou"})
            && taint_keys(&node).is_empty())
        .then_some(())
    })
    .await;
    leader.abort();
}

#[tokio::test]
async fn tenant_pool_takes_only_nodes_of_its_tenant() {
    let stage = FleetHarness::new().await;
    let (one, other) = (id(1).to_string(), id(2).to_string());
    let spec = json!({"type": "Edge", "selector": {"matchLabels": {"zone": "a"}}, "labels": {"openyurt/tenant": one, "mine": "1"},
                      "taints": [{"key": "openyurt/tenant", "value": one, "effect": "NoSchedule"}]});
    stage.put(pool_object("greedy", spec, Some(&one))).await;
    stage.put(node_object("own", json!({"zone": "a", "openyurt/tenant": one}), "True")).await;
    stage.put(node_object("theirs", json!({"zone": "a", "openyurt/tenant": other}), "True")).await;
    stage.put(node_object("nobodys", json!({"zone": "a", DESIRED_POOL_LABEL: "greedy"}), "True")).await;
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.run_pool_controller().await });
    wait_for("it has its own", async || {
        (status(&get_pool(&stage.world, "greedy").await) == pool_status(1, 0, &["own"])).then_some(())
    })
    .await;
    assert_eq!(stage.node("own").await["metadata"]["labels"]["mine"], "1");
    assert!(taint_keys(&stage.node("own").await).is_empty());
    assert_eq!(
        stage.node("theirs").await["metadata"]["labels"],
        json!({"zone": "a", "openyurt/tenant": other})
    );
    assert_eq!(
        stage.node("nobodys").await["metadata"]["labels"],
        json!({"zone": "a", DESIRED_POOL_LABEL: "greedy"})
    );
    leader.abort();
}

/// The first tenant's node still has the desired-pool label of that name.
#[tokio::test]
async fn nodepool_recreated_by_another_tenant_inherits_neither_nodes_nor_attributes() {
    let stage = FleetHarness::new().await;
    let (one, other) = (id(1).to_string(), id(2).to_string());
    let put_pool = async |tenant: &str, mark: &str| {
        let spec = json!({"type": "Edge", "labels": {"mark": mark}, "taints": [{"key": mark, "effect": "NoSchedule"}]});
        stage.put(pool_object("p", spec, Some(tenant))).await;
    };
    put_pool(&one, "first").await;
    let before = json!({DESIRED_POOL_LABEL: "p", "openyurt/tenant": one});
    stage.put(node_object("own", before.clone(), "True")).await;
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.run_pool_controller().await });
    wait_for("its owner's node is in it", async || {
        (status(&get_pool(&stage.world, "p").await) == pool_status(1, 0, &["own"])).then_some(())
    })
    .await;
    api(&stage.world, POOLS.0, POOLS.1).await.delete("p", &DeleteParams::default()).await.unwrap();
    wait_for("the node has left", async || {
        (stage.node("own").await["metadata"]["labels"] == before).then_some(())
    })
    .await;
    put_pool(&other, "second").await;
    stage
        .put(node_object("theirs", json!({DESIRED_POOL_LABEL: "p", "openyurt/tenant": other}), "True"))
        .await;
    wait_for("only the new owner's node is in it", async || {
        (status(&get_pool(&stage.world, "p").await) == pool_status(1, 0, &["theirs"])).then_some(())
    })
    .await;
    let node = stage.node("own").await;
    assert_eq!(node["metadata"]["labels"], before);
    assert!(taint_keys(&node).is_empty(), "{node}");
    assert_eq!(stage.node("theirs").await["metadata"]["labels"]["mark"], "second");
    leader.abort();
}

/// A CRD that another project installed.
async fn with_foreign_crd(world: TestCluster) -> TestCluster {
    let definitions = api(&world, "apiextensions.k8s.io/v1", "CustomResourceDefinition").await;
    let unmark = json!({"metadata": {"annotations": {"longshore.dev/crd-revision": null}}});
    let name = "nodepools.apps.openyurt.io";
    definitions.patch(name, &PatchParams::default(), &Patch::Merge(unmark)).await.unwrap();
    world
}

#[tokio::test]
async fn pools_of_foreign_crd_are_managed_only_when_configured() {
    let prepared = async || {
        let world = with_foreign_crd(TestCluster::new().await).await;
        testing::put(&world, pool_object("p", json!({"type": "Edge"}), None)).await;
        testing::put(&world, node_object("n", json!({DESIRED_POOL_LABEL: "p"}), "True")).await;
        world
    };
    let theirs = FleetHarness::with(prepared().await, testing::settings()).await;
    let ours = FleetHarness::with(
        prepared().await,
        Settings { manage_pools: ManagePools::Always, ..testing::settings() },
    )
    .await;
    let (idle, busy) = (theirs.fleet.clone(), ours.fleet.clone());
    let leaders = [
        tokio::spawn(async move { idle.run_pool_controller().await }),
        tokio::spawn(async move { busy.run_pool_controller().await }),
    ];
    wait_for("ours is looked after", async || {
        (status(&get_pool(&ours.world, "p").await) == pool_status(1, 0, &["n"])).then_some(())
    })
    .await;
    assert!(get_pool(&theirs.world, "p").await["status"].is_null());
    assert_eq!(theirs.fault.writes(), 0);
    for leader in leaders {
        leader.abort();
    }
}

/// Changes made by OpenYurt's manager: a node taken into a pool, and the pool's status.
async fn write_as_foreign_manager(world: &TestCluster) {
    let before = json!({"metadata": {"labels": {POOL_LABEL: "p", "region": "hz"}, "annotations": {PREVIOUS_ATTRIBUTES: "{\"theirs\":1}"}}});
    patch_node(world, "n", before).await;
    let counted = json!({"status": {"readyNodeNum": 7, "unreadyNodeNum": 7, "nodes": ["n"]}});
    let pools = api(world, POOLS.0, POOLS.1).await;
    pools.patch_status("p", &PatchParams::default(), &Patch::Merge(counted)).await.unwrap();
}

#[tokio::test]
async fn pools_managed_by_openyurt_are_not_changed() {
    let prepared = async || {
        let world = TestCluster::new().await;
        testing::put(&world, pool_object("p", json!({"type": "Edge", "labels": {"region": "bj"}}), None))
            .await;
        testing::put(&world, node_object("n", json!({DESIRED_POOL_LABEL: "p"}), "True")).await;
        world
    };
    // The manager was installed after the platform's CRD, before it, and not at all.
    let after = Settings { manage_pools: ManagePools::Never, ..testing::settings() };
    let (after, before) = (
        FleetHarness::with(prepared().await, after).await,
        FleetHarness::with(with_foreign_crd(prepared().await).await, testing::settings()).await,
    );
    let alone = FleetHarness::with(prepared().await, testing::settings()).await;
    let leaders = [&after, &before, &alone].map(|stage| {
        let fleet = stage.fleet.clone();
        tokio::spawn(async move { fleet.run_pool_controller().await })
    });
    let mut left = Vec::new();
    for stage in [&after, &before] {
        write_as_foreign_manager(&stage.world).await;
        left.push((get_pool(&stage.world, "p").await, stage.node("n").await));
    }
    wait_for("where nobody else does, we look after it", async || {
        (status(&get_pool(&alone.world, "p").await) == pool_status(1, 0, &["n"])).then_some(())
    })
    .await;
    for (stage, left) in [&after, &before].into_iter().zip(left) {
        wait_for("it is known that they took the node in", async || {
            let node = stage.fleet.view(testing::ALL).node("n")?;
            (node.labels.get("region").map(String::as_str) == Some("hz")).then_some(())
        })
        .await;
        assert_eq!((get_pool(&stage.world, "p").await, stage.node("n").await), left);
        assert_eq!(stage.fault.writes(), 0);
    }
    for leader in leaders {
        leader.abort();
    }
}

/// The number of panics of the controller in the metrics.
fn counted_panics() -> u64 {
    let (mut registry, mut text) = (Registry::default(), String::new());
    kube_access::controller::runtime().register(&mut registry);
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let count =
        text.lines().find_map(|line| line.strip_prefix("reconcile_panics_total{controller=\"node-pool\"} "));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn reconcile_that_panics_is_counted_reported_as_an_event_and_retried() {
    let stage = FleetHarness::new().await;
    let before = counted_panics();
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.run_pool_controller().await });
    stage.fault.panic_once("/apis/apps.openyurt.io/v1alpha1/nodepools/p/status");
    stage.put(pool_object("p", json!({"type": "Edge"}), None)).await;
    wait_for("the status is written after the panic", async || {
        (status(&get_pool(&stage.world, "p").await) == pool_status(0, 0, &[])).then_some(())
    })
    .await;
    stage.fault.panic_once("/api/v1/nodes/n");
    stage.put(node_object("n", json!({DESIRED_POOL_LABEL: "p"}), "True")).await;
    wait_for("the node joins after the panic", async || {
        (status(&get_pool(&stage.world, "p").await) == pool_status(1, 0, &["n"])).then_some(())
    })
    .await;
    assert!(counted_panics() >= before + 2);
    let events: Api<Event> = Api::namespaced(stage.world.admin_client(), "default");
    let events = events.list(&ListParams::default()).await.unwrap().items;
    let pool = get_pool(&stage.world, "p").await["metadata"]["uid"].clone();
    let node = stage.node("n").await["metadata"]["uid"].clone();
    for (kind, uid) in [("NodePool", pool), ("Node", node)] {
        let event = events.iter().find(|event| {
            event.reason.as_deref() == Some("ReconcilePanicked")
                && event.regarding.as_ref().is_some_and(|object| object.kind.as_deref() == Some(kind))
        });
        let event = event.unwrap_or_else(|| panic!("no event of the {kind}: {events:?}"));
        assert_eq!(event.regarding.as_ref().unwrap().uid.as_deref(), uid.as_str());
        assert!(!event.note.as_deref().unwrap().contains("injected"), "{event:?}");
    }
    leader.abort();
}

#[tokio::test]
async fn controller_converges_when_killed_at_any_write() {
    let make = async || {
        let world = TestCluster::new().await;
        testing::put(&world, pool_object("p", json!({"type": "Edge", "labels": {"region": "hz"}}), None))
            .await;
        testing::put(&world, node_object("a", json!({DESIRED_POOL_LABEL: "p", "region": "old"}), "True"))
            .await;
        testing::put(&world, node_object("b", json!({DESIRED_POOL_LABEL: "p"}), "False")).await;
        world
    };
    let act = async |world: &TestCluster, fault: &FaultInjector| {
        let fleet = testing::fleet(world, fault, testing::settings()).await;
        let done = wait_for("the pool is settled", async || {
            let settled = status(&get_pool(world, "p").await) == pool_status(1, 1, &["a", "b"]);
            settled.then_some(())
        });
        tokio::select! {
            never = fleet.run_pool_controller() => match never {},
            () = done => Ok::<_, kube::Error>(()),
        }
    };
    let check = async |world: &TestCluster| {
        let node = testing::node(world, "a").await;
        assert_eq!(
            node["metadata"]["labels"],
            json!({DESIRED_POOL_LABEL: "p", POOL_LABEL: "p", "region": "hz"})
        );
        let memory: Value =
            serde_json::from_str(node["metadata"]["annotations"][PREVIOUS_ATTRIBUTES].as_str().unwrap())
                .unwrap();
        assert_eq!(memory["before"], json!({"labels": {"region": "old"}}), "remembered once");
    };
    let points =
        tokio::time::timeout(Duration::from_mins(5), every_kill_point(make, act, check)).await.unwrap();
    assert!(points >= 3, "{points}");
}
