//! Attacks of four hostile tenants. Each is a loop until a given time or the end of the server, whatever the
//! responses are. A [`ResponseTally`] counts the responses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures::future::join_all;
use http::{HeaderMap, Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::time::{sleep, timeout};

use crate::platform::PlatformUser;
use crate::program::Server;
use crate::releases::charts::upload_chart;
use crate::security::charts::{large_enum_chart, many_aliases_chart, many_imports_chart};
use crate::security::packages::sized_archives::repeated;
use crate::security::traffic::RawClient;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const API_GROUP_PATH: &str = "/apis/longshore.dev/v1alpha1";
/// Timeout of a response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause between rounds of an attack whose requests are rejected immediately, because the attackers share processors
/// with the server.
const ATTACK_PAUSE: Duration = Duration::from_millis(20);

/// Responses per attack and status code; code 0 means no response.
#[derive(Clone, Default)]
pub struct ResponseTally(Arc<Mutex<BTreeMap<(&'static str, u16), u64>>>);

impl ResponseTally {
    fn record(&self, attack: &'static str, code: u16) {
        *self.0.lock().unwrap().entry((attack, code)).or_default() += 1;
    }

    /// The number of requests of an attack with one of these status codes.
    pub fn responses(&self, attack: &str, codes: &[u16]) -> u64 {
        let counts = self.0.lock().unwrap();
        counts
            .iter()
            .filter(|((name, code), _)| *name == attack && codes.contains(code))
            .map(|(_, n)| n)
            .sum()
    }
}

impl std::fmt::Display for ResponseTally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counts = self.0.lock().unwrap();
        counts.iter().try_for_each(|((attack, code), count)| write!(f, "{attack} {code}: {count}, "))
    }
}

/// A hostile tenant on a running server.
#[derive(Clone)]
pub struct LoadAttacker {
    pub namespace: String,
    /// Token for the platform's port.
    pub token: String,
    /// Client with the tenant's own rights, without retries.
    pub kube: kube::Client,
    pub platform: kube::Client,
    pub end: Instant,
    pub tally: ResponseTally,
}

struct AttackResponse {
    code: u16,
    headers: HeaderMap,
}

impl LoadAttacker {
    fn is_over(&self) -> bool {
        Instant::now() >= self.end
    }

    /// Sends a request and reads the response. Without a response, the code is 0.
    async fn send(
        &self,
        attack: &'static str,
        client: &kube::Client,
        request: Request<Vec<u8>>,
    ) -> AttackResponse {
        let answered = timeout(RESPONSE_TIMEOUT, async {
            let (parts, body) = client.send(request.map(Body::from)).await.ok()?.into_parts();
            body.collect().await.ok()?;
            Some(AttackResponse { code: parts.status.as_u16(), headers: parts.headers })
        });
        let none = AttackResponse { code: 0, headers: HeaderMap::new() };
        let answered = answered.await.ok().flatten().unwrap_or(none);
        self.tally.record(attack, answered.code);
        if !matches!(answered.code, 200 | 201) {
            sleep(ATTACK_PAUSE).await;
        }
        answered
    }

    /// Sends a request to the Kubernetes port.
    async fn send_to_kube(
        &self,
        attack: &'static str,
        method: Method,
        path: &str,
        media: &str,
        body: impl Into<Vec<u8>>,
    ) -> u16 {
        let request = Request::builder().method(method).uri(path).header("content-type", media);
        self.send(attack, &self.kube, request.body(body.into()).unwrap()).await.code
    }

    /// Sends a request to the platform's port.
    async fn send_to_platform(
        &self,
        attack: &'static str,
        method: Method,
        path: &str,
        media: &str,
        body: Vec<u8>,
    ) -> AttackResponse {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/longshore/v1/{path}"))
            .header("authorization", format!("Bearer {}", self.token))
            .header("content-type", media);
        self.send(attack, &self.platform, request.body(body).unwrap()).await
    }

    fn collection(&self, api: &str, resource: &str) -> String {
        format!("{api}/namespaces/{}/{resource}", self.namespace)
    }
}

// First tenant: stores as much as it can.

/// Acknowledged ConfigMaps that were not deleted since.
pub type StoredNames = Arc<Mutex<BTreeSet<String>>>;

/// Kinds that tenants store: API path of the collection, and an object without a name.
fn hoarded_objects(attacker: &LoadAttacker) -> Vec<(String, Value)> {
    let text = |bytes: usize| "x".repeat(bytes);
    let container = json!({"name": "a", "image": "a", "env": [{"name": "A", "value": text(1_200_000)}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [container]}});
    let selector = json!({"matchLabels": {"app": "a"}});
    let rules: Vec<_> = (0..4_000)
        .map(|n| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"], "resourceNames": [format!("m{n}")]}))
        .collect();
    let about = json!({"kind": "Pod", "name": "a", "namespace": attacker.namespace});
    vec![
        (attacker.collection("/api/v1", "configmaps"), json!({"data": {"x": text(900_000)}})),
        (attacker.collection("/api/v1", "secrets"), json!({"stringData": {"x": text(900_000)}})),
        (
            attacker.collection("/apis/apps/v1", "deployments"),
            json!({"spec": {"replicas": 0, "selector": selector, "template": template}}),
        ),
        (
            attacker.collection(API_GROUP_PATH, "helmreleases"),
            json!({"spec": {"name": "a", "source": {"repo": "none"}, "values": format!("x: {}\n", text(900_000))}}),
        ),
        (
            attacker.collection("/api/v1", "events"),
            json!({"involvedObject": about, "message": text(900), "reason": "a", "type": "Normal"}),
        ),
        (attacker.collection("/apis/rbac.authorization.k8s.io/v1", "roles"), json!({"rules": rules})),
        (
            attacker.collection("/apis/coordination.k8s.io/v1", "leases"),
            json!({"metadata": {"annotations": {"x": text(250_000)}}}),
        ),
    ]
}

/// Creates objects of every kind until they are rejected, then replaces objects by deleting and creating.
pub async fn store_attack(attacker: LoadAttacker, stored: StoredNames, phase: usize) {
    let hoards = hoarded_objects(&attacker);
    let worker = async |worker: usize| {
        for number in 0_usize.. {
            let (path, object) = &hoards[number % hoards.len()];
            let (name, mut object) = (format!("h{phase}-{worker}-{number}"), object.clone());
            object["metadata"]["name"] = name.clone().into();
            if object["spec"]["name"].is_string() {
                object["spec"]["name"] = name.clone().into();
            }
            let is_map = path.ends_with("/configmaps");
            match attacker.send_to_kube("store", Method::POST, path, JSON, object.to_string()).await {
                201 if is_map => _ = stored.lock().unwrap().insert(name),
                403 if is_map => {
                    let oldest = stored.lock().unwrap().pop_first();
                    if let Some(oldest) = oldest {
                        let path = format!("{path}/{oldest}");
                        attacker.send_to_kube("store: delete", Method::DELETE, &path, JSON, "").await;
                    }
                }
                _ => {}
            }
            if attacker.is_over() {
                return;
            }
        }
    };
    join_all((0..4).map(worker)).await;
}

// Second tenant: hundreds of broken releases.

fn chart_with(templates: &str) -> Vec<(&'static str, String)> {
    vec![
        ("Chart.yaml", "apiVersion: v2\nname: evil\nversion: 1.0.0\n".to_owned()),
        ("templates/a.yaml", templates.to_owned()),
    ]
}

/// Charts of releases that hang, fail, or use as much CPU and memory as they can.
fn broken_charts() -> Vec<Vec<(&'static str, String)>> {
    let hanging = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .Release.Name }}\"}\nspec:\n  \
        selector: {matchLabels: {app: a}}\n  template:\n    metadata: {labels: {app: a}}\n    \
        spec: {nodeSelector: {none: such}, containers: [{name: a, image: a}]}\n";
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: \"{{ .Release.Name }}\"\n  \
        annotations: {helm.sh/hook: pre-install}\nspec:\n  template:\n    \
        spec: {restartPolicy: Never, schedulerName: nobody, containers: [{name: a, image: a}]}\n";
    vec![
        chart_with(hanging),
        chart_with(hook),
        chart_with("{{ fail \"no\" }}"),
        chart_with("kind: None\napiVersion: no.such.group/v1\nmetadata: {name: a}\n"),
        chart_with("{{ range until 60 }}{{ $x := fromToml (repeat 300000 \"[[a]]\\n\") }}{{ end }}"),
        chart_with("{{ range until 20 }}{{ $x := genPrivateKey \"rsa\" }}{{ end }}"),
        chart_with("{{ range until 100 }}{{ $x := shuffle (repeat 1000000 \"ab\") }}{{ end }}"),
        chart_with(
            "{{ range until 100000 }}{{ $x := tpl \"{{ .Values | toYaml | fromYaml }}\" $ }}{{ end }}",
        ),
        chart_with(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\ndata: {x: {{ repeat 8000000 \"x\" }}}\n",
        ),
        many_imports_chart(),
        many_aliases_chart(),
        large_enum_chart(),
    ]
}

/// Uploads the broken charts. Returns the names of the packages.
pub async fn broken_packages(server: &Server, person: &PlatformUser) -> Vec<String> {
    let mut packages = Vec::new();
    for files in broken_charts() {
        let files: Vec<_> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
        packages.push(upload_chart(server, person, &person.id, &files).await);
    }
    packages
}

/// Creates releases of broken charts up to the quota and triggers their reconciliation repeatedly.
pub async fn release_attack(attacker: LoadAttacker, packages: Vec<String>) {
    let path = attacker.collection(API_GROUP_PATH, "helmreleases");
    let copies: Vec<_> =
        (0..12).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/k{n}")})).collect();
    let patches = json!([{"patch": Value::from(copies).to_string(), "target": {"kind": "ConfigMap"}}]);
    let worker = async |worker: usize| {
        for number in (worker..).step_by(4) {
            let name = format!("broken-{}", number % 600);
            let spec = json!({
                "name": name, "source": {"package": packages[number % packages.len()]}, "interval": "30s",
                "options": {"wait": true, "timeout": "1h"}, "patches": patches, "remediation": {"retries": 0},
            });
            let object = json!({
                "apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": name}, "spec": spec,
            });
            let code = attacker.send_to_kube("releases", Method::POST, &path, JSON, object.to_string()).await;
            if code != 201 {
                let change = json!({"spec": {"values": format!("again: {number}\n")}}).to_string();
                let path = format!("{path}/broken-{}", number % 97);
                attacker.send_to_kube("releases: change", Method::PATCH, &path, MERGE, change).await;
            }
            if attacker.is_over() {
                return;
            }
        }
    };
    join_all((0..4).map(worker)).await;
}

// Third tenant: uploads packages and triggers index fetches.

/// A small package that unpacks to 40 MiB.
pub fn package_bomb() -> Vec<u8> {
    repeated("bomb", 40 << 20)
}

/// Rounds of 40 concurrent uploads and 40 concurrent fetches of a large index.
pub async fn package_attack(attacker: LoadAttacker, repository: String, archive: Vec<u8>) {
    let upload = async |_| {
        let path = format!("packages?ws={}", attacker.namespace);
        attacker.send_to_platform("uploads", Method::POST, &path, "application/gzip", archive.clone()).await;
    };
    let fetch = async |n: usize| {
        let dense = if n.is_multiple_of(2) { "" } else { "/dense" };
        let url = format!("{repository}{dense}");
        let body = json!({"name": format!("r{n}"), "workspace": attacker.namespace, "url": url}).to_string();
        let made = attacker.send_to_platform("indexes", Method::POST, "repos", JSON, body.into_bytes()).await;
        let Some(location) = made.headers.get("location").and_then(|to| to.to_str().ok()) else { return };
        let path = location.trim_start_matches("/api/longshore/v1/");
        attacker.send_to_platform("indexes: delete", Method::DELETE, path, JSON, Vec::new()).await;
    };
    while !attacker.is_over() {
        futures::join!(join_all((0..40).map(upload)), join_all((0..40).map(fetch)));
    }
}

// Fourth tenant: sends costly requests and does not read responses.

/// A JSON patch that moves the first element of a long list to its end, thousands of times.
fn patch_bomb() -> String {
    let list = vec!["0"; 900_000].join(",");
    let mut patch = format!(r#"[{{"op":"add","path":"/data","value":[{list}]}}"#);
    for _ in 0..9_900 {
        let _ = write!(patch, r#",{{"op":"move","from":"/data/0","path":"/data/899999"}}"#);
    }
    patch + "]"
}

/// Objects with one long list each, with the paths of their collections.
fn long_lists(attacker: &LoadAttacker) -> Vec<(String, String)> {
    let pod = |field: &str, list: Vec<Value>| {
        let mut pod =
            json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
        *pod.pointer_mut("/spec").unwrap() = {
            let mut spec = pod["spec"].clone();
            if field == "ports" {
                spec["containers"][0]["ports"] = list.into();
            } else {
                spec[field] = list.into();
            }
            spec
        };
        (format!("{}?dryRun=All", attacker.collection("/api/v1", "pods")), pod.to_string())
    };
    let ports = (0..60_000).map(|n| json!({"containerPort": n + 1}));
    let gates = (0..100_000).map(|n| json!({"name": format!("a/{n}")}));
    let secrets = (0..100_000).map(|n| json!({"name": format!("s{n}")}));
    let of_service: Vec<_> = (0..60_000).map(|n| json!({"name": format!("p{n}"), "port": n + 1})).collect();
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": of_service}});
    vec![
        pod("ports", ports.collect()),
        pod("schedulingGates", gates.collect()),
        pod("imagePullSecrets", secrets.collect()),
        (format!("{}?dryRun=All", attacker.collection("/api/v1", "services")), service.to_string()),
    ]
}

/// Bodies of costly requests, with their paths.
#[derive(Clone)]
pub struct CostlyBodies {
    bomb: String,
    lists: Vec<(String, String)>,
    constrained: String,
}

impl CostlyBodies {
    /// Prepares bodies for this tenant, and stores ConfigMaps so that lists are long.
    pub async fn prepare(attacker: &LoadAttacker) -> Self {
        let maps = attacker.collection("/api/v1", "configmaps");
        for n in 0..20 {
            let map =
                json!({"metadata": {"name": format!("m{n}")}, "data": {"x": "line: x\n".repeat(112_000)}});
            attacker.send_to_kube("prepare", Method::POST, &maps, JSON, map.to_string()).await;
        }
        Self { bomb: patch_bomb(), lists: long_lists(attacker), constrained: spread_constraint_bomb() }
    }
}

/// A Deployment with thousands of spread constraints.
fn spread_constraint_bomb() -> String {
    let labels = json!({"app": "a"});
    let constraint = |n: usize| {
        json!({"maxSkew": 1, "topologyKey": format!("k{n}"), "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": labels}})
    };
    let spec = json!({"topologySpreadConstraints": (0..6_000).map(constraint).collect::<Vec<_>>(),
        "containers": [{"name": "a", "image": "a"}]});
    let template = json!({"metadata": {"labels": labels}, "spec": spec});
    let deployment = json!({"metadata": {"name": "constrained"},
        "spec": {"replicas": 10, "selector": {"matchLabels": labels}, "template": template}});
    deployment.to_string()
}

pub async fn request_attack(
    attacker: LoadAttacker,
    bodies: CostlyBodies,
    raw: RawClient,
    kube_token: String,
) {
    let maps = attacker.collection("/api/v1", "configmaps");
    let bombs = async |n: usize| {
        let path = format!("{maps}/m{n}");
        while !attacker.is_over() {
            attacker.send_to_kube("patch bombs", Method::PATCH, &path, JSON_PATCH, bodies.bomb.clone()).await;
        }
    };
    let lists = async {
        for (path, body) in bodies.lists.iter().cycle() {
            attacker.send_to_kube("long lists", Method::POST, path, JSON, body.clone()).await;
            if attacker.is_over() {
                return;
            }
        }
    };
    let roles = async {
        let path = attacker.collection("/apis/rbac.authorization.k8s.io/v1", "roles");
        for number in 0_usize.. {
            let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
                "resourceNames": [format!("m{number}")]});
            let changing = json!({"metadata": {"name": "turning"}, "rules": vec![rule; 500]}).to_string();
            let (method, path) = match number {
                0 => (Method::POST, path.clone()),
                _ => (Method::PUT, format!("{path}/turning")),
            };
            attacker.send_to_kube("roles", method, &path, JSON, changing).await;
            if attacker.is_over() {
                return;
            }
        }
    };
    // Each authorisation decision is new to the cache of decisions.
    let decisions = async {
        for number in 0_usize.. {
            let name = format!("{}{number}", "n".repeat(if number.is_multiple_of(2) { 230 } else { 20_000 }));
            attacker.send_to_kube("decisions", Method::GET, &format!("{maps}/{name}"), JSON, "").await;
            let name = "n".repeat(20_000);
            let attributes = json!({"verb": "get", "resource": "configmaps", "namespace": attacker.namespace,
                "name": format!("{number}{name}")});
            let review = json!({"spec": {"resourceAttributes": attributes}}).to_string();
            let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
            attacker.send_to_kube("reviews", Method::POST, path, JSON, review).await;
            if attacker.is_over() {
                return;
            }
        }
    };
    let watches = async {
        let extreme = format!("{maps}?watch=true&timeoutSeconds={}", i64::MAX);
        while !attacker.is_over() {
            let mut open = Vec::new();
            for _ in 0..50 {
                let request = Request::get(&extreme).body(Body::empty()).unwrap();
                let code = match timeout(RESPONSE_TIMEOUT, attacker.kube.send(request)).await {
                    Ok(Ok(answer)) => {
                        let code = answer.status().as_u16();
                        open.push(answer);
                        code
                    }
                    _ => 0,
                };
                attacker.tally.record("watches", code);
                sleep(ATTACK_PAUSE).await;
            }
        }
    };
    let path = attacker.collection("/apis/apps/v1", "deployments");
    attacker.send_to_kube("constraints", Method::POST, &path, JSON, bodies.constrained).await;
    let unread = async {
        while !attacker.is_over() {
            let mut held = Vec::new();
            for _ in 0..80 {
                let Ok(mut stream) = raw.connect().await else { break };
                let list_request = format!(
                    "GET {maps} HTTP/1.1\r\nhost: a\r\naccept: application/yaml\r\nauthorization: Bearer {kube_token}\r\n\r\n"
                );
                let sent = stream.write_all(list_request.as_bytes()).await.and(stream.flush().await);
                attacker.tally.record("unread answers", if sent.is_ok() { 200 } else { 0 });
                held.push(stream);
            }
            // Longer than the server waits for a client that does not read, unless the attack ends earlier.
            let rest = attacker.end.saturating_duration_since(Instant::now());
            sleep(rest.min(Duration::from_secs(35))).await;
        }
    };
    futures::join!(join_all((0..4).map(bombs)), lists, roles, decisions, watches, unread);
}
