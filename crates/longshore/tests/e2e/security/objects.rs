//! Hostile objects: extreme numbers, times, lengths and sizes.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::time::sleep;

use crate::program::Server;
use crate::request::{get, send_body};
use crate::target::{Cluster, only_on_embedded};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

fn deployment(name: &str, replicas: u32, env: &str, grace: i64) -> String {
    let container = json!({"name": "a", "image": "a", "env": [{"name": "A", "value": env}]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [container], "terminationGracePeriodSeconds": grace}}},
    })
    .to_string()
}

async fn wait_until_ready(client: &kube::Client, path: &str, replicas: Option<u64>) {
    for _ in 0..600 {
        let found = get(client, path).await.json();
        if found["status"]["availableReplicas"].as_u64() == replicas {
            return;
        }
        sleep(Duration::from_millis(100)).await;
    }
    panic!("{path} never has {replicas:?} pods");
}

#[tokio::test]
async fn tenant_stops_the_replicaset_controller_with_an_endless_grace_period() {
    let cluster = Cluster::start();
    let client = cluster.client().await;
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", cluster.namespace);
    let made =
        send_body(&client, Method::POST, &path, JSON, deployment("hostile", 2, "", 400_000_000_000)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    wait_until_ready(&client, &format!("{path}/hostile"), Some(2)).await;
    let scaled =
        send_body(&client, Method::PATCH, &format!("{path}/hostile"), MERGE, r#"{"spec": {"replicas": 0}}"#)
            .await;
    assert_eq!(scaled.code, 200, "{}", scaled.text);
    wait_until_ready(&client, &format!("{path}/hostile"), None).await;
    let made = send_body(&client, Method::POST, &path, JSON, deployment("canary", 1, "", 1)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    wait_until_ready(&client, &format!("{path}/canary"), Some(1)).await;
    // Pods with an endless grace period would block the deletion of the test's namespace.
    let pods = format!("/api/v1/namespaces/{}/pods", cluster.namespace);
    send_body(&client, Method::DELETE, &pods, JSON, json!({"gracePeriodSeconds": 0}).to_string()).await;
}

#[tokio::test]
async fn tenant_grows_an_object_past_the_limit_of_etcd() {
    let cluster = Cluster::start();
    let client = cluster.client().await;
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", cluster.namespace);
    let refused =
        send_body(&client, Method::POST, &path, JSON, deployment("big", 0, &"x".repeat(1_600_000), 1)).await;
    assert_eq!(refused.code, 500, "{}", refused.text);
    let said: Value = refused.json();
    assert_eq!(said["message"], "etcdserver: request is too large");
    assert_eq!((&said["reason"], &said["details"]), (&Value::Null, &Value::Null));
    let made =
        send_body(&client, Method::POST, &path, JSON, deployment("big", 0, &"x".repeat(1_000_000), 1)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let env = json!([{"name": "A", "value": "x".repeat(2_900_000)}]);
    let change =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a", "env": env}]}}}});
    let refused = send_body(&client, Method::PATCH, &format!("{path}/big"), MERGE, change.to_string()).await;
    assert_eq!(refused.code, 500, "{}", refused.text);
    let said = refused.json()["message"].as_str().unwrap_or_default().to_owned();
    let words = "rpc error: code = ResourceExhausted desc = trying to send message larger than max (29";
    assert!(said.starts_with(words), "{said}");
}

#[tokio::test]
async fn tenant_makes_the_store_unopenable_by_patches() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let server = Server::start(folder.path());
    let client = server.client().await;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let made = send_body(&client, Method::POST, path, JSON, deployment("big", 0, "x", 1)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    let mut refused = 0;
    for n in 0..27 {
        let change = json!([{"op": "add", "path": "/spec/template/spec/containers/0/env/-",
            "value": {"name": format!("A{n}"), "value": "x".repeat(900_000)}}]);
        let answer = send_body(
            &client,
            Method::PATCH,
            &format!("{path}/big"),
            "application/json-patch+json",
            change.to_string(),
        )
        .await;
        refused += u32::from(answer.code == 500);
    }
    assert!(refused > 20, "{refused}");
    server.kill();
    let server = Server::start(folder.path());
    let found = get(&server.client().await, &format!("{path}/big")).await;
    assert_eq!(found.code, 200, "{}", found.text);
    assert!(found.text.len() < 3 << 20);
}
