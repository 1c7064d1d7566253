//! Test harness: an embedded cluster with a fleet.
#![expect(clippy::needless_pass_by_value, reason = "what a test says of an object is said once")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::Actor;
use domain::actor::{AuthMethod, Principal};
use domain::clock::SystemClock;
use domain::ids::{UserId, WorkspaceName};
use domain::roles::{PlatformRole, WorkspaceRole};
use kube::Api;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{Scope, pinned_kind};
use kube_access::Clients;
use serde_json::{Value, json};
use testkit::{FaultInjector, TestCluster};

use crate::{Fleet, Namespaces, Settings, Visibility};

pub const ALL: Visibility<'static> = Visibility { tenant: None, namespaces: Namespaces::All };

pub struct FleetHarness {
    pub world: TestCluster,
    pub fault: FaultInjector,
    pub fleet: Fleet,
}

pub fn settings() -> Settings {
    Settings { metrics_interval: Duration::from_millis(20), ..Settings::default() }
}

impl FleetHarness {
    pub async fn new() -> Self {
        Self::with(TestCluster::new().await, settings()).await
    }

    pub async fn with(world: TestCluster, settings: Settings) -> Self {
        let fault = FaultInjector::healthy();
        let fleet = fleet(&world, &fault, settings).await;
        Self { world, fault, fleet }
    }

    /// Writes an object with its status.
    pub async fn put(&self, object: Value) {
        put(&self.world, object).await;
    }

    pub async fn delete(&self, kind: &str, name: &str) {
        let api = api(&self.world, "v1", kind).await;
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn node(&self, name: &str) -> Value {
        node(&self.world, name).await
    }
}

pub async fn fleet(world: &TestCluster, fault: &FaultInjector, settings: Settings) -> Fleet {
    let clients = Clients::new(fault.wrap(world.platform_client()));
    Fleet::start(clients, Arc::new(SystemClock), settings).await.unwrap()
}

pub async fn node(world: &TestCluster, name: &str) -> Value {
    serde_json::to_value(api(world, "v1", "Node").await.get(name).await.unwrap()).unwrap()
}

pub async fn api(world: &TestCluster, api_version: &str, kind: &str) -> Api<DynamicObject> {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let (resource, _): (ApiResource, _) =
        pinned_kind(&world.admin_client(), &GroupVersionKind::gvk(group, version, kind)).await.unwrap();
    Api::all_with(world.admin_client(), &resource)
}

pub async fn put(world: &TestCluster, object: Value) {
    world.apply([object.clone()]).await;
    if object["status"].is_null() {
        return;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    let (resource, found) = pinned_kind(&world.admin_client(), &kind).await.unwrap();
    let api: Api<DynamicObject> = match found.scope {
        Scope::Cluster => Api::all_with(world.admin_client(), &resource),
        Scope::Namespaced => {
            Api::namespaced_with(world.admin_client(), &text(&object["metadata"]["namespace"]), &resource)
        }
    };
    let patch = json!({"status": object["status"]});
    let name = text(&object["metadata"]["name"]);
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

pub fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

pub fn node_object(name: &str, labels: Value, ready: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"conditions": [{"type": "Ready", "status": ready, "reason": "R", "message": "m",
                                   "lastHeartbeatTime": "2026-01-02T03:04:05Z", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
                   "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}},
    })
}

pub fn pool_object(name: &str, spec: Value, tenant: Option<&str>) -> Value {
    let labels = tenant.map(|tenant| json!({"openyurt/tenant": tenant})).unwrap_or(json!({}));
    json!({"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "NodePool",
           "metadata": {"name": name, "labels": labels}, "spec": spec})
}

/// Id of a test user.
pub fn id(number: u8) -> UserId {
    UserId::from_random([number; 10])
}

/// A user with a personal workspace.
pub fn user(number: u8) -> Actor {
    actor(number, &[])
}

pub fn administrator() -> Actor {
    actor(31, &[PlatformRole::Admin])
}

fn actor(number: u8, platform: &[PlatformRole]) -> Actor {
    let id = id(number);
    Actor {
        memberships: BTreeMap::from([(WorkspaceName::personal(&id), WorkspaceRole::Admin)]),
        principal: Principal::User { id, account: format!("user-{number}"), uid: format!("uid-{number}") },
        platform_roles: platform.iter().copied().collect(),
        auth_method: AuthMethod::Session { id: "of a test".to_owned() },
    }
}
