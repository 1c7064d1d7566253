//! Test harness: a whole cluster in memory with a manual clock.
//!
//! ```ignore
//! let world = TestCluster::without_nodes().await;
//! world.create("/apis/apps/v1/namespaces/default/deployments", json!({...})).await;
//! world.make_pods_ready("default").await; // as a kubelet would: all pods become ready
//! world.advance(10).await;                // advances the clock and waits for the controllers
//! ```

use std::sync::Arc;
use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::access::User;
use crate::clock::{Clock, ManualClock, rfc3339};
use crate::cluster::{Cluster, Config};
use crate::sim::Simulation;

pub(crate) struct TestCluster {
    pub cluster: Cluster,
    pub clock: Arc<ManualClock>,
    client: kube::Client,
}

impl TestCluster {
    /// A cluster with workload controllers but without nodes: pods stay as the test sets them.
    pub(crate) async fn without_nodes() -> Self {
        Self::with_simulation(Simulation { nodes: 0, ..Simulation::default() }).await
    }

    pub(crate) async fn with_simulation(simulation: Simulation) -> Self {
        let clock = ManualClock::starting_at("2026-01-02T03:04:05Z".parse().unwrap());
        let config = Config { clock: clock.clone(), simulation: Some(simulation), ..Config::default() };
        let cluster = Cluster::open(config).await.unwrap();
        let client = cluster.client(User::admin());
        let world = Self { cluster, clock, client };
        world.wait_until_idle().await;
        world
    }

    /// Waits until all controllers are idle at the present time.
    pub(crate) async fn wait_until_idle(&self) {
        let rest = tokio::time::timeout(Duration::from_secs(30), self.cluster.wait_until_idle());
        rest.await.expect("the controllers come to rest");
    }

    pub(crate) async fn advance(&self, seconds: i64) {
        self.clock.advance(SignedDuration::from_secs(seconds));
        self.wait_until_idle().await;
    }

    /// Returns status code and body without waiting for controllers.
    pub(crate) async fn send(&self, method: &str, path: &str, media: &str, body: Value) -> (u16, Value) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let answer = self.client.send(request.body(body.into()).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn send_ok(&self, method: &str, path: &str, media: &str, body: Value) -> Value {
        let (code, answer) = self.send(method, path, media, body).await;
        assert!((200..300).contains(&code), "{method} {path}: {answer:#}");
        self.wait_until_idle().await;
        answer
    }

    /// Creates an object by POST, then waits for all controllers.
    pub(crate) async fn create(&self, path: &str, object: Value) -> Value {
        self.send_ok("POST", path, "application/json", object).await
    }

    /// Sends a merge patch, then waits for all controllers. A path may end in `/status`.
    pub(crate) async fn patch(&self, path: &str, change: Value) -> Value {
        self.send_ok("PATCH", path, "application/merge-patch+json", change).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Value {
        self.send_ok("DELETE", path, "application/json", Value::Null).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.send_ok("GET", path, "application/json", Value::Null).await
    }

    /// Returns the items of a list.
    pub(crate) async fn list(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Reasons and messages of the Events about objects of a kind, in order.
    pub(crate) async fn list_events(&self, namespace: &str, kind: &str) -> Vec<String> {
        let mut events = self.list(&format!("/api/v1/namespaces/{namespace}/events")).await;
        events.retain(|event| event["involvedObject"]["kind"] == kind);
        events.sort_by_key(|event| {
            event["metadata"]["resourceVersion"].as_str().and_then(|v| v.parse::<u64>().ok())
        });
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events.iter().map(|e| format!("{}: {}", text(&e["reason"]), text(&e["message"]))).collect()
    }

    /// Sets a pod's status as a kubelet would.
    pub(crate) async fn set_pod_phase(&self, namespace: &str, name: &str, phase: &str, ready: bool) {
        let truth = if ready { "True" } else { "False" };
        let now = rfc3339(self.clock.now());
        let status = json!({"status": {"phase": phase, "conditions": [
            {"type": "Ready", "status": truth, "lastTransitionTime": now}]}});
        self.patch(&format!("/api/v1/namespaces/{namespace}/pods/{name}/status"), status).await;
    }

    /// Makes every pending pod ready and waits for all controllers, until there are no new ones.
    pub(crate) async fn make_pods_ready(&self, namespace: &str) {
        loop {
            let mut pods = self.list(&format!("/api/v1/namespaces/{namespace}/pods")).await;
            pods.retain(|pod| pod["status"]["phase"] == "Pending");
            if pods.is_empty() {
                return;
            }
            for pod in pods {
                let name = pod["metadata"]["name"].as_str().unwrap();
                self.set_pod_phase(namespace, name, "Running", true).await;
            }
        }
    }
}

impl Drop for TestCluster {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}
