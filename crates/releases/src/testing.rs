//! Test harness: a cluster with the platform's RBAC, a workspace with a developer, and charts.

use std::sync::Arc;

use bytes::Bytes;
use chart_store::ChartReader;
use domain::actor::{Actor, AuthMethod, Impersonation, Principal};
use domain::clock::{Clock, SystemClock};
use domain::ids::{UserId, WorkspaceName};
use domain::roles::{Capability, PlatformRole, WorkspaceRole};
use helm_chart::{File, Loader};
use helm_template::profile::Profile;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use kube_access::Clients;
use kube_embedded::cluster::{Cluster, Config};
use kube_embedded::sim::Simulation;
use kube_types::HelmRelease;
use outbound::{Dialer, EgressPolicy, FetchClient};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tenancy::manifests;
use testkit::{FaultInjector, TestCluster, wait_for};
use tokio::task::AbortHandle;

use crate::Releases;
use crate::tenant_directory::{IdentityError, TenantDirectory};

pub(crate) const SHOP: &str = "shop";

/// Time limit of all waits; generous for busy machines.
const WAIT_TIMEOUT: std::time::Duration = std::time::Duration::from_mins(2);

pub(crate) struct TestHarness {
    pub world: TestCluster,
    pub releases: Releases,
    pub leader_task: AbortHandle,
}

impl Drop for TestHarness {
    fn drop(&mut self) {
        self.leader_task.abort();
    }
}

/// The developer of the workspace.
pub(crate) fn developer() -> Actor {
    let shop: WorkspaceName = SHOP.parse().unwrap();
    Actor {
        principal: Principal::User {
            id: developer_id(),
            account: "user-1".to_owned(),
            uid: "uid-1".to_owned(),
        },
        platform_roles: [].into(),
        memberships: [(shop, WorkspaceRole::Developer)].into(),
        auth_method: AuthMethod::Session { id: "session".to_owned() },
    }
}

pub(crate) fn developer_id() -> UserId {
    UserId::from_random([7; 10])
}

/// A platform administrator without membership in the workspace.
pub(crate) fn administrator() -> Actor {
    Actor {
        principal: Principal::User {
            id: administrator_id(),
            account: "user-2".to_owned(),
            uid: "uid-2".to_owned(),
        },
        platform_roles: [PlatformRole::Admin].into(),
        memberships: [].into(),
        auth_method: AuthMethod::Session { id: "session".to_owned() },
    }
}

pub(crate) fn administrator_id() -> UserId {
    UserId::from_random([9; 10])
}

struct FakeTenantDirectory;

impl TenantDirectory for FakeTenantDirectory {
    fn impersonation_of(
        &self,
        user: &UserId,
        uid: &str,
        workspace: &WorkspaceName,
        scope: &[String],
    ) -> Result<Impersonation, IdentityError> {
        let all = [developer(), administrator()];
        let known = |actor: &Actor| match &actor.principal {
            Principal::User { id, uid: known, .. } => id == user && known == uid && scope.is_empty(),
            Principal::ServiceAccount { .. } => false,
        };
        let actor = all.into_iter().find(known).ok_or(IdentityError::AccountNotActive)?;
        Ok(actor.workspace_impersonation(Capability::ChangeReleases, workspace)?)
    }

    fn administrator_impersonation(&self, user: &UserId, uid: &str) -> Result<Impersonation, IdentityError> {
        let known = *user == administrator_id() && uid == "uid-2";
        known.then(|| Impersonation::administrator(user)).ok_or(IdentityError::NotAdministrator)
    }

    fn workspace_of(&self, namespace: &str) -> Option<WorkspaceName> {
        (namespace == SHOP).then(|| SHOP.parse().unwrap())
    }

    fn workspace_identity(&self, workspace: &WorkspaceName) -> Option<(String, Timestamp)> {
        (workspace.as_str() == SHOP).then(|| ("uid-shop".to_owned(), Timestamp::UNIX_EPOCH))
    }
}

/// The chart of most tests: a Deployment, a `ConfigMap` with the greeting, and an optional template.
const WEB_CHART_FILES: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\nappVersion: \"7\"\n"),
    ("values.yaml", "replicas: 1\ngreeting: hello\nextra: \"\"\nbehaviour: \"\"\n"),
    (
        "templates/web.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  replicas: {{ .Values.replicas }}\n  \
         selector: {matchLabels: {app: {{ .Release.Name }}}}\n  template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n      \
         annotations: {sim.longshore.dev/behaviour: {{ .Values.behaviour | quote }}}\n    spec:\n      containers:\n      - {name: web, image: web}\n",
    ),
    (
        "templates/greeting.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  greeting: {{ required \"a greeting is needed\" .Values.greeting | quote }}\n",
    ),
    ("templates/extra.yaml", "{{ .Values.extra }}\n"),
];

/// The archive of the chart above.
pub(crate) fn web_chart() -> Bytes {
    pack_chart(WEB_CHART_FILES)
}

/// The archive of a chart with these files.
pub(crate) fn chart_archive(name: &str, version: &str, files: &[(&str, &str)]) -> Bytes {
    let head = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let files: Vec<(&str, &str)> =
        [("Chart.yaml", head.as_str())].into_iter().chain(files.iter().copied()).collect();
    pack_chart(&files)
}

fn pack_chart(files: &[(&str, &str)]) -> Bytes {
    let file =
        |(name, text): &(&str, &str)| File { name: (*name).into(), data: text.as_bytes().to_vec().into() };
    let chart = Loader::new(Profile::Helm4).load_files(files.iter().map(file).collect()).unwrap();
    helm_chart::archive::write(&chart, Profile::Helm4, 0).unwrap().into()
}

/// The platform on this cluster, through a connection with this fault injection.
pub(crate) async fn start_releases(world: &TestCluster, fault: &FaultInjector) -> Releases {
    start_releases_at(world, fault, Arc::new(SystemClock)).await
}

/// Like [`start_releases`], with this clock.
pub(crate) async fn start_releases_at(
    world: &TestCluster,
    fault: &FaultInjector,
    clock: Arc<dyn Clock>,
) -> Releases {
    let outgoing = FetchClient::new(Dialer::new(EgressPolicy::default()));
    start_with_client(fault.wrap(world.platform_client()), outgoing, clock, "test").await
}

/// The platform with this Kubernetes client. `outgoing` fetches charts; `holder` is the name in Leases.
pub(crate) async fn start_with_client(
    client: kube::Client,
    outgoing: FetchClient,
    clock: Arc<dyn Clock>,
    holder: &str,
) -> Releases {
    let clients = Clients::new(client);
    let charts = chart_store::ChartStore::new(clients.platform(), outgoing, clock.clone());
    Releases::start(clients, charts, Arc::new(FakeTenantDirectory), clock, holder).await.unwrap()
}

/// Removes the lower bound of intervals from the CRD, because tests use shorter ones.
fn without_min_interval(mut manifest: serde_json::Value) -> serde_json::Value {
    if manifest["kind"] == "CustomResourceDefinition" && manifest["spec"]["names"]["kind"] == "HelmRelease" {
        let schema = &mut manifest["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let interval = schema
            .pointer_mut("/properties/spec/properties/interval")
            .and_then(|schema| schema.as_object_mut());
        assert!(interval.unwrap().remove("x-kubernetes-validations").is_some());
    }
    manifest
}

/// A cluster with a provisioned workspace namespace.
pub(crate) async fn provisioned_cluster() -> TestCluster {
    provisioned_cluster_with(Some(Simulation { nodes: 1, ..Simulation::default() })).await
}

/// Like [`provisioned_cluster`], with these nodes. Without nodes no pod runs and tests are faster.
pub(crate) async fn provisioned_cluster_with(simulation: Option<Simulation>) -> TestCluster {
    let world =
        TestCluster { cluster: Cluster::open(Config { simulation, ..Config::default() }).await.unwrap() };
    world.apply(manifests::manifests().into_iter().map(without_min_interval)).await;
    let group = |name: &str| json!({"kind": "Group", "name": name, "apiGroup": "rbac.authorization.k8s.io"});
    let deployer = json!({"kind": "ServiceAccount", "namespace": SHOP, "name": "longshore-deployer"});
    world
        .apply([
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP, "labels": {"longshore.dev/workspace": SHOP}}}),
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "longshore-deployer", "namespace": SHOP}}),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "developers", "namespace": SHOP},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "longshore-ws-developer"},
                "subjects": [group("longshore:ws:shop:developer"), deployer],
            }),
        ])
        .await;
    world
}

impl TestHarness {
    pub async fn new() -> Self {
        Self::with_chart_client(FetchClient::new(Dialer::new(EgressPolicy::default()))).await
    }

    /// A harness whose charts are fetched with this client.
    pub async fn with_chart_client(outgoing: FetchClient) -> Self {
        let world = provisioned_cluster().await;
        let releases =
            start_with_client(world.platform_client(), outgoing, Arc::new(SystemClock), "test").await;
        let leading = releases.clone();
        let lead = tokio::spawn(async move {
            leading.run_as_leader().await;
        })
        .abort_handle();
        Self { world, releases, leader_task: lead }
    }

    /// Stores a chart and returns the name of its package.
    pub async fn store_chart(&self, archive: Bytes) -> String {
        let source = chart_store::ChartSource::Archive(archive);
        let reader = ChartReader::Workspace(SHOP.to_owned());
        self.releases.charts().get(&source, &reader).await.unwrap().resolved.package
    }

    pub fn namespaced_api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.world.admin_client(), SHOP)
    }

    /// A client that impersonates this identity.
    pub fn client_as(&self, who: &Impersonation) -> kube::Client {
        let groups: Vec<&str> = who.groups().iter().map(String::as_str).collect();
        self.world.client_for(who.user(), &groups)
    }

    /// Creates a release directly, as an administrator.
    pub async fn create_release(&self, name: &str, spec: Value) -> Result<HelmRelease, kube::Error> {
        let release = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": SHOP}, "spec": spec,
        });
        self.namespaced_api().create(&PostParams::default(), &serde_json::from_value(release).unwrap()).await
    }

    pub async fn patch_release(&self, name: &str, patch: Value) {
        self.namespaced_api::<HelmRelease>()
            .patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Waits until the current generation of a release has this state.
    pub async fn wait_for_state(&self, name: &str, state: &str) -> HelmRelease {
        let api: Api<HelmRelease> = self.namespaced_api();
        let began = tokio::time::Instant::now();
        loop {
            let release = api.get_opt(name).await.unwrap();
            let status = release.as_ref().and_then(|release| release.status.clone()).unwrap_or_default();
            if let Some(release) = release
                && status.observed_generation == release.metadata.generation
                && status.state == state
            {
                return release;
            }
            let told = format!("{}: {}", status.state, status.message);
            assert!(began.elapsed() < WAIT_TIMEOUT, "waited for {state}; it is {told}");
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    }

    /// Waits until the object does not exist.
    pub async fn wait_until_deleted<K>(&self, api: &Api<K>, name: &str)
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        wait_for("it is gone", async || api.get_opt(name).await.unwrap().is_none().then_some(())).await;
    }
}
