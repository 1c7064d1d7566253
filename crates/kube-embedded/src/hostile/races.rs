//! Concurrent requests: creations of one name, writes under one quota, cancelled requests.

use std::sync::Weak;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::access::User;
use crate::cluster::Cluster;
use crate::store::{Change, Expect, Key, Op, Store};

async fn send(cluster: &Cluster, method: &str, path: &str, media: &str, body: &Value) -> (u16, Value) {
    let client = cluster.client(User::admin());
    let request = http::Request::builder().method(method).uri(path).header("content-type", media);
    let answer = client.send(request.body(body.to_string().into_bytes().into()).unwrap()).await.unwrap();
    let code = answer.status().as_u16();
    let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn first_applies_and_puts_at_once_all_succeed() {
    let cluster = Cluster::in_memory().await;
    for round in 0..20 {
        let applies = (0..8).map(|n| {
            let cluster = cluster.clone();
            let metadata = json!({"name": format!("m{round}"), "labels": {(format!("l{n}")): "a"}});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
            let path = format!("{MAPS}/m{round}?fieldManager=m{n}");
            tokio::spawn(
                async move { send(&cluster, "PATCH", &path, "application/apply-patch+yaml", &map).await },
            )
        });
        for answer in join_all(applies).await {
            let (code, body) = answer.unwrap();
            assert!(matches!(code, 200 | 201), "{body:#}");
        }
        let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": format!("l{round}"), "namespace": "default"}, "spec": {}});
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/l{round}");
        let puts = (0..8).map(|n| {
            let (cluster, path, mut lease) = (cluster.clone(), path.clone(), lease.clone());
            lease["spec"]["holderIdentity"] = format!("h{n}").into();
            tokio::spawn(async move { send(&cluster, "PUT", &path, "application/json", &lease).await })
        });
        for answer in join_all(puts).await {
            let (code, body) = answer.unwrap();
            // Kinds that require a `resourceVersion` refuse an update without it with 422, as in Kubernetes.
            assert!(matches!(code, 200 | 201 | 422), "{body:#}");
        }
    }
    cluster.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_at_once_under_a_quota_share_commits_and_never_exceed_it() {
    let cluster = Cluster::in_memory().await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "100"}}});
    assert_eq!(send(&cluster, "POST", quotas, "application/json", &quota).await.0, 201);
    let before = cluster.store().groups();
    let creates = (0..150).map(|n| {
        let cluster = cluster.clone();
        tokio::spawn(async move {
            let secret = json!({"metadata": {"name": format!("s{n}")}});
            let path = "/api/v1/namespaces/default/secrets";
            send(&cluster, "POST", path, "application/json", &secret).await
        })
    });
    let codes: Vec<u16> = join_all(creates).await.into_iter().map(|answer| answer.unwrap().0).collect();
    let count = |wanted: u16| codes.iter().filter(|code| **code == wanted).count();
    assert_eq!((count(201), count(403)), (100, 50), "{codes:?}");
    let (_, quota) = send(&cluster, "GET", &format!("{quotas}/q"), "application/json", &Value::Null).await;
    assert_eq!(quota["status"]["used"]["count/secrets"], "100", "{quota:#}");
    let groups = cluster.store().groups() - before;
    assert!(groups < 400, "100 writes took {groups} commits");
    cluster.stop();
}

/// Reports on drop whether the object is visible.
struct VisibilityProbe(Weak<Store>, Option<oneshot::Sender<bool>>);

impl Drop for VisibilityProbe {
    fn drop(&mut self) {
        let visible = self.0.upgrade().is_some_and(|store| store.get("services", "n", "a").is_some());
        let _ = self.1.take().map(|report| report.send(visible));
    }
}

#[tokio::test]
async fn cancelled_request_keeps_its_reservation_until_its_commit_is_visible() {
    let store = Store::in_memory();
    let (report, visible) = oneshot::channel();
    let held = VisibilityProbe(std::sync::Arc::downgrade(&store), Some(report));
    let value = json!({"metadata": {"namespace": "n", "name": "a"}});
    let change =
        Change { key: Key::new(&"services".into(), "n", "a"), expect: Expect::Absent, op: Op::Put(value) };
    // Polled once, which queues the commit, then dropped, as when a client disconnects.
    let _ = tokio::time::timeout(Duration::ZERO, store.commit_with_guard(vec![change], held)).await;
    assert!(visible.await.unwrap(), "the address was free before the Service that has it was visible");
}
