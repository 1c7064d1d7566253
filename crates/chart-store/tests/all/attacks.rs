//! Attacks by tenants on packages and repositories of others; each test is named for its attack.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chart_store::{Charts, Digest, Fetched, Reader, Source};
use domain::Kind;
use domain::clock::SystemClock;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube_types::package::Origin;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE, Workspace, marks};
use serde_json::{Value, json};
use testkit::World;

use crate::made::{archive, index};
use crate::registry::{Content, Gate};
use crate::served::{LOGIN, Served, answer, client};

fn charts(world: &World) -> Charts {
    Charts::new(world.platform(), client(), Arc::new(SystemClock))
}

fn reader(workspace: &str) -> Reader {
    Reader::Workspace(workspace.to_owned())
}

fn web(repo: &str) -> Source {
    Source::Repo { repo: repo.to_owned(), chart: "web".to_owned(), version: String::new() }
}

fn repo(name: &str, spec: impl Into<Value>) -> Value {
    json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": name}, "spec": spec.into()})
}

fn workspace(name: &str) -> Value {
    json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "Workspace", "metadata": {"name": name},
        "spec": {"namespaces": [{"name": name}], "clusters": ["host"], "members": []},
    })
}

async fn world() -> World {
    let world = World::new().await;
    world.apply([workspace("acme"), workspace("evil")]).await;
    world
}

/// Uploads a chart for a workspace, as `POST packages` does.
async fn upload(charts: &Charts, bytes: Bytes, workspace: &str) -> (Fetched, String) {
    let fetched = charts.fetch(&Source::Archive(bytes), &reader(workspace)).await.unwrap();
    let name = charts.keep(&fetched, Origin::Upload, &reader(workspace)).await.unwrap();
    (fetched, name)
}

#[tokio::test]
async fn tenant_reads_a_foreign_package_by_its_name() {
    let world = world().await;
    let charts = charts(&world);
    let (_, name) = upload(&charts, archive("web", "1.0.0"), "acme").await;
    charts.fetch(&Source::Package(name.clone()), &reader("acme")).await.unwrap();
    // With the caches of the server that stored it, and with those of another server.
    for charts in [charts, self::charts(&world)] {
        let refused = charts.fetch(&Source::Package(name.clone()), &reader("evil")).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("there is no package `{name}`"));
        assert_eq!(refused.kind(), Kind::NotFound);
    }
}

#[tokio::test]
async fn tenant_reads_a_foreign_package_by_naming_its_digest_in_an_index() {
    let world = world().await;
    let secret = archive("web", "1.0.0");
    let (kept, _) = upload(&charts(&world), secret.clone(), "acme").await;
    // The tenant knows the digest, but has other bytes.
    let text = index(&[("web", "1.0.0", "web.tgz", &secret)]);
    let other = archive("web", "6.6.6");
    let served = Served::new(move |request| match request.uri().path() {
        "/index.yaml" => answer(200, text.clone()),
        _ => answer(200, other.clone()),
    })
    .await;
    world.apply([repo("evil.thief", json!({"url": served.address, "workspace": "evil"}))]).await;
    let charts = charts(&world);
    upload(&charts, secret, "acme").await;
    let refused = charts.fetch(&web("evil.thief"), &reader("evil")).await.unwrap_err();
    assert!(refused.to_string().contains("has the digest"), "{refused}");
    let by_name = Source::Package(kept.digest.package());
    assert_eq!(charts.fetch(&by_name, &reader("evil")).await.unwrap_err().kind(), Kind::NotFound);
}

#[tokio::test]
async fn tenant_reads_a_foreign_package_by_naming_its_digest_in_a_registry() {
    let (world, content) = (world().await, Content::default());
    let secret = archive("web", "1.0.0");
    content.put("charts/web", "1.0.0", &secret);
    let served = content.serve(Gate::Open).await;
    content.forget(&Digest::of(&secret));
    let charts = charts(&world);
    upload(&charts, secret, "acme").await;
    let spec = json!({"url": format!("oci://{}/charts", served.host), "insecure": true, "workspace": "evil"});
    world.apply([repo("evil.thief", spec)]).await;
    let refused = charts.fetch(&web("evil.thief"), &reader("evil")).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::NotFound, "{refused}");
}

#[tokio::test]
async fn tenant_that_fetches_the_same_bytes_itself_becomes_a_reader() {
    let world = world().await;
    let bytes = archive("web", "1.0.0");
    let (kept, name) = upload(&charts(&world), bytes.clone(), "acme").await;
    let text = index(&[("web", "1.0.0", "web.tgz", &bytes)]);
    let served = Served::new(move |request| match request.uri().path() {
        "/index.yaml" => answer(200, text.clone()),
        _ => answer(200, bytes.clone()),
    })
    .await;
    world.apply([repo("evil.own", json!({"url": served.address, "workspace": "evil"}))]).await;
    let charts = charts(&world);
    let fetched = charts.fetch(&web("evil.own"), &reader("evil")).await.unwrap();
    assert_eq!(served.asked(), ["GET /index.yaml -", "GET /web.tgz -"]);
    charts.keep(&fetched, Origin::RepoCache, &reader("evil")).await.unwrap();
    assert_eq!(charts.fetch(&Source::Package(name), &reader("evil")).await.unwrap().digest, kept.digest);
    charts.fetch(&web("evil.own"), &reader("evil")).await.unwrap();
    assert_eq!(served.asked(), [""; 0]);
}

#[tokio::test]
async fn new_owner_of_a_workspace_name_reads_no_package_of_the_former_one() {
    let world = world().await;
    let charts = charts(&world);
    let (_, name) = upload(&charts, archive("web", "1.0.0"), "acme").await;
    reissue(&world, "acme").await;
    let refused = charts.fetch(&Source::Package(name), &reader("acme")).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::NotFound);
}

/// Deletes a workspace and creates another one with the same name, as for a new owner.
async fn reissue(world: &World, name: &str) {
    let workspaces: Api<Workspace> = Api::all(world.admin());
    workspaces.delete(name, &DeleteParams::default()).await.unwrap();
    world.apply([workspace(name)]).await;
}

/// A repository that requires a password, and one without that serves the same names.
async fn guarded() -> Served {
    let web = archive("web", "1.0.0");
    let text = index(&[("web", "1.0.0", "web.tgz", &web)]);
    Served::new(move |request| {
        if request.headers().get("authorization").is_none_or(|login| login != LOGIN) {
            return answer(401, "");
        }
        match request.uri().path() {
            "/index.yaml" => answer(200, text.clone()),
            _ => answer(200, web.clone()),
        }
    })
    .await
}

#[tokio::test]
async fn recreated_repository_inherits_no_credentials_and_no_index() {
    let (world, served) = (world().await, guarded().await);
    let credentials = json!({
        "apiVersion": "v1", "kind": "Secret", "type": marks::REPO_CREDENTIALS_TYPE,
        "metadata": {"name": "login", "namespace": SYSTEM_NAMESPACE, "labels": {marks::WORKSPACE: "acme"}},
        "stringData": {"username": "me", "password": "canary"},
    });
    let spec = json!({"url": served.address, "workspace": "acme", "credentialRef": {"name": "login"}});
    world.apply([credentials, repo("acme.charts", spec)]).await;
    let charts = charts(&world);
    charts.fetch(&web("acme.charts"), &reader("acme")).await.unwrap();
    charts.index("acme.charts", &reader("acme")).await.unwrap();
    served.asked();
    // Within the lifetime of every cache.
    let repos: Api<HelmRepo> = Api::all(world.admin());
    repos.delete("acme.charts", &DeleteParams::default()).await.unwrap();
    let gone = charts.fetch(&web("acme.charts"), &reader("acme")).await.unwrap_err();
    assert_eq!(gone.kind(), Kind::NotFound);
    world.apply([repo("acme.charts", json!({"url": served.address, "workspace": "acme"}))]).await;
    let refused = charts.fetch(&web("acme.charts"), &reader("acme")).await.unwrap_err();
    assert_eq!(refused.kind(), Kind::Forbidden, "{refused}");
    assert!(charts.index("acme.charts", &reader("acme")).await.is_err());
    assert!(served.asked().iter().all(|line| !line.contains(LOGIN)));
}

#[tokio::test]
async fn changed_repository_stops_using_its_former_index_by_hand() {
    let world = world().await;
    let spec = |version: &str| {
        let bytes = archive("web", version);
        let text = index(&[("web", version, "web.tgz", &bytes)]);
        json!({"url": "http://127.0.0.1:1", "workspace": "acme", "data": STANDARD.encode(text)})
    };
    world.apply([repo("acme.charts", spec("1.0.0"))]).await;
    let charts = charts(&world);
    let newest = async || {
        let index = charts.index("acme.charts", &reader("acme")).await.unwrap();
        index.versions("web").next().unwrap().to_string()
    };
    assert_eq!(newest().await, "1.0.0");
    let repos: Api<HelmRepo> = Api::all(world.admin());
    let patch = Patch::Merge(json!({"spec": spec("2.0.0")}));
    repos.patch("acme.charts", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(newest().await, "2.0.0");
}

#[tokio::test]
async fn new_owner_of_a_workspace_name_uses_no_repository_of_the_former_one() {
    let (world, served) = (world().await, guarded().await);
    world.apply([repo("acme.charts", json!({"url": served.address, "workspace": "acme"}))]).await;
    let uid = Api::<Workspace>::all(world.admin()).get("acme").await.unwrap().metadata.uid.unwrap();
    let mark = Patch::Merge(json!({"metadata": {"annotations": {marks::WORKSPACE_UID: uid}}}));
    let repos: Api<HelmRepo> = Api::all(world.admin());
    repos.patch("acme.charts", &PatchParams::default(), &mark).await.unwrap();
    let charts = charts(&world);
    let allowed = charts.fetch(&web("acme.charts"), &reader("acme")).await.unwrap_err();
    assert_eq!(allowed.kind(), Kind::Forbidden, "the password is missing: {allowed}");
    served.asked();
    reissue(&world, "acme").await;
    let refused = charts.fetch(&web("acme.charts"), &reader("acme")).await.unwrap_err();
    assert_eq!(refused.to_string(), "there is no repository `acme.charts`");
    assert_eq!(served.asked(), [""; 0]);
}
