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

use crate::call;
use crate::discovery::Discovery;
use crate::object::Object;
use crate::owner::Ownership;
use crate::target::{Placed, Target};
use crate::tell::{Step, Tell};
use crate::{Options, Way};

pub const SERVER_SIDE: Way = Way::ServerSide { force_conflicts: false };

pub struct Town {
    pub cluster: Cluster,
    pub target: Target,
}

impl Town {
    /// A cluster without controllers.
    pub async fn still() -> Self {
        Self::open(None).await
    }

    /// A simulated cluster whose workloads become ready.
    pub async fn alive() -> Self {
        Self::open(Some(Simulation { nodes: 1, ..Simulation::default() })).await
    }

    pub async fn open(simulation: Option<Simulation>) -> Self {
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
    pub fn by(&self, client: Client) -> Target {
        Target { client, ..self.target.clone() }
    }

    async fn place(&self, value: Value) -> Placed {
        let object = Object::from_value(value).unwrap();
        self.target.place(&[object]).await.unwrap().remove(0)
    }

    fn api(&self, placed: &Placed) -> Api<DynamicObject> {
        let client = self.target.client.clone();
        match placed.object.namespace() {
            Some(namespace) => Api::namespaced_with(client, namespace, &placed.kind.resource),
            None => Api::all_with(client, &placed.kind.resource),
        }
    }

    /// Writes an object as another field manager.
    pub async fn put(&self, value: Value) {
        let placed = self.place(value).await;
        let params = PatchParams::apply("somebody").force();
        let patch = Patch::Apply(placed.object.value());
        self.api(&placed).patch(placed.object.name(), &params, &patch).await.unwrap();
    }

    /// Changes fields of an object as another field manager.
    pub async fn change(&self, kind: (&str, &str), name: &str, fields: Value) {
        let placed =
            self.place(json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name}})).await;
        let params = PatchParams { field_manager: Some("somebody".to_owned()), ..PatchParams::default() };
        self.api(&placed).patch(name, &params, &Patch::Merge(fields)).await.unwrap();
    }

    pub async fn get(&self, kind: (&str, &str), name: &str) -> Option<Value> {
        let placed =
            self.place(json!({"apiVersion": kind.0, "kind": kind.1, "metadata": {"name": name}})).await;
        call::get(&self.target.client, &placed).await.unwrap()
    }
}

pub const MAP: (&str, &str) = ("v1", "ConfigMap");
pub const DEPLOYMENT: (&str, &str) = ("apps/v1", "Deployment");

pub fn objects(manifest: &str) -> Vec<Object> {
    Object::parse_all(manifest).unwrap()
}

/// A `ConfigMap` with this data.
#[expect(clippy::needless_pass_by_value, reason = "tests write JSON where they need it")]
pub fn map(name: &str, data: Value) -> Object {
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

pub fn release(name: &str, way: Way) -> Options {
    Options::new(way).owned_by(Ownership::new(name, "shop"))
}

pub fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Records all events.
#[derive(Default)]
pub struct Ear(Mutex<Vec<Step>>);

impl Tell for Ear {
    fn tell(&self, step: Step) {
        self.0.lock().unwrap().push(step);
    }
}

impl Ear {
    pub fn steps(&self) -> Vec<Step> {
        self.0.lock().unwrap().clone()
    }
}

pub fn names(objects: &[Object]) -> Vec<String> {
    objects.iter().map(|object| object.id().to_string()).collect()
}
