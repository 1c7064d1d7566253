//! RoleBindings of removed members that a release creates again.

use http::Method;
use serde_json::json;

use super::tokens::{bearer_client, deployer_uid, kubernetes_client, token, token_request};
use crate::platform::{PlatformUser, until};
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{get, send_body};
use crate::target::Cluster;

/// The member takes a token of a ServiceAccount whose RoleBinding belongs to a release, and deletes the RoleBinding just before the removal,
/// so that nothing is bound when the platform looks. The release, which belongs to the others, creates it again.
#[tokio::test]
async fn removed_member_returns_by_a_rolebinding_that_a_release_restores() {
    let (cluster, server) = Cluster::with_platform().await;
    let ana = PlatformUser::register(&server, &cluster).await;
    let bob = PlatformUser::register(&server, &cluster).await;
    let space = format!("ret{}", &ana.id[1..9]);
    ana.workspace(&cluster, &space).await;
    ana.add_member(&space, &bob, "developer").await;
    let admin = cluster.client().await;
    let package = upload_chart(&server, &bob, &space, GREETING).await;
    let objects = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "bot"}}),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "bot"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
            "subjects": [{"kind": "ServiceAccount", "name": "bot", "namespace": space}],
        }),
    ];
    let extra = objects.map(|object| object.to_string()).join("\n---\n");
    let values = |greeting: &str| json!({"greeting": greeting, "extra": extra});
    for (name, values) in [("tools", values("first")), ("own", json!({}))] {
        let body = release_body(&space, name, &package, &values);
        let made = bob.call(Method::POST, "releases", Some(&body)).await;
        assert_eq!(made.code, 201, "{}", made.text);
        wait_for_state(&server, &bob.token, &release_path(&space, name), "active").await;
    }
    let upgrade = async |greeting: &str| {
        let path = release_path(&space, "tools");
        let upgraded = ana.call(Method::PATCH, &path, Some(&json!({"values": values(greeting)}))).await;
        assert_eq!(upgraded.code, 200, "{}", upgraded.text);
        let version = upgraded.json()["version"].clone();
        ana.wait_until(&path, |release| {
            release["deployedVersion"] == version && release["state"] == "active"
        })
        .await;
    };
    // From now on the release acts as its last author, who stays.
    upgrade("second").await;
    let client = kubernetes_client(&bob, &cluster).await;
    let day = token_request(&client, &space, "bot", &json!({"expirationSeconds": 86_400})).await;
    let bot = bearer_client(&cluster, &token(&day)).await;
    let secrets = format!("/api/v1/namespaces/{space}/secrets");
    until("the token works", async || (get(&bot, &secrets).await.code == 200).then_some(())).await;

    let binding = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{space}/rolebindings/bot");
    let deleted = send_body(&client, Method::DELETE, &binding, "application/json", "").await;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let before = deployer_uid(&admin, &space).await;
    let removed = ana.call(Method::DELETE, &format!("workspaces/{space}/members/{}", bob.id), None).await;
    assert_eq!(removed.code, 200, "{}", removed.text);
    until("the removal is handled", async || (deployer_uid(&admin, &space).await != before).then_some(()))
        .await;
    ana.wait_until(&format!("workspaces/{space}"), |workspace| workspace["ready"] == true).await;

    upgrade("third").await;
    assert_eq!(get(&admin, &binding).await.code, 200, "the release has restored it");
    until("the token is dead", async || (get(&bot, &secrets).await.code == 401).then_some(())).await;
    // A release that acts as the removed member does nothing.
    let path = release_path(&space, "own");
    let paused = ana.call(Method::POST, &format!("{path}/pause"), None).await;
    assert_eq!(paused.code, 200, "{}", paused.text);
    let stopped = wait_for_state(&server, &ana.token, &path, "failed").await;
    assert!(stopped["message"].to_string().contains("cannot act as"), "{stopped}");
}
