//! Attacks with requests that have very many errors: the errors of one response are bounded, and so is the work to find them.

use serde_json::{Value, json};

use super::lists::cpu_time;
use crate::access::User;
use crate::cluster::{Cluster, Config};
use crate::field::MAX_ERROR_BYTES;

/// Limit of CPU time per request in a debug build.
const MAX_CPU_TIME: std::time::Duration = std::time::Duration::from_secs(10);

struct ErrorAttack {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    body: Value,
}

fn attacks() -> Vec<ErrorAttack> {
    const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let post = |name, path, body| ErrorAttack { name, method: "POST", path, body };
    let config_map = |name: &str, metadata: Value| {
        let mut object = json!({"metadata": metadata, "data": {"a": "b"}});
        object["metadata"]["name"] = name.into();
        object
    };
    let bad = "\u{7f}".repeat(60_000);
    let entry = |operation: &str, manager: &str| json!({"manager": manager, "operation": operation, "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:a": {}}}});
    let managed = |operation: &str| json!({"managedFields": [entry(operation, &bad)]});
    let short: Vec<Value> = (0..20_000).map(|n| entry("Apply", &format!("\u{7f}{n}"))).collect();
    let owner = |n: usize| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{n}"), "uid": "u", "controller": true});
    let owners: Vec<Value> = (0..15_000).map(owner).collect();
    let containers: Vec<Value> =
        (0..15_000).map(|n| json!({"name": format!("c{n}"), "image": "a"})).collect();
    let rule =
        json!({"action": "FailJob", "onExitCodes": {"containerName": "x", "operator": "In", "values": [1]}});
    let job = |count: usize| {
        json!({"metadata": {"name": "a"}, "spec": {"podFailurePolicy": {"rules": vec![&rule; count]},
            "template": {"spec": {"restartPolicy": "Never", "containers": containers}}}})
    };
    let services = "/api/v1/namespaces/default/services";
    let addresses = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}], "clusterIPs": vec!["::1"; 200_000]}});
    let hard: serde_json::Map<_, _> = (0..20_000).map(|n| (format!("count/a{n}.b"), "1".into())).collect();
    let scope = json!({"scopeName": "BestEffort", "operator": "Exists"});
    let conflicting = json!({"scopeName": "NotBestEffort", "operator": "Exists"});
    let scopes: Vec<&Value> = std::iter::repeat_n(&scope, 20_000).chain([&conflicting]).collect();
    let quota = json!({"metadata": {"name": "a"}, "spec": {"hard": hard, "scopeSelector": {"matchExpressions": scopes}}});
    vec![
        post("manager of an Apply entry", CONFIG_MAPS, config_map("a", managed("Apply"))),
        post("manager of an Update entry", CONFIG_MAPS, config_map("a", managed("Update"))),
        post("managers", CONFIG_MAPS, config_map("a", json!({"managedFields": short}))),
        ErrorAttack {
            name: "manager in a replacement",
            method: "PUT",
            path: "/api/v1/namespaces/default/configmaps/old",
            body: config_map("old", managed("Apply")),
        },
        post("controllers", CONFIG_MAPS, config_map("a", json!({"ownerReferences": owners}))),
        post("failure policy", "/apis/batch/v1/namespaces/default/jobs", job(15_000)),
        post("addresses", services, addresses),
        post("scopes", "/api/v1/namespaces/default/resourcequotas", quota),
    ]
}

#[tokio::test]
async fn requests_that_are_wrong_in_thousands_of_places_get_a_bounded_answer() {
    let config = Config { inline_bytes: usize::MAX, ..Config::default() };
    let client = Cluster::open(config).await.unwrap().client(User::admin());
    let send = async |method: &str, path: &str, body: &Value| {
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        let answer = client.send(request.body(body.to_string().into_bytes().into()).unwrap()).await.unwrap();
        let code = answer.status().as_u16();
        let body = http_body_util::BodyExt::collect(answer.into_body()).await.unwrap().to_bytes();
        (code, body)
    };
    let path = "/api/v1/namespaces/default/configmaps";
    assert_eq!(send("POST", path, &json!({"metadata": {"name": "old"}, "data": {"a": "b"}})).await.0, 201);
    for attack in attacks() {
        let began = cpu_time();
        let (code, body) = send(attack.method, &format!("{}?dryRun=All", attack.path), &attack.body).await;
        let took = cpu_time().saturating_sub(began);
        let text = String::from_utf8_lossy(&body);
        // On creation the requester becomes the owner of the fields, which removes the entries of other managers.
        let is_replaced = code == 201 && attack.name.starts_with("manager") && !text.contains('\u{7f}');
        assert!(code == 422 || is_replaced, "{} {code}: {text:.500}", attack.name);
        // Each error is in the message and in a cause; the first one is not truncated.
        let most = 2 * (2 * MAX_ERROR_BYTES + attack.body.to_string().len());
        assert!(body.len() < most, "{}: {} bytes", attack.name, body.len());
        assert!(took < MAX_CPU_TIME, "{}: {took:?}", attack.name);
    }
    let (_, found) = send("GET", &format!("{path}/old"), &Value::Null).await;
    assert!(!String::from_utf8_lossy(&found).contains('\u{7f}'));
}
