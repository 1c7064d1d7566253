//! Embedded cluster with the platform's namespace and CRDs.

use std::sync::Arc;

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::core::{GroupVersionKind, TypeMeta};
use kube::discovery::{Scope, pinned_kind};
use kube_embedded::access::User;
use kube_embedded::clock::{Clock, SystemClock};
use kube_embedded::cluster::{Cluster, Config};
use kube_types::{SYSTEM_NAMESPACE, definitions};
use serde_json::{Value, json};

/// The platform's ServiceAccount in its own namespace.
pub const PLATFORM_SERVICE_ACCOUNT: &str = "longshore";

/// An embedded cluster, in memory.
pub struct TestCluster {
    pub cluster: Cluster,
}

impl TestCluster {
    /// Creates a cluster where the platform is cluster-admin.
    pub async fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock)).await
    }

    /// As [`TestCluster::new`], with the given clock.
    pub async fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "the-platform-under-test"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": SYSTEM_NAMESPACE, "name": PLATFORM_SERVICE_ACCOUNT}],
        });
        Self::with_permissions(clock, [binding]).await
    }

    /// Creates a cluster where the platform has only the permissions granted by `manifests`.
    pub async fn with_permissions(clock: Arc<dyn Clock>, manifests: impl IntoIterator<Item = Value>) -> Self {
        let config = Config { clock, ..Config::default() };
        let world = Self { cluster: Cluster::open(config).await.unwrap() };
        let platform_objects = json!([
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": PLATFORM_SERVICE_ACCOUNT, "namespace": SYSTEM_NAMESPACE}},
        ]);
        world.apply(platform_objects.as_array().unwrap().iter().cloned()).await;
        let crds = definitions::all().into_iter().map(|kind| serde_json::to_value(kind.crd).unwrap());
        world.apply(crds).await;
        world.apply(manifests).await;
        world
    }

    /// Client for the test itself: cluster-admin.
    pub fn admin_client(&self) -> kube::Client {
        self.cluster.client(User::admin())
    }

    /// Client for the code under test: the platform's ServiceAccount.
    pub fn platform_client(&self) -> kube::Client {
        self.cluster.client(User::service_account(SYSTEM_NAMESPACE, PLATFORM_SERVICE_ACCOUNT, ""))
    }

    /// Client of another user.
    pub fn client_for(&self, user: &str, groups: &[&str]) -> kube::Client {
        self.cluster.client(User::named(user, groups))
    }

    /// Applies objects as an administrator, as `kubectl apply` does.
    pub async fn apply(&self, objects: impl IntoIterator<Item = Value>) {
        let client = self.admin_client();
        for object in objects {
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let TypeMeta { api_version, kind } = object.types.clone().unwrap();
            let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
            let (resource, found) =
                pinned_kind(&client, &GroupVersionKind::gvk(group, version, &kind)).await.unwrap();
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            let api: Api<DynamicObject> = match found.scope {
                Scope::Cluster => Api::all_with(client.clone(), &resource),
                Scope::Namespaced => Api::namespaced_with(client.clone(), namespace, &resource),
            };
            let name = object.metadata.name.clone().unwrap();
            let params = PatchParams::apply("kubectl").force();
            api.patch(&name, &params, &Patch::Apply(&object)).await.unwrap();
        }
    }
}
