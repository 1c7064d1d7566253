//! Attacks by tenants on packages and repositories of others; each test is named for its attack.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chart_store::{ChartReader, ChartSource, ChartStore, Digest, LoadedChart};
use domain::ErrorKind;
use domain::clock::SystemClock;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube_types::package::PackageOrigin;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE, Workspace, well_known};
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::fake_registry::{FakeRegistry, RegistryAuth};
use crate::fake_server::{FakeServer, LOGIN, client, response};
use crate::fixtures::{chart_archive, repo_index};

fn new_chart_store(world: &TestCluster) -> ChartStore {
    ChartStore::new(world.platform_client(), client(), Arc::new(SystemClock))
}

fn workspace_scope(workspace: &str) -> ChartReader {
    ChartReader::Workspace(workspace.to_owned())
}

fn web_chart(repo: &str) -> ChartSource {
    ChartSource::Repo { repo: repo.to_owned(), chart: "web".to_owned(), version: String::new() }
}

fn helm_repo(name: &str, spec: impl Into<Value>) -> Value {
    json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": name}, "spec": spec.into()})
}

fn workspace(name: &str) -> Value {
    json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"namespaces": [{"name": name}], "clusters": ["host"], "members": []},
    })
}

async fn world() -> TestCluster {
    let world = TestCluster::new().await;
    world.apply([workspace("acme"), workspace("evil")]).await;
    world
}

/// Uploads a chart for a workspace, as `POST packages` does.
async fn upload(charts: &ChartStore, bytes: Bytes, workspace: &str) -> (LoadedChart, String) {
    let fetched = charts.fetch(&ChartSource::Archive(bytes), &workspace_scope(workspace)).await.unwrap();
    let name = charts.store(&fetched, PackageOrigin::Upload, &workspace_scope(workspace)).await.unwrap();
    (fetched, name)
}

#[tokio::test]
async fn foreign_package_is_not_readable_by_name() {
    let world = world().await;
    let charts = new_chart_store(&world);
    let (_, name) = upload(&charts, chart_archive("web", "1.0.0"), "acme").await;
    charts.fetch(&ChartSource::Package(name.clone()), &workspace_scope("acme")).await.unwrap();
    // With the caches of the server that stored it, and with another server's caches.
    for charts in [charts, self::new_chart_store(&world)] {
        let refused =
            charts.fetch(&ChartSource::Package(name.clone()), &workspace_scope("evil")).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("package `{name}` not found"));
        assert_eq!(refused.kind(), ErrorKind::NotFound);
    }
}

#[tokio::test]
async fn foreign_package_is_not_readable_by_digest_in_an_index() {
    let world = world().await;
    let secret = chart_archive("web", "1.0.0");
    let (kept, _) = upload(&new_chart_store(&world), secret.clone(), "acme").await;
    // The tenant knows the digest, but has other bytes.
    let text = repo_index(&[("web", "1.0.0", "web.tgz", &secret)]);
    let other = chart_archive("web", "6.6.6");
    let served = FakeServer::new(move |request| match request.uri().path() {
        "/index.yaml" => response(200, text.clone()),
        _ => response(200, other.clone()),
    })
    .await;
    world.apply([helm_repo("evil.thief", json!({"url": served.address, "workspace": "evil"}))]).await;
    let charts = new_chart_store(&world);
    upload(&charts, secret, "acme").await;
    let refused = charts.fetch(&web_chart("evil.thief"), &workspace_scope("evil")).await.unwrap_err();
    assert!(refused.to_string().contains("has digest"), "{refused}");
    let by_name = ChartSource::Package(kept.digest.package_name());
    assert_eq!(
        charts.fetch(&by_name, &workspace_scope("evil")).await.unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn foreign_package_is_not_readable_by_digest_in_a_registry() {
    let (world, content) = (world().await, FakeRegistry::default());
    let secret = chart_archive("web", "1.0.0");
    content.put("charts/web", "1.0.0", &secret);
    let served = content.serve(RegistryAuth::Open).await;
    content.remove_blob(&Digest::sha256(&secret));
    let charts = new_chart_store(&world);
    upload(&charts, secret, "acme").await;
    let spec = json!({"url": format!("oci://{}/charts", served.host), "insecure": true, "workspace": "evil"});
    world.apply([helm_repo("evil.thief", spec)]).await;
    let refused = charts.fetch(&web_chart("evil.thief"), &workspace_scope("evil")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound, "{refused}");
}

#[tokio::test]
async fn tenant_that_fetches_the_same_bytes_itself_becomes_a_reader() {
    let world = world().await;
    let bytes = chart_archive("web", "1.0.0");
    let (kept, name) = upload(&new_chart_store(&world), bytes.clone(), "acme").await;
    let text = repo_index(&[("web", "1.0.0", "web.tgz", &bytes)]);
    let served = FakeServer::new(move |request| match request.uri().path() {
        "/index.yaml" => response(200, text.clone()),
        _ => response(200, bytes.clone()),
    })
    .await;
    world.apply([helm_repo("evil.own", json!({"url": served.address, "workspace": "evil"}))]).await;
    let charts = new_chart_store(&world);
    let fetched = charts.fetch(&web_chart("evil.own"), &workspace_scope("evil")).await.unwrap();
    assert_eq!(served.requests(), ["GET /index.yaml -", "GET /web.tgz -"]);
    charts.store(&fetched, PackageOrigin::RepoCache, &workspace_scope("evil")).await.unwrap();
    assert_eq!(
        charts.fetch(&ChartSource::Package(name), &workspace_scope("evil")).await.unwrap().digest,
        kept.digest
    );
    charts.fetch(&web_chart("evil.own"), &workspace_scope("evil")).await.unwrap();
    assert_eq!(served.requests(), [""; 0]);
}

#[tokio::test]
async fn recreated_workspace_cannot_read_packages_of_its_predecessor() {
    let world = world().await;
    let charts = new_chart_store(&world);
    let (_, name) = upload(&charts, chart_archive("web", "1.0.0"), "acme").await;
    recreate_workspace(&world, "acme").await;
    let refused = charts.fetch(&ChartSource::Package(name), &workspace_scope("acme")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
}

/// Deletes a workspace and creates another one with the same name, as for a new owner.
async fn recreate_workspace(world: &TestCluster, name: &str) {
    let workspaces: Api<Workspace> = Api::all(world.admin_client());
    workspaces.delete(name, &DeleteParams::default()).await.unwrap();
    world.apply([workspace(name)]).await;
}

/// A repository that requires a password, and one without that serves the same names.
async fn password_protected_repo() -> FakeServer {
    let web = chart_archive("web", "1.0.0");
    let text = repo_index(&[("web", "1.0.0", "web.tgz", &web)]);
    FakeServer::new(move |request| {
        if request.headers().get("authorization").is_none_or(|login| login != LOGIN) {
            return response(401, "");
        }
        match request.uri().path() {
            "/index.yaml" => response(200, text.clone()),
            _ => response(200, web.clone()),
        }
    })
    .await
}

#[tokio::test]
async fn recreated_repository_inherits_no_credentials_and_no_index() {
    let (world, served) = (world().await, password_protected_repo().await);
    let credentials = json!({
        "apiVersion": "v1", "kind": "Secret", "type": well_known::REPO_CREDENTIALS_TYPE,
        "metadata": {"name": "login", "namespace": SYSTEM_NAMESPACE, "labels": {well_known::WORKSPACE: "acme"}},
        "stringData": {"username": "me", "password": "canary"},
    });
    let spec = json!({"url": served.address, "workspace": "acme", "credentialRef": {"name": "login"}});
    world.apply([credentials, helm_repo("acme.charts", spec)]).await;
    let charts = new_chart_store(&world);
    charts.fetch(&web_chart("acme.charts"), &workspace_scope("acme")).await.unwrap();
    charts.index("acme.charts", &workspace_scope("acme")).await.unwrap();
    served.requests();
    // Within the lifetime of every cache.
    let repos: Api<HelmRepo> = Api::all(world.admin_client());
    repos.delete("acme.charts", &DeleteParams::default()).await.unwrap();
    let gone = charts.fetch(&web_chart("acme.charts"), &workspace_scope("acme")).await.unwrap_err();
    assert_eq!(gone.kind(), ErrorKind::NotFound);
    world.apply([helm_repo("acme.charts", json!({"url": served.address, "workspace": "acme"}))]).await;
    let refused = charts.fetch(&web_chart("acme.charts"), &workspace_scope("acme")).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Forbidden, "{refused}");
    assert!(charts.index("acme.charts", &workspace_scope("acme")).await.is_err());
    assert!(served.requests().iter().all(|line| !line.contains(LOGIN)));
}

#[tokio::test]
async fn updated_repository_drops_its_former_inline_index() {
    let world = world().await;
    let spec = |version: &str| {
        let bytes = chart_archive("web", version);
        let text = repo_index(&[("web", version, "web.tgz", &bytes)]);
        json!({"url": "http://127.0.0.1:1", "workspace": "acme", "data": STANDARD.encode(text)})
    };
    world.apply([helm_repo("acme.charts", spec("1.0.0"))]).await;
    let charts = new_chart_store(&world);
    let newest = async || {
        let index = charts.index("acme.charts", &workspace_scope("acme")).await.unwrap();
        index.versions("web").next().unwrap().to_string()
    };
    assert_eq!(newest().await, "1.0.0");
    let repos: Api<HelmRepo> = Api::all(world.admin_client());
    let patch = Patch::Merge(json!({"spec": spec("2.0.0")}));
    repos.patch("acme.charts", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(newest().await, "2.0.0");
}

#[tokio::test]
async fn recreated_workspace_cannot_use_repositories_of_its_predecessor() {
    let (world, served) = (world().await, password_protected_repo().await);
    world.apply([helm_repo("acme.charts", json!({"url": served.address, "workspace": "acme"}))]).await;
    let uid = Api::<Workspace>::all(world.admin_client()).get("acme").await.unwrap().metadata.uid.unwrap();
    let mark = Patch::Merge(json!({"metadata": {"annotations": {well_known::WORKSPACE_UID: uid}}}));
    let repos: Api<HelmRepo> = Api::all(world.admin_client());
    repos.patch("acme.charts", &PatchParams::default(), &mark).await.unwrap();
    let charts = new_chart_store(&world);
    let allowed = charts.fetch(&web_chart("acme.charts"), &workspace_scope("acme")).await.unwrap_err();
    assert_eq!(allowed.kind(), ErrorKind::Forbidden, "the password is missing: {allowed}");
    served.requests();
    recreate_workspace(&world, "acme").await;
    let refused = charts.fetch(&web_chart("acme.charts"), &workspace_scope("acme")).await.unwrap_err();
    assert_eq!(refused.to_string(), "repository `acme.charts` not found");
    assert_eq!(served.requests(), [""; 0]);
}
