//! Pools and nodes: ownership, permission to change them, and pagination.

use axum::http::Method;
use domain::roles::PlatformRole;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use testkit::until;

use super::{send, with_roles};
use crate::house::{Answer, House, Key};

async fn ask(house: &House, method: Method, path: &str, key: &Key, body: Value) -> Answer {
    let body = Some(body).filter(|body| !body.is_null());
    send(house, method, path, key, body).await
}

/// A Node as the platform labels it after it has joined.
async fn node(house: &House, name: &str, tenant: &str) {
    let nodes: Api<Node> = Api::all(house.world.admin());
    let node = json!({"metadata": {"name": name, "labels": {"openyurt/tenant": tenant}}});
    nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
}

fn names(list: &Value, of: &str) -> Vec<String> {
    list[of].as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn pools_and_nodes_are_changed_by_those_whose_they_are() {
    let house = House::new().await;
    let admin = house.person(1, &[PlatformRole::Admin]).await;
    let (ana, ben) = (house.person(2, &[]).await, house.person(3, &[]).await);
    for name in ["ana-1", "ana-2", "ana-3"] {
        node(&house, name, ana.id.as_str()).await;
    }
    node(&house, "ben-1", ben.id.as_str()).await;
    let own = until("her nodes are known", async || {
        let list = ask(&house, Method::GET, "/nodes", &ana.key(), Value::Null).await.json();
        (names(&list, "allNodes").len() == 3).then_some(list)
    })
    .await;
    assert_eq!(names(&own, "allNodes"), ["ana-1", "ana-2", "ana-3"]);
    assert_eq!(own["continue"], "");

    let page = ask(&house, Method::GET, "/nodes?limit=2", &ana.key(), Value::Null).await.json();
    assert_eq!(
        (names(&page, "allNodes"), &page["continue"]),
        (vec!["ana-1".to_owned(), "ana-2".to_owned()], &json!("ana-2"))
    );
    let rest =
        ask(&house, Method::GET, "/nodes?limit=2&continue=ana-2", &ana.key(), Value::Null).await.json();
    assert_eq!((names(&rest, "allNodes"), &rest["continue"]), (vec!["ana-3".to_owned()], &json!("")));
    for wrong in ["limit=0", "limit=-1", "limit=x"] {
        let answer = ask(&house, Method::GET, &format!("/nodes?{wrong}"), &ana.key(), Value::Null).await;
        assert_eq!(answer.code(), 400, "{wrong}: {}", answer.text);
    }

    let (enabled, autonomy) = (json!({"enabled": true}), |node: &str| format!("/nodes/{node}/autonomy"));
    let done = ask(&house, Method::PUT, &autonomy("ana-1"), &ana.key(), enabled.clone()).await;
    assert_eq!((done.code(), done.json()["status"].as_bool()), (200, Some(true)), "{}", done.text);
    until("it is autonomous", async || {
        let list = ask(&house, Method::GET, "/nodes", &ana.key(), Value::Null).await.json();
        (list["allNodes"][0]["autonomy"] == true).then_some(())
    })
    .await;
    for (node, key) in [("ben-1", ana.key()), ("none", ana.key()), ("ana-1", ben.key()), ("..", ana.key())] {
        let refused = ask(&house, Method::PUT, &autonomy(node), &key, enabled.clone()).await;
        assert_eq!(refused.code(), 404, "{node}: {}", refused.text);
        assert_eq!(refused.json()["status"], false);
    }
    let wrong = ask(&house, Method::PUT, &autonomy("ana-1"), &ana.key(), json!({"enabled": "perhaps"})).await;
    assert_eq!(wrong.code(), 400, "{}", wrong.text);

    let wish = json!({"name": "hangzhou", "type": "Edge", "labels": {"region": "hz"}, "kubeConfig": "x"});
    let made = ask(&house, Method::POST, "/nodepools", &ana.key(), wish.clone()).await;
    assert_eq!((made.code(), made.json()["status"].as_bool()), (201, Some(true)), "{}", made.text);
    let again = ask(&house, Method::POST, "/nodepools", &ben.key(), wish).await;
    assert_eq!(again.code(), 409, "{}", again.text);
    let pools = async |key: &Key| {
        names(&ask(&house, Method::GET, "/nodepools", key, Value::Null).await.json(), "items")
    };
    until("her pool is known", async || (pools(&ana.key()).await == ["hangzhou"]).then_some(())).await;
    assert_eq!(pools(&ben.key()).await, [] as [&str; 0]);
    let path = "/nodepools/hangzhou";
    let change = json!({"labels": {"region": "cn"}});
    for (method, body) in [(Method::PUT, change.clone()), (Method::DELETE, Value::Null)] {
        let refused = ask(&house, method, path, &ben.key(), body).await;
        assert_eq!(refused.code(), 404, "{}", refused.text);
    }
    assert_eq!(ask(&house, Method::PUT, path, &ana.key(), change).await.code(), 200);
    let gone = ask(&house, Method::DELETE, path, &admin.key(), Value::Null).await;
    assert_eq!(gone.code(), 200, "{}", gone.text);
    for bad in [
        json!({"name": "Not A Name", "type": "Edge"}),
        json!({"name": "a", "type": "Moon"}),
        json!({"name": "a"}),
    ] {
        let refused = ask(&house, Method::POST, "/nodepools", &ana.key(), bad.clone()).await;
        assert_eq!(
            (refused.code(), refused.json()["code"].as_str()),
            (400, Some("invalid")),
            "{bad}: {}",
            refused.text
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_are_asked_for_in_known_words() {
    let house = with_roles(House::new().await).await;
    let person = house.person(1, &[]).await;
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
        let answer =
            ask(&house, Method::GET, &format!("/clusterEvents{query}"), &person.key(), Value::Null).await;
        assert_eq!(answer.code(), expected, "{query}: {}", answer.text);
        if expected == 200 {
            assert_eq!(
                (answer.json()["items"].is_array(), answer.json()["continue"].is_string()),
                (true, true)
            );
        }
    }
}
