//! Names that change an API path, and releases that hang.

use std::time::{Duration, Instant};

use domain::names::hostile_names;
use futures::{StreamExt, stream};
use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, until};
use crate::program::Server;
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{HttpResponse, get, send_body};
use crate::target::Cluster;

const JSON: &str = "application/json";
/// Number of hostile tenants, and of releases per tenant. They fit into the quota of Secrets and Jobs, and together
/// are three times the 64 active slots of the release controller (`RELEASE_SLOTS`). Releases that hang move to the
/// slow slots after ten seconds, so that new ones begin.
const HOSTILE_TENANTS: usize = 5;
const HANGING_RELEASES: usize = 40;
/// A tenant's share of the active slots.
const ACTIVE_SLOTS_PER_TENANT: usize = 8;
/// Limit for an installation on a busy machine. The hanging releases have a timeout of an hour.
const INSTALL_TIMEOUT: Duration = Duration::from_secs(30);

/// An object that never becomes ready.
const NEVER_READY_CHART: &[(&str, &str)] = &[
    ("Chart.yaml", "apiVersion: v2\nname: stuck\nversion: 1.0.0\n"),
    (
        "templates/stuck.yaml",
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\nspec:\n  selector: {matchLabels: {app: {{ .Release.Name }}}}\n  \
         template:\n    metadata:\n      labels: {app: {{ .Release.Name }}}\n    spec:\n      nodeSelector: {none: such}\n      \
         containers:\n      - {name: web, image: web}\n",
    ),
];

/// A client with a tenant's own rights.
async fn kubernetes_client(person: &PlatformUser, cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(person.kubeconfig(cluster).await).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

async fn create(client: &kube::Client, namespace: &str, spec: Value) -> HttpResponse {
    let path = format!("/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases");
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": spec["name"]}, "spec": spec,
    });
    send_body(client, Method::POST, &path, JSON, release.to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_names_and_hanging_releases_do_not_stop_the_release_controller() {
    let (cluster, server) = Cluster::with_platform().await;
    hostile_names_reach_no_path_of_the_cluster(&cluster, &server).await;
    hanging_releases_of_some_tenants_do_not_delay_another(&cluster, &server).await;
}

async fn hostile_names_reach_no_path_of_the_cluster(cluster: &Cluster, server: &Server) {
    let tenant = PlatformUser::register(server, cluster).await;
    let kube = kubernetes_client(&tenant, cluster).await;
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

/// Length of the release controller's queue in this state, by `/metrics`.
async fn queue_length(platform: &kube::Client, state: &str) -> usize {
    let metrics = get(platform, "/metrics").await.text;
    let name = format!("longshore_reconcile_queue{{controller=\"helm-release\",state=\"{state}\"}} ");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name));
    value.unwrap_or_else(|| panic!("{name} in {metrics}")).parse().unwrap()
}

/// Number of a tenant's releases that have started.
async fn started_releases(kube: &kube::Client, namespace: &str) -> usize {
    let path = format!("/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases?limit=500");
    let all = get(kube, &path).await.json();
    let has_begun = |release: &&Value| {
        let status = &release["status"];
        !status["operation"].is_null() || status["attempts"].is_number()
    };
    all["items"].as_array().unwrap().iter().filter(has_begun).count()
}

async fn hanging_releases_of_some_tenants_do_not_delay_another(cluster: &Cluster, server: &Server) {
    let good = PlatformUser::register(server, cluster).await;
    let greeting = upload_chart(server, &good, &good.id, GREETING).await;
    let platform = server.platform();
    let mut hostile = Vec::new();
    for _ in 0..HOSTILE_TENANTS {
        let person = PlatformUser::register(server, cluster).await;
        let kube = kubernetes_client(&person, cluster).await;
        let stuck = upload_chart(server, &person, &person.id, NEVER_READY_CHART).await;
        hostile.push((person.id, kube, stuck));
    }
    let releases =
        hostile.iter().flat_map(|tenant| (0..HANGING_RELEASES).map(move |number| (tenant, number)));
    let releases = stream::iter(releases).map(|((namespace, kube, stuck), number)| {
        let spec = json!({
            "name": format!("stuck-{number}"), "source": {"package": stuck},
            "options": {"wait": true, "timeout": "1h"},
        });
        create(kube, namespace, spec)
    });
    let made: Vec<HttpResponse> = releases.buffer_unordered(10).collect().await;
    for answer in made {
        assert_eq!(answer.code, 201, "{}", answer.text);
    }
    // Each tenant's share of the slots is in use by hanging releases, and more of its releases wait.
    for (namespace, kube, _) in &hostile {
        until("a share of the slots hangs", async || {
            (started_releases(kube, namespace).await >= ACTIVE_SLOTS_PER_TENANT).then_some(())
        })
        .await;
    }
    let (active, slow) = (queue_length(&platform, "active").await, queue_length(&platform, "slow").await);
    assert!(
        active + slow >= HOSTILE_TENANTS * ACTIVE_SLOTS_PER_TENANT,
        "{active} slots are active and {slow} slow"
    );
    let waiting = queue_length(&platform, "waiting").await;
    assert!(waiting > 0, "no release waits: {active} slots are active and {slow} slow");

    let began = Instant::now();
    let body = release_body(&good.id, "web", &greeting, &json!({"greeting": "hello"}));
    assert_eq!(good.call(Method::POST, "releases", Some(&body)).await.code, 201);
    wait_for_state(server, &good.token, &release_path(&good.id, "web"), "active").await;
    let took = began.elapsed();
    // It did not queue behind them: some older releases have not started yet.
    let mut all = 0;
    for (namespace, kube, _) in &hostile {
        all += started_releases(kube, namespace).await;
    }
    assert!(
        all < HOSTILE_TENANTS * HANGING_RELEASES,
        "all {all} hanging releases began before the other tenant's was active; {waiting} waited"
    );
    assert!(took < INSTALL_TIMEOUT, "{took:?}");
    let ready = get(&platform, "/readyz").await;
    assert_eq!(ready.code, 200, "{}", ready.text);
}
