//! Tests of views and their visibility.

use std::time::Duration;

use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::fault::LinkState;
use testkit::{TestCluster, wait_for};

use crate::rows::{KindStatus, Members, NodeRow, WorkloadRow};
use crate::testing::{self, ALL, FleetHarness, id, namespace, node_object, pool_object};
use crate::{FleetView, Namespaces, Page, Settings, Visibility, WatchedKind};

fn pod(namespace: &str, name: &str, node: &str, phase: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
        "spec": {"nodeName": node, "containers": [
            {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"cpu": "1"}}},
        ]},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

fn deployment(namespace: &str, name: &str, ready: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace, "labels": {"app": name}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}},
        "status": {"replicas": 2, "readyReplicas": ready, "observedGeneration": 1},
    })
}

const PAGE: Page<'static> = Page { after: None, limit: 100 };

fn node_rows(look: &FleetView<'_>) -> Vec<NodeRow> {
    look.nodes_page(PAGE).0
}

fn counts(statuses: &[KindStatus]) -> Vec<(&'static str, u64, u64)> {
    statuses.iter().map(|it| (it.kind, it.total_num, it.healthy_num)).collect()
}

async fn populated_world() -> TestCluster {
    let world = TestCluster::new().await;
    let (one, other) = (id(1).to_string(), id(2).to_string());
    world.apply([namespace(&one), namespace(&other)]).await;
    for object in [
        node_object(
            "edge-1",
            json!({"openyurt/tenant": one, "kubernetes.io/os": "linux", "apps.openyurt.io/nodepool": "shared"}),
            "True",
        ),
        node_object(
            "edge-2",
            json!({"openyurt/tenant": other, "kubernetes.io/os": "windows", "apps.openyurt.io/nodepool": "shared"}),
            "Unknown",
        ),
        node_object("cloud", json!({"node-role.kubernetes.io/control-plane": ""}), "False"),
        pool_object("shared", json!({"type": "Edge"}), None),
        pool_object("cloudy", json!({"type": "Cloud"}), None),
        pool_object("own", json!({"type": "Edge"}), Some(&one)),
        pod(&one, "web-0", "edge-1", "Running"),
        pod(&one, "done", "edge-1", "Succeeded"),
        pod(&other, "theirs", "edge-1", "Pending"),
        deployment(&one, "web", 2),
        deployment(&one, "app", 1),
        deployment(&other, "web", 2),
    ] {
        testing::put(&world, object).await;
    }
    world
}

#[tokio::test]
async fn view_shows_only_visible_objects() {
    let stage = FleetHarness::with(populated_world().await, testing::settings()).await;
    let (one, names) = (id(1), [id(1).to_string()]);
    let mine = Visibility { tenant: Some(one.as_str()), namespaces: Namespaces::Only(&names) };
    let (all, own) = (stage.fleet.view(ALL), stage.fleet.view(mine));

    #[rustfmt::skip]
    assert_eq!(counts(&all.overview().cluster_status),
        [("pods", 3, 2), ("nodes", 3, 1), ("deployments", 3, 2), ("statefulsets", 0, 0), ("jobs", 0, 0)]);
    #[rustfmt::skip]
    assert_eq!(counts(&own.overview().cluster_status),
        [("pods", 2, 2), ("nodes", 1, 1), ("deployments", 2, 1), ("statefulsets", 0, 0), ("jobs", 0, 0)]);

    let titles = |rows: Vec<WorkloadRow>| -> Vec<String> {
        rows.iter().map(|row| format!("{}/{}", row.named.namespace, row.named.name)).collect()
    };
    let (one, other) = (id(1), id(2));
    assert_eq!(titles(own.deployments_page(PAGE).0), [format!("{one}/app"), format!("{one}/web")]);
    assert_eq!(
        titles(all.deployments_page(PAGE).0),
        [format!("{one}/app"), format!("{one}/web"), format!("{other}/web")]
    );
    assert_eq!(own.pods_page(PAGE).0.len(), 2);
    assert_eq!(own.statefulsets_page(PAGE).0.len() + own.daemonsets_page(PAGE).0.len(), 0);
    assert_eq!((own.jobs_page(PAGE).0.len(), own.cronjobs_page(PAGE).0.len()), (0, 0));

    let seen = node_rows(&own);
    assert_eq!(seen.len(), 1);
    // All running pods on a node count, of any tenant; finished ones do not.
    assert_eq!(seen[0].node_status.cpu, "500m / 2000m / -");
    assert_eq!(seen[0].node_status.memory, "128.0Mi / 0.0Mi / -");
    assert_eq!(seen[0].container_group, "1/110");
    assert_eq!(node_rows(&all).len(), 3);
    assert!(own.node("edge-1").is_some() && own.node("edge-2").is_none() && all.node("edge-2").is_some());

    // Of a common pool, tenants see and count only their own nodes.
    let pools = own.pools();
    let seen: Vec<_> =
        pools.items.iter().map(|pool| (pool.name.as_str(), pool.node_status, pool.os.as_str())).collect();
    let count = |total_num, healthy_num| Members { total_num, healthy_num };
    assert_eq!(seen, [("own", count(0, 0), ""), ("shared", count(1, 1), "linux")]);
    let pools = all.pools();
    let seen: Vec<_> =
        pools.items.iter().map(|pool| (pool.name.as_str(), pool.node_status, pool.os.as_str())).collect();
    assert_eq!(
        seen,
        [("cloudy", count(0, 0), ""), ("own", count(0, 0), ""), ("shared", count(2, 1), "linux,windows")]
    );

    // An unknown tenant sees nothing.
    let nobody = stage.fleet.view(Visibility { tenant: Some("u"), namespaces: Namespaces::Only(&[]) });
    assert!(nobody.overview().cluster_status.iter().all(|it| it.total_num == 0));
    assert!(
        node_rows(&nobody).is_empty()
            && nobody.pools().items.is_empty()
            && nobody.pods_page(PAGE).0.is_empty()
    );
}

#[tokio::test]
async fn view_makes_no_api_call_and_follows_changes() {
    let stage = FleetHarness::with(
        populated_world().await,
        Settings { metrics_interval: Duration::from_hours(1), ..testing::settings() },
    )
    .await;
    let look = stage.fleet.view(ALL);
    let calls = stage.fault.calls();
    for _ in 0..50 {
        look.overview();
        look.nodes_page(PAGE);
        look.pools();
        look.deployments_page(PAGE);
        look.pods_page(PAGE);
    }
    assert_eq!(stage.fault.calls(), calls);

    stage.put(node_object("edge-3", json!({}), "True")).await;
    wait_for("a new node is seen", async || look.node("edge-3").filter(|row| row.status == "Ready")).await;
    stage.put(node_object("edge-3", json!({}), "Unknown")).await;
    wait_for("a changed node is seen", async || look.node("edge-3").filter(|row| row.status == "Unknown"))
        .await;
    stage.delete("Node", "edge-3").await;
    wait_for("a node that is gone is not seen", async || look.node("edge-3").is_none().then_some(())).await;
    assert_eq!(look.overview().cluster_status[1].total_num, 3);
}

#[tokio::test]
async fn kind_that_cannot_be_listed_does_not_hide_others() {
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps.openyurt.io"], "resources": ["nodepools"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["list", "watch"]},
    ]);
    let subject = json!({"kind": "ServiceAccount", "namespace": "longshore-system", "name": "longshore"});
    let rights = [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "some"}, "rules": rules}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "some"},
               "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some"}, "subjects": [subject]}),
    ];
    let world =
        TestCluster::with_permissions(std::sync::Arc::new(kube_embedded::clock::SystemClock), rights).await;
    testing::put(&world, node_object("edge-1", json!({}), "True")).await;
    // All kinds that can be listed are listed well before this timeout.
    let stage =
        FleetHarness::with(world, Settings { sync_timeout: Duration::from_secs(5), ..testing::settings() })
            .await;
    let overview = stage.fleet.view(ALL).overview();
    let statuses: Vec<_> =
        overview.cluster_status.iter().map(|it| (it.kind, it.total_num, it.status)).collect();
    #[rustfmt::skip]
    assert_eq!(statuses, [("pods", 0, None), ("nodes", 1, None), ("deployments", 0, None), ("statefulsets", 0, None), ("jobs", 0, Some(false))]);
    assert_eq!(overview.cluster_status[4].info.as_deref(), Some("jobs have not been listed yet"));
    assert!(!overview.all_failed());
}

#[tokio::test]
async fn stale_kinds_are_not_counted_until_reconnected() {
    let settings = Settings { stale_after: Duration::ZERO, ..testing::settings() };
    let stage = FleetHarness::with(populated_world().await, settings).await;
    let look = stage.fleet.view(ALL);
    wait_for("all watches stand", async || {
        WatchedKind::ALL.iter().all(|kind| stage.fleet.unavailable_reason(*kind).is_none()).then_some(())
    })
    .await;
    stage.fault.set_link(LinkState::Disconnected);
    wait_for("everything is ill", async || look.overview().all_failed().then_some(())).await;
    let counted = &look.overview().cluster_status[1];
    assert_eq!((counted.total_num, counted.healthy_num), (0, 0));
    assert!(counted.info.as_ref().unwrap().starts_with("no data about nodes from the cluster for"));
    // Lists still contain the last known objects.
    assert_eq!(node_rows(&look).len(), 3);
    stage.fault.restore();
    wait_for("all is well again", async || {
        look.overview().cluster_status.iter().all(|it| it.status.is_none()).then_some(())
    })
    .await;
    assert_eq!(look.overview().cluster_status[1].total_num, 3);
}

#[tokio::test]
async fn pools_follow_deletion_and_creation_of_the_crd() {
    let stage = FleetHarness::with(populated_world().await, testing::settings()).await;
    let look = stage.fleet.view(ALL);
    assert!(look.pools().available && look.pools().items.len() == 3);
    let definitions = testing::api(&stage.world, "apiextensions.k8s.io/v1", "CustomResourceDefinition").await;
    definitions.delete("nodepools.apps.openyurt.io", &DeleteParams::default()).await.unwrap();
    wait_for("there are no pools", async || (!look.pools().available).then_some(())).await;
    assert!(look.pools().items.is_empty());
    wait_for("the definition is gone", async || {
        definitions.get_opt("nodepools.apps.openyurt.io").await.unwrap().is_none().then_some(())
    })
    .await;
    let definition = serde_json::to_value(kube_types::node_pool::crd()).unwrap();
    stage.world.apply([definition]).await;
    wait_for("there are pools again", async || look.pools().available.then_some(())).await;
    assert!(look.pools().items.is_empty());
    stage.put(pool_object("new", json!({"type": "Edge"}), None)).await;
    wait_for("the new pool is seen", async || (look.pools().items.len() == 1).then_some(())).await;
}
