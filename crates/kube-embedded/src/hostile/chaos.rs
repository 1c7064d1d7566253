//! A chaos run: generated hostile objects of every built-in kind against a cluster with all controllers.
//!
//! Objects are generated from the schema: a valid object of the kind if one is known, with a few fields set to extreme numbers, times and
//! lengths. After each batch a canary Deployment must roll out, no reconcile or request may have panicked, no background task may have
//! ended, and the memory of the process is bounded: the run has its own process. `CHAOS_SEED` selects the run, `CHAOS_SECONDS` its
//! duration.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::{child, deployment};
use crate::access::User;
use crate::cluster::{Cluster, Config};
use crate::schema::resources::Resource;
use crate::schema::types::{Shape, TypeRef};
use crate::sim::Simulation;

const DEFAULT_SECONDS: u64 = 30;
/// Attacks between two canaries.
const ATTACKS_PER_CANARY: usize = 150;
/// Additional attempts per kind of which no object was accepted.
const FURTHER_ATTEMPTS: usize = 60;
/// Limit of all stored objects: quotas bound the objects that controllers create.
const MAX_STORED_BYTES: usize = 256 << 20;
/// Limit of the process's peak memory in a debug build.
const MAX_PROCESS_KILOBYTES: usize = 1 << 20;

/// Xorshift generator: the seed reproduces the run.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

/// An extreme value of a scalar type; `None` for other types.
fn extreme_value(ty: TypeRef<'_>, rng: &mut Rng) -> Option<Value> {
    let text = |rng: &mut Rng| {
        let long = "x".repeat(70_000);
        let all = [
            "",
            "a",
            "A_b.c",
            "-1",
            "9223372036854775808",
            "%",
            "../..",
            "\u{0}",
            "ü\u{202e}",
            "0-9223372036854775807",
            &long,
        ];
        Value::from(rng.pick(&all))
    };
    let time =
        ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59Z", "2026-01-02T03:04:05Z"];
    Some(match ty.shape() {
        Shape::String => text(rng),
        Shape::Int32 => rng.pick(&[i64::from(i32::MIN), -1, 0, 1, 7, 86_400, i64::from(i32::MAX)]).into(),
        Shape::Int64 => rng.pick(&[i64::MIN, -1, 0, 1, 400_000_000_000, 1 << 53, i64::MAX]).into(),
        Shape::Double => rng.pick(&[f64::MIN, -1.0, 0.0, 1e300, f64::MAX]).into(),
        Shape::Bool => (rng.below(2) == 0).into(),
        Shape::Bytes => rng.pick(&["", "AAAA", "!", "/////w=="]).into(),
        Shape::Time => rng.pick(&time).into(),
        Shape::MicroTime => rng.pick(&time).replace('Z', ".999999Z").into(),
        Shape::Duration => rng.pick(&["0s", "-1h0m0s", "2562047h47m16.854775807s", "1ns"]).into(),
        Shape::Quantity => rng
            .pick(&["0", "-1", "1n", "9223372036854775807", "9223372036854775807E", "1e30", "8Ei", "1e-9"])
            .into(),
        Shape::IntOrString => {
            let all =
                [json!(-1), json!(0), json!(i32::MAX), json!("0%"), json!("999999999999999999%"), json!("a")];
            rng.pick(&all)
        }
        Shape::Any => json!({"a": i64::MAX}),
        Shape::Struct(_) | Shape::Map(_) | Shape::List(_) => return None,
    })
}

/// A random value of a type, down to `depth`.
fn random_value(ty: TypeRef<'_>, rng: &mut Rng, depth: usize) -> Value {
    if let Some(scalar) = extreme_value(ty, rng) {
        return scalar;
    }
    match ty.shape() {
        Shape::Struct(body) => {
            let mut fields = Map::new();
            for field in &body.fields {
                if depth > 0 && (field.required || rng.below(body.fields.len()) < 2) {
                    fields.insert(field.name.to_string(), random_value(ty.with_id(field.ty), rng, depth - 1));
                }
            }
            fields.into()
        }
        Shape::Map(map) if depth > 0 => json!({"a": random_value(ty.with_id(map.value), rng, depth - 1)}),
        Shape::List(list) if depth > 0 => json!([random_value(ty.with_id(list.element), rng, depth - 1)]),
        Shape::Map(_) => json!({}),
        _ => json!([]),
    }
}

/// Sets one random field in `value` to an extreme value.
fn set_extreme_field(ty: TypeRef<'_>, value: &mut Value, rng: &mut Rng) {
    match (ty.shape(), &mut *value) {
        (Shape::Struct(body), Value::Object(fields)) if !body.fields.is_empty() => {
            // Prefers fields that are set, to reach deep fields.
            let present: Vec<_> =
                body.fields.iter().filter(|field| fields.contains_key(field.name.as_ref())).collect();
            let field = if !present.is_empty() && rng.below(3) > 0 {
                rng.pick(&present)
            } else {
                &body.fields[rng.below(body.fields.len())]
            };
            if matches!(field.name.as_ref(), "metadata" | "kind" | "apiVersion") {
                return;
            }
            let child = ty.with_id(field.ty);
            match fields.get_mut(field.name.as_ref()) {
                Some(inner) => set_extreme_field(child, inner, rng),
                None => drop(fields.insert(field.name.to_string(), random_value(child, rng, 3))),
            }
        }
        (Shape::List(list), Value::Array(items)) if !items.is_empty() => {
            let at = rng.below(items.len());
            set_extreme_field(ty.with_id(list.element), &mut items[at], rng);
        }
        (Shape::Map(map), Value::Object(fields)) if !fields.is_empty() => {
            let key = rng.pick(&fields.keys().cloned().collect::<Vec<_>>());
            set_extreme_field(ty.with_id(map.value), fields.get_mut(&key).unwrap(), rng);
        }
        _ => *value = random_value(ty, rng, 3),
    }
}

/// A PEM certificate signing request, base64-encoded.
fn certificate_request() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::default().serialize_request(&key).unwrap();
    STANDARD.encode(request.pem().unwrap())
}

/// A valid object of a kind on which controllers act.
fn valid_object(kind: &str) -> Value {
    let pod = json!({"containers": [{"name": "a", "image": "a", "resources": {"requests": {"cpu": "1m"}}, "ports": [{"containerPort": 80}]}]});
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": pod});
    let selector = json!({"matchLabels": {"app": "a"}});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let job = json!({"template": once, "completions": 2, "parallelism": 1, "backoffLimit": 1});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let attributes = json!({"namespace": "hostile", "verb": "get", "resource": "pods"});
    match kind {
        "Pod" => json!({"spec": pod}),
        "Deployment" => {
            json!({"spec": {"replicas": 1, "selector": selector, "template": template, "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}}}})
        }
        "ReplicaSet" => json!({"spec": {"replicas": 1, "selector": selector, "template": template}}),
        "ReplicationController" => {
            json!({"spec": {"replicas": 1, "selector": {"app": "a"}, "template": template}})
        }
        "StatefulSet" => {
            json!({"spec": {"replicas": 1, "serviceName": "a", "selector": selector, "template": template, "ordinals": {"start": 1}}})
        }
        "DaemonSet" => {
            json!({"spec": {"selector": selector, "template": template, "updateStrategy": {"type": "RollingUpdate"}}})
        }
        "Job" => json!({"spec": job}),
        "CronJob" => {
            json!({"spec": {"schedule": "* * * * *", "startingDeadlineSeconds": 10, "jobTemplate": {"spec": job}}})
        }
        "Service" => json!({"spec": {"selector": {"app": "a"}, "ports": [{"port": 80}]}}),
        "PersistentVolumeClaim" => json!({"spec": claim}),
        "PersistentVolume" => {
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/a"}}})
        }
        "PodDisruptionBudget" => json!({"spec": {"minAvailable": "50%", "selector": selector}}),
        "HorizontalPodAutoscaler" => {
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "h"}}})
        }
        "Lease" => {
            json!({"spec": {"holderIdentity": "a", "leaseDurationSeconds": 10, "renewTime": "2026-01-02T03:04:05.000000Z"}})
        }
        "Event" => {
            json!({"involvedObject": {"kind": "Pod", "name": "a", "namespace": "hostile"}, "reason": "a", "type": "Normal", "lastTimestamp": "2026-01-02T03:04:05Z"})
        }
        "Node" => json!({"spec": {}, "status": {"capacity": {"cpu": "1"}, "allocatable": {"cpu": "1"}}}),
        "CertificateSigningRequest" => {
            json!({"spec": {"request": certificate_request(), "signerName": "a.example.com/b", "usages": ["client auth"], "expirationSeconds": 600}})
        }
        "ConfigMap" | "Secret" => json!({"data": {"a": "AAAA"}}),
        "Endpoints" => json!({"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]}),
        "EndpointSlice" => {
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]})
        }
        "ControllerRevision" => json!({"revision": 1, "data": {}}),
        "PriorityClass" => json!({"value": 1}),
        "ResourceQuota" => {
            json!({"spec": {"hard": {"pods": "100"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["a"]}]}}})
        }
        "CustomResourceDefinition" => {
            let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a*$", "maxLength": 9}, "b": {"type": "integer", "maximum": 9}}, "x-kubernetes-validations": [{"rule": "self.a == 'a'"}]}}});
            json!({"spec": {"group": "hostile.example.com", "scope": "Namespaced", "names": {"plural": "as", "kind": "A"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
        }
        "APIService" => {
            json!({"spec": {"group": "hostile.example.com", "version": "v9", "groupPriorityMinimum": 10, "versionPriority": 10, "service": {"name": "a", "namespace": "hostile"}}})
        }
        "ValidatingAdmissionPolicy" => {
            json!({"spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}, "validations": [{"expression": "false", "message": "a"}]}})
        }
        "ValidatingAdmissionPolicyBinding" => {
            json!({"spec": {"policyName": "hostile", "validationActions": ["Deny"]}})
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            json!({"webhooks": [{"name": "a.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}]}]})
        }
        "LimitRange" => json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "2"}}]}}),
        "PodTemplate" => json!({"template": template}),
        "RoleBinding" | "ClusterRoleBinding" => {
            let role =
                json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"});
            json!({"roleRef": role, "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "a"}]})
        }
        "IPAddress" => {
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "hostile", "name": "a"}}})
        }
        "ServiceCIDR" => json!({"spec": {"cidrs": ["10.250.0.0/24"]}}),
        "Ingress" => json!({"spec": {"defaultBackend": {"service": {"name": "a", "port": {"number": 80}}}}}),
        "IngressClass" => json!({"spec": {"controller": "example.com/a"}}),
        "VolumeAttachment" => {
            json!({"spec": {"attacher": "example.com", "nodeName": "a", "source": {"persistentVolumeName": "a"}}})
        }
        "PriorityLevelConfiguration" => {
            json!({"spec": {"type": "Limited", "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}}}})
        }
        "SelfSubjectAccessReview" => json!({"spec": {"resourceAttributes": attributes}}),
        "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            json!({"spec": {"user": "a", "resourceAttributes": attributes}})
        }
        "MutatingAdmissionPolicy" => {
            let rules = json!([{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["*"]}]);
            json!({"spec": {"reinvocationPolicy": "Never", "matchConstraints": {"resourceRules": rules},
                "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}]}})
        }
        _ => Value::Null,
    }
}

/// A name that is valid for the kind.
fn valid_name(kind: &str, number: usize) -> String {
    match kind {
        "CustomResourceDefinition" => "as.hostile.example.com".to_owned(),
        "APIService" => "v9.hostile.example.com".to_owned(),
        "ValidatingAdmissionPolicy" => "hostile".to_owned(),
        "IPAddress" => format!("10.250.{}.{}", number / 256 % 256, number % 256),
        _ => format!("h{number}"),
    }
}

/// Objects that restrict other objects, or whose name can exist only once: they are removed before the next attack. Otherwise they would
/// refuse the canary, as they are meant to.
fn is_removed(kind: &str) -> bool {
    kind.contains("AdmissionPolicy")
        || kind.contains("WebhookConfiguration")
        || matches!(kind, "CustomResourceDefinition" | "APIService" | "ResourceQuota")
}

struct ChaosRun {
    cluster: Cluster,
    client: kube::Client,
    rng: Rng,
    /// Number of stored objects by kind.
    accepted: BTreeMap<String, usize>,
}

impl ChaosRun {
    async fn send(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = http::Request::builder().method(method).uri(path).header("content-type", media);
        let sent = self.client.send(request.body(body.to_string().into_bytes().into()).unwrap());
        let answer =
            tokio::time::timeout(Duration::from_mins(1), sent).await.expect("an answer in time").unwrap();
        let code = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (code, serde_json::from_slice(&body).unwrap_or_default())
    }

    fn path(resource: &Resource, name: &str, sub: &str) -> String {
        let root = if resource.group.is_empty() { "/api/" } else { "/apis/" };
        let place = if resource.namespaced { "/namespaces/hostile" } else { "" };
        let path = format!("{root}{}{place}/{}", resource.api_version(), resource.name);
        [&path, name, sub]
            .iter()
            .filter(|part| !part.is_empty())
            .map(|part| (*part).to_owned())
            .collect::<Vec<_>>()
            .join("/")
    }

    /// Creates one hostile object, patches its status and scale, and may delete it.
    async fn attack(&mut self, resource: &Resource, number: usize) {
        let root = resource.root_type();
        let mut object = valid_object(&resource.kind);
        if object.is_null() {
            object = random_value(root, &mut self.rng, 4);
        }
        for _ in 0..=self.rng.below(3) {
            set_extreme_field(root, &mut object, &mut self.rng);
        }
        let name = valid_name(&resource.kind, number);
        object["metadata"] = json!({"name": name, "labels": {"app": "a"}});
        if self.rng.below(3) == 0 {
            let extreme = self.rng.pick(&["9223372036854775807", "-1", "a"]);
            object["metadata"]["annotations"] = json!({"deployment.kubernetes.io/revision": extreme,
                "batch.kubernetes.io/job-index-failure-count": extreme, "deployment.kubernetes.io/max-replicas": extreme});
        }
        if resource.kind.ends_with("AccessReview") {
            object["metadata"] = json!({});
        }
        object["kind"] = resource.kind.as_ref().into();
        object["apiVersion"] = resource.api_version().into();
        let (code, _) = self.send("POST", &Self::path(resource, "", ""), &object).await;
        if !(200..300).contains(&code) {
            return;
        }
        *self.accepted.entry(resource.kind.to_string()).or_default() += 1;
        if resource.subresource("status").is_some() && resource.kind.as_ref() != "Namespace" {
            let mut status = json!({"status": {}});
            set_extreme_field(root, &mut status, &mut self.rng);
            self.send("PATCH", &Self::path(resource, &name, "status"), &status).await;
        }
        if resource.subresource("scale").is_some() {
            let replicas = self.rng.pick(&[i64::from(i32::MAX), 0, 3]);
            let scale = json!({"spec": {"replicas": replicas}});
            self.send("PATCH", &Self::path(resource, &name, "scale"), &scale).await;
        }
        if is_removed(&resource.kind) {
            let path = Self::path(resource, &name, "");
            let (code, answer) = self.send("DELETE", &path, &json!({})).await;
            assert!(matches!(code, 200 | 202), "{name}: {answer:#}");
        } else if self.rng.below(3) > 0 {
            let grace = self.rng.pick(&[i64::MAX, -1, 0, 400_000_000_000]);
            let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": grace});
            self.send("DELETE", &Self::path(resource, &name, ""), &options).await;
        }
    }

    /// Checks that a Deployment of another tenant rolls out.
    async fn canary(&self, number: usize) {
        let path = "/apis/apps/v1/namespaces/canary/deployments";
        let name = format!("canary-{number}");
        let (code, answer) = self.send("POST", path, &deployment(&name, 1, &json!({}))).await;
        assert_eq!(code, 201, "{answer:#}");
        let until = Instant::now() + Duration::from_mins(1);
        loop {
            let (_, found) = self.send("GET", &format!("{path}/{name}"), &Value::Null).await;
            if found["status"]["availableReplicas"] == 1 {
                break;
            }
            let failing = self.cluster.health().failing();
            assert!(
                Instant::now() < until,
                "the canary does not roll out: {:#}\n{failing:?}",
                found["status"]
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.send("DELETE", &format!("{path}/{name}"), &Value::Null).await;
    }

    fn check(&self, seed: u64) {
        let metrics = self.cluster.metrics();
        assert_eq!((metrics.panic_count(), metrics.task_restart_count()), (0, 0), "CHAOS_SEED={seed}");
        assert_eq!(self.cluster.health().failing(), [], "CHAOS_SEED={seed}");
        let store = self.cluster.store();
        let stored: usize = store
            .storages()
            .iter()
            .flat_map(|storage| store.list(storage, None).objects)
            .map(|object| object.bytes.len())
            .sum();
        assert!(stored < MAX_STORED_BYTES, "{stored} bytes are stored, CHAOS_SEED={seed}");
        let peak = child::kilobytes("VmHWM:");
        assert!(peak < MAX_PROCESS_KILOBYTES, "{peak} KiB of memory, CHAOS_SEED={seed}");
    }
}

fn env_setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn chaos_of_hostile_objects_stops_no_controller_and_takes_bounded_memory() {
    let printed = child::run_test("hostile::chaos::chaos_in_this_process", &[]);
    assert!(printed.contains("1 passed"), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the test that gives it a process of its own"]
async fn chaos_in_this_process() {
    let seed = env_setting("CHAOS_SEED", 20_261_118);
    let simulation = Some(Simulation { addresses: true, ..Simulation::default() });
    let cluster = Cluster::open(Config { simulation, ..Config::default() }).await.unwrap();
    let client = cluster.client(User::admin());
    let mut run = ChaosRun { client, rng: Rng(seed | 1), accepted: BTreeMap::new(), cluster };
    for namespace in ["hostile", "canary"] {
        let (code, _) =
            run.send("POST", "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
        assert_eq!(code, 201);
    }
    // The quota that the platform sets for a workspace: without it a Deployment of 2^31 replicas fills any cluster.
    let hard = json!({"pods": "40", "count/jobs.batch": "40", "count/replicasets.apps": "60"});
    let quota = json!({"metadata": {"name": "quota"}, "spec": {"hard": hard}});
    assert_eq!(run.send("POST", "/api/v1/namespaces/hostile/resourcequotas", &quota).await.0, 201);
    let kinds: Vec<_> = run
        .cluster
        .registry()
        .resources()
        .iter()
        .filter(|resource| resource.has_verb("create") && !resource.needs_conversion())
        // A Binding needs the name of a pod that is not yet bound.
        .filter(|resource| &*resource.kind != "Binding")
        .cloned()
        .collect();
    assert!(kinds.len() > 40, "{}", kinds.len());
    let until = Instant::now() + Duration::from_secs(env_setting("CHAOS_SECONDS", DEFAULT_SECONDS));
    let mut number = 0;
    // Every kind at least once, even if the machine is slow.
    while number < 2 * kinds.len() || Instant::now() < until {
        let kind = kinds[number % kinds.len()].clone();
        run.attack(&kind, number).await;
        number += 1;
        if number.is_multiple_of(ATTACKS_PER_CANARY) {
            run.canary(number).await;
            run.check(seed);
        }
    }
    run.canary(number).await;
    run.check(seed);
    let stored: usize = run.accepted.values().sum();
    assert!(stored * 10 > number, "{stored} of {number} objects were accepted");
    // Slow machines have had few attempts.
    for (attempt, kind) in (number..).zip(kinds.iter().flat_map(|kind| vec![kind; FURTHER_ATTEMPTS])) {
        if !run.accepted.contains_key(&*kind.kind) {
            run.attack(kind, attempt).await;
        }
    }
    run.check(seed);
    let refused: BTreeSet<&str> = kinds
        .iter()
        .map(|resource| &*resource.kind)
        // Pods of hostile workloads may have used up the quota.
        .filter(|kind| *kind != "Pod" && !run.accepted.contains_key(*kind))
        .collect();
    assert!(refused.is_empty(), "CHAOS_SEED={seed}: nothing was stored of {refused:?}");
    eprintln!("{stored} of {number} objects were accepted, peak {} KiB", child::kilobytes("VmHWM:"));
    run.cluster.stop();
}
