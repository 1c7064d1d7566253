//! Tests of changes to pools and nodes, and their authorisation.

use domain::Kind;
use domain::actor::Via;
use domain::ids::TokenId;
use domain::scopes::Scopes;
use kube::api::DeleteParams;
use serde_json::{Value, json};
use testkit::until;

use super::*;
use crate::Fleet;
use crate::stage::{self, Stage, administrator, api, id, node_object, person, pool_object};

fn wish(name: &str) -> PoolWish {
    PoolWish { name: name.to_owned(), pool_type: "Edge".to_owned(), ..PoolWish::default() }
}

async fn pool(stage: &Stage, name: &str) -> Option<Value> {
    let pools = api(&stage.world, "apps.openyurt.io/v1alpha1", "NodePool").await;
    pools.get_opt(name).await.unwrap().map(|pool| serde_json::to_value(pool).unwrap())
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> Kind {
    result.unwrap_err().kind()
}

#[tokio::test]
async fn everybody_makes_changes_and_deletes_pools_of_their_own() {
    let stage = Stage::new().await;
    let fleet = &stage.fleet;
    let (one, other, admin) = (person(1), person(2), administrator());
    fleet
        .create_pool(&one, PoolWish { labels: [("a".to_owned(), "b".to_owned())].into(), ..wish("mine") })
        .await
        .unwrap();
    let made = pool(&stage, "mine").await.unwrap();
    assert_eq!(made["metadata"]["labels"]["openyurt/tenant"], json!(id(1)));
    let selector = json!({"matchLabels": {"apps.openyurt.io/nodepool": "mine"}});
    assert_eq!(made["spec"], json!({"type": "Edge", "labels": {"a": "b"}, "selector": selector}));
    fleet.create_pool(&admin, wish("everybodys")).await.unwrap();
    assert!(pool(&stage, "everybodys").await.unwrap()["metadata"]["labels"]["openyurt/tenant"].is_null());
    let for_one = PoolWish { tenant: Some(id(1).to_string()), ..wish("by-admin") };
    fleet.create_pool(&admin, for_one.clone()).await.unwrap();
    assert_eq!(
        kind(fleet.create_pool(&other, PoolWish { name: "x".to_owned(), ..for_one }).await),
        Kind::NotFound
    );
    assert_eq!(kind(fleet.create_pool(&one, wish("mine")).await), Kind::Conflict);

    let change =
        || PoolChange { labels: Some([("c".to_owned(), "d".to_owned())].into()), ..PoolChange::default() };
    for name in ["mine", "everybodys", "absent", "../nodes", ""] {
        assert_eq!(kind(fleet.change_pool(&other, name, change()).await), Kind::NotFound, "{name}");
        assert_eq!(kind(fleet.delete_pool(&other, name).await), Kind::NotFound, "{name}");
    }
    fleet.change_pool(&one, "mine", change()).await.unwrap();
    fleet
        .change_pool(
            &admin,
            "mine",
            PoolChange { annotations: Some(crate::rows::Pairs::new()), ..PoolChange::default() },
        )
        .await
        .unwrap();
    assert_eq!(pool(&stage, "mine").await.unwrap()["spec"]["labels"], json!({"c": "d"}));

    fleet.delete_pool(&one, "mine").await.unwrap();
    assert_eq!(pool(&stage, "mine").await, None);
    fleet.delete_pool(&admin, "everybodys").await.unwrap();
}

#[tokio::test]
async fn what_a_pool_cannot_be_is_refused_before_anything_is_written() {
    let stage = Stage::new().await;
    let (one, admin) = (person(1), administrator());
    let said = |key: &str| [(key.to_owned(), "x".to_owned())].into();
    let writes = stage.fault.writes();
    for wrong in [
        wish(""),
        wish("Upper"),
        wish("with.dot"),
        wish("a/b"),
        wish(&"x".repeat(64)),
        PoolWish { pool_type: "Sky".to_owned(), ..wish("a") },
        PoolWish { pool_type: "Cloud".to_owned(), host_network: true, ..wish("a") },
        PoolWish { labels: said("openyurt/tenant"), ..wish("a") },
        PoolWish { annotations: said("nodepool.openyurt.io/previous-attributes"), ..wish("a") },
        PoolWish { tenant: Some("kube-system".to_owned()), ..wish("a") },
    ] {
        assert_eq!(kind(stage.fleet.create_pool(&admin, wrong.clone()).await), Kind::Invalid, "{wrong:?}");
    }
    let system = PoolWish { labels: said("node-role.kubernetes.io/master"), ..wish("a") };
    assert_eq!(kind(stage.fleet.create_pool(&one, system).await), Kind::Invalid);
    // A token with other scopes.
    let scopes = Scopes::parse(["releases"]).unwrap();
    let token = Actor { via: Via::Token { id: TokenId::from_random([0; 10]), scopes }, ..one };
    assert_eq!(kind(stage.fleet.create_pool(&token, wish("a")).await), Kind::Forbidden);
    assert_eq!(stage.fault.writes(), writes);
}

#[tokio::test]
async fn nobody_has_more_pools_than_they_may() {
    let stage = Stage::new().await;
    for number in 0..20 {
        stage.put(pool_object(&format!("p{number}"), json!({"type": "Edge"}), Some(id(1).as_str()))).await;
    }
    until("all are known", async || (stage.fleet.look(stage::ALL).pools().items.len() == 20).then_some(()))
        .await;
    assert_eq!(kind(stage.fleet.create_pool(&person(1), wish("one-more")).await), Kind::Conflict);
    stage.fleet.create_pool(&person(2), wish("theirs")).await.unwrap();
}

#[tokio::test]
async fn a_pool_with_nodes_is_not_deleted() {
    let stage = Stage::new().await;
    let admin = administrator();
    stage.put(pool_object("p", json!({"type": "Edge"}), None)).await;
    for label in ["apps.openyurt.io/nodepool", "apps.openyurt.io/desired-nodepool"] {
        stage.put(node_object("n", json!({label: "p"}), "True")).await;
        let refused = stage.fleet.delete_pool(&admin, "p").await.unwrap_err();
        assert_eq!(refused.kind(), Kind::Conflict);
        assert_eq!(refused.to_string(), "node pool `p` still has nodes (such as n): move them first");
        stage.delete("Node", "n").await;
    }
    stage.fleet.delete_pool(&admin, "p").await.unwrap();
}

#[tokio::test]
async fn where_there_are_no_pools_nobody_makes_one() {
    let stage = Stage::new().await;
    let definitions = api(&stage.world, "apiextensions.k8s.io/v1", "CustomResourceDefinition").await;
    definitions.delete("nodepools.apps.openyurt.io", &DeleteParams::default()).await.unwrap();
    until("there are none", async || (!stage.fleet.look(stage::ALL).pools().available).then_some(())).await;
    assert_eq!(kind(stage.fleet.create_pool(&administrator(), wish("a")).await), Kind::Unsupported);
    assert_eq!(kind(stage.fleet.delete_pool(&administrator(), "a").await), Kind::Unsupported);
}

#[tokio::test]
async fn a_node_is_changed_by_those_whose_it_is() {
    let stage = Stage::new().await;
    let (one, other, admin) = (person(1), person(2), administrator());
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
        assert_eq!(kind(stage.fleet.set_autonomy(&other, name, true).await), Kind::NotFound, "{name}");
    }
    assert_eq!(kind(stage.fleet.set_autonomy(&one, "nobodys", true).await), Kind::NotFound);
    assert_eq!(autonomy("n").await, Value::Null);
    stage.fleet.set_autonomy(&one, "n", true).await.unwrap();
    assert_eq!(autonomy("n").await, "true");
    stage.fleet.set_autonomy(&admin, "n", false).await.unwrap();
    assert_eq!(autonomy("n").await, "false");

    let moved = async |fleet: &Fleet, actor: &Actor, node: &str, pool: Option<&str>| {
        fleet.move_node(actor, node, pool).await
    };
    assert_eq!(kind(moved(&stage.fleet, &other, "n", Some("theirs")).await), Kind::NotFound);
    for pool in ["theirs", "everybodys", "absent"] {
        assert_eq!(kind(moved(&stage.fleet, &one, "n", Some(pool)).await), Kind::NotFound, "{pool}");
    }
    assert_eq!(kind(moved(&stage.fleet, &admin, "n", Some("theirs")).await), Kind::Conflict);
    assert_eq!(kind(moved(&stage.fleet, &admin, "nobodys", Some("own")).await), Kind::Conflict);
    moved(&stage.fleet, &one, "n", Some("own")).await.unwrap();
    assert_eq!(wished("n").await, "own");
    moved(&stage.fleet, &admin, "n", Some("everybodys")).await.unwrap();
    assert_eq!(wished("n").await, "everybodys");
    moved(&stage.fleet, &one, "n", None).await.unwrap();
    assert_eq!(wished("n").await, Value::Null);
}
