//! Chart repositories through the API.

use axum::http::Method;
use domain::roles::{PlatformRole, WorkspaceRole};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube_types::{HelmRepo, SYSTEM_NAMESPACE};
use serde_json::{Value, json};

use crate::test_server::{TestServer, request};

const CANARY: &str = "canary-of-a-repository-4711";

async fn credential_secrets(house: &TestServer) -> Vec<Secret> {
    let secrets: Api<Secret> = Api::namespaced(house.world.admin_client(), SYSTEM_NAMESPACE);
    let all = secrets.list(&ListParams::default()).await.unwrap().items;
    all.into_iter()
        .filter(|secret| secret.type_.as_deref() == Some("longshore.dev/repo-credentials"))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn repo_is_created_updated_and_deleted_without_exposing_its_password() {
    let house = TestServer::new().await;
    let (maker, stranger) = (house.create_user(1, &[]).await, house.create_user(2, &[]).await);
    let viewer = house.create_user(3, &[]).await;
    let admin = house.create_user(4, &[PlatformRole::Admin]).await;
    house.create_workspace("acme", &maker, &[(&viewer, WorkspaceRole::Viewer)]).await;
    let mut told = String::new();
    let body = json!({
        "name": "charts", "workspace": "acme", "url": "https://charts.example.com/stable",
        "credentials": {"username": "me", "password": CANARY},
    });
    assert_eq!(house.post("repos", &viewer.credential(), body.clone()).await.code(), 403);
    assert_eq!(house.post("repos", &stranger.credential(), body.clone()).await.code(), 403);
    // A repository that does not respond is not stored, and neither is its password.
    let mut private = body.clone();
    private["url"] = "https://127.0.0.1:1/charts".into();
    let refused = house.post("repos", &maker.credential(), private).await;
    assert_eq!(refused.code(), 400, "{}", refused.text);
    let why = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(why.starts_with("looks like \"https://127.0.0.1:1/charts\" is not a valid chart"), "{why}");
    assert!(why.contains("127.0.0.1") && !why.contains(CANARY), "{why}");
    assert_eq!(credential_secrets(&house).await.len(), 0);
    assert_eq!(house.get("repos/acme.charts", &maker.credential()).await.code(), 404);
    let made = house.post("repos?check=false", &maker.credential(), body.clone()).await;
    assert_eq!(made.code(), 201, "{}", made.text);
    assert_eq!((&made.json()["key"], &made.json()["credentials"]), (&json!("acme.charts"), &json!(true)));
    told.push_str(&made.text);
    assert_eq!(house.post("repos", &maker.credential(), body).await.code(), 409);
    assert_eq!(credential_secrets(&house).await.len(), 1, "what was kept in vain is gone");

    let shown = house.get("repos/acme.charts", &viewer.credential()).await;
    told.push_str(&shown.text);
    let shown = shown.json();
    assert_eq!(shown["actions"][0]["allowed"], false, "{shown}");
    assert_eq!(house.get("repos/acme.charts", &stranger.credential()).await.code(), 404);
    assert_eq!(house.get("repos/acme.charts/charts", &stranger.credential()).await.code(), 404);
    assert_eq!(house.get("repos?ws=acme", &stranger.credential()).await.code(), 403);
    assert_eq!(house.get("repos", &stranger.credential()).await.json()["items"], json!([]));
    told.push_str(&house.get("repos?ws=acme", &viewer.credential()).await.text);

    // A password is not sent to another host than the one it was stored for.
    let change = async |body: Value| {
        house.call(Method::PATCH, "repos/acme.charts?check=false", &maker.credential(), Some(body)).await
    };
    let elsewhere = change(json!({"url": "https://charts.example.net/stable"})).await;
    assert_eq!(elsewhere.code(), 400, "{}", elsewhere.text);
    assert_eq!(change(json!({"url": "https://charts.example.com/other"})).await.code(), 200);
    let first = credential_secrets(&house).await[0].metadata.name.clone();
    let moved = json!({"url": "https://charts.example.net/stable", "credentials": {"token": CANARY}});
    assert_eq!(change(moved).await.code(), 200);
    let now = credential_secrets(&house).await;
    assert_eq!(now.len(), 1);
    assert_ne!(now[0].metadata.name, first);
    let private = json!({"url": "https://127.0.0.1:1/charts", "credentials": {"token": CANARY}});
    let refused = house.call(Method::PATCH, "repos/acme.charts", &maker.credential(), Some(private)).await;
    assert_eq!(refused.code(), 400, "{}", refused.text);
    assert_eq!(credential_secrets(&house).await.len(), 1, "what was kept in vain is gone");
    let shown = house.get("repos/acme.charts", &maker.credential()).await.json();
    assert_eq!(shown["url"], "https://charts.example.net/stable");
    let mut old = request(
        Method::PATCH,
        "/api/longshore/v1/repos/acme.charts",
        &maker.credential(),
        Some(json!({"suspended": true})),
    );
    old.headers_mut().insert("if-match", "\"old\"".parse().unwrap());
    assert_eq!(house.send(old).await.code(), 412);

    // Every user can read global repositories; only platform administrators can write them.
    let public = json!({"name": "public", "url": "https://127.0.0.1:1/charts"});
    assert_eq!(house.post("repos", &maker.credential(), public.clone()).await.code(), 403);
    assert_eq!(house.post("repos?check=false", &admin.credential(), public).await.code(), 201);
    assert_eq!(house.get("repos/public", &stranger.credential()).await.code(), 200);
    let private = house.get("repos/public/charts", &stranger.credential()).await;
    assert!(
        private.code() >= 400 && private.text.contains("127.0.0.1"),
        "the dialer's refusal: {}",
        private.text
    );

    assert_eq!(house.call(Method::DELETE, "repos/acme.charts", &viewer.credential(), None).await.code(), 403);
    assert_eq!(house.call(Method::DELETE, "repos/acme.charts", &maker.credential(), None).await.code(), 204);
    assert_eq!(house.get("repos/acme.charts", &maker.credential()).await.code(), 404);
    assert_eq!(credential_secrets(&house).await.len(), 0);
    let trail = format!("{:?}", house.audit.take());
    assert!(!told.contains(CANARY) && !trail.contains(CANARY));
}

#[tokio::test(flavor = "multi_thread")]
async fn repo_charts_are_listed() {
    let house = TestServer::new().await;
    let person = house.create_user(1, &[]).await;
    let index = "apiVersion: v1\nentries:\n  web:\n  - {apiVersion: v2, name: web, version: 1.1.0, appVersion: '8', description: A web server, urls: [web-1.1.0.tgz]}\n  - {apiVersion: v2, name: web, version: 1.0.0, urls: [web-1.0.0.tgz]}\n";
    let given = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": "given"},
        "spec": {"url": "https://charts.example.com", "data": to_byte_string(index)},
    });
    let repos: Api<HelmRepo> = Api::all(house.world.admin_client());
    repos.create(&PostParams::default(), &serde_json::from_value(given).unwrap()).await.unwrap();
    let charts = house.get("repos/given/charts", &person.credential()).await;
    assert_eq!(
        charts.json()["items"],
        json!([{"name": "web", "versions": 2, "version": "1.1.0", "appVersion": "8", "description": "A web server"}])
    );
    let versions = house.get("repos/given/charts/web", &person.credential()).await.json();
    assert_eq!(versions["items"][1], json!({"version": "1.0.0"}));
    assert_eq!(house.get("repos/given/charts/none", &person.credential()).await.code(), 404);
}

/// Bytes as Kubernetes serialises them.
fn to_byte_string(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.as_bytes().to_vec())).unwrap()
}
