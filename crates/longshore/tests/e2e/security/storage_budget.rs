//! Storage budgets on the embedded cluster: bytes of all objects in an account's workspaces, including objects that the
//! platform writes, and bytes of all tenants together.

use futures::StreamExt;
use futures::stream::iter;
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, call, until};
use crate::program::Server;
use crate::request::{HttpResponse, get, send_body};
use crate::target::{Cluster, only_on_embedded};

const JSON: &str = "application/json";
const BUDGET: &str = "16Mi";

async fn kubernetes_client(cluster: &Cluster, person: &PlatformUser) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(person.kubeconfig(cluster).await).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

fn deployments_path(person: &PlatformUser) -> String {
    format!("/apis/apps/v1/namespaces/{}/deployments", person.id)
}

/// A Deployment of 1.3 MB that runs nothing.
fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let container = json!({"name": "main", "image": "pause", "args": ["x".repeat(1_300_000)]});
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    })
}

async fn create_config_map(
    client: &kube::Client,
    person: &PlatformUser,
    name: &str,
    bytes: usize,
) -> HttpResponse {
    create_config_map_in(client, &person.id, name, bytes).await
}

async fn create_config_map_in(
    client: &kube::Client,
    namespace: &str,
    name: &str,
    bytes: usize,
) -> HttpResponse {
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "x".repeat(bytes)},
    });
    send_body(client, Method::POST, &path, JSON, map.to_string()).await
}

/// Uses a client without retries: a client that waits after a 429 would hide the rejection.
async fn create_repo(server: &Server, person: &PlatformUser, n: u32) -> HttpResponse {
    create_repo_in(server, person, &person.id, n).await
}

async fn create_repo_in(server: &Server, person: &PlatformUser, workspace: &str, n: u32) -> HttpResponse {
    let body = json!({
        "name": format!("r{n}"), "workspace": workspace, "url": "https://charts.example.com",
        "credentials": {"ca": "x".repeat(60_000)},
    });
    let platform = server.platform_without_retries();
    call(&platform, Some(&person.token), Method::POST, "repos?check=false", Some(&body)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenant_stores_large_objects_until_the_server_is_out_of_memory() {
    if !only_on_embedded() {
        return;
    }
    let cluster = Cluster::start();
    let budget = [("LONGSHORE_KUBE_STORAGE_BUDGET", BUDGET)];
    let server = Server::start_with(&cluster.folder.path().join("platform"), &budget);
    let attacker = PlatformUser::register(&server, &cluster).await;
    let good = PlatformUser::register(&server, &cluster).await;
    let (kube, other) =
        (kubernetes_client(&cluster, &attacker).await, kubernetes_client(&cluster, &good).await);
    let named = format!("exceeded storage budget of \"{}\": used ", attacker.id);
    server.memory();

    let path = deployments_path(&attacker);
    let attack =
        (0..300).map(|n| {
            let (kube, path) = (&kube, &path);
            async move {
                send_body(kube, Method::POST, path, JSON, deployment(&format!("d{n}")).to_string()).await
            }
        });
    let answers: Vec<HttpResponse> = iter(attack).buffer_unordered(4).collect().await;
    let (refused, made): (Vec<_>, Vec<_>) = answers.iter().partition(|answer| answer.code != 201);
    assert!((2..13).contains(&made.len()), "{}", made.len());
    for answer in refused {
        assert_eq!(answer.code, 403, "{}", answer.text);
        let status = answer.json();
        let message = status["message"].as_str().unwrap();
        assert!(message.contains(&named), "{message}");
        assert!(message.contains(" bytes, requested 13") && message.ends_with("limit 16777216"), "{message}");
        assert_eq!(status["details"]["causes"][0]["reason"], "StorageBudgetExceeded");
    }

    // The platform stores nothing more for the workspace either, and returns the reason.
    let mut full = None;
    for n in 0..120 {
        let answer = create_repo(&server, &attacker, n).await;
        if answer.code != 201 {
            full.get_or_insert(answer);
        }
    }
    let full = full.expect("120 repositories do not fit into the budget");
    assert_eq!((full.code, full.json()["kind"].as_str()), (429, Some("Exhausted")), "{}", full.text);
    let detail = full.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains(&named), "{detail}");
    let (_, peak) = server.memory();
    println!("the peak is {} MiB", peak >> 20);
    assert!(peak < 800 << 20, "{} MiB", peak >> 20);

    // Another tenant is not affected.
    let answer = create_config_map(&other, &good, "mine", 500_000).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(create_repo(&server, &good, 0).await.code, 201);
    let metrics = get(&server.platform(), "/metrics").await.text;
    let refusals = metrics.lines().find(|line| line.contains("kube_embedded_storage_budget_refusals_total "));
    let refusals: u64 = refusals.unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    assert!(refusals > 287, "{refusals}");
    assert!(!metrics.contains(&format!("\"{}\"", attacker.id)), "metrics name a tenant");

    // Space of deleted objects can be used again.
    let removed = send_body(&kube, Method::DELETE, &path, JSON, "").await;
    assert_eq!(removed.code, 200, "{}", removed.text);
    until("there is room again", async || {
        (create_config_map(&kube, &attacker, "again", 900_000).await.code == 201).then_some(())
    })
    .await;
    let made = create_repo(&server, &attacker, 200).await;
    assert_eq!(made.code, 201, "{}", made.text);
}

/// Message of a rejection by a storage budget.
fn rejection_message(answer: &HttpResponse) -> String {
    assert_eq!(answer.code, 403, "{}", answer.text);
    let status = answer.json();
    assert_eq!(status["details"]["causes"][0]["reason"], "StorageBudgetExceeded");
    status["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn account_multiplies_its_storage_budget_by_workspaces() {
    if !only_on_embedded() {
        return;
    }
    let cluster = Cluster::start();
    let budget = [("LONGSHORE_KUBE_STORAGE_BUDGET", BUDGET)];
    let server = Server::start_with(&cluster.folder.path().join("platform"), &budget);
    let attacker = PlatformUser::register(&server, &cluster).await;
    let shared = ["a", "b"].map(|prefix| format!("{prefix}{}", &attacker.id[1..9]));
    for name in &shared {
        attacker.workspace(&cluster, name).await;
    }
    let kube = kubernetes_client(&cluster, &attacker).await;
    let spaces = [&attacker.id, &shared[0], &shared[1]];

    let (mut made, mut refused) = (0_usize, 0_usize);
    for n in 0..14 {
        for space in spaces {
            let answer = create_config_map_in(&kube, space, &format!("m{n}"), 900_000).await;
            if answer.code == 201 {
                made += 1;
                continue;
            }
            refused += 1;
            let message = rejection_message(&answer);
            let named = format!("exceeded storage budget of \"{}\": used ", attacker.id);
            assert!(message.contains(&named) && message.ends_with("limit 16777216"), "{message}");
        }
    }
    assert!(
        (15..19).contains(&made) && refused > 0,
        "{made} of 900 kB fit into 16 MiB, {refused} were refused"
    );

    // The platform stores nothing more for any of the workspaces either.
    for space in spaces {
        let mut full = None;
        for n in 0..20 {
            let answer = create_repo_in(&server, &attacker, space, n).await;
            full = Some(answer).filter(|answer| answer.code != 201);
            if full.is_some() {
                break;
            }
        }
        let full = full.expect("20 repositories do not fit into the budget");
        assert_eq!((full.code, full.json()["kind"].as_str()), (429, Some("Exhausted")), "{}", full.text);
        assert!(full.text.contains("exceeded storage budget of"), "{}", full.text);
    }

    // Objects that the platform writes for the workspaces name the account in a label that the account cannot change.
    let admin = server.client().await;
    let selector = format!("labelSelector=longshore.dev/account={}", attacker.id);
    for path in [
        "/api/v1/namespaces",
        "/apis/longshore.dev/v1alpha1/helmrepos",
        "/api/v1/namespaces/longshore-system/secrets",
    ] {
        let labelled = get(&admin, &format!("{path}?{selector}")).await.json();
        let count = labelled["items"].as_array().unwrap().len();
        assert!(count > 0 && (count == 3 || path != "/api/v1/namespaces"), "{path}: {count}");
    }
    for label in [json!(null), json!("ubbbbbbbbbb")] {
        let patch = json!({"metadata": {"labels": {"longshore.dev/account": label}}}).to_string();
        let path = format!("/api/v1/namespaces/{}", shared[0]);
        let merge = "application/merge-patch+json";
        assert_eq!(send_body(&kube, Method::PATCH, &path, merge, patch.clone()).await.code, 403);
        let path = format!("{path}/configmaps/m0");
        let code = send_body(&kube, Method::PATCH, &path, merge, patch).await.code;
        assert_eq!(code, if label.is_null() { 200 } else { 403 });
    }

    // Another account is not affected.
    let good = PlatformUser::register(&server, &cluster).await;
    let other = kubernetes_client(&cluster, &good).await;
    let answer = create_config_map(&other, &good, "mine", 500_000).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(create_repo(&server, &good, 0).await.code, 201);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_fill_the_storage_capacity_and_leave_room_for_others() {
    if !only_on_embedded() {
        return;
    }
    let cluster = Cluster::start();
    let budget = [("LONGSHORE_KUBE_STORAGE_BUDGET", BUDGET), ("LONGSHORE_KUBE_STORAGE_CAPACITY", "24Mi")];
    let server = Server::start_with(&cluster.folder.path().join("platform"), &budget);
    let mut made = 0_usize;
    let mut last = String::new();
    for _ in 0..2 {
        let attacker = PlatformUser::register(&server, &cluster).await;
        let kube = kubernetes_client(&cluster, &attacker).await;
        for n in 0..20 {
            let answer = create_config_map(&kube, &attacker, &format!("m{n}"), 900_000).await;
            if answer.code != 201 {
                last = rejection_message(&answer);
                break;
            }
            made += 1;
        }
    }
    assert!((20..25).contains(&made), "{made} of 900 kB fit into seven eighths of 24 MiB");
    assert!(last.contains("exceeded storage capacity of all tenants together: requested "), "{last}");
    assert!(last.ends_with(" bytes, capacity 25165824"), "{last}");

    // An account with little data can register, store and deploy.
    let good = PlatformUser::register(&server, &cluster).await;
    let kube = kubernetes_client(&cluster, &good).await;
    let answer = create_config_map(&kube, &good, "mine", 300_000).await;
    assert_eq!(answer.code, 201, "{}", answer.text);
    assert_eq!(create_repo(&server, &good, 0).await.code, 201);
    let ready = get(&server.platform(), "/readyz").await;
    assert_eq!(ready.code, 200, "{}", ready.text);
}
