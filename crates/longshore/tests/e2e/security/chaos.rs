//! A chaos run over the kinds that tenants and nodes write and the platform reconciles: releases, Helm records,
//! accounts, workspaces, pools, nodes, Leases and certificate requests.
//!
//! A valid object of each kind has a few fields set to extreme values; Helm records are damaged in each of their
//! layers. After each batch another tenant's release must become active and another tenant's Deployment must roll
//! out, nothing may have panicked, and the memory of the server is bounded. At least one object of every kind must be
//! stored. `CHAOS_SEED` selects the run.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use http::Method;
use serde_json::{Value, json};

use super::controllers::kubernetes_client;
use super::nodes::{NodeAttacker, kubelet_request, ready_status};
use crate::platform::{PlatformUser, until};
use crate::program::Server;
use crate::releases::charts::{GREETING, release_body, release_path, upload_chart, wait_for_state};
use crate::request::{get, send_body};
use crate::target::{Cluster, only_on_embedded};

const JSON: &str = "application/json";
/// Time for attacks, without the canary checks.
const ATTACK_DURATION: Duration = Duration::from_secs(15);
const BATCH: usize = 60;
/// Further attempts for kinds of which nothing was stored.
const FURTHER_ATTEMPTS: usize = 40;
/// Memory of the whole server in a debug build.
const MAX_MEMORY: u64 = 768 << 20;

/// Xorshift generator: a seed reproduces the run.
struct ChaosRng(u64);

impl ChaosRng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn next_below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.next_below(of.len())].clone()
    }
}

/// An extreme value, mostly of the same type.
fn extreme_value(value: &Value, rng: &mut ChaosRng) -> Value {
    let texts = [
        "",
        "a",
        "-1",
        "../..",
        "?watch=true",
        "%2f",
        "\u{0}",
        "ü\u{202e}",
        "0s",
        "-1h",
        "2562047h47m16.854775807s",
        "9223372036854775808",
        "1e30",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00Z",
        "{{ fail }}",
        ">=1.0.0 <0.0.1 ||",
    ];
    let text = if rng.next_below(20) == 0 { "x".repeat(300_000) } else { rng.pick(&texts).to_owned() };
    let numbers = [json!(i64::MIN), json!(-1), json!(0), json!(i32::MAX), json!(i64::MAX), json!(1e300)];
    let deep = (0..60).fold(json!({}), |inner, _| json!({"a": inner}));
    if rng.next_below(8) == 0 {
        return rng.pick(&[json!(null), json!([]), deep, json!(text), json!(i64::MAX), json!(true)]);
    }
    match value {
        Value::Number(_) => rng.pick(&numbers),
        Value::Bool(is) => json!(!is),
        Value::Array(_) => json!(vec![json!(text); rng.next_below(40)]),
        Value::Object(_) => rng.pick(&[json!({}), deep, json!({"a": text})]),
        Value::String(_) | Value::Null => json!(text),
    }
}

/// Sets a random field of `value` to an extreme value; names and kinds of the object stay.
fn mutate(value: &mut Value, rng: &mut ChaosRng) {
    let children: Vec<String> = match &*value {
        Value::Object(fields) => fields.keys().cloned().collect(),
        Value::Array(items) => (0..items.len()).map(|at| at.to_string()).collect(),
        _ => Vec::new(),
    };
    if children.is_empty() || rng.next_below(6) == 0 {
        *value = extreme_value(value, rng);
        return;
    }
    let child = rng.pick(&children);
    let inner = match value {
        Value::Object(fields) => fields.get_mut(&child),
        Value::Array(items) => child.parse::<usize>().ok().and_then(|at| items.get_mut(at)),
        _ => None,
    };
    mutate(inner.expect("a child that was listed"), rng);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A Helm record whose JSON, gzip stream or Base64 text is damaged.
fn hostile_record(record: &[u8], rng: &mut ChaosRng) -> String {
    let flip = |bytes: &mut Vec<u8>, rng: &mut ChaosRng| {
        let at = rng.next_below(bytes.len());
        bytes[at] ^= 1 << rng.next_below(8);
    };
    let inner = match rng.next_below(6) {
        0 => {
            let mut packed = gzip(record);
            flip(&mut packed, rng);
            STANDARD.encode(packed)
        }
        1 => STANDARD.encode(gzip(&vec![b' '; 64 << 20])),
        2 => {
            let packed = gzip(record);
            STANDARD.encode(&packed[..rng.next_below(packed.len())])
        }
        3 => {
            let mut text = STANDARD.encode(gzip(record)).into_bytes();
            flip(&mut text, rng);
            String::from_utf8_lossy(&text).into_owned()
        }
        _ => {
            let mut json: Value = serde_json::from_slice(record).unwrap();
            for _ in 0..=rng.next_below(3) {
                mutate(&mut json, rng);
            }
            STANDARD.encode(gzip(json.to_string().as_bytes()))
        }
    };
    STANDARD.encode(inner)
}

/// How the objects of a target are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteForm {
    Object,
    /// Deleted at once: pods of the canary would be scheduled to a Node without a kubelet.
    ShortLived,
    /// A Helm record.
    Record,
    /// The status of one Node, as its kubelet patches it.
    NodeStatus,
}

/// A kind under attack: the path of its collection or Node, the client that writes it, and a valid object.
struct AttackTarget {
    path: String,
    client: kube::Client,
    valid: Value,
    form: WriteForm,
}

/// Removes server-set metadata from an object that was read, so that it can be created.
fn template(mut object: Value) -> Value {
    let labels = object["metadata"]["labels"].clone();
    object["metadata"] = json!({"labels": labels});
    object
}

struct ChaosRun {
    rng: ChaosRng,
    targets: Vec<AttackTarget>,
    record: Vec<u8>,
    /// Number of stored objects by target index.
    accepted: BTreeMap<usize, usize>,
}

impl ChaosRun {
    async fn attack(&mut self, number: usize) {
        let index = number % self.targets.len();
        let target = &self.targets[index];
        if self.attack_target(target.form, index, number).await {
            *self.accepted.entry(index).or_default() += 1;
        }
    }

    /// Whether the object was stored.
    async fn attack_target(&mut self, form: WriteForm, index: usize, number: usize) -> bool {
        let Self { rng, targets, record, .. } = self;
        let target = &targets[index];
        let name = if form == WriteForm::Record {
            format!("sh.helm.release.v1.hostile-{number}.v1")
        } else {
            format!("hostile-{number}")
        };
        let object = hostile_object(target, &name, record, rng);
        if form == WriteForm::NodeStatus {
            let patch = json!({"status": object["status"]}).to_string();
            let path = format!("{}/status", target.path);
            let media = "application/strategic-merge-patch+json";
            return send_body(&target.client, Method::PATCH, &path, media, patch).await.code == 200;
        }
        let created = send_body(&target.client, Method::POST, &target.path, JSON, object.to_string()).await;
        assert!(created.code < 600 && created.code != 502, "{}", created.text);
        if created.code != 201 {
            return false;
        }
        let path = format!("{}/{name}", target.path);
        let mut status = json!({"status": object["status"]});
        mutate(&mut status["status"], rng);
        let merge = "application/merge-patch+json";
        send_body(&target.client, Method::PATCH, &format!("{path}/status"), merge, status.to_string()).await;
        if form == WriteForm::ShortLived || rng.next_below(2) == 0 {
            send_body(&target.client, Method::DELETE, &path, JSON, "").await;
        }
        true
    }

    /// Kinds of which nothing was stored.
    fn kinds_never_stored(&self) -> Vec<String> {
        let refused = (0..self.targets.len()).filter(|index| !self.accepted.contains_key(index));
        let describe = |index: usize| {
            let target = &self.targets[index];
            format!("{} at {}", target.valid["kind"], target.path)
        };
        refused.map(describe).collect()
    }
}

/// A valid object of the target with some fields set to extreme values. Its name, its kind and fields that must match
/// the name stay.
fn hostile_object(target: &AttackTarget, name: &str, record: &[u8], rng: &mut ChaosRng) -> Value {
    let mut object = target.valid.clone();
    let metadata = std::mem::take(&mut object["metadata"]);
    let (api_version, kind) = (object["apiVersion"].clone(), object["kind"].clone());
    match target.form {
        WriteForm::Record => object["data"]["release"] = hostile_record(record, rng).into(),
        WriteForm::NodeStatus => {
            for _ in 0..=rng.next_below(3) {
                mutate(&mut object["status"], rng);
            }
        }
        WriteForm::Object | WriteForm::ShortLived => {
            for _ in 0..=rng.next_below(3) {
                mutate(&mut object, rng);
            }
        }
    }
    if !object.is_object() {
        object = json!({});
    }
    (object["apiVersion"], object["kind"], object["metadata"]) = (api_version, kind.clone(), metadata);
    object["metadata"]["name"] = name.into();
    if target.form == WriteForm::Record {
        let release = name.trim_start_matches("sh.helm.release.v1.").trim_end_matches(".v1");
        object["metadata"]["labels"]["name"] = release.into();
    }
    if kind == "HelmRelease" && object["spec"].is_object() {
        // A validation rule of the CRD requires them to be equal.
        object["spec"]["name"] = name.into();
    }
    object
}

/// A Deployment of another tenant rolls out.
async fn assert_deployment_rolls_out(good: &kube::Client, namespace: &str, name: &str, seed: u64) {
    let resources =
        json!({"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"cpu": "10m", "memory": "16Mi"}});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "registry.invalid/x", "resources": resources}]}}},
    });
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments");
    let created = send_body(good, Method::POST, &path, JSON, deployment.to_string()).await;
    assert_eq!(created.code, 201, "CHAOS_SEED={seed}: {}", created.text);
    let path = format!("{path}/{name}");
    until("the Deployment of another tenant rolls out", async || {
        let status = get(good, &path).await.json()["status"].clone();
        (status["availableReplicas"] == 1).then_some(())
    })
    .await;
    assert_eq!(send_body(good, Method::DELETE, &path, JSON, "").await.code, 200, "CHAOS_SEED={seed}");
}

/// Another tenant's release becomes active, another tenant's Deployment rolls out, the server is ready, and nothing
/// panicked.
async fn assert_others_unaffected(
    server: &Server,
    good: &PlatformUser,
    kube: &kube::Client,
    package: &str,
    number: usize,
    seed: u64,
) {
    let name = format!("canary-{number}");
    let body = release_body(&good.id, &name, package, &json!({"greeting": "hello"}));
    let made = good.call(Method::POST, "releases", Some(&body)).await;
    assert_eq!(made.code, 201, "CHAOS_SEED={seed}: {}", made.text);
    wait_for_state(server, &good.token, &release_path(&good.id, &name), "active").await;
    assert_deployment_rolls_out(kube, &good.id, &name, seed).await;
    let platform = server.platform();
    until("the server is ready", async || (get(&platform, "/readyz").await.code == 200).then_some(())).await;
    let metrics = get(&platform, "/metrics").await.text;
    assert!(!metrics.contains("longshore_reconcile_panics_total"), "CHAOS_SEED={seed}: {metrics}");
    let log = server.log();
    assert!(!log.contains("panicked"), "CHAOS_SEED={seed}: {log}");
    let (now, peak) = server.memory();
    assert!(peak < MAX_MEMORY, "CHAOS_SEED={seed}: {now} bytes of memory, {peak} at most");
}

#[tokio::test(flavor = "multi_thread")]
async fn chaos_of_hostile_platform_objects_stops_no_controller() {
    if !only_on_embedded() {
        return;
    }
    let seed = std::env::var("CHAOS_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_118);
    let (cluster, server) = Cluster::with_platform().await;
    let (attacker, good) =
        (PlatformUser::register(&server, &cluster).await, PlatformUser::register(&server, &cluster).await);
    let (tenant, admin) = (kubernetes_client(&attacker, &cluster).await, cluster.client().await);
    let kube = kubernetes_client(&good, &cluster).await;
    let machine = NodeAttacker::join(&server, &cluster).await;
    let package = upload_chart(&server, &attacker, &attacker.id, GREETING).await;
    let kept = upload_chart(&server, &good, &good.id, GREETING).await;
    let body = release_body(&attacker.id, "web", &package, &json!({"greeting": "hello"}));
    assert_eq!(attacker.call(Method::POST, "releases", Some(&body)).await.code, 201);
    wait_for_state(&server, &attacker.token, &release_path(&attacker.id, "web"), "active").await;

    let own = "/apis/longshore.dev/v1alpha1";
    let namespace = &attacker.id;
    let users = "/apis/user.openyurt.io/v1alpha1/users";
    // The first item of a collection, or the object itself.
    let read = async |path: String| {
        let mut found = get(&admin, &path).await.json();
        let (api_version, kind) = (found["apiVersion"].clone(), found["kind"].clone());
        let Some(first) = found["items"].as_array_mut().and_then(Vec::pop) else { return template(found) };
        let mut first = template(first);
        let kind = kind.as_str().unwrap_or_default().trim_end_matches("List").to_owned();
        (first["apiVersion"], first["kind"]) = (api_version, kind.into());
        first
    };
    let secrets = format!("/api/v1/namespaces/{namespace}/secrets");
    let record = get(&admin, &format!("{secrets}/sh.helm.release.v1.web.v1")).await.json();
    let decode = |text: &[u8]| STANDARD.decode(text).unwrap();
    let packed = decode(&decode(record["data"]["release"].as_str().unwrap().as_bytes()));
    let mut plain = Vec::new();
    std::io::Read::read_to_end(&mut MultiGzDecoder::new(packed.as_slice()), &mut plain).unwrap();
    let target = |path: String, client: &kube::Client, valid: Value| {
        let form = match (valid["kind"].as_str(), valid["type"].as_str()) {
            (_, Some("helm.sh/release.v1")) => WriteForm::Record,
            (Some("Node"), _) if path.ends_with(&machine.name) => WriteForm::NodeStatus,
            (Some("Node"), _) => WriteForm::ShortLived,
            _ => WriteForm::Object,
        };
        AttackTarget { path, client: client.clone(), valid, form }
    };
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"labels": {"apps.openyurt.io/nodepool": "hostile"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-02T03:04:05Z"}]},
    });
    let mut status = ready_status();
    (status["apiVersion"], status["kind"], status["metadata"]) = ("v1".into(), "Node".into(), json!({}));
    let (pem, _) = kubelet_request(&machine.name);
    let request = json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {},
        "spec": {"request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
            "usages": ["digital signature", "client auth"], "expirationSeconds": 600, "username": "a", "groups": ["a"]},
    });
    // As a tenant writes it in Kubernetes, without a `HelmRequest`.
    let release = json!({
        "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {},
        "spec": {
            "name": "web", "version": 1, "source": {"package": package}, "valuesObject": {"greeting": "hello", "extra": ""},
            "interval": "10m", "options": {"timeout": "1m", "maxHistory": 3, "wait": true}, "remediation": {"retries": 1},
            "driftDetection": {"mode": "warn", "ignore": [{"paths": ["/data"]}]}, "dependsOn": [{"name": "web"}],
            "roles": [{"kind": "Deployment", "name": "web", "replicas": 1}],
            "patches": [{"patch": "[{\"op\": \"add\", \"path\": \"/data/a\", \"value\": \"b\"}]", "target": {"kind": "ConfigMap"}}],
        },
    });
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 10, "leaseTransitions": 1,
            "renewTime": "2026-01-02T03:04:05.000000Z"},
    });
    let pool = json!({
        "apiVersion": "apps.openyurt.io/v1beta1", "kind": "NodePool", "metadata": {},
        "spec": {"type": "Edge", "hostNetwork": false, "labels": {"a": "b"},
            "annotations": {"a": "b", "c": "d", "e": "f"}, "taints": [{"key": "a", "effect": "NoSchedule"}]},
    });
    let releases = format!("{own}/namespaces/{namespace}/helmreleases");
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let targets = vec![
        target(releases, &tenant, release),
        target(secrets, &tenant, template(record)),
        target(users.to_owned(), &admin, read(users.to_owned()).await),
        target(format!("{own}/workspaces"), &admin, read(format!("{own}/workspaces")).await),
        target("/apis/apps.openyurt.io/v1beta1/nodepools".to_owned(), &admin, pool),
        target("/api/v1/nodes".to_owned(), &admin, node),
        target(format!("/api/v1/nodes/{}", machine.name), &machine.node, status),
        target(requests.to_owned(), &machine.node, request.clone()),
        target(requests.to_owned(), &admin, request),
        target(format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"), &tenant, lease),
    ];
    for target in &targets {
        assert!(target.valid["kind"].is_string(), "{}: {}", target.path, target.valid);
    }
    let mut run = ChaosRun { rng: ChaosRng(seed | 1), targets, record: plain, accepted: BTreeMap::new() };
    let began = Instant::now();
    let mut number = 0;
    while number < BATCH || began.elapsed() < ATTACK_DURATION {
        run.attack(number).await;
        number += 1;
        if number.is_multiple_of(BATCH) {
            assert_others_unaffected(&server, &good, &kube, &kept, number, seed).await;
        }
    }
    // A slow machine may have made too few attempts.
    for attempt in number..number + FURTHER_ATTEMPTS * run.targets.len() {
        if !run.accepted.contains_key(&(attempt % run.targets.len())) {
            run.attack(attempt).await;
        }
    }
    assert_others_unaffected(&server, &good, &kube, &kept, number + 1, seed).await;
    let refused = run.kinds_never_stored();
    assert!(refused.is_empty(), "CHAOS_SEED={seed}: nothing was stored of {refused:?}");
    let accepted: usize = run.accepted.values().sum();
    assert!(accepted * 10 > number, "{accepted} of {number} objects were accepted");
}
