//! Charts as in the server: repositories as custom resources, and stored packages.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use chart_store::{Charts, Reader, Source};
use domain::Kind;
use domain::clock::SystemClock;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube_types::package::Origin;
use kube_types::{HelmRepo, SYSTEM_NAMESPACE, marks};
use outbound::{Client, Dialer, Policy};
use serde_json::{Value, json};
use testkit::World;

use crate::made::{archive, index};
use crate::registry::{Content, Gate};
use crate::served::{LOGIN, Served, answer, client};

fn charts(world: &World, outgoing: Client) -> Charts {
    Charts::new(world.platform(), outgoing, Arc::new(SystemClock))
}

fn web(repo: &str) -> Source {
    Source::Repo { repo: repo.to_owned(), chart: "web".to_owned(), version: "^1".to_owned() }
}

fn repo(name: &str, spec: impl Into<Value>) -> Value {
    let spec = spec.into();
    json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRepo", "metadata": {"name": name}, "spec": spec})
}

fn credentials(workspace: &str) -> Value {
    let labels = if workspace.is_empty() { json!({}) } else { json!({marks::WORKSPACE: workspace}) };
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": marks::REPO_CREDENTIALS_TYPE,
        "metadata": {"name": "login", "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "stringData": {"username": "me", "password": "canary"},
    })
}

/// A repository that requires a password.
async fn guarded() -> Served {
    let web = archive("web", "1.0.0");
    let text = index(&[("web", "1.0.0", "web.tgz", &web)]);
    Served::new(move |request| {
        if request.headers().get("authorization").is_none_or(|login| login != LOGIN) {
            return answer(401, "");
        }
        match request.uri().path() {
            "/index.yaml" => answer(200, text.clone()),
            "/web.tgz" => answer(200, web.clone()),
            _ => answer(404, ""),
        }
    })
    .await
}

#[tokio::test]
async fn a_chart_that_is_kept_is_not_fetched_again() {
    let (world, served) = (World::new().await, guarded().await);
    let spec = json!({"url": served.address, "credentialRef": {"name": "login"}});
    world.apply([credentials(""), repo("here", spec)]).await;
    let charts = charts(&world, client());
    let fetched = charts.fetch(&web("here"), &Reader::Platform).await.unwrap();
    let name = charts.keep(&fetched, Origin::RepoCache, &Reader::Platform).await.unwrap();
    assert_eq!(served.asked().len(), 2);

    // A restarted server fetches the index again and has the packages.
    let after = self::charts(&world, client());
    let again = after.fetch(&web("here"), &Reader::Platform).await.unwrap();
    assert_eq!(again.digest, fetched.digest);
    assert_eq!(served.asked(), [format!("GET /index.yaml {LOGIN}")]);
    let by_name = after.fetch(&Source::Package(name), &Reader::Platform).await.unwrap();
    assert_eq!(by_name.bytes, fetched.bytes);
    assert_eq!(served.asked(), [""; 0]);
}

#[tokio::test]
async fn many_releases_of_one_chart_ask_the_cluster_little() {
    let (world, served, fault) = (World::new().await, guarded().await, testkit::Fault::none());
    let spec = json!({"url": served.address, "credentialRef": {"name": "login"}});
    world.apply([credentials(""), repo("here", spec)]).await;
    let charts = Charts::new(fault.over(world.platform()), client(), Arc::new(SystemClock));
    for _ in 0..100 {
        let fetched = charts.fetch(&web("here"), &Reader::Platform).await.unwrap();
        let name = charts.keep(&fetched, Origin::RepoCache, &Reader::Platform).await.unwrap();
        charts.fetch(&Source::Package(name), &Reader::Platform).await.unwrap();
    }
    assert_eq!((served.asked().len(), fault.writes()), (2, 3));
    // Each fetch reads the repository object again, and little else.
    assert!(fault.calls() < 120, "{}", fault.calls());
}

#[tokio::test]
async fn a_repository_of_another_workspace_is_not_there() {
    let (world, served) = (World::new().await, guarded().await);
    let spec = |workspace: &str| json!({"url": served.address, "workspace": workspace, "credentialRef": {"name": "login"}});
    world.apply([credentials("acme"), repo("theirs", spec("acme")), repo("thief", spec("evil"))]).await;
    let charts = charts(&world, client());
    let reader = |name: &str| Reader::Workspace(name.to_owned());
    charts.fetch(&web("theirs"), &reader("acme")).await.unwrap();
    served.asked();
    let said = charts.fetch(&web("theirs"), &reader("evil")).await.unwrap_err();
    assert_eq!((said.kind(), &*said.to_string()), (Kind::NotFound, "there is no repository `theirs`"));
    let missing = charts.fetch(&web("missing"), &reader("evil")).await.unwrap_err();
    assert_eq!(missing.to_string(), said.to_string().replace("theirs", "missing"));
    // A tenant's own repository cannot send another tenant's password to a URL of its choice.
    let said = charts.fetch(&web("thief"), &reader("evil")).await.unwrap_err();
    assert_eq!(said.kind(), Kind::Invalid);
    assert!(!format!("{said} {said:?}").contains("canary"));
    assert_eq!(served.asked(), [""; 0]);
}

#[tokio::test]
async fn a_private_address_is_not_reached_by_default() {
    let (world, served) = (World::new().await, guarded().await);
    world.apply([repo("here", json!({"url": served.address}))]).await;
    let charts = charts(&world, Client::new(Dialer::new(Policy::default())));
    let said = charts.fetch(&web("here"), &Reader::Platform).await.unwrap_err();
    assert_eq!(said.kind(), Kind::Forbidden);
    let oci = Source::Oci { reference: "oci://127.0.0.1:1/web:1.0.0".to_owned(), version: String::new() };
    assert_eq!(charts.fetch(&oci, &Reader::Platform).await.unwrap_err().kind(), Kind::Forbidden);
    assert_eq!(served.asked(), [""; 0]);
}

#[tokio::test]
async fn a_registry_is_a_repository_too() {
    let (world, content) = (World::new().await, Content::default());
    content.put("charts/web", "1.0.0", &archive("web", "1.0.0"));
    content.put("charts/web", "1.5.0", &archive("web", "1.5.0"));
    let served = content.serve(Gate::Basic).await;
    let spec = json!({"url": format!("oci://{}/charts/", served.host), "insecure": true, "credentialRef": {"name": "login"}});
    world.apply([credentials(""), repo("registry", spec)]).await;
    let charts = charts(&world, client());
    let fetched = charts.fetch(&web("registry"), &Reader::Platform).await.unwrap();
    assert_eq!(fetched.version(), "1.5.0");
    let up = Source::Repo { repo: "registry".to_owned(), chart: "../x".to_owned(), version: String::new() };
    assert_eq!(charts.fetch(&up, &Reader::Platform).await.unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn an_index_by_hand_is_used_as_it_is() {
    let (world, web_bytes) = (World::new().await, archive("web", "1.0.0"));
    let text = index(&[("web", "1.0.0", "web.tgz", &web_bytes)]);
    let served = Served::new(move |_| answer(200, web_bytes.clone())).await;
    let spec = json!({"url": served.address, "data": STANDARD.encode(text)});
    world.apply([repo("by-hand", spec), repo("damaged", json!({"url": served.address, "data": "?"}))]).await;
    let charts = charts(&world, client());
    charts.fetch(&web("by-hand"), &Reader::Platform).await.unwrap();
    assert_eq!(served.asked(), ["GET /web.tgz -"]);
    let said = charts.fetch(&web("damaged"), &Reader::Platform).await.unwrap_err();
    assert_eq!(said.to_string(), "the repository `damaged` cannot be used: its `data` is no base64");
}

#[tokio::test]
async fn a_suspended_repository_is_left_alone() {
    let (world, served) = (World::new().await, guarded().await);
    world.apply([repo("here", json!({"url": served.address, "suspend": true}))]).await;
    let said = charts(&world, client()).fetch(&web("here"), &Reader::Platform).await.unwrap_err();
    assert_eq!((said.kind(), &*said.to_string()), (Kind::Precondition, "the repository `here` is suspended"));
    assert_eq!(served.asked(), [""; 0]);
}

#[tokio::test]
async fn an_archive_in_hand_is_loaded_under_limits() {
    let world = World::new().await;
    let charts = charts(&world, client());
    let load = async |bytes: Bytes| charts.fetch(&Source::Archive(bytes), &Reader::Platform).await;
    assert_eq!(load(archive("web", "1.0.0")).await.unwrap().name(), "web");
    assert_eq!(load(Bytes::from(vec![0; (10 << 20) + 1])).await.unwrap_err().kind(), Kind::TooLarge);
    assert_eq!(load(Bytes::from_static(b"no chart")).await.unwrap_err().kind(), Kind::Invalid);
}

#[tokio::test]
async fn a_repository_takes_no_password_and_stays_with_its_workspace() {
    let world = World::new().await;
    let repos: Api<HelmRepo> = Api::all(world.admin());
    let url = "https://charts.example";
    let refused = [
        (json!({"url": url, "credential": {"password": "canary"}}), "a password belongs into the Secret"),
        (json!({"url": url, "credential": {"keyFile": "canary"}}), "a key belongs into the Secret"),
        (json!({"url": url, "credential": {"caFile": "/etc/passwd"}}), "not the name of a file"),
        (json!({"url": "https://me:canary@charts.example"}), "spec.url"),
        (json!({"url": "ftp://charts.example"}), "spec.url"),
        (json!({"url": url, "syncPeriod": 5}), "0, or 180 seconds and more"),
    ];
    for (spec, words) in refused {
        let object: HelmRepo = serde_json::from_value(repo("bad", spec)).unwrap();
        let said = repos.create(&PostParams::default(), &object).await.unwrap_err().to_string();
        assert!(said.contains(words), "{said}");
    }
    let object: HelmRepo =
        serde_json::from_value(repo("good", json!({"url": url, "workspace": "acme"}))).unwrap();
    let made = repos.create(&PostParams::default(), &object).await.unwrap();
    assert!(!made.spec.credential.insecure_skip_tls_verify);
    let patch = Patch::Merge(json!({"spec": {"workspace": "evil"}}));
    let said = repos.patch("good", &PatchParams::default(), &patch).await.unwrap_err().to_string();
    assert!(said.contains("a repository stays with its workspace"), "{said}");
}
