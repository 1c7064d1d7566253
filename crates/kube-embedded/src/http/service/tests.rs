//! Requests of hostile tenants through the service, in process.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::cluster::Config;
use crate::store::Object;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Sends a request with impersonation of `user`, or as an administrator.
async fn send(cluster: &Cluster, user: &str, method: &str, path: &str, body: &Value) -> Response<Body> {
    let mut request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, "application/json");
    if !user.is_empty() {
        request = request.header("impersonate-user", user).header("impersonate-group", "testers");
    }
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = request.body(Full::new(Bytes::from(body))).unwrap();
    cluster.service_as(User::admin()).oneshot(request).await.unwrap()
}

/// Allows everything to the group `testers`.
async fn allow_testers(cluster: &Cluster) {
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let role = json!({"metadata": {"name": "all"}, "rules": rules});
    let binding = json!({"metadata": {"name": "all"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "all"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "testers"}]});
    for (name, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let response = send(cluster, "", "POST", &format!("/apis/{group}/v1/{name}"), &object).await;
        assert_eq!(response.status(), 201);
    }
}

fn config_map(name: &str, bytes: usize, fill: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": fill.repeat(bytes / fill.len())}})
}

#[tokio::test]
async fn tenant_uses_ten_service_accounts_and_gets_one_share() {
    let mut config = Config::default();
    config.level_limits.0[1].streams_per_flow = 4;
    config.level_limits.0[1].bytes_per_flow = 8 << 20;
    let cluster = Cluster::open(config).await.unwrap();
    allow_testers(&cluster).await;
    for n in 0..3 {
        let object = config_map(&format!("m{n}"), 1 << 20, "line: x\n");
        assert_eq!(send(&cluster, "", "POST", CONFIG_MAPS, &object).await.status(), 201);
    }
    let watch = format!("{CONFIG_MAPS}?watch=1&resourceVersion={}", cluster.store().version());
    for path in [watch.as_str(), CONFIG_MAPS] {
        let mut held = Vec::new();
        let mut codes = Vec::new();
        for n in 0..10 {
            let user = format!("system:serviceaccount:hostile:sa-{n}");
            let response = send(&cluster, &user, "GET", path, &Value::Null).await;
            codes.push(response.status().as_u16());
            held.push(response);
        }
        let admitted = codes.iter().filter(|code| **code == 200).count();
        assert!((1..=4).contains(&admitted) && codes.last() == Some(&429), "{path}: {codes:?}");
        // Another tenant and a user without namespaces are not affected.
        for user in ["system:serviceaccount:good:sa", "jane"] {
            assert_eq!(send(&cluster, user, "GET", path, &Value::Null).await.status(), 200, "{user} {path}");
        }
    }
    cluster.stop();
}

#[tokio::test]
async fn tenant_rewrites_objects_between_unread_lists_and_pins_no_more_than_history() {
    const OBJECTS: usize = 10;
    const SIZE: usize = 1_000_000;
    const LISTS: usize = 10;
    let cluster = Cluster::in_memory().await;
    let mut versions: Vec<Weak<Object>> = Vec::new();
    let mut unread = Vec::new();
    let began = Instant::now();
    for round in 0..LISTS {
        for n in 0..OBJECTS {
            let (name, fill) = (format!("m{n}"), format!("round {round}\n"));
            let object = config_map(&name, SIZE, &fill);
            let (method, path) = match round {
                0 => ("POST", CONFIG_MAPS.to_owned()),
                _ => ("PUT", format!("{CONFIG_MAPS}/{name}")),
            };
            let response = send(&cluster, "", method, &path, &object).await;
            assert!(response.status().is_success(), "{}", response.status());
            let stored = cluster.store().get("configmaps", "default", &name).unwrap();
            versions.push(Arc::downgrade(&stored));
        }
        let list = send(&cluster, "", "GET", CONFIG_MAPS, &Value::Null).await;
        assert_eq!(list.status(), 200);
        unread.push(list);
    }
    let pinned: usize = versions.iter().filter_map(Weak::upgrade).map(|object| object.bytes.len()).sum();
    assert!(pinned <= (64 << 20) + (OBJECTS + 2) * SIZE, "{pinned} bytes are pinned by {LISTS} unread lists");
    // A list whose objects are superseded breaks off and never returns others.
    let mut lists = unread.into_iter();
    let first = lists.next().unwrap().into_body().collect().await;
    assert!(first.is_err(), "a list of superseded objects ends with an error");
    let last = lists.next_back().unwrap().into_body().collect().await;
    assert!(began.elapsed() < Duration::from_secs(25), "so slow that the lists were given up");
    let last: Value = serde_json::from_slice(&last.unwrap().to_bytes()).unwrap();
    let items = last["items"].as_array().unwrap();
    assert_eq!(items.len(), OBJECTS + 1, "with kube-root-ca.crt");
    cluster.stop();
}

#[tokio::test]
async fn collection_of_large_objects_is_deleted_on_the_pool_and_of_small_ones_is_not() {
    let mut config = Config::default();
    config.work_limits.slots = 0;
    config.work_limits.wait = Duration::from_millis(10);
    let cluster = Cluster::open(config).await.unwrap();
    for n in 0..20 {
        let object = config_map(&format!("small-{n}"), 1_000, "x");
        assert_eq!(send(&cluster, "", "POST", CONFIG_MAPS, &object).await.status(), 201);
    }
    let response = send(&cluster, "", "DELETE", CONFIG_MAPS, &Value::Null).await;
    assert_eq!(response.status(), 200);
    // The root CA publisher may have created its ConfigMap again.
    let exists = |name: &str| cluster.store().get("configmaps", "default", name).is_some();
    assert!((0..20).all(|n| !exists(&format!("small-{n}"))));
    // Larger than the inline limit; written directly to the store, because the test's pool has no free slot.
    let key = crate::store::Key::new(&"configmaps".into(), "default", "large");
    let mut object = config_map("large", 100_000, "x");
    object["metadata"]["namespace"] = "default".into();
    let (expect, op) = (crate::store::Expect::Absent, crate::store::Op::Put(object));
    cluster.store().commit(vec![crate::store::Change { key, expect, op }]).await.unwrap();
    let response = send(&cluster, "", "DELETE", CONFIG_MAPS, &Value::Null).await;
    assert_eq!(response.status(), 429);
    assert!(exists("large"));
    // A watch that has to parse it waits for the pool as well, and ends with an error.
    let request = Request::get(format!("{CONFIG_MAPS}?watch=1"))
        .header(ACCEPT, "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Full::new(Bytes::new()))
        .unwrap();
    let response = cluster.service_as(User::admin()).oneshot(request).await.unwrap();
    let events = response.into_body().collect().await.unwrap().to_bytes();
    // The last event: the root CA ConfigMap may come before.
    let event = events.trim_ascii_end().split(|byte| *byte == b'\n').next_back().unwrap();
    let event: Value = serde_json::from_slice(event).unwrap();
    assert_eq!((&event["type"], &event["object"]["code"]), (&json!("ERROR"), &json!(429)), "{event:#}");
    cluster.stop();
}
