//! `namespace` is a filter and grants no access.

use axum::http::Method;
use domain::roles::{PlatformRole, WorkspaceRole};
use serde_json::json;

use super::{LISTS, send, with_roles};
use crate::house::{Answer, House, Key};

async fn get(house: &House, path: &str, key: &Key) -> Answer {
    send(house, Method::GET, path, key, None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_looks_into_anothers_namespace() {
    let house = with_roles(House::new().await).await;
    let admin = house.person(1, &[PlatformRole::Admin]).await;
    let (ana, ben) = (house.person(2, &[]).await, house.person(3, &[]).await);
    house.workspace("acme", &ben, &[(&ana, WorkspaceRole::Viewer)]).await;
    house.workspace("other", &ben, &[]).await;
    let of_namespaces = LISTS.iter().filter(|path| !matches!(**path, "/nodes" | "/nodepools"));
    for path in of_namespaces.clone() {
        let ask = async |namespace: &str, key: &Key| {
            get(&house, &format!("{path}?namespace={namespace}"), key).await
        };
        for own in [ana.id.as_str(), "acme"] {
            let answer = ask(own, &ana.key()).await;
            assert_eq!(answer.code(), 200, "{path} {own}: {}", answer.text);
        }
        for foreign in [ben.id.as_str(), "other", "kube-system", "there-is-none", "..%2Fkube-system"] {
            let answer = ask(foreign, &ana.key()).await;
            let spoken = foreign.replace("%2F", "/");
            let msg = format!("the namespace `{spoken}` is not yours");
            assert_eq!(answer.code(), 403, "{path} {foreign}: {}", answer.text);
            assert_eq!(answer.json(), json!({"msg": msg, "status": false, "code": "namespace"}), "{path}");
        }
        for any in [ben.id.as_str(), "kube-system", "there-is-none"] {
            assert_eq!(ask(any, &admin.key()).await.code(), 200, "{path} {any}");
        }
        let unknown = get(&house, &format!("{path}?namespaces=acme"), &ana.key()).await;
        assert_eq!(unknown.code(), 400, "{path}: {}", unknown.text);
    }
    // A scoped token lists less.
    let narrow = async |scopes: &[&str]| {
        let made = house.post("tokens", &ana.key(), json!({"name": "n", "scopes": scopes})).await.json();
        Key::Bearer(made["token"].as_str().unwrap().to_owned())
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
