//! Concurrent requests: first writes of one name, and creations under a quota. Runs on embedded and real clusters.

use futures::future::join_all;
use http::Method;
use serde_json::{Value, json};

use crate::request::{HttpResponse, get, send_body};
use crate::target::Cluster;

/// Number of concurrent requests.
const REQUESTS: usize = 20;
const APPLY: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// Sends requests with these paths and bodies concurrently.
async fn send_concurrently(
    client: &kube::Client,
    method: Method,
    media: &'static str,
    requests: impl Iterator<Item = (String, Value)>,
) -> Vec<HttpResponse> {
    let send = |(path, body): (String, Value)| {
        let (client, method) = (client.clone(), method.clone());
        tokio::spawn(async move { send_body(&client, method, &path, media, body.to_string()).await })
    };
    let sent: Vec<_> = requests.map(send).collect();
    join_all(sent).await.into_iter().map(Result::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_first_server_side_applies_all_succeed() {
    let cluster = Cluster::start();
    let client = cluster.client().await;
    for round in 0..5 {
        let path = format!("/api/v1/namespaces/{}/configmaps/shared-{round}", cluster.namespace);
        let applies = (0..REQUESTS).map(|n| {
            let data = json!({(format!("key-{n}")): n.to_string()});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("shared-{round}")}, "data": data});
            (format!("{path}?fieldManager=manager-{n}"), map)
        });
        for answer in send_concurrently(&client, Method::PATCH, APPLY, applies).await {
            assert!(matches!(answer.code, 200 | 201), "{}: {}", answer.code, answer.text);
        }
        // No applied field is lost.
        let map = get(&client, &path).await.json();
        assert_eq!(map["data"].as_object().map(serde_json::Map::len), Some(REQUESTS), "{map}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_first_puts_all_succeed() {
    let cluster = Cluster::start();
    let client = cluster.client().await;
    for round in 0..5 {
        // Kinds that allow create on PUT and unconditional update.
        let rows = [
            ("services", json!({"kind": "Service", "spec": {"ports": [{"port": 80}]}})),
            ("limitranges", json!({"kind": "LimitRange", "spec": {"limits": []}})),
        ];
        for (plural, object) in rows {
            let path = format!("/api/v1/namespaces/{}/{plural}/shared-{round}", cluster.namespace);
            let puts = (0..REQUESTS).map(|n| {
                let mut object = object.clone();
                object["apiVersion"] = json!("v1");
                object["metadata"] =
                    json!({"name": format!("shared-{round}"), "labels": {"writer": format!("w{n}")}});
                (path.clone(), object)
            });
            let answers = send_concurrently(&client, Method::PUT, JSON, puts).await;
            for answer in &answers {
                assert!(matches!(answer.code, 200 | 201), "{path}: {}: {}", answer.code, answer.text);
            }
            let created = answers.iter().filter(|answer| answer.code == 201).count();
            assert_eq!(created, 1, "{path}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_creations_never_exceed_quota() {
    let cluster = Cluster::start();
    let client = cluster.client().await;
    let quotas = format!("/api/v1/namespaces/{}/resourcequotas", cluster.namespace);
    let quota =
        json!({"metadata": {"name": "bound"}, "spec": {"hard": {"count/secrets": REQUESTS.to_string()}}});
    assert_eq!(send_body(&client, Method::POST, &quotas, JSON, quota.to_string()).await.code, 201);
    let used = async || {
        let quota = get(&client, &format!("{quotas}/bound")).await.json();
        quota["status"]["used"]["count/secrets"].as_str().map(str::to_owned)
    };
    crate::platform::until("the quota counts", async || used().await).await;
    let secrets = format!("/api/v1/namespaces/{}/secrets", cluster.namespace);
    let creations = (0..REQUESTS + REQUESTS / 2)
        .map(|n| (secrets.clone(), json!({"metadata": {"name": format!("s{n}")}})));
    let answers = send_concurrently(&client, Method::POST, JSON, creations).await;
    let count = |code: u16| answers.iter().filter(|answer| answer.code == code).count();
    let seen: Vec<u16> = answers.iter().map(|answer| answer.code).collect();
    assert_eq!((count(201), count(403)), (REQUESTS, REQUESTS / 2), "{seen:?}");
    for refused in answers.iter().filter(|answer| answer.code == 403) {
        assert!(refused.text.contains("exceeded quota: bound"), "{}", refused.text);
    }
    let there = get(&client, &secrets).await.json()["items"].as_array().map(Vec::len);
    assert_eq!(there, Some(REQUESTS));
    crate::platform::until("the quota has counted all", async || {
        (used().await.as_deref() == Some("20")).then_some(())
    })
    .await;
}
