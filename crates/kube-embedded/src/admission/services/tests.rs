//! Tests of allocating and releasing addresses and ports.

use serde_json::json;

use super::*;
use crate::store::{Change, Expect, Key, Op};

async fn put(store: &Store, name: &str, service: Value) {
    let key = Key::new(&"services".into(), "default", name);
    store.commit(vec![Change { key, expect: Expect::Absent, op: Op::Put(service) }]).await.unwrap();
}

#[expect(clippy::needless_pass_by_value, reason = "a literal reads better without a reference")]
fn service(spec: Value) -> Value {
    let mut service = json!({"metadata": {"name": "s", "namespace": "default"}, "spec": spec});
    if service["spec"]["type"].is_null() {
        service["spec"]["type"] = "ClusterIP".into();
    }
    service
}

#[tokio::test]
async fn service_values_are_released_on_delete() {
    let store = Store::in_memory();
    let allocator = ServiceAllocator::new();
    let ask = |spec: Value| {
        let mut asked = service(spec);
        allocator.create(&store, &mut asked, false).map(|held| (held, asked))
    };
    let spec =
        json!({"type": "NodePort", "clusterIP": "10.96.0.9", "ports": [{"port": 1, "nodePort": 30_001}]});
    let (held, stored) = ask(spec.clone()).unwrap();
    // In progress: reserved; dropped: free again; stored: allocated.
    let words = |spec: &Value| ask(spec.clone()).err().unwrap().message;
    let taken = "Service \"s\" is invalid: spec.clusterIPs: Invalid value: [\"10.96.0.9\"]: failed to allocate IP 10.96.0.9: provided IP is already allocated";
    assert_eq!(words(&spec), taken);
    drop(held);
    let (held, _) = ask(spec.clone()).unwrap();
    put(&store, "s", stored).await;
    drop(held);
    assert_eq!(words(&spec), taken);
    let port = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30_001}]});
    assert_eq!(
        words(&port),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 30001: provided port is already allocated"
    );
    let port = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]});
    assert_eq!(
        words(&port),
        "Service \"s\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"
    );
}

#[test]
fn ip_families_follow_policy_and_selector() {
    let (store, allocator) = (Store::in_memory(), ServiceAllocator::new());
    let table = [
        (json!({"clusterIP": "None"}), "RequireDualStack [\"IPv4\",\"IPv6\"]"),
        (json!({"clusterIP": "None", "selector": {"a": "b"}}), "SingleStack [\"IPv4\"]"),
        (json!({"ipFamilyPolicy": "PreferDualStack"}), "PreferDualStack [\"IPv4\"]"),
        (
            json!({"ipFamilyPolicy": "RequireDualStack"}),
            "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services",
        ),
        (
            json!({"ipFamilies": ["IPv6"]}),
            "spec.ipFamilies[0]: Invalid value: \"IPv6\": not configured on this cluster",
        ),
        (
            json!({"clusterIP": "fd00::1"}),
            "spec.clusterIPs[0]: Invalid value: [\"fd00::1\"]: IPv6 is not configured on this cluster",
        ),
        (
            json!({"clusterIP": "10.0.0.1"}),
            "spec.clusterIPs: Invalid value: [\"10.0.0.1\"]: failed to allocate IP 10.0.0.1: the provided network does not match the current range",
        ),
    ];
    for (spec, expected) in table {
        let mut asked = service(spec.clone());
        let told = match allocator.create(&store, &mut asked, false) {
            Ok(_) => format!("{} {}", text(&asked["spec"]["ipFamilyPolicy"]), asked["spec"]["ipFamilies"]),
            Err(error) => error.message.replacen("Service \"s\" is invalid: ", "", 1),
        };
        assert_eq!(told, expected, "{spec}");
    }
}

#[test]
fn update_keeps_allocated_values() {
    let (store, allocator) = (Store::in_memory(), ServiceAllocator::new());
    let mut old = service(json!({"type": "NodePort", "ports": [
        {"port": 80, "protocol": "TCP", "name": "a"}, {"port": 80, "protocol": "UDP", "name": "b"}]}));
    drop(allocator.create(&store, &mut old, false).unwrap());
    let ports = node_ports(&old);
    assert_eq!(ports[0], ports[1], "two protocols of one port share a node port");

    let mut new = service(json!({"type": "NodePort", "ports": [
        {"port": 81, "protocol": "TCP", "name": "a"}, {"port": 82, "protocol": "TCP", "name": "c"}]}));
    drop(allocator.update(&store, &mut new, &old, false).unwrap());
    assert_eq!(new["spec"]["clusterIP"], old["spec"]["clusterIP"]);
    assert_eq!(new["spec"]["clusterIPs"], old["spec"]["clusterIPs"]);
    assert_eq!(node_ports(&new)[0], ports[0]);
    assert_ne!(node_ports(&new)[1], ports[0]);
    assert_eq!(new["spec"]["ipFamilyPolicy"], "SingleStack");

    let mut named = service(json!({"type": "ExternalName", "externalName": "a.b"}));
    drop(allocator.update(&store, &mut named, &old, false).unwrap());
    assert_eq!(named["spec"], json!({"type": "ExternalName", "externalName": "a.b"}));
    let mut back = service(json!({"ports": [{"port": 1}]}));
    drop(allocator.update(&store, &mut back, &named, false).unwrap());
    assert!(text(&back["spec"]["clusterIP"]).starts_with("10.96."));
}
