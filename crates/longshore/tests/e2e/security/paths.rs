//! Names that change an API path, and releases that hang.

use std::time::{Duration, Instant};

use domain::names::hostile_names;
use futures::{StreamExt, stream};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{Person, until};
use crate::program::Server;
use crate::releases::charts::{GREETING, asked, at, keep, until_state};
use crate::request::{Answer, get, with};
use crate::target::Cluster;

const JSON: &str = "application/json";
/// More than a tenant's share of all slots of the release controller.
const HANGING: usize = 200;
/// Far less than the timeout of the hanging releases, and more than an installation takes on a busy machine.
const SOON: Duration = Duration::from_mins(1);

/// An object that never becomes ready.
const STUCK: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: stuck\nversion: 1.0.0\n"),
    (
        "templates/stuck.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  selector: {matchLabels: {app: {{ .Release.Name }}}}\n  \
         template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    spec:\n      nodeSelector: {none: such}\n      \
         containers:\n      - {name: web, image: web}\n",
    ),
];

/// A client with a tenant's own rights.
async fn client_of(person: &Person, cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(person.kubeconfig(cluster).await).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

async fn create(client: &kube::Client, namespace: &str, spec: Value) -> Answer {
    let path = format!("/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases");
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": spec["name"]}, "spec": spec,
    });
    with(client, Method::POST, &path, JSON, release.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_hanging_releases_do_not_stop_the_release_controller() {
    let (cluster, server) = Cluster::with_platform().await;
    hostile_names_reach_no_path_of_the_cluster(&cluster, &server).await;
    hanging_releases_of_one_tenant_do_not_delay_another(&cluster, &server).await;
}

async fn hostile_names_reach_no_path_of_the_cluster(cluster: &Cluster, server: &Server) {
    let tenant = Person::register(server, cluster).await;
    let kube = client_of(&tenant, cluster).await;
    for name in hostile_names() {
        for source in [json!({"repo": name}), json!({"package": name})] {
            let made = create(&kube, &tenant.id, json!({"name": "web", "source": source})).await;
            assert_eq!(made.code, 422, "{name:.100}: {}", made.text);
        }
    }
    for (field, value) in [("interval", json!("0s")), ("options", json!({"timeout": "8760h"}))] {
        let mut spec = json!({"name": "web", "source": {"repo": "none"}});
        spec[field] = value;
        let made = create(&kube, &tenant.id, spec).await;
        assert_eq!(made.code, 422, "{field}: {}", made.text);
    }
    for path in ["repos/%3Fwatch=true", "repos/%3Fwatch=true/charts", "operations/%3Fwatch=true.1"] {
        let began = Instant::now();
        let answer = tenant.call(Method::GET, path, None).await;
        assert_eq!(answer.code, 404, "{path}: {}", answer.text);
        assert!(began.elapsed() < Duration::from_secs(10), "{path}: {:?}", began.elapsed());
    }
}

async fn hanging_releases_of_one_tenant_do_not_delay_another(cluster: &Cluster, server: &Server) {
    let hostile = Person::register(server, cluster).await;
    let good = Person::register(server, cluster).await;
    let kube = client_of(&hostile, cluster).await;
    let stuck = keep(server, &hostile, &hostile.id, STUCK).await;
    let greeting = keep(server, &good, &good.id, GREETING).await;
    let releases = stream::iter(0..HANGING).map(|number| {
        let spec = json!({
            "name": format!("stuck-{number}"), "source": {"package": stuck},
            "options": {"wait": true, "timeout": "1h"},
        });
        create(&kube, &hostile.id, spec)
    });
    let made: Vec<Answer> = releases.buffer_unordered(10).collect().await;
    assert!(
        made.iter().all(|answer| matches!(answer.code, 201 | 403 | 429)),
        "{:?}",
        made.last().map(|last| &last.text)
    );
    // At least as many are installed as its share of the active slots is.
    let path = format!("/apis/longshore.dev/v1alpha1/namespaces/{}/helmreleases?limit=500", hostile.id);
    until("some of them hang", async || {
        let all = get(&kube, &path).await.json();
        let begun =
            all["items"].as_array()?.iter().filter(|release| !release["status"]["operation"].is_null());
        (begun.count() >= 8).then_some(())
    })
    .await;
    let began = Instant::now();
    let body = asked(&good.id, "web", &greeting, &json!({"greeting": "hello"}));
    assert_eq!(good.call(Method::POST, "releases", Some(&body)).await.code, 201);
    until_state(server, &good.token, &at(&good.id, "web"), "active").await;
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let platform = server.platform();
    let ready = get(&platform, "/readyz").await;
    assert_eq!(ready.code, 200, "{}", ready.text);
    let metrics = get(&platform, "/metrics").await.text;
    assert!(
        metrics.contains("longshore_reconcile_queue{controller=\"helm-release\",state=\"active\"}"),
        "{metrics}"
    );
}
