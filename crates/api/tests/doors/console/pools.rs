//! Pools and nodes: ownership, permission to change them, and pagination.

use axum::http::Method;
use domain::roles::PlatformRole;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::wait_for;

use super::{send, with_roles};
use crate::test_server::{TestCredential, TestResponse, TestServer};

async fn call_console(
    house: &TestServer,
    method: Method,
    path: &str,
    key: &TestCredential,
    body: Value,
) -> TestResponse {
    let body = Some(body).filter(|body| !body.is_null());
    send(house, method, path, key, body).await
}

/// A Node as the platform labels it after it has joined.
async fn create_node(house: &TestServer, name: &str, tenant: &str) {
    let nodes: Api<Node> = Api::all(house.world.admin_client());
    let node = json!({"metadata": {"name": name, "labels": {"openyurt/tenant": tenant}}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
}

fn names(list: &Value, of: &str) -> Vec<String> {
    list[of].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_and_nodes_are_changed_by_their_tenant_only() {
    let house = TestServer::new().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let (ana, ben) = (house.create_user(2, &[]).await, house.create_user(3, &[]).await);
    for name in ["ana-1", "ana-2", "ana-3"] {
        create_node(&house, name, ana.id.as_str()).await;
    }
    create_node(&house, "ben-1", ben.id.as_str()).await;
    let own = wait_for("her nodes are known", async || {
        let list = call_console(&house, Method::GET, "/nodes", &ana.credential(), Value::Null).await.json();
        (names(&list, "allNodes").len() == 3).then_some(list)
    })
    .await;
    assert_eq!(names(&own, "allNodes"), ["ana-1", "ana-2", "ana-3"]);
    assert_eq!(own["continue"], "");

    let page =
        call_console(&house, Method::GET, "/nodes?limit=2", &ana.credential(), Value::Null).await.json();
    assert_eq!(
        (names(&page, "allNodes"), &page["continue"]),
        (vec!["ana-1".to_owned(), "ana-2".to_owned()], &json!("ana-2"))
    );
    let rest =
        call_console(&house, Method::GET, "/nodes?limit=2&continue=ana-2", &ana.credential(), Value::Null)
            .await
            .json();
    assert_eq!((names(&rest, "allNodes"), &rest["continue"]), (vec!["ana-3".to_owned()], &json!("")));
    for wrong in ["limit=0", "limit=-1", "limit=x"] {
        let answer =
            call_console(&house, Method::GET, &format!("/nodes?{wrong}"), &ana.credential(), Value::Null)
                .await;
        assert_eq!(answer.code(), 400, "{wrong}: {}", answer.text);
    }

    let (enabled, autonomy) = (json!({"enabled": true}), |node: &str| format!("/nodes/{node}/autonomy"));
    let done =
        call_console(&house, Method::PUT, &autonomy("ana-1"), &ana.credential(), enabled.clone()).await;
    assert_eq!((done.code(), done.json()["status"].as_bool()), (200, Some(true)), "{}", done.text);
    wait_for("it is autonomous", async || {
        let list = call_console(&house, Method::GET, "/nodes", &ana.credential(), Value::Null).await.json();
        (list["allNodes"][0]["autonomy"] == true).then_some(())
    })
    .await;
    for (node, key) in [
        ("ben-1", ana.credential()),
        ("none", ana.credential()),
        ("ana-1", ben.credential()),
        ("..", ana.credential()),
    ] {
        let refused = call_console(&house, Method::PUT, &autonomy(node), &key, enabled.clone()).await;
        assert_eq!(refused.code(), 404, "{node}: {}", refused.text);
        assert_eq!(refused.json()["status"], false);
    }
    let wrong = call_console(
        &house,
        Method::PUT,
        &autonomy("ana-1"),
        &ana.credential(),
        json!({"enabled": "perhaps"}),
    )
    .await;
    assert_eq!(wrong.code(), 400, "{}", wrong.text);

    let wish = json!({"name": "hangzhou", "type": "Edge", "labels": {"region": "hz"}, "kubeConfig": "x"});
    let made = call_console(&house, Method::POST, "/nodepools", &ana.credential(), wish.clone()).await;
    assert_eq!((made.code(), made.json()["status"].as_bool()), (201, Some(true)), "{}", made.text);
    let again = call_console(&house, Method::POST, "/nodepools", &ben.credential(), wish).await;
    assert_eq!(again.code(), 409, "{}", again.text);
    let pools = async |key: &TestCredential| {
        names(&call_console(&house, Method::GET, "/nodepools", key, Value::Null).await.json(), "items")
    };
    wait_for("her pool is known", async || (pools(&ana.credential()).await == ["hangzhou"]).then_some(()))
        .await;
    assert_eq!(pools(&ben.credential()).await, [] as [&str; 0]);
    let path = "/nodepools/hangzhou";
    let change = json!({"labels": {"region": "cn"}});
    for (method, body) in [(Method::PUT, change.clone()), (Method::DELETE, Value::Null)] {
        let refused = call_console(&house, method, path, &ben.credential(), body).await;
        assert_eq!(refused.code(), 404, "{}", refused.text);
    }
    assert_eq!(call_console(&house, Method::PUT, path, &ana.credential(), change).await.code(), 200);
    let gone = call_console(&house, Method::DELETE, path, &admin.credential(), Value::Null).await;
    assert_eq!(gone.code(), 200, "{}", gone.text);
    for bad in [
        json!({"name": "Not A Name", "type": "Edge"}),
        json!({"name": "a", "type": "Moon"}),
        json!({"name": "a"}),
    ] {
        let refused = call_console(&house, Method::POST, "/nodepools", &ana.credential(), bad.clone()).await;
        assert_eq!(
            (refused.code(), refused.json()["code"].as_str()),
            (400, Some("invalid")),
            "{bad}: {}",
            refused.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_removed_by_their_tenant_only() {
    let house = TestServer::new().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let (ana, ben) = (house.create_user(2, &[]).await, house.create_user(3, &[]).await);
    let [own, second, foreign] = [(&ana, "edge-1"), (&ana, "edge-2"), (&ben, "edge-1")]
        .map(|(of, name)| (of, format!("{}-{name}", of.id)));
    for (of, name) in [&own, &second, &foreign] {
        create_node(&house, name, of.id.as_str()).await;
    }
    create_node(&house, "cloud-1", "").await;
    let remove = async |name: &str, key: &TestCredential| {
        house.call(Method::DELETE, &format!("nodes/{name}"), key, None).await
    };
    let own_narrow = async |scopes: &[&str]| {
        let made = house.post("tokens", &ana.credential(), json!({"name": "narrow", "scopes": scopes})).await;
        TestCredential::Bearer(made.json()["token"].as_str().unwrap().to_owned())
    };
    for (name, key, code) in [
        (&*foreign.1, ana.credential(), 404),
        ("cloud-1", ana.credential(), 404),
        ("cloud-1", admin.credential(), 404),
        ("none", ana.credential(), 404),
        (&*own.1, ben.credential(), 404),
        (&*own.1, own_narrow(&["read"]).await, 403),
        (&*own.1, TestCredential::Anonymous, 401),
    ] {
        let refused = remove(name, &key).await;
        assert_eq!(refused.code(), code, "{name}: {}", refused.text);
    }
    let nodes: Api<Node> = Api::all(house.world.admin_client());
    for (name, key) in [(&own.1, ana.credential()), (&second.1, admin.credential())] {
        let removed = remove(name, &key).await;
        assert_eq!(removed.code(), 204, "{name}: {}", removed.text);
        wait_for("the node is gone", async || nodes.get_opt(name).await.unwrap().is_none().then_some(()))
            .await;
        assert_eq!(remove(name, &key).await.code(), 404);
    }
    assert!(nodes.get_opt(&foreign.1).await.unwrap().is_some());
    assert!(nodes.get_opt("cloud-1").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_query_rejects_unknown_values() {
    let house = with_roles(TestServer::new().await).await;
    let person = house.create_user(1, &[]).await;
    let rows = [
        ("", 200),
        ("?type=Warning&kind=Pod&name=web-0&since=2021-08-10T11:19:22Z&limit=5", 200),
        ("?limit=9999", 200),
        ("?type=Loud", 400),
        ("?since=yesterday", 400),
        ("?limit=0", 400),
        ("?continue=nonsense", 400),
        ("?order=name", 400),
    ];
    for (query, expected) in rows {
        let answer = call_console(
            &house,
            Method::GET,
            &format!("/clusterEvents{query}"),
            &person.credential(),
            Value::Null,
        )
        .await;
        assert_eq!(answer.code(), expected, "{query}: {}", answer.text);
        if expected == 200 {
            assert_eq!(
                (answer.json()["items"].is_array(), answer.json()["continue"].is_string()),
                (true, true)
            );
        }
    }
}
