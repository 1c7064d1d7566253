//! Charts as in the server: repositories as custom resources, and stored packages.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chart_store::{ChartReader, ChartSource, ChartStore};
use domain::ErrorKind;
use domain::clock::SystemClock;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube_types::package::PackageOrigin;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE, well_known};
use outbound::{Dialer, EgressPolicy, FetchClient};
use serde_json::{Value, json};
use testkit::TestCluster;

use crate::fake_registry::{FakeRegistry, RegistryAuth};
use crate::fake_server::{FakeServer, LOGIN, client, response};
use crate::fixtures::{chart_archive, repo_index};

fn new_chart_store(world: &TestCluster, outgoing: FetchClient) -> ChartStore {
    ChartStore::new(world.platform_client(), outgoing, Arc::new(SystemClock))
}

fn web_chart(repo: &str) -> ChartSource {
    ChartSource::Repo { repo: repo.to_owned(), chart: "web".to_owned(), version: "^1".to_owned() }
}

fn helm_repo(name: &str, spec: impl Into<Value>) -> Value {
    let spec = spec.into();
    json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": name}, "spec": spec})
}

fn credentials_secret(workspace: &str) -> Value {
    let labels = if workspace.is_empty() { json!({}) } else { json!({well_known::WORKSPACE: workspace}) };
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": well_known::REPO_CREDENTIALS_TYPE,
        "metadata": {"name": "login", "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "stringData": {"username": "me", "password": "canary"},
    })
}

/// A repository that requires a password.
async fn password_protected_repo() -> FakeServer {
    let web = chart_archive("web", "1.0.0");
    let text = repo_index(&[("web", "1.0.0", "web.tgz", &web)]);
    FakeServer::new(move |request| {
        if request.headers().get("authorization").is_none_or(|login| login != LOGIN) {
            return response(401, "");
        }
        match request.uri().path() {
            "/index.yaml" => response(200, text.clone()),
            "/web.tgz" => response(200, web.clone()),
            _ => response(404, ""),
        }
    })
    .await
}

#[tokio::test]
async fn stored_chart_is_not_fetched_again() {
    let (world, served) = (TestCluster::new().await, password_protected_repo().await);
    let spec = json!({"url": served.address, "credentialRef": {"name": "login"}});
    world.apply([credentials_secret(""), helm_repo("here", spec)]).await;
    let charts = new_chart_store(&world, client());
    let fetched = charts.fetch(&web_chart("here"), &ChartReader::Platform).await.unwrap();
    let name = charts.store(&fetched, PackageOrigin::RepoCache, &ChartReader::Platform).await.unwrap();
    assert_eq!(served.requests().len(), 2);

    // A restarted server fetches the index again and has the packages.
    let after = self::new_chart_store(&world, client());
    let again = after.fetch(&web_chart("here"), &ChartReader::Platform).await.unwrap();
    assert_eq!(again.digest, fetched.digest);
    assert_eq!(served.requests(), [format!("GET /index.yaml {LOGIN}")]);
    let by_name = after.fetch(&ChartSource::Package(name), &ChartReader::Platform).await.unwrap();
    assert_eq!(by_name.bytes, fetched.bytes);
    assert_eq!(served.requests(), [""; 0]);
}

#[tokio::test]
async fn repeated_fetches_of_one_chart_make_few_api_calls() {
    let (world, served, fault) =
        (TestCluster::new().await, password_protected_repo().await, testkit::FaultInjector::healthy());
    let spec = json!({"url": served.address, "credentialRef": {"name": "login"}});
    world.apply([credentials_secret(""), helm_repo("here", spec)]).await;
    let charts = ChartStore::new(fault.wrap(world.platform_client()), client(), Arc::new(SystemClock));
    for _ in 0..100 {
        let fetched = charts.fetch(&web_chart("here"), &ChartReader::Platform).await.unwrap();
        let name = charts.store(&fetched, PackageOrigin::RepoCache, &ChartReader::Platform).await.unwrap();
        charts.fetch(&ChartSource::Package(name), &ChartReader::Platform).await.unwrap();
    }
    assert_eq!((served.requests().len(), fault.writes()), (2, 3));
    // Each fetch reads the repository object again, and little else.
    assert!(fault.calls() < 120, "{}", fault.calls());
}

#[tokio::test]
async fn repository_of_another_workspace_is_not_found() {
    let (world, served) = (TestCluster::new().await, password_protected_repo().await);
    let spec = |workspace: &str| json!({"url": served.address, "workspace": workspace, "credentialRef": {"name": "login"}});
    world
        .apply([
            credentials_secret("acme"),
            helm_repo("theirs", spec("acme")),
            helm_repo("thief", spec("evil")),
        ])
        .await;
    let charts = new_chart_store(&world, client());
    let reader = |name: &str| ChartReader::Workspace(name.to_owned());
    charts.fetch(&web_chart("theirs"), &reader("acme")).await.unwrap();
    served.requests();
    let said = charts.fetch(&web_chart("theirs"), &reader("evil")).await.unwrap_err();
    assert_eq!((said.kind(), &*said.to_string()), (ErrorKind::NotFound, "repository `theirs` not found"));
    let missing = charts.fetch(&web_chart("missing"), &reader("evil")).await.unwrap_err();
    assert_eq!(missing.to_string(), said.to_string().replace("theirs", "missing"));
    // A tenant's own repository cannot send another tenant's password to a URL of its choice.
    let said = charts.fetch(&web_chart("thief"), &reader("evil")).await.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Invalid);
    assert!(!format!("{said} {said:?}").contains("canary"));
    assert_eq!(served.requests(), [""; 0]);
}

#[tokio::test]
async fn private_address_is_refused_by_default() {
    let (world, served) = (TestCluster::new().await, password_protected_repo().await);
    world.apply([helm_repo("here", json!({"url": served.address}))]).await;
    let charts = new_chart_store(&world, FetchClient::new(Dialer::new(EgressPolicy::default())));
    let said = charts.fetch(&web_chart("here"), &ChartReader::Platform).await.unwrap_err();
    assert_eq!(said.kind(), ErrorKind::Forbidden);
    let oci =
        ChartSource::Oci { reference: "oci://127.0.0.1:1/web:1.0.0".to_owned(), version: String::new() };
    assert_eq!(charts.fetch(&oci, &ChartReader::Platform).await.unwrap_err().kind(), ErrorKind::Forbidden);
    assert_eq!(served.requests(), [""; 0]);
}

#[tokio::test]
async fn registry_is_usable_as_a_repository() {
    let (world, content) = (TestCluster::new().await, FakeRegistry::default());
    content.put("charts/web", "1.0.0", &chart_archive("web", "1.0.0"));
    content.put("charts/web", "1.5.0", &chart_archive("web", "1.5.0"));
    let served = content.serve(RegistryAuth::Basic).await;
    let spec = json!({"url": format!("oci://{}/charts/", served.host), "insecure": true, "credentialRef": {"name": "login"}});
    world.apply([credentials_secret(""), helm_repo("registry", spec)]).await;
    let charts = new_chart_store(&world, client());
    let fetched = charts.fetch(&web_chart("registry"), &ChartReader::Platform).await.unwrap();
    assert_eq!(fetched.version(), "1.5.0");
    let up =
        ChartSource::Repo { repo: "registry".to_owned(), chart: "../x".to_owned(), version: String::new() };
    assert_eq!(charts.fetch(&up, &ChartReader::Platform).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn inline_index_is_used_without_a_request() {
    let (world, web_bytes) = (TestCluster::new().await, chart_archive("web", "1.0.0"));
    let text = repo_index(&[("web", "1.0.0", "web.tgz", &web_bytes)]);
    let served = FakeServer::new(move |_| response(200, web_bytes.clone())).await;
    let spec = json!({"url": served.address, "data": STANDARD.encode(text)});
    world
        .apply([
            helm_repo("by-hand", spec),
            helm_repo("damaged", json!({"url": served.address, "data": "?"})),
        ])
        .await;
    let charts = new_chart_store(&world, client());
    charts.fetch(&web_chart("by-hand"), &ChartReader::Platform).await.unwrap();
    assert_eq!(served.requests(), ["GET /web.tgz -"]);
    let said = charts.fetch(&web_chart("damaged"), &ChartReader::Platform).await.unwrap_err();
    assert_eq!(said.to_string(), "cannot use repository `damaged`: its `data` is not valid base64");
}

#[tokio::test]
async fn suspended_repository_is_not_fetched() {
    let (world, served) = (TestCluster::new().await, password_protected_repo().await);
    world.apply([helm_repo("here", json!({"url": served.address, "suspend": true}))]).await;
    let said = new_chart_store(&world, client())
        .fetch(&web_chart("here"), &ChartReader::Platform)
        .await
        .unwrap_err();
    assert_eq!(
        (said.kind(), &*said.to_string()),
        (ErrorKind::Precondition, "repository `here` is suspended")
    );
    assert_eq!(served.requests(), [""; 0]);
}

#[tokio::test]
async fn uploaded_archive_is_loaded_within_limits() {
    let world = TestCluster::new().await;
    let charts = new_chart_store(&world, client());
    let load = async |bytes: Bytes| charts.fetch(&ChartSource::Archive(bytes), &ChartReader::Platform).await;
    assert_eq!(load(chart_archive("web", "1.0.0")).await.unwrap().name(), "web");
    assert_eq!(load(Bytes::from(vec![0; (10 << 20) + 1])).await.unwrap_err().kind(), ErrorKind::TooLarge);
    assert_eq!(load(Bytes::from_static(b"no chart")).await.unwrap_err().kind(), ErrorKind::Invalid);
}

#[tokio::test]
async fn a_repository_takes_no_password_and_stays_with_its_workspace() {
    let world = TestCluster::new().await;
    let repos: Api<HelmRepo> = Api::all(world.admin_client());
    let url = "https://charts.example";
    let refused = [
        (
            json!({"url": url, "credential": {"password": "canary"}}),
            "must be empty: store the password in the Secret",
        ),
        (
            json!({"url": url, "credential": {"keyFile": "canary"}}),
            "must be empty: store the key in the Secret",
        ),
        (json!({"url": url, "credential": {"caFile": "/etc/passwd"}}), "not a file name"),
        (json!({"url": "https://me:canary@charts.example"}), "spec.url"),
        (json!({"url": "ftp://charts.example"}), "spec.url"),
        (json!({"url": url, "syncPeriod": 5}), "must be 0 or at least 180 seconds"),
    ];
    for (spec, words) in refused {
        let object: HelmRepo = serde_json::from_value(helm_repo("bad", spec)).unwrap();
        let said = repos.create(&PostParams::default(), &object).await.unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
    let object: HelmRepo =
        serde_json::from_value(helm_repo("good", json!({"url": url, "workspace": "acme"}))).unwrap();
    let made = repos.create(&PostParams::default(), &object).await.unwrap();
    assert!(!made.spec.credential.insecure_skip_tls_verify);
    let patch = Patch::Merge(json!({"spec": {"workspace": "evil"}}));
    let said = repos.patch("good", &PatchParams::default(), &patch).await.unwrap_err().to_string();
    assert!(said.contains("workspace is immutable"), "{said}");
}
