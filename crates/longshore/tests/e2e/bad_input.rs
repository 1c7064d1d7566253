//! Malformed and hostile input. Each request is answered by a `Status` with the code that Kubernetes uses, writes
//! nothing, and leaves the server responsive.

use std::time::Duration;

use http::{Method, Request};
use serde_json::{Value, json};
use tempfile::tempdir;
use tokio::time::sleep;

use crate::program::Server;
use crate::request::{HttpResponse, get, send, send_body};
use crate::target::{Cluster, only_on_embedded};

const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// YAML alias bomb: nine levels, each with nine aliases of the level before.
fn billion_laughs() -> Vec<u8> {
    let line = |(before, name)| format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(","));
    let lines: String = "abcdefghi".chars().zip("bcdefghij".chars()).map(line).collect();
    format!("a: &a [x,x,x,x,x,x,x,x,x]\n{lines}").into_bytes()
}

fn nested_text(open: &str, middle: &str, close: &str) -> Vec<u8> {
    format!("{}{middle}{}", open.repeat(10_000), close.repeat(10_000)).into_bytes()
}

/// Sends attempts one after another to the same server. Each must fail and leave the ConfigMaps unchanged.
struct BadRequests {
    client: kube::Client,
    /// Path of the test's ConfigMap collection.
    maps: String,
    /// Path of a ConfigMap that exists before the attempts and must not change.
    target_path: String,
    before: String,
}

impl BadRequests {
    async fn new(cluster: &Cluster) -> Self {
        let client = cluster.client().await;
        let maps = format!("/api/v1/namespaces/{}/configmaps", cluster.namespace);
        let target = r#"{"metadata": {"name": "target"}, "data": {"a": "b"}}"#;
        let made = send_body(&client, Method::POST, &maps, JSON, target).await;
        assert_eq!(made.code, 201, "{}", made.text);
        // The root CA ConfigMap is created by a controller shortly after the namespace.
        while get(&client, &format!("{maps}/kube-root-ca.crt")).await.code != 200 {
            sleep(Duration::from_millis(50)).await;
        }
        let before = get(&client, &maps).await.json()["items"].to_string();
        Self { target_path: format!("{maps}/target"), client, maps, before }
    }

    async fn send_body(&self, method: Method, path: &str, media: &str, body: impl Into<Vec<u8>>, code: u16) {
        let body = body.into();
        let start: String = String::from_utf8_lossy(&body).chars().take(80).collect();
        let response = send_body(&self.client, method.clone(), path, media, body).await;
        self.assert_rejected(&format!("{method} {path} {media} {start}"), &response, code).await;
    }

    async fn send_path(&self, method: Method, path: &str, code: u16) {
        let request = Request::builder().method(method.clone()).uri(path).body(Vec::new()).unwrap();
        let answer = send(&self.client, request).await;
        self.assert_rejected(&format!("{method} {path}"), &answer, code).await;
    }

    async fn assert_rejected(&self, what: &str, answer: &HttpResponse, code: u16) {
        let what: String = what.chars().take(200).collect();
        assert_eq!(answer.code, code, "{what}: {}", answer.text.chars().take(300).collect::<String>());
        let status = answer.json();
        assert_eq!(
            (&status["kind"], &status["status"], &status["code"]),
            (&"Status".into(), &"Failure".into(), &code.into()),
            "{what}"
        );
        let after = get(&self.client, &self.maps).await.json()["items"].to_string();
        assert_eq!(after, self.before, "{what}");
    }
}

#[tokio::test]
async fn malformed_bodies_are_rejected() {
    let cluster = Cluster::start();
    let attempts = BadRequests::new(&cluster).await;
    let (maps, target) = (attempts.maps.as_str(), attempts.target_path.as_str());
    let too_large = format!(r#"{{"metadata": {{"name": "x"}}, "data": {{"a": "{}"}}}}"#, "x".repeat(3 << 20));
    let long_name = format!(r#"{{"metadata": {{"name": "{}"}}}}"#, "a".repeat(100_000));
    let deep = |inner: Vec<u8>| {
        [br#"{"metadata": {"name": "x", "annotations": "#.to_vec(), inner, b"}}".to_vec()].concat()
    };
    let posts: Vec<(&str, Vec<u8>, u16)> = vec![
        (JSON, b"{\"metadata\":".to_vec(), 400),
        (JSON, b"".to_vec(), 400),
        (JSON, b"[]".to_vec(), 400),
        (JSON, b"null".to_vec(), 422),
        (JSON, b"\"text\"".to_vec(), 400),
        (JSON, br#"{"metadata": {"name": "x"}} {}"#.to_vec(), 400),
        (JSON, br#"{"metadata": {"name": "x"}, "data": {"a": 1}}"#.to_vec(), 400),
        (JSON, br#"{"metadata": {"name": "x", "generation": 1e999}}"#.to_vec(), 400),
        (JSON, br#"{"metadata": {"name": "x", "generation": 99999999999999999999999}}"#.to_vec(), 400),
        (JSON, br#"{"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "x"}}"#.to_vec(), 400),
        (JSON, too_large.into_bytes(), 413),
        (JSON, nested_text("[", "", ""), 400),
        (JSON, deep(nested_text("[", "", "]")), 400),
        (JSON, deep(nested_text("{\"a\":", "1", "}")), 400),
        (YAML, b"metadata: {name: [".to_vec(), 400),
        (YAML, b"a: *b".to_vec(), 400),
        (YAML, b"metadata: {name: \"\xff\"}".to_vec(), 400),
        (YAML, billion_laughs(), 400),
        (YAML, nested_text("[", "", "]"), 400),
        (YAML, nested_text("{a: ", "", ""), 400),
        (PROTOBUF, b"garbage".to_vec(), 400),
        (PROTOBUF, b"k8s\0".to_vec(), 400),
        (PROTOBUF, b"k8s\0\xff\xff\xff".to_vec(), 400),
        ("text/plain", b"{}".to_vec(), 415),
        ("nonsense", b"{}".to_vec(), 415),
        ("application/cbor", b"\xff".to_vec(), 415),
        (JSON, br#"{"metadata": {"name": "a/b"}}"#.to_vec(), 422),
        (JSON, br#"{"metadata": {"name": ".."}}"#.to_vec(), 422),
        (JSON, br#"{"metadata": {"name": ""}}"#.to_vec(), 422),
        (JSON, b"{\"metadata\": {\"name\": \"a\xff\"}}".to_vec(), 422),
        (JSON, br#"{"metadata": {"name": "a\ud800"}}"#.to_vec(), 422),
        (JSON, br#"{"metadata": {"name": "x", "namespace": "other"}}"#.to_vec(), 400),
        (JSON, long_name.into_bytes(), 422),
    ];
    for (media, body, code) in posts {
        attempts.send_body(Method::POST, maps, media, body, code).await;
    }
    attempts.send_body(Method::PUT, target, JSON, r#"{"metadata": {"name": "other"}}"#, 400).await;
    attempts
        .send_body(Method::PUT, target, JSON, r#"{"metadata": {"name": "target"}, "data": []}"#, 400)
        .await;
    attempts.send_body(Method::PUT, maps, JSON, "{}", 405).await;
    attempts.send_body(Method::from_bytes(b"WAT").unwrap(), maps, JSON, "{}", 405).await;
    attempts.send_body(Method::DELETE, target, JSON, "{\"propagationPolicy\":", 400).await;
    assert_eq!(get(&attempts.client, "/readyz").await.code, 200);
}

#[tokio::test]
async fn inapplicable_patches_are_rejected() {
    let cluster = Cluster::start();
    let attempts = BadRequests::new(&cluster).await;
    let target = attempts.target_path.as_str();
    let operations = vec![r#"{"op": "test", "path": "/data/a", "value": "b"}"#; 10_001].join(",");
    let deep = [b"{\"data\":".to_vec(), nested_text("{\"a\":", "1", "}"), b"}".to_vec()].concat();
    let managed = format!("{target}?fieldManager=e2e");
    let mismanaged = format!("{target}?fieldManager={}", "x".repeat(200));
    let patches: Vec<(&str, &str, Vec<u8>, u16)> = vec![
        (target, JSON, b"{}".to_vec(), 415),
        (target, JSON_PATCH, b"{}".to_vec(), 400),
        (target, JSON_PATCH, br#"[{"op": "wat", "path": "/a"}]"#.to_vec(), 422),
        (target, JSON_PATCH, br#"[{"op": "add", "path": "nowhere", "value": 1}]"#.to_vec(), 422),
        (target, JSON_PATCH, format!("[{operations}]").into_bytes(), 413),
        (target, MERGE, b"[".to_vec(), 400),
        (target, MERGE, b"[]".to_vec(), 400),
        (target, MERGE, deep, 400),
        (target, STRATEGIC, br#"{"$patch": "wat"}"#.to_vec(), 500),
        (target, APPLY, b"{}".to_vec(), 422),
        (&managed, APPLY, b"a: [".to_vec(), 400),
        (&managed, APPLY, b"{}".to_vec(), 400),
        (&managed, APPLY, billion_laughs(), 400),
        (&mismanaged, MERGE, b"{}".to_vec(), 422),
    ];
    for (path, media, body, code) in patches {
        attempts.send_body(Method::PATCH, path, media, body, code).await;
    }
    assert_eq!(get(&attempts.client, "/readyz").await.code, 200);
}

#[tokio::test]
async fn invalid_paths_and_queries_are_rejected() {
    let cluster = Cluster::start();
    let attempts = BadRequests::new(&cluster).await;
    let (maps, target) = (attempts.maps.as_str(), attempts.target_path.as_str());
    let below = |rest: &str| format!("{maps}{rest}");
    let gets = [
        (below("/..%2Ftarget"), 404),
        (below("/%2e%2e/target"), 404),
        (below("/../configmaps/target"), 404),
        (below("//target"), 404),
        (below("/a%2Fb"), 404),
        (below("/%00"), 404),
        (below("/%ff"), 404),
        (below(&format!("/{}", "a".repeat(5_000))), 404),
        (below("?labelSelector=a+in+("), 400),
        (below(&format!("?labelSelector={}", "(".repeat(8_000))), 400),
        (below("?labelSelector=-%3D-"), 400),
        (below("?fieldSelector=spec.x%3Dy"), 400),
        (below("?fieldSelector=x"), 400),
        (below("?limit=many"), 400),
        (below("?continue=garbage"), 400),
        (below("?resourceVersion=new"), 400),
        (below("?resourceVersionMatch=Wat"), 422),
        (below("?watch=1&timeoutSeconds=x"), 400),
        ("/api/v1/namespaces/default/nonsense".to_owned(), 404),
    ];
    for (path, code) in gets {
        attempts.send_path(Method::GET, &path, code).await;
    }
    for (query, code) in [("propagationPolicy=Wat", 422), ("dryRun=Some", 422), ("gracePeriodSeconds=x", 400)]
    {
        attempts.send_path(Method::DELETE, &format!("{target}?{query}"), code).await;
    }
    for accept in ["text/html", "application/json;as=Nonsense;v=v1;g=x"] {
        let request = Request::get(maps).header("accept", accept).body(Vec::new()).unwrap();
        attempts.assert_rejected(accept, &send(&attempts.client, request).await, 406).await;
    }
    assert_eq!(get(&attempts.client, "/readyz").await.code, 200);
}

/// How much the server's memory may grow while it rejects one request.
const MAX_MEMORY_GROWTH: u64 = 64 << 20;

/// A server of this test alone, so that its memory can be measured.
struct MeasuredServer {
    server: Server,
    client: kube::Client,
}

impl MeasuredServer {
    /// Sends the request. It must be rejected with this code and reason, within [`MAX_MEMORY_GROWTH`].
    async fn assert_refuses_within_memory(
        &self,
        method: Method,
        path: &str,
        media: &str,
        body: Vec<u8>,
        code: u16,
        reason: &str,
    ) {
        let start: String = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
        let what = format!("{method} {path} {media} {start} ...");
        let (before, _) = self.server.memory();
        let answer = send_body(&self.client, method, path, media, body).await;
        let (_, peak) = self.server.memory();
        let text: String = answer.text.chars().take(300).collect();
        assert_eq!(answer.code, code, "{what}: {text}");
        let status = answer.json();
        assert_eq!(
            (&status["kind"], &status["reason"]),
            (&"Status".into(), &reason.into()),
            "{what}: {text}"
        );
        let grown = peak.saturating_sub(before);
        assert!(grown <= MAX_MEMORY_GROWTH, "{what}: {} MiB more", grown >> 20);
    }
}

/// CEL expression of nested loops over a hundred elements each.
fn nested_cel_loops(depth: u32) -> String {
    let hundred = vec!["1"; 100].join(",");
    (0..depth).fold("true".to_owned(), |body, level| format!("[{hundred}].all(x{level}, {body})"))
}

#[tokio::test]
async fn oversized_requests_are_rejected_within_memory_limit() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let victim = MeasuredServer { client: server.client().await, server };
    let maps = "/api/v1/namespaces/default/configmaps";
    let target = "/api/v1/namespaces/default/configmaps/target";
    let made = send_body(
        &victim.client,
        Method::POST,
        maps,
        JSON,
        r#"{"metadata": {"name": "target"}, "data": {"a": "b"}}"#,
    );
    assert_eq!(made.await.code, 201);

    let huge = || {
        format!(r#"{{"metadata": {{"name": "x"}}, "data": {{"a": "{}"}}}}"#, "x".repeat(100 << 20))
            .into_bytes()
    };
    for (method, path, media) in [
        (Method::POST, maps, JSON),
        (Method::POST, maps, YAML),
        (Method::PATCH, target, MERGE),
        (Method::DELETE, target, JSON),
        (Method::POST, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", JSON),
    ] {
        victim.assert_refuses_within_memory(method, path, media, huge(), 413, "RequestEntityTooLarge").await;
    }

    // Each copy doubles the document.
    let copies = (0..60).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/c{n}")}));
    let bomb: Value = [json!({"op": "add", "path": "/data/x", "value": "x".repeat(1000)})]
        .into_iter()
        .chain(copies)
        .collect();
    victim
        .assert_refuses_within_memory(
            Method::PATCH,
            target,
            JSON_PATCH,
            bomb.to_string().into_bytes(),
            422,
            "Invalid",
        )
        .await;

    // One long string, referenced twenty thousand times.
    let aliases = (0..20_000).map(|n| format!("  k{n}: *a")).collect::<Vec<_>>().join("\n");
    let long = format!("metadata: {{name: x}}\ndata:\n  x: &a '{}'\n{aliases}", "x".repeat(1_000_000));
    victim.assert_refuses_within_memory(Method::POST, maps, YAML, long.into_bytes(), 400, "BadRequest").await;
    let list = format!("a: &a [{}]\nb: [{}]\n", vec!["x"; 10_000].join(","), vec!["*a"; 100_000].join(","));
    victim.assert_refuses_within_memory(Method::POST, maps, YAML, list.into_bytes(), 400, "BadRequest").await;
    let deep = ["{\"metadata\":", &"[".repeat(1_000_000), &"]".repeat(1_000_000), "}"].concat();
    victim.assert_refuses_within_memory(Method::POST, maps, JSON, deep.into_bytes(), 400, "BadRequest").await;

    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let selecting = |selector: Value| {
        let pod = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = json!({"metadata": {"name": "d"}, "spec": {"selector": selector, "template": pod}});
        deployment.to_string().into_bytes()
    };
    let terms = vec![json!({"key": "k", "operator": "Exists"}); 100_000];
    let terms = selecting(json!({"matchExpressions": terms}));
    victim
        .assert_refuses_within_memory(Method::POST, deployments, JSON, terms, 413, "RequestEntityTooLarge")
        .await;
    let labels: Value =
        (0..100_000).map(|n| (format!("k{n}"), json!(""))).collect::<serde_json::Map<_, _>>().into();
    victim
        .assert_refuses_within_memory(
            Method::POST,
            deployments,
            JSON,
            selecting(json!({"matchLabels": labels})),
            422,
            "Invalid",
        )
        .await;
    assert_eq!(get(&victim.client, "/readyz").await.code, 200);
}

#[tokio::test]
async fn expensive_cel_expressions_are_rejected() {
    if !only_on_embedded() {
        return;
    }
    let folder = tempdir().unwrap();
    let server = Server::start(&folder.path().join("data"));
    let victim = MeasuredServer { client: server.client().await, server };
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for rule in [nested_cel_loops(6), "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c > 0)))".to_owned()]
    {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}],
            "properties": {"l": {"type": "array", "items": {"type": "integer"}}}});
        let version =
            json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
        let crd = json!({"metadata": {"name": "tugs.x.dev"}, "spec": {"group": "x.dev", "scope": "Cluster",
            "names": {"plural": "tugs", "kind": "Tug"}, "versions": [version]}});
        victim
            .assert_refuses_within_memory(
                Method::POST,
                crds,
                JSON,
                crd.to_string().into_bytes(),
                422,
                "Invalid",
            )
            .await;
    }

    // The policy is accepted; requests that it evaluates are rejected.
    let text = format!("'{}'", "a".repeat(1_000));
    let growing = format!("{text}.replace('', {text}).replace('', {text}).replace('', {text}).size() > 0");
    for (number, expression) in [nested_cel_loops(6), nested_cel_loops(3), growing].into_iter().enumerate() {
        let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let name = format!("p{number}");
        let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]});
        let policy = json!({"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression}]}});
        let binding =
            json!({"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}});
        for (path, object) in
            [(policies, &policy), (&policies.replace("policies", "policybindings"), &binding)]
        {
            let made = send_body(&victim.client, Method::POST, path, JSON, object.to_string()).await;
            assert_eq!(made.code, 201, "{}", made.text);
        }
        let secrets = "/api/v1/namespaces/default/secrets";
        let secret = json!({"metadata": {"name": "x"}}).to_string().into_bytes();
        victim.assert_refuses_within_memory(Method::POST, secrets, JSON, secret, 422, "Invalid").await;
        send_body(&victim.client, Method::DELETE, &format!("{policies}/{name}"), JSON, "").await;
    }
    assert_eq!(get(&victim.client, "/readyz").await.code, 200);
}
