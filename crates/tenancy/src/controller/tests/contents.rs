//! Removal of objects that the platform keeps for a workspace or one of its namespaces.

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, ResourceQuota};
use kube_types::{HelmPackage, HelmRepo, HelmRequest};

use super::*;

/// A workspace with one further namespace that has a share of its storage.
pub(super) fn with_namespace(name: &str) -> Workspace {
    let mut workspace = workspace(name, &[(ID, "admin")]);
    workspace.labels_mut().insert(well_known::USER.to_owned(), ID.to_owned());
    let share = [("requests.storage", "5Gi"), ("persistentvolumeclaims", "1")];
    let share = share.map(|(resource, amount)| (resource.to_owned(), amount.to_owned())).into();
    workspace.spec.namespaces.push(WorkspaceNamespace { name: format!("{name}-test"), share });
    workspace
}

/// Requests, values, a repository with its credentials, and tokens of a workspace.
pub(super) async fn create_workspace_objects(world: &TestCluster, workspace: &str) {
    let labels = json!({well_known::WORKSPACE: workspace});
    let request = |name: &str, namespace: &str| {
        json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRequest", "metadata": {"name": name, "labels": labels},
            "spec": {"releaseName": "db", "workspace": workspace, "cluster": "host", "namespace": namespace,
                "source": {"package": "pkg-a"}, "chart": {"name": "db", "version": "1.0.0"}, "version": 1,
                "runAs": {"user": ID, "uid": "1"}},
        })
    };
    let secret = |name: &str, kind: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret", "type": kind, "stringData": {"password": "secret"},
            "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels},
        })
    };
    let credentials = format!("repo-{workspace}.charts-1");
    let repo = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo",
        "metadata": {"name": format!("{workspace}.charts"), "labels": labels},
        "spec": {"name": "charts", "workspace": workspace, "url": "https://charts.example.com",
            "credentialRef": {"name": credentials}},
    });
    world
        .apply([
            request(&format!("req-{workspace}-1"), workspace),
            request(&format!("req-{workspace}-2"), &format!("{workspace}-test")),
            secret(&format!("req-{workspace}-1.v1.a"), "longshore.dev/values"),
            secret(&credentials, well_known::REPO_CREDENTIALS_TYPE),
            repo,
        ])
        .await;
}

/// A token with these scopes.
pub(super) async fn create_token(world: &TestCluster, id: &str, scopes: &str) {
    world
        .apply([json!({
            "apiVersion": "v1", "kind": "Secret", "type": well_known::TOKEN_TYPE,
            "metadata": {"name": format!("token-{id}"), "namespace": SYSTEM_NAMESPACE, "labels": {well_known::USER: OTHER_ID}},
            "stringData": {"sha256": "0".repeat(64), "kind": "api", "name": "t", "scopes": scopes, "created": "2026-01-02T03:04:05Z"},
        })])
        .await;
}

/// Packages with these workspaces, given by UID, as readers.
async fn create_packages(world: &TestCluster, packages: &[(&str, &[&str])]) {
    let own = "longshore.dev/v1alpha1";
    let package = |(name, readers): &(&str, &[&str])| {
        let entries = readers.iter().map(|reader| {
            (format!("{}{reader}", well_known::READER_PREFIX), json!("some 2026-01-02T03:04:05Z"))
        });
        let recorded = (well_known::READERS_RECORDED.to_owned(), json!("true"));
        let annotations: serde_json::Map<_, _> = entries.chain([recorded]).collect();
        json!({"apiVersion": own, "kind": "HelmPackage", "metadata": {"name": name, "annotations": annotations},
            "spec": {"digest": format!("sha256:{:064}", 0), "size": 1, "chunks": 1,
                "chart": {"name": "db", "version": "1.0.0"}, "origin": "upload"}})
    };
    world.apply(packages.iter().map(package)).await;
}

/// The names of objects that the platform keeps for workspaces.
pub(super) async fn object_names(world: &TestCluster) -> Vec<String> {
    let all = ListParams::default();
    let mut names: Vec<String> = Vec::new();
    let requests = Api::<HelmRequest>::all(world.admin_client()).list(&all).await.unwrap();
    names.extend(requests.items.iter().map(ResourceExt::name_any));
    let repos = Api::<HelmRepo>::all(world.admin_client()).list(&all).await.unwrap();
    names.extend(repos.items.iter().map(ResourceExt::name_any));
    let secrets: Api<Secret> = Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE);
    let labelled = secrets.list(&all.labels(well_known::WORKSPACE)).await.unwrap();
    names.extend(labelled.items.iter().map(ResourceExt::name_any));
    names
}

/// The retired names.
pub(super) async fn retired_names(world: &TestCluster) -> Vec<String> {
    let maps = names::<ConfigMap>(world, SYSTEM_NAMESPACE).await;
    maps.iter().filter_map(|name| name.strip_prefix("retired-")).map(str::to_owned).collect()
}

/// The scopes of a token.
pub(super) async fn token_scopes(world: &TestCluster, id: &str) -> Option<String> {
    let secrets: Api<Secret> = Api::namespaced(world.admin_client(), SYSTEM_NAMESPACE);
    let token = secrets.get_opt(&format!("token-{id}")).await.unwrap()?;
    Some(String::from_utf8(token.data?["scopes"].0.clone()).unwrap())
}

async fn storage_limit(world: &TestCluster, namespace: &str) -> Option<String> {
    let quotas: Api<ResourceQuota> = Api::namespaced(world.admin_client(), namespace);
    let quota = quotas.get_opt("longshore").await.unwrap()?;
    Some(quota.spec?.hard?["requests.storage"].0.clone())
}

#[tokio::test]
async fn removed_workspace_is_no_reader_and_its_unreferenced_packages_are_deleted() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &workspace("acme", &[(ID, "admin")])).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    let uid = get::<Workspace>(&world, "acme").await.unwrap().uid().unwrap();
    let packages: [(&str, &[&str]); 6] = [
        ("pkg-alone", &[&uid]),
        ("pkg-everyone", &[&uid, "everyone"]),
        ("pkg-foreign", &["other"]),
        ("pkg-kept", &[&uid]),
        ("pkg-requested", &[&uid]),
        ("pkg-shared", &[&uid, "other"]),
    ];
    create_packages(&world, &packages).await;
    world
        .apply([
            json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRequest", "metadata": {"name": "req-other"},
                "spec": {"releaseName": "db", "workspace": "other", "cluster": "host", "namespace": "other",
                    "source": {"package": "pkg-requested"}, "version": 1, "runAs": {"user": ID, "uid": "1"},
                    "chart": {"name": "db", "version": "1.0.0", "package": "pkg-requested"}}}),
            json!({"apiVersion": "v1", "kind": "Secret", "type": "longshore.dev/values", "metadata": {
                "name": "req-other.v1.a", "namespace": SYSTEM_NAMESPACE, "labels": {well_known::CHART_PACKAGE: "pkg-kept"}}}),
        ])
        .await;
    delete::<Workspace>(&world, "acme").await;
    let removed = async || get::<Workspace>(&world, "acme").await.is_none().then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "removed", removed).await;
    let left = Api::<HelmPackage>::all(world.admin_client()).list(&ListParams::default()).await.unwrap();
    let names: Vec<String> = left.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(names, ["pkg-everyone", "pkg-foreign", "pkg-kept", "pkg-requested", "pkg-shared"]);
    let carries = |package: &HelmPackage| package.annotations().keys().any(|key| key.contains(&uid));
    assert!(!left.items.iter().any(carries), "{:?}", left.items);
}

#[tokio::test]
async fn removed_namespace_deletes_its_requests_and_retires_its_name() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &with_namespace("acme")).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    create_workspace_objects(&world, "acme").await;
    let only_first = json!({"spec": {"namespaces": [{"name": "acme"}]}});
    patch::<Workspace>(&world, "acme", only_first).await;
    let removed = async || {
        let gone = get::<Namespace>(&world, "acme-test").await.is_none();
        (gone && is_ready(&world, "acme").await.is_some()).then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "removed", removed).await;
    let kept = object_names(&world).await;
    assert!(kept.contains(&"req-acme-1".to_owned()) && !kept.contains(&"req-acme-2".to_owned()), "{kept:?}");
    assert_eq!(retired_names(&world).await, ["acme-test"]);
}

/// A namespace is deleted with kubectl, and then removed from the spec: its name is not free for the next tenant.
#[tokio::test]
async fn namespace_deleted_by_kubectl_retires_its_name_and_stops_its_reissue() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &with_namespace("acme")).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    delete::<Namespace>(&world, "acme-test").await;
    wait_for("gone", async || get::<Namespace>(&world, "acme-test").await.is_none().then_some(())).await;
    let recorded = async |name: &str| {
        let status = get::<Workspace>(&world, "acme").await?.status?;
        Some(status.namespaces.iter().any(|record| record.name == name))
    };
    assert_eq!(recorded("acme-test").await, Some(true));
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    let let_go = async || (!recorded("acme-test").await?).then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "let go", let_go).await;
    assert_eq!(retired_names(&world).await, ["acme-test"]);
}

/// The same while the namespace is still being deleted.
#[tokio::test]
async fn terminating_namespace_retires_its_name_when_removed_from_the_spec() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &with_namespace("acme")).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    world
        .apply([json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "kept", "namespace": "acme-test", "finalizers": ["example.com/kept"]},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        })])
        .await;
    delete::<Namespace>(&world, "acme-test").await;
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    let is_retired = async || (retired_names(&world).await == ["acme-test"]).then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "retired", is_retired).await;
}

/// A tenant's finalizer retains a `PersistentVolumeClaim`: its storage is still in use.
#[tokio::test]
async fn share_of_a_removed_namespace_returns_when_it_is_gone() {
    let (world, clock) = (test_cluster().await, ManualClock::new());
    create(&world, &with_namespace("acme")).await;
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "ready", async || {
        is_ready(&world, "acme").await
    })
    .await;
    assert_eq!(storage_limit(&world, "acme").await.as_deref(), Some("15Gi"));
    world
        .apply([json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": {"name": "kept", "namespace": "acme-test", "finalizers": ["example.com/kept"]},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "5Gi"}}},
        })])
        .await;
    patch::<Workspace>(&world, "acme", json!({"spec": {"namespaces": [{"name": "acme"}]}})).await;
    let leaving = async || {
        let namespace = get::<Namespace>(&world, "acme-test").await?;
        let observed = get::<Workspace>(&world, "acme").await?;
        let status = observed.status.clone()?;
        (namespace.metadata.deletion_timestamp.is_some()
            && status.observed_generation == observed.metadata.generation)
            .then_some(())
    };
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "leaving", leaving).await;
    assert_eq!(storage_limit(&world, "acme").await.as_deref(), Some("15Gi"), "the claim is still there");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(world.admin_client(), "acme-test");
    let freed = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    claims.patch("kept", &PatchParams::default(), &freed).await.unwrap();
    let returned = async || (storage_limit(&world, "acme").await.as_deref() == Some("20Gi")).then_some(());
    run_controllers_until(&world, &FaultInjector::healthy(), &clock, "returned", returned).await;
}
