//! Releases and controllers under attack: rollback, panics, supervision.

use http::Method;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use crate::platform::{PlatformUser, until};
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{HttpResponse, get, send_body};
use crate::target::Cluster;

const JSON: &str = "application/json";

/// A client with a tenant's own rights.
pub async fn kubernetes_client(person: &PlatformUser, cluster: &Cluster) -> kube::Client {
    let kubeconfig = Kubeconfig::read_from(person.kubeconfig(cluster).await).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

async fn create(client: &kube::Client, path: &str, object: &Value) -> HttpResponse {
    send_body(client, Method::POST, path, JSON, object.to_string()).await
}

/// Numbers, lengths and times at the limits of what Kubernetes admits. A rejected object is harmless; a stored one
/// must not stop a controller.
#[tokio::test(flavor = "multi_thread")]
async fn tenant_writes_leases_and_releases_of_extreme_numbers_and_stops_a_controller() {
    let (cluster, server) = Cluster::with_platform().await;
    let attacker = PlatformUser::register(&server, &cluster).await;
    let kube = kubernetes_client(&attacker, &cluster).await;
    let namespace = &attacker.id;
    let package = upload_chart(&server, &attacker, namespace, GREETING).await;
    let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let releases = format!("/apis/longshore.dev/v1alpha1/namespaces/{namespace}/helmreleases");
    // The operation Lease of the release `web`, with the largest number of transitions. The second time is later than
    // the embedded cluster can represent, so it is rejected.
    let times = [("helm-web", "9999-12-30T21:59:59.999999Z"), ("helm-late", "9999-12-31T23:59:59.999999Z")];
    for (name, time) in times {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"leaseTransitions": i32::MAX, "leaseDurationSeconds": i32::MAX, "renewTime": time},
        });
        let written = create(&kube, &leases, &lease).await;
        let is_refused = written.code == 403 || (written.code == 400 && name == "helm-late");
        assert!(written.code == 201 || is_refused, "{}", written.text);
    }
    for (number, length) in ["9223372036854775807s", "8783h", "0s", "0.0000000001ms"].iter().enumerate() {
        let name = format!("hostile-{number}");
        let release = json!({
            "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": name},
            "spec": {
                "name": name, "version": i64::MAX, "source": {"package": package}, "interval": length,
                "options": {"timeout": length, "maxHistory": i64::MAX}, "remediation": {"retries": i64::MAX},
            },
        });
        let written = create(&kube, &releases, &release).await;
        assert!(matches!(written.code, 201 | 422), "{}", written.text);
    }
    let body = release_body(namespace, "web", &package, &json!({"greeting": "hello"}));
    let made = attacker.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "{}", made.text);
    wait_for_state(&server, &attacker.token, &release_path(namespace, "web"), "active").await;
    // The controllers of accounts and releases still serve other tenants.
    let other = PlatformUser::register(&server, &cluster).await;
    let package = upload_chart(&server, &other, &other.id, GREETING).await;
    let body = release_body(&other.id, "web", &package, &json!({"greeting": "hello"}));
    assert_eq!(other.call(Method::POST, "releases", Some(&body)).await.code, 201);
    wait_for_state(&server, &other.token, &release_path(&other.id, "web"), "active").await;
    let platform = server.platform();
    until("the server is ready", async || (get(&platform, "/readyz").await.code == 200).then_some(())).await;
    let metrics = get(&platform, "/metrics").await.text;
    assert!(!metrics.contains("longshore_reconcile_panics_total"), "{metrics}");
    assert!(!server.log().contains("panicked"), "{}", server.log());
}
