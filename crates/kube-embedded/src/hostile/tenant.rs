//! A tenant of a cluster: an impersonated user with a flow of its own.

use http::Response;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::access::User;
use crate::cluster::Cluster;
use crate::store::{Change, Expect, Key, Op};

pub const NAME: &str = "tom";

pub struct Tenant {
    pub cluster: Cluster,
    client: kube::Client,
}

impl Tenant {
    /// Creates a tenant with a `ClusterRole` for these requests.
    pub async fn new(cluster: &Cluster, rules: Value) -> Self {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
            "metadata": {"name": "tenant"}, "rules": rules});
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "tenant"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": NAME}]});
        put(cluster, "clusterroles.rbac.authorization.k8s.io", vec![role]).await;
        put(cluster, "clusterrolebindings.rbac.authorization.k8s.io", vec![binding]).await;
        Self { cluster: cluster.clone(), client: cluster.client(User::admin()) }
    }

    /// Sends a request; returns the response without reading its body.
    pub async fn begin(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: Vec<u8>,
    ) -> Response<kube::client::Body> {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("impersonate-user", NAME)
            .header("impersonate-group", "system:authenticated")
            .header("content-type", media);
        self.client.send(request.body(body.into()).unwrap()).await.unwrap()
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        media: &str,
        body: impl Into<Vec<u8>>,
    ) -> (u16, Value) {
        let answer = self.begin(method, path, media, body.into()).await;
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    pub async fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "application/json", Vec::new()).await
    }

    pub async fn post(&self, path: &str, object: &Value) -> (u16, Value) {
        self.send("POST", path, "application/json", object.to_string()).await
    }
}

/// Stores objects without going through the API.
pub async fn put(cluster: &Cluster, storage: &str, objects: Vec<Value>) {
    let change = |object: Value| {
        let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
        let key = Key::new(&storage.into(), &text("namespace"), &text("name"));
        Change { key, expect: Expect::Absent, op: Op::Put(object) }
    };
    cluster.store().commit(objects.into_iter().map(change).collect()).await.unwrap();
}

/// Creates `ConfigMaps` in the namespace `default`.
pub fn config_maps(count: usize, bytes: usize) -> Vec<Value> {
    let map = |n: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{n:05}"), "namespace": "default",
            "uid": format!("u{n}")}, "data": {"a": "line: x\n".repeat(bytes / 8)}})
    };
    (0..count).map(map).collect()
}

/// Memory held by the governor for authenticated users, in bytes.
pub fn reserved_bytes(cluster: &Cluster) -> u64 {
    let mut registry = prometheus_client::registry::Registry::default();
    cluster.metrics().register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line =
        text.lines().find_map(|line| line.strip_prefix("governor_bytes_held{level=\"authenticated\"} "));
    line.unwrap().parse().unwrap()
}

/// Returns the result of a future, and how often another task of the same thread ran in the meantime.
pub async fn while_others_run<T>(work: impl Future<Output = T>) -> (T, usize) {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = count.clone();
    let other = tokio::spawn(async move {
        loop {
            counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    let result = work.await;
    other.abort();
    (result, count.load(std::sync::atomic::Ordering::Relaxed))
}
