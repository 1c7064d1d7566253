//! Tests of the pool controller on an embedded cluster.

use std::time::Duration;

use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::{Fault, World, every_kill_point, until};

use crate::stage::{self, Stage, api, id, node_object, pool_object};
use crate::{ManagePools, Settings};

const POOLS: (&str, &str) = ("apps.openyurt.io/v1alpha1", "NodePool");
const WISH: &str = "apps.openyurt.io/desired-nodepool";
const MEMBER: &str = "apps.openyurt.io/nodepool";
const MEMORY: &str = "nodepool.openyurt.io/previous-attributes";

async fn patch_node(world: &World, name: &str, patch: Value) {
    api(world, "v1", "Node").await.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn pool(world: &World, name: &str) -> Value {
    serde_json::to_value(api(world, POOLS.0, POOLS.1).await.get(name).await.unwrap()).unwrap()
}

fn told(ready: i64, unready: i64, nodes: &[&str]) -> Value {
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

/// Taint keys of a node, except those that Kubernetes sets on new nodes.
fn tainted(node: &Value) -> Vec<String> {
    let keys =
        node["spec"]["taints"].as_array().into_iter().flatten().filter_map(|taint| taint["key"].as_str());
    keys.filter(|key| !key.starts_with("node.kubernetes.io/")).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_node_joins_a_pool_by_wish_and_leaves_as_it_came() {
    let stage = Stage::new().await;
    let world = &stage.world;
    let spec = json!({"type": "Edge", "labels": {"region": "hz"}, "taints": [{"key": "edge", "effect": "NoSchedule"}]});
    stage.put(pool_object("hangzhou", spec, None)).await;
    stage.put(node_object("edge-1", json!({WISH: "hangzhou", "region": "before"}), "True")).await;
    stage.put(node_object("edge-2", json!({WISH: "hangzhou"}), "Unknown")).await;
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.lead().await });
    until("both are members", async || {
        (status(&pool(world, "hangzhou").await) == told(1, 1, &["edge-1", "edge-2"])).then_some(())
    })
    .await;
    let node = stage.node("edge-1").await;
    assert_eq!(
        (&node["metadata"]["labels"][MEMBER], &node["metadata"]["labels"]["region"]),
        (&json!("hangzhou"), &json!("hz"))
    );
    assert_eq!(tainted(&node), ["edge"]);
    assert!(node["metadata"]["annotations"][MEMORY].as_str().unwrap().contains("before"));

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
    until("the labels have changed", async || {
        let labels = stage.node("edge-1").await["metadata"]["labels"].clone();
        (labels["tier"] == "1" && labels["region"] == "before").then_some(())
    })
    .await;

    patch_node(world, "edge-1", json!({"metadata": {"labels": {WISH: null}}})).await;
    until("it has left", async || {
        (status(&pool(world, "hangzhou").await) == told(0, 1, &["edge-2"])).then_some(())
    })
    .await;
    let node = stage.node("edge-1").await;
    assert_eq!(node["metadata"]["labels"], json!({"region": "before"}));
    assert!(node["metadata"]["annotations"][MEMORY].is_null() && tainted(&node).is_empty(), "{node}");

    // A deleted node is not a member. A deleted pool's nodes are restored.
    api(world, POOLS.0, POOLS.1).await.delete("hangzhou", &DeleteParams::default()).await.unwrap();
    until("its last node is free", async || {
        let node = stage.node("edge-2").await;
        (node["metadata"]["labels"] == json!({WISH: "hangzhou"}) && tainted(&node).is_empty()).then_some(())
    })
    .await;
    leader.abort();
}

#[tokio::test]
async fn a_pool_of_a_tenant_takes_nobody_elses_nodes() {
    let stage = Stage::new().await;
    let (one, other) = (id(1).to_string(), id(2).to_string());
    let spec = json!({"type": "Edge", "selector": {"matchLabels": {"zone": "a"}}, "labels": {"openyurt/tenant": one, "mine": "1"},
                      "taints": [{"key": "openyurt/tenant", "value": one, "effect": "NoSchedule"}]});
    stage.put(pool_object("greedy", spec, Some(&one))).await;
    stage.put(node_object("own", json!({"zone": "a", "openyurt/tenant": one}), "True")).await;
    stage.put(node_object("theirs", json!({"zone": "a", "openyurt/tenant": other}), "True")).await;
    stage.put(node_object("nobodys", json!({"zone": "a", WISH: "greedy"}), "True")).await;
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.lead().await });
    until("it has its own", async || {
        (status(&pool(&stage.world, "greedy").await) == told(1, 0, &["own"])).then_some(())
    })
    .await;
    assert_eq!(stage.node("own").await["metadata"]["labels"]["mine"], "1");
    assert!(tainted(&stage.node("own").await).is_empty());
    assert_eq!(
        stage.node("theirs").await["metadata"]["labels"],
        json!({"zone": "a", "openyurt/tenant": other})
    );
    assert_eq!(stage.node("nobodys").await["metadata"]["labels"], json!({"zone": "a", WISH: "greedy"}));
    leader.abort();
}

/// The first tenant's node still has the desired-pool label of that name.
#[tokio::test]
async fn nodepool_recreated_by_another_tenant_inherits_neither_nodes_nor_attributes() {
    let stage = Stage::new().await;
    let (one, other) = (id(1).to_string(), id(2).to_string());
    let put_pool = async |tenant: &str, mark: &str| {
        let spec = json!({"type": "Edge", "labels": {"mark": mark}, "taints": [{"key": mark, "effect": "NoSchedule"}]});
        stage.put(pool_object("p", spec, Some(tenant))).await;
    };
    put_pool(&one, "first").await;
    let before = json!({WISH: "p", "openyurt/tenant": one});
    stage.put(node_object("own", before.clone(), "True")).await;
    let fleet = stage.fleet.clone();
    let leader = tokio::spawn(async move { fleet.lead().await });
    until("its owner's node is in it", async || {
        (status(&pool(&stage.world, "p").await) == told(1, 0, &["own"])).then_some(())
    })
    .await;
    api(&stage.world, POOLS.0, POOLS.1).await.delete("p", &DeleteParams::default()).await.unwrap();
    until("the node has left", async || {
        (stage.node("own").await["metadata"]["labels"] == before).then_some(())
    })
    .await;
    put_pool(&other, "second").await;
    stage.put(node_object("theirs", json!({WISH: "p", "openyurt/tenant": other}), "True")).await;
    until("only the new owner's node is in it", async || {
        (status(&pool(&stage.world, "p").await) == told(1, 0, &["theirs"])).then_some(())
    })
    .await;
    let node = stage.node("own").await;
    assert_eq!(node["metadata"]["labels"], before);
    assert!(tainted(&node).is_empty(), "{node}");
    assert_eq!(stage.node("theirs").await["metadata"]["labels"]["mark"], "second");
    leader.abort();
}

/// A CRD that another project installed.
async fn their_definition(world: World) -> World {
    let definitions = api(&world, "apiextensions.k8s.io/v1", "CustomResourceDefinition").await;
    let unmark = json!({"metadata": {"annotations": {"longshore.dev/crd-revision": null}}});
    let name = "nodepools.apps.openyurt.io";
    definitions.patch(name, &PatchParams::default(), &Patch::Merge(unmark)).await.unwrap();
    world
}

#[tokio::test]
async fn pools_of_another_projects_definition_are_left_alone_unless_told_otherwise() {
    let prepared = async || {
        let world = their_definition(World::new().await).await;
        stage::put(&world, pool_object("p", json!({"type": "Edge"}), None)).await;
        stage::put(&world, node_object("n", json!({WISH: "p"}), "True")).await;
        world
    };
    let theirs = Stage::with(prepared().await, stage::settings()).await;
    let ours =
        Stage::with(prepared().await, Settings { manage_pools: ManagePools::Always, ..stage::settings() })
            .await;
    let (idle, busy) = (theirs.fleet.clone(), ours.fleet.clone());
    let leaders =
        [tokio::spawn(async move { idle.lead().await }), tokio::spawn(async move { busy.lead().await })];
    until("ours is looked after", async || {
        (status(&pool(&ours.world, "p").await) == told(1, 0, &["n"])).then_some(())
    })
    .await;
    assert!(pool(&theirs.world, "p").await["status"].is_null());
    assert_eq!(theirs.fault.writes(), 0);
    for leader in leaders {
        leader.abort();
    }
}

/// Changes made by OpenYurt's manager: a node taken into a pool, and the pool's status.
async fn as_their_manager(world: &World) {
    let before = json!({"metadata": {"labels": {MEMBER: "p", "region": "hz"}, "annotations": {MEMORY: "{\"theirs\":1}"}}});
    patch_node(world, "n", before).await;
    let counted = json!({"status": {"readyNodeNum": 7, "unreadyNodeNum": 7, "nodes": ["n"]}});
    let pools = api(world, POOLS.0, POOLS.1).await;
    pools.patch_status("p", &PatchParams::default(), &Patch::Merge(counted)).await.unwrap();
}

#[tokio::test]
async fn pools_that_openyurts_own_manager_looks_after_are_left_to_it() {
    let prepared = async || {
        let world = World::new().await;
        stage::put(&world, pool_object("p", json!({"type": "Edge", "labels": {"region": "bj"}}), None)).await;
        stage::put(&world, node_object("n", json!({WISH: "p"}), "True")).await;
        world
    };
    // The manager was installed after the platform's CRD, before it, and not at all.
    let after = Settings { manage_pools: ManagePools::Never, ..stage::settings() };
    let (after, before) = (
        Stage::with(prepared().await, after).await,
        Stage::with(their_definition(prepared().await).await, stage::settings()).await,
    );
    let alone = Stage::with(prepared().await, stage::settings()).await;
    let leaders = [&after, &before, &alone].map(|stage| {
        let fleet = stage.fleet.clone();
        tokio::spawn(async move { fleet.lead().await })
    });
    let mut left = Vec::new();
    for stage in [&after, &before] {
        as_their_manager(&stage.world).await;
        left.push((pool(&stage.world, "p").await, stage.node("n").await));
    }
    until("where nobody else does, we look after it", async || {
        (status(&pool(&alone.world, "p").await) == told(1, 0, &["n"])).then_some(())
    })
    .await;
    for (stage, left) in [&after, &before].into_iter().zip(left) {
        until("it is known that they took the node in", async || {
            let node = stage.fleet.look(stage::ALL).node("n")?;
            (node.labels.get("region").map(String::as_str) == Some("hz")).then_some(())
        })
        .await;
        assert_eq!((pool(&stage.world, "p").await, stage.node("n").await), left);
        assert_eq!(stage.fault.writes(), 0);
    }
    for leader in leaders {
        leader.abort();
    }
}

#[tokio::test]
async fn killed_at_any_write_it_comes_to_the_same_end() {
    let make = async || {
        let world = World::new().await;
        stage::put(&world, pool_object("p", json!({"type": "Edge", "labels": {"region": "hz"}}), None)).await;
        stage::put(&world, node_object("a", json!({WISH: "p", "region": "old"}), "True")).await;
        stage::put(&world, node_object("b", json!({WISH: "p"}), "False")).await;
        world
    };
    let act = async |world: &World, fault: &Fault| {
        let fleet = stage::fleet(world, fault, stage::settings()).await;
        let done = until("the pool is settled", async || {
            let settled = status(&pool(world, "p").await) == told(1, 1, &["a", "b"]);
            settled.then_some(())
        });
        tokio::select! {
            never = fleet.lead() => match never {},
            () = done => Ok::<_, kube::Error>(()),
        }
    };
    let check = async |world: &World| {
        let node = stage::node(world, "a").await;
        assert_eq!(node["metadata"]["labels"], json!({WISH: "p", MEMBER: "p", "region": "hz"}));
        let memory: Value =
            serde_json::from_str(node["metadata"]["annotations"][MEMORY].as_str().unwrap()).unwrap();
        assert_eq!(memory["before"], json!({"labels": {"region": "old"}}), "remembered once");
    };
    let points =
        tokio::time::timeout(Duration::from_mins(5), every_kill_point(make, act, check)).await.unwrap();
    assert!(points >= 3, "{points}");
}
