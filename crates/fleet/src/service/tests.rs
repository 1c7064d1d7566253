//! Tests of changes to pools and nodes, and their authorisation.

use domain::ErrorKind;
use domain::actor::AuthMethod;
use domain::ids::TokenId;
use domain::scopes::Scopes;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::wait_for;

use super::*;
use crate::Fleet;
use crate::testing::{self, FleetHarness, administrator, api, id, node_object, pool_object, user};

fn create_pool_request(name: &str) -> CreatePool {
    CreatePool { name: name.to_owned(), pool_type: "Edge".to_owned(), ..CreatePool::default() }
}

async fn get_pool(stage: &FleetHarness, name: &str) -> Option<Value> {
    let pools = api(&stage.world, "apps.openyurt.io/v1alpha1", "NodePool").await;
    pools.get_opt(name).await.unwrap().map(|pool| serde_json::to_value(pool).unwrap())
}

fn error_kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

#[tokio::test]
async fn users_create_update_and_delete_only_their_own_pools() {
    let stage = FleetHarness::new().await;
    let fleet = &stage.fleet;
    let (one, other, admin) = (user(1), user(2), administrator());
    fleet
        .create_pool(
            &one,
            CreatePool { labels: [("a".to_owned(), "b".to_owned())].into(), ..create_pool_request("mine") },
        )
        .await
        .unwrap();
    let made = get_pool(&stage, "mine").await.unwrap();
    assert_eq!(made["metadata"]["labels"]["openyurt/tenant"], json!(id(1)));
    let selector = json!({"matchLabels": {"apps.openyurt.io/nodepool": "mine"}});
    assert_eq!(made["spec"], json!({"type": "Edge", "labels": {"a": "b"}, "selector": selector}));
    fleet.create_pool(&admin, create_pool_request("everybodys")).await.unwrap();
    assert!(get_pool(&stage, "everybodys").await.unwrap()["metadata"]["labels"]["openyurt/tenant"].is_null());
    let for_one = CreatePool { tenant: Some(id(1).to_string()), ..create_pool_request("by-admin") };
    fleet.create_pool(&admin, for_one.clone()).await.unwrap();
    assert_eq!(
        error_kind(fleet.create_pool(&other, CreatePool { name: "x".to_owned(), ..for_one }).await),
        ErrorKind::NotFound
    );
    assert_eq!(error_kind(fleet.create_pool(&one, create_pool_request("mine")).await), ErrorKind::Conflict);

    let change =
        || UpdatePool { labels: Some([("c".to_owned(), "d".to_owned())].into()), ..UpdatePool::default() };
    for name in ["mine", "everybodys", "absent", "../nodes", ""] {
        assert_eq!(
            error_kind(fleet.update_pool(&other, name, change()).await),
            ErrorKind::NotFound,
            "{name}"
        );
        assert_eq!(error_kind(fleet.delete_pool(&other, name).await), ErrorKind::NotFound, "{name}");
    }
    fleet.update_pool(&one, "mine", change()).await.unwrap();
    fleet
        .update_pool(
            &admin,
            "mine",
            UpdatePool { annotations: Some(crate::rows::Pairs::new()), ..UpdatePool::default() },
        )
        .await
        .unwrap();
    assert_eq!(get_pool(&stage, "mine").await.unwrap()["spec"]["labels"], json!({"c": "d"}));

    fleet.delete_pool(&one, "mine").await.unwrap();
    assert_eq!(get_pool(&stage, "mine").await, None);
    fleet.delete_pool(&admin, "everybodys").await.unwrap();
}

#[tokio::test]
async fn invalid_pools_are_rejected_before_any_write() {
    let stage = FleetHarness::new().await;
    let (one, admin) = (user(1), administrator());
    let said = |key: &str| [(key.to_owned(), "x".to_owned())].into();
    let writes = stage.fault.writes();
    for wrong in [
        create_pool_request(""),
        create_pool_request("Upper"),
        create_pool_request("with.dot"),
        create_pool_request("a/b"),
        create_pool_request(&"x".repeat(64)),
        CreatePool { pool_type: "Sky".to_owned(), ..create_pool_request("a") },
        CreatePool { pool_type: "Cloud".to_owned(), host_network: true, ..create_pool_request("a") },
        CreatePool { labels: said("openyurt/tenant"), ..create_pool_request("a") },
        CreatePool {
            annotations: said("nodepool.openyurt.io/previous-attributes"),
            ..create_pool_request("a")
        },
        CreatePool { tenant: Some("kube-system".to_owned()), ..create_pool_request("a") },
    ] {
        assert_eq!(
            error_kind(stage.fleet.create_pool(&admin, wrong.clone()).await),
            ErrorKind::Invalid,
            "{wrong:?}"
        );
    }
    let system = CreatePool { labels: said("node-role.kubernetes.io/master"), ..create_pool_request("a") };
    assert_eq!(error_kind(stage.fleet.create_pool(&one, system).await), ErrorKind::Invalid);
    // A token with other scopes.
    let scopes = Scopes::parse(["releases"]).unwrap();
    let token = Actor { auth_method: AuthMethod::Token { id: TokenId::from_random([0; 10]), scopes }, ..one };
    assert_eq!(
        error_kind(stage.fleet.create_pool(&token, create_pool_request("a")).await),
        ErrorKind::Forbidden
    );
    assert_eq!(stage.fault.writes(), writes);
}

#[tokio::test]
async fn pools_per_tenant_are_limited() {
    let stage = FleetHarness::new().await;
    for number in 0..20 {
        stage.put(pool_object(&format!("p{number}"), json!({"type": "Edge"}), Some(id(1).as_str()))).await;
    }
    wait_for("all are known", async || {
        (stage.fleet.view(testing::ALL).pools().items.len() == 20).then_some(())
    })
    .await;
    assert_eq!(
        error_kind(stage.fleet.create_pool(&user(1), create_pool_request("one-more")).await),
        ErrorKind::Conflict
    );
    stage.fleet.create_pool(&user(2), create_pool_request("theirs")).await.unwrap();
}

#[tokio::test]
async fn a_pool_with_nodes_is_not_deleted() {
    let stage = FleetHarness::new().await;
    let admin = administrator();
    stage.put(pool_object("p", json!({"type": "Edge"}), None)).await;
    for label in ["apps.openyurt.io/nodepool", "apps.openyurt.io/desired-nodepool"] {
        stage.put(node_object("n", json!({label: "p"}), "True")).await;
        let refused = stage.fleet.delete_pool(&admin, "p").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Conflict);
        assert_eq!(refused.to_string(), "node pool `p` still has nodes (such as n): move them first");
        stage.delete("Node", "n").await;
    }
    stage.fleet.delete_pool(&admin, "p").await.unwrap();
}

#[tokio::test]
async fn pools_are_unsupported_without_the_crd() {
    let stage = FleetHarness::new().await;
    let definitions = api(&stage.world, "apiextensions.k8s.io/v1", "CustomResourceDefinition").await;
    definitions.delete("nodepools.apps.openyurt.io", &DeleteParams::default()).await.unwrap();
    wait_for("there are none", async || (!stage.fleet.view(testing::ALL).pools().available).then_some(()))
        .await;
    assert_eq!(
        error_kind(stage.fleet.create_pool(&administrator(), create_pool_request("a")).await),
        ErrorKind::Unsupported
    );
    assert_eq!(error_kind(stage.fleet.delete_pool(&administrator(), "a").await), ErrorKind::Unsupported);
}

#[tokio::test]
async fn nodes_are_changed_only_by_their_owner() {
    let stage = FleetHarness::new().await;
    let (one, other, admin) = (user(1), user(2), administrator());
    let tenant = id(1).to_string();
    stage.put(node_object("n", json!({"openyurt/tenant": tenant}), "True")).await;
    stage.put(node_object("nobodys", json!({}), "True")).await;
    stage.put(pool_object("own", json!({"type": "Edge"}), Some(&tenant))).await;
    stage.put(pool_object("theirs", json!({"type": "Edge"}), Some(id(2).as_str()))).await;
    stage.put(pool_object("everybodys", json!({"type": "Edge"}), None)).await;
    let autonomy = async |name: &str| {
        stage.node(name).await["metadata"]["annotations"]["node.beta.openyurt.io/autonomy"].clone()
    };
    let wished = async |name: &str| {
        stage.node(name).await["metadata"]["labels"]["apps.openyurt.io/desired-nodepool"].clone()
    };

    for name in ["n", "nobodys", "absent", "../pods/x", ""] {
        assert_eq!(
            error_kind(stage.fleet.set_autonomy(&other, name, true).await),
            ErrorKind::NotFound,
            "{name}"
        );
    }
    assert_eq!(error_kind(stage.fleet.set_autonomy(&one, "nobodys", true).await), ErrorKind::NotFound);
    assert_eq!(autonomy("n").await, Value::Null);
    stage.fleet.set_autonomy(&one, "n", true).await.unwrap();
    assert_eq!(autonomy("n").await, "true");
    stage.fleet.set_autonomy(&admin, "n", false).await.unwrap();
    assert_eq!(autonomy("n").await, "false");

    let moved = async |fleet: &Fleet, actor: &Actor, node: &str, pool: Option<&str>| {
        fleet.move_node(actor, node, pool).await
    };
    assert_eq!(error_kind(moved(&stage.fleet, &other, "n", Some("theirs")).await), ErrorKind::NotFound);
    for pool in ["theirs", "everybodys", "absent"] {
        assert_eq!(
            error_kind(moved(&stage.fleet, &one, "n", Some(pool)).await),
            ErrorKind::NotFound,
            "{pool}"
        );
    }
    assert_eq!(error_kind(moved(&stage.fleet, &admin, "n", Some("theirs")).await), ErrorKind::Conflict);
    assert_eq!(error_kind(moved(&stage.fleet, &admin, "nobodys", Some("own")).await), ErrorKind::Conflict);
    moved(&stage.fleet, &one, "n", Some("own")).await.unwrap();
    assert_eq!(wished("n").await, "own");
    moved(&stage.fleet, &admin, "n", Some("everybodys")).await.unwrap();
    assert_eq!(wished("n").await, "everybodys");
    moved(&stage.fleet, &one, "n", None).await.unwrap();
    assert_eq!(wished("n").await, Value::Null);
}
