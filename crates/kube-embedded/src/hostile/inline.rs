//! Attacks with small requests that cause much work: it runs on the pool, not on the listeners' threads.

use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::tenant::{Tenant, config_maps, put, while_others_run};
use crate::cluster::{Cluster, Config};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON_PATCH: &str = "application/json-patch+json";

async fn tenant(config: Config) -> Tenant {
    let cluster = Cluster::open(config).await.unwrap();
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    Tenant::new(&cluster, rules).await
}

/// A configuration whose pool has no slots: work that needs the pool is refused.
fn without_pool() -> Config {
    let mut config = Config::default();
    config.work_limits.slots = 0;
    config.work_limits.wait = Duration::from_millis(10);
    config
}

#[tokio::test]
async fn json_patches_that_grow_or_shift_wait_for_the_pool() {
    let tenant = tenant(without_pool()).await;
    let ports: Vec<Value> = (0..300).map(|n| json!({"name": format!("p{n}"), "port": n + 1})).collect();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s", "namespace": "default", "uid": "s"},
        "spec": {"ports": ports}});
    put(&tenant.cluster, "services", vec![service]).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m", "namespace": "default", "uid": "m"},
        "data": {"a": "x".repeat(100)}});
    put(&tenant.cluster, "configmaps", vec![map]).await;
    let doubled: Vec<Value> =
        (0..20).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/{n}")})).collect();
    let escaped = json!(doubled).to_string().replace("\"copy\"", "\"c\\u006fpy\"");
    let moved: Vec<Value> =
        (0..200).map(|_| json!({"op": "move", "from": "/spec/ports/0", "path": "/spec/ports/-"})).collect();
    let one = |path: &str| json!([{"op": "add", "path": path, "value": "b"}]).to_string();
    let two = json!([{"op": "test", "path": "/data/a", "value": "x".repeat(100)}, {"op": "remove", "path": "/data/a"}]);
    let (map, service) = (format!("{CONFIG_MAPS}/m"), "/api/v1/namespaces/default/services/s".to_owned());
    for (name, path, patch, expected) in [
        ("copies", &map, json!(doubled).to_string(), 429),
        ("copies in disguise", &map, escaped, 429),
        ("shifts", &service, json!(moved).to_string(), 429),
        ("one value", &map, one("/data/b"), 200),
        ("a test and a removal", &map, two.to_string(), 200),
        (
            "a label",
            &service,
            json!([{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]).to_string(),
            200,
        ),
    ] {
        let (code, answer) = tenant.send("PATCH", path, JSON_PATCH, patch).await;
        assert_eq!(code, expected, "{name}: {:.500}", answer.to_string());
    }
    tenant.cluster.stop();
}

#[tokio::test]
async fn yaml_with_aliases_waits_for_the_pool() {
    let tenant = tenant(without_pool()).await;
    let body = |name: &str, data: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n{data}")
    };
    let deep = format!("{}{}", "[".repeat(300), "a,".repeat(2_000));
    for (name, data, expected) in [
        ("plain", "  a: b\n  c: \"*\"\n".to_owned(), 201),
        ("script", "  a: |\n    a && b * c & d\n    [ -f x ] && rm *\n".to_owned(), 201),
        ("aliases", format!("  a: &a {}\n  b: *a\n", "x".repeat(1_000)), 429),
        ("merges", "  <<: [&a {a: b}, *a]\n".to_owned(), 429),
        ("nested", format!("  a: {deep}\n"), 429),
    ] {
        let (code, answer) = tenant.send("POST", CONFIG_MAPS, "application/yaml", body(name, &data)).await;
        assert_eq!(code, expected, "{name}: {answer:#}");
        let path = format!("{CONFIG_MAPS}/applied-{name}?fieldManager=a");
        let applied = body(&format!("applied-{name}"), &data);
        let (code, answer) = tenant.send("PATCH", &path, "application/apply-patch+yaml", applied).await;
        assert_eq!(code, expected, "{name}: {answer:#}");
    }
    tenant.cluster.stop();
}

#[tokio::test]
async fn json_patch_of_which_too_large_an_object_comes_is_refused_before_it_is_checked() {
    let tenant = tenant(Config::default()).await;
    put(&tenant.cluster, "configmaps", config_maps(1, 1_200_000)).await;
    let patch = json!([{"op": "copy", "from": "/data/a", "path": "/data/b"}, {"op": "copy", "from": "/data/a", "path": "/data/c"}]);
    let object = format!("{CONFIG_MAPS}/m00000");
    let (code, answer) = tenant.send("PATCH", &object, JSON_PATCH, patch.to_string()).await;
    assert_eq!(
        (code, &answer["message"]),
        (413, &json!("Request entity too large: limit is 3145728")),
        "{:.300}",
        answer.to_string()
    );
    let patch = json!([{"op": "copy", "from": "/data/a", "path": "/data/b"}]);
    let (code, answer) = tenant.send("PATCH", &object, JSON_PATCH, patch.to_string()).await;
    assert_eq!(code, 422, "{answer:.300}");
    tenant.cluster.stop();
}

#[tokio::test]
async fn long_list_of_rows_lets_others_run() {
    let tenant = tenant(Config::default()).await;
    let many: serde_json::Map<_, _> = (0..1_500).map(|n| (format!("key{n}"), "a".into())).collect();
    let mut maps = config_maps(300, 8);
    for map in &mut maps {
        map["data"] = json!(many);
    }
    put(&tenant.cluster, "configmaps", maps).await;
    let request =
        http::Request::get(CONFIG_MAPS).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let client = tenant.cluster.client(crate::access::User::admin());
    let list = async {
        let answer = client.send(request.body(Vec::new().into()).unwrap()).await.unwrap();
        answer.into_body().collect().await.unwrap().to_bytes()
    };
    let (body, count) = while_others_run(list).await;
    let table: Value = serde_json::from_slice(&body).unwrap();
    assert!(table["rows"].as_array().is_some_and(|rows| rows.len() >= 300), "{:.200}", table.to_string());
    assert!(count > 15, "others ran {count} times");
    tenant.cluster.stop();
}
