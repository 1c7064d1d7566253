//! The server with only the rights that `longshore manifests` prints.

use std::fs;

use http::Method;
use k8s_openapi::api::authentication::v1::TokenRequest;
use kube::Api;
use kube::api::PostParams;
use kube::config::Kubeconfig;
use serde_json::json;

use crate::platform::{PlatformUser, unused_phone};
use crate::program::{Server, longshore, output};
use crate::target::Cluster;

/// A kubeconfig of the ServiceAccount `longshore` on the test's cluster.
async fn service_account_kubeconfig(cluster: &Cluster) -> Kubeconfig {
    let accounts: Api<k8s_openapi::api::core::v1::ServiceAccount> =
        Api::namespaced(cluster.client().await, "longshore-system");
    let asked = TokenRequest::default();
    let token = accounts.create_token_request("longshore", &PostParams::default(), &asked).await.unwrap();
    let token = token.status.unwrap().token;
    let mut kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    for named in &mut kubeconfig.auth_infos {
        named.auth_info = serde_json::from_value(json!({"token": token})).unwrap();
    }
    kubeconfig
}

#[tokio::test(flavor = "multi_thread")]
async fn server_works_with_printed_roles() {
    let cluster = Cluster::for_servers();
    cluster.apply_manifests().await;
    let file = cluster.folder.path().join("server");
    fs::write(&file, serde_json::to_string(&service_account_kubeconfig(&cluster).await).unwrap()).unwrap();
    let server = Server::start_on_cluster(&file, &cluster.folder.path().join("least"));

    let owner = PlatformUser::register(&server, &cluster).await;
    let other = PlatformUser::register(&server, &cluster).await;
    let admin = PlatformUser::administrator(&server, &cluster).await;
    let workspace = format!("team-{}", unused_phone());
    owner.workspace(&cluster, &workspace).await;
    owner.add_member(&workspace, &other, "operator").await;
    let quota = admin
        .call(Method::PUT, &format!("workspaces/{workspace}/quota"), Some(&json!({"quota": {"pods": "7"}})))
        .await;
    assert_eq!(quota.code, 200, "{}", quota.text);
    owner.kubeconfig(&cluster).await;
    let token = owner.call(Method::POST, "tokens", Some(&json!({"name": "a", "scopes": ["read"]}))).await;
    assert_eq!(token.code, 201, "{}", token.text);
    let removed = owner.call(Method::DELETE, &format!("workspaces/{workspace}?now=true"), None).await;
    assert!(removed.code < 300, "{}", removed.text);
    let gone = admin.call(Method::DELETE, &format!("users/{}", other.id), None).await;
    assert!(gone.code < 300, "{}", gone.text);
    crate::platform::until("workspace and user are gone", async || {
        let answer = admin.call(Method::GET, &format!("workspaces/{workspace}"), None).await;
        let user = admin.call(Method::GET, &format!("users/{}", other.id), None).await;
        (answer.code == 404 && user.code == 404).then_some(())
    })
    .await;
    // A missing right would be logged as forbidden.
    let log = server.log();
    assert!(!log.contains("forbidden") && !log.contains("Forbidden"), "{log}");
}

#[test]
fn manifests_output_is_applicable() {
    let text = output(&mut longshore(["manifests"]));
    for part in [
        "kind: ClusterRole\n",
        "name: longshore-ws-viewer",
        "kind: CustomResourceDefinition",
        "name: longshore-system",
    ] {
        assert!(text.contains(part), "{part}");
    }
}
