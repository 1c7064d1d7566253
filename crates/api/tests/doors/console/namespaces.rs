//! `namespace` is a filter and grants no access.

use axum::http::Method;
use domain::roles::{PlatformRole, WorkspaceRole};
use serde_json::json;

use super::{LIST_PATHS, send, with_roles};
use crate::test_server::{TestCredential, TestResponse, TestServer};

async fn get(house: &TestServer, path: &str, key: &TestCredential) -> TestResponse {
    send(house, Method::GET, path, key, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn console_refuses_namespaces_of_other_tenants() {
    let house = with_roles(TestServer::new().await).await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let (ana, ben) = (house.create_user(2, &[]).await, house.create_user(3, &[]).await);
    house.create_workspace("acme", &ben, &[(&ana, WorkspaceRole::Viewer)]).await;
    house.create_workspace("other", &ben, &[]).await;
    let of_namespaces = LIST_PATHS.iter().filter(|path| !matches!(**path, "/nodes" | "/nodepools"));
    for path in of_namespaces.clone() {
        let ask = async |namespace: &str, key: &TestCredential| {
            get(&house, &format!("{path}?namespace={namespace}"), key).await
        };
        for own in [ana.id.as_str(), "acme"] {
            let answer = ask(own, &ana.credential()).await;
            assert_eq!(answer.code(), 200, "{path} {own}: {}", answer.text);
        }
        for foreign in [ben.id.as_str(), "other", "kube-system", "there-is-none", "..%2Fkube-system"] {
            let answer = ask(foreign, &ana.credential()).await;
            let spoken = foreign.replace("%2F", "/");
            let msg = format!("namespace `{spoken}` not found or not accessible");
            assert_eq!(answer.code(), 403, "{path} {foreign}: {}", answer.text);
            assert_eq!(answer.json(), json!({"msg": msg, "status": false, "code": "namespace"}), "{path}");
        }
        for any in [ben.id.as_str(), "kube-system", "there-is-none"] {
            assert_eq!(ask(any, &admin.credential()).await.code(), 200, "{path} {any}");
        }
        let unknown = get(&house, &format!("{path}?namespaces=acme"), &ana.credential()).await;
        assert_eq!(unknown.code(), 400, "{path}: {}", unknown.text);
    }
    // A scoped token lists less.
    let narrow = async |scopes: &[&str]| {
        let made =
            house.post("tokens", &ana.credential(), json!({"name": "n", "scopes": scopes})).await.json();
        TestCredential::Bearer(made["token"].as_str().unwrap().to_owned())
    };
    let (reads, of_acme, of_store) =
        (narrow(&["read"]).await, narrow(&["read", "workspace:acme"]).await, narrow(&["store"]).await);
    let rows = [
        ("/deployments", &reads, 200),
        ("/nodes", &reads, 200),
        ("/deployments", &of_acme, 403),
        ("/deployments?namespace=acme", &of_acme, 200),
        ("/nodes", &of_acme, 403),
        ("/deployments", &of_store, 403),
        ("/nodes", &of_store, 403),
    ];
    for (path, key, expected) in rows {
        let answer = get(&house, path, key).await;
        assert_eq!(answer.code(), expected, "{path}: {}", answer.text);
    }
}
