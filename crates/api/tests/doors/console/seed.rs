//! Replays the specification of the console's API: calls every interface of its first half. Every field that it draws
//! must be in the response with the same name and type.

use std::io::Write;
use std::path::PathBuf;

use axum::http::Method;
use domain::roles::PlatformRole;
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::Api;
use kube::api::PostParams;
use kube_types::NodePool;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use testkit::wait_for;

use super::send;
use super::tree::{Interface, differences, interfaces};
use crate::test_server::{TestCredential, TestServer};

/// The specification, if `LONGSHORE_CORPUS` has it.
fn document() -> Option<String> {
    let folder = std::env::var_os("LONGSHORE_CORPUS").map(|corpus| PathBuf::from(corpus).join("seeds"));
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok());
    let found = files.into_iter().flatten().filter_map(Result::ok).map(|entry| entry.path());
    let mut found =
        found.filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("003_")));
    let Some(file) = found.next() else {
        assert!(
            std::env::var("CI").as_deref() != Ok("true"),
            "LONGSHORE_CORPUS names no folder with the document"
        );
        let thread = std::thread::current();
        let test = thread.name().unwrap_or_default();
        // Bypasses the captured output, which is dropped when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: {test}: LONGSHORE_CORPUS names no folder with the document"
        );
        return None;
    };
    Some(std::fs::read_to_string(file).unwrap())
}

async fn create_object<K>(house: &TestServer, namespace: &str, object: Value)
where
    K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Serialize
        + std::fmt::Debug,
{
    let objects: Api<K> = Api::namespaced(house.world.admin_client(), namespace);
    objects.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
}

/// Creates one object of each kind in a namespace, and a pool.
async fn create_fixtures(house: &TestServer, namespace: &str) {
    let template = |name: &str, policy: &str| json!({"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": policy, "containers": [{"name": "a", "image": "nginx:1.25"}]}});
    let meta = |name: &str| json!({"name": name, "labels": {"app": name, "tier": "front"}});
    let running = |name: &str| json!({"metadata": meta(name), "spec": {"replicas": 1, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template(name, "Always")}});
    create_object::<StatefulSet>(house, namespace, running("db")).await;
    let mut deployment = running("web");
    deployment["spec"].as_object_mut().unwrap().remove("serviceName");
    create_object::<Deployment>(house, namespace, deployment).await;
    let job = json!({"metadata": meta("import"), "spec": {"template": template("import", "Never")}});
    create_object::<Job>(house, namespace, job).await;
    let pools: Api<NodePool> = Api::all(house.world.admin_client());
    let pool = json!({"apiVersion": "apps.openyurt.io/v1alpha1", "kind": "NodePool", "metadata": {"name": "hangzhou"}, "spec": {"type": "Edge"}});
    pools.create(&PostParams::default(), &serde_json::from_value(pool).unwrap()).await.unwrap();
}

/// Path of an interface with the parameters of the specification.
fn path(interface: &Interface, token: &str, namespace: &str) -> String {
    let value = |name: &str| match name {
        "token" => token.to_owned(),
        "namespace" => namespace.to_owned(),
        "email" => "p2%40example.com".to_owned(),
        other => panic!("{}: nobody knows what to send as {other}", interface.address),
    };
    let sent: Vec<String> =
        interface.takes.iter().map(|field| format!("{}={}", field.name, value(&field.name))).collect();
    if sent.is_empty() {
        interface.address.clone()
    } else {
        format!("{}?{}", interface.address, sent.join("&"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn console_responses_match_the_documented_interfaces() {
    let Some(document) = document() else { return };
    let first_half = document.split("# openyurt_backend").next().unwrap();
    let drawn = interfaces(first_half);
    assert_eq!(drawn.len(), 9, "the document has nine interfaces");
    let house = TestServer::with_simulated_node().await;
    let admin = house.create_user(1, &[PlatformRole::Admin]).await;
    let visitor = house.create_user(2, &[]).await;
    let namespace = visitor.id.to_string();
    create_fixtures(&house, &namespace).await;
    for interface in &drawn {
        let (method, path) = match interface.address.as_str() {
            "/register" => (Method::POST, interface.address.clone()),
            // The user has no nodes of their own; the administrator sees all nodes.
            "/nodes" | "/nodepools" => (Method::GET, path(interface, &admin.token, &namespace)),
            _ => (Method::GET, path(interface, &visitor.token, &namespace)),
        };
        assert_eq!(method.as_str(), interface.method);
        let body = (method == Method::POST)
            .then(|| json!({"email": "new@example.com", "phone": "18300000077", "organization": "Acme"}));
        // The specification requires no token here; the platform always does.
        let needs_header = matches!(interface.address.as_str(), "/clusterOverview" | "/clusterEvents");
        let key = if needs_header { visitor.credential() } else { TestCredential::Anonymous };
        wait_for(&format!("{method} {path} to be as drawn"), async || {
            let answer = send(&house, method.clone(), &path, &key, body.clone()).await;
            assert_eq!(answer.code(), interface.status, "{path}: {}", answer.text);
            let differences = differences(&interface.gives, &answer.json());
            // Lists may be empty until the cache has observed the new objects; other differences would not disappear.
            if differences.is_empty() {
                Some(())
            } else {
                assert!(
                    differences.lines().all(|line| line.ends_with("is no Array: []")),
                    "{path}:\n{differences}{}",
                    answer.text
                );
                None
            }
        })
        .await;
    }
}

/// The check above detects a missing field.
#[test]
fn missing_documented_key_is_reported() {
    let Some(document) = document() else { return };
    let drawn = interfaces(&document);
    let nodes = drawn.iter().find(|interface| interface.address == "/nodes").unwrap();
    let row = json!({"name": "a", "uid": "", "ip": "", "nodePool": "", "role": "", "status": "", "nodeInfo": {}, "nodeStatus": {"cpu": "", "memory": 7}, "configuration": "", "containerGroup": ""});
    let found = differences(&nodes.gives, &json!({"allNodes": [row]}));
    assert!(found.contains("/allNodes[]/nodeInfo/atchitecture is missing"), "{found}");
    assert!(found.contains("/allNodes[]/nodeStatus/memory is no String: 7"), "{found}");
    assert!(found.contains("/createTime is missing"), "{found}");
}
