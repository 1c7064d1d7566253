//! Test fixture: a cluster with namespaces, a target, and a recording progress sink.

use std::sync::Mutex;
use std::time::Duration;

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube_embedded::access::User;
use kube_embedded::cluster::{Cluster, Config};
use kube_embedded::sim::Simulation;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::discovery::Discovery;
use crate::object::Object;
use crate::ownership::Ownership;
use crate::progress::{ProgressEvent, ProgressSink};
use crate::request;
use crate::target::{ResolvedObject, Target};
use crate::{ApplyOptions, ApplyStrategy};

pub const SERVER_SIDE: ApplyStrategy = ApplyStrategy::ServerSide { force_conflicts: false };

pub struct TestCluster {
    pub cluster: Cluster,
    pub target: Target,
}

impl TestCluster {
    /// A cluster without controllers.
    pub async fn without_controllers() -> Self {
        Self::with_simulation(None).await
    }

    /// A simulated cluster whose workloads become ready.
    pub async fn simulated() -> Self {
        Self::with_simulation(Some(Simulation { nodes: 1, ..Simulation::default() })).await
    }

    pub async fn with_simulation(simulation: Option<Simulation>) -> Self {
        let cluster = Cluster::open(Config { simulation, ..Config::default() }).await.unwrap();
        let client = cluster.client(User::admin());
        let discovery = Discovery::read(&client).await.unwrap();
        let town = Self { cluster, target: Target::new(client, discovery, "shop") };
        for name in ["shop", "other"] {
            town.put(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await;
        }
        town
    }

    /// The target with another client.
    pub fn target_with_client(&self, client: Client) -> Target {
        Target { client, ..self.target.clone() }
    }

    async fn resolve(&self, value: Value) -> ResolvedObject {
        let object = Object::from_value(value).unwrap();
        self.target.resolve(&[object]).await.unwrap().remove(0)
    }

    fn api(&self, placed: &ResolvedObject) -> Api<DynamicObject> {
        let client = self.target.client.clone();
        match placed.object.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, &placed.kind.resource),
            None => Api::all_with(client, &placed.kind.resource),
        }
    }

    /// Writes an object as another field manager.
    pub async fn put(&self, value: Value) {
        let placed = self.resolve(value).await;
        let params = PatchParams::apply("somebody").force();
        let patch = Patch::Apply(placed.object.value());
        self.api(&placed).patch(placed.object.name(), &params, &patch).await.unwrap();
    }

    /// Changes fields of an object as another field manager.
    pub async fn patch(&self, kind: (&str, &str), name: &str, fields: Value) {
        let placed =
            self.resolve(json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name}})).await;
        let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
        self.api(&placed).patch(name, &params, &Patch::Merge(fields)).await.unwrap();
    }

    pub async fn get(&self, kind: (&str, &str), name: &str) -> Option<Value> {
        let placed =
            self.resolve(json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name}})).await;
        request::get(&self.target.client, &placed).await.unwrap()
    }
}

pub const CONFIG_MAP: (&str, &str) = ("v1", "ConfigMap");
pub const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");

pub fn objects(manifest: &str) -> Vec<Object> {
    Object::parse_all(manifest).unwrap()
}

/// A `ConfigMap` with this data.
#[expect(clippy::needless_pass_by_value, reason = "tests write JSON where they need it")]
pub fn config_map(name: &str, data: Value) -> Object {
    let value = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
    Object::from_value(value).unwrap()
}

#[expect(clippy::needless_pass_by_value, reason = "tests write JSON where they need it")]
pub fn deployment(name: &str, replicas: i64, annotations: Value) -> Object {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}, "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "c:1", "resources": {"requests": {"cpu": "1"}}}]},
            },
        },
    });
    Object::from_value(value).unwrap()
}

pub fn release_options(name: &str, way: ApplyStrategy) -> ApplyOptions {
    ApplyOptions::new(way).owned_by(Ownership::new(name, "shop"))
}

pub fn deadline_in(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Records all events.
#[derive(Default)]
pub struct RecordingSink(Mutex<Vec<ProgressEvent>>);

impl ProgressSink for RecordingSink {
    fn report(&self, step: ProgressEvent) {
        self.0.lock().unwrap().push(step);
    }
}

impl RecordingSink {
    pub fn events(&self) -> Vec<ProgressEvent> {
        self.0.lock().unwrap().clone()
    }
}

pub fn names(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| object.id().to_string()).collect()
}
