//! Quotas and nodes that are too small, and those that are not.

use kube_embedded::sim::Simulation;
use serde_json::json;

use super::nodes::{find_room, rooms};
use super::*;
use crate::tell::Silent;
use crate::testing::*;
use crate::{Options, apply};

fn told(shortages: &[Shortage]) -> Vec<String> {
    shortages.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn a_quota_that_is_too_small_is_named_before_anything_is_written() {
    let town = Town::alive().await;
    let hard = json!({"requests.cpu": "3", "count/deployments.apps": "2", "pods": "10"});
    town.put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let counted = || async {
        town.get(("v1", "ResourceQuota"), "q").await.filter(|quota| quota["status"]["used"].is_object())
    };
    testkit::until("the quota is counted", counted).await;

    let fits = [deployment("a", 2, json!({}))];
    assert_eq!(told(&quota(&town.target, &[], &fits, 0).await.unwrap()), [""; 0]);
    let large = [deployment("a", 4, json!({})), deployment("b", 1, json!({})), deployment("c", 0, json!({}))];
    assert_eq!(
        told(&quota(&town.target, &[], &large, 0).await.unwrap()),
        [
            "quota shop/q has 2 of count/deployments.apps left, and 3 more are needed",
            "quota shop/q has 3 of requests.cpu left, and 5 more are needed",
        ]
    );

    apply(&town.target, &[], &fits, &Options::new(SERVER_SIDE), &Silent).await.unwrap();
    let used = || async {
        town.get(("v1", "ResourceQuota"), "q").await.filter(|quota| quota["status"]["used"]["pods"] == "2")
    };
    testkit::until("the pods are counted", used).await;
    // Asked again after it was written, the answer is the same.
    assert_eq!(told(&quota(&town.target, &[], &fits, 0).await.unwrap()), [""; 0]);
    // An update needs a surge for a while: one more pod of three.
    let mut new = deployment("a", 3, json!({})).into_value();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("c:2");
    let new = [Object::from_value(new).unwrap()];
    assert_eq!(
        told(&quota(&town.target, &fits, &new, 0).await.unwrap()),
        ["quota shop/q has 1 of requests.cpu left, and 2 more are needed"]
    );
}

#[tokio::test]
async fn pods_that_would_find_no_node_are_counted() {
    let town = Town::open(Some(Simulation { nodes: 2, cpu: "4".to_owned(), ..Simulation::default() })).await;
    let client = &town.target.client;
    let wanted = [deployment("a", 3, json!({})), deployment("b", 6, json!({}))];
    assert_eq!(
        told(&nodes(client, &town.target, &[], &wanted).await.unwrap()),
        ["1 of 6 pods of Deployment shop/b would find no node with room"]
    );
    assert_eq!(told(&nodes(client, &town.target, &[], &wanted[1..]).await.unwrap()), [""; 0]);
}

#[test]
fn labels_taints_and_what_is_taken_are_looked_at() {
    let node = |name: &str, more: Value| {
        let mut node = json!({
            "metadata": {"name": name, "labels": {"disk": name}},
            "status": {"allocatable": {"cpu": "2", "memory": "2Gi", "pods": "2"}},
        });
        node["spec"] = more;
        node
    };
    let all = || {
        vec![
            node("a", json!({})),
            node("b", json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]})),
            node("c", json!({"unschedulable": true})),
        ]
    };
    let turn = |spec: Value| {
        let mut object = deployment("web", 2, json!({})).into_value();
        for (key, value) in spec.as_object().unwrap() {
            object["spec"]["template"]["spec"][key.as_str()] = value.clone();
        }
        let id = Object::from_value(object.clone()).unwrap().id();
        [Turn { id, live: None, wanted: Some(object) }]
    };
    let short = |spec: Value, pods: &[Value]| match find_room(rooms(all(), pods), &turn(spec)).as_slice() {
        [] => 0,
        [Shortage::Nodes { pods, .. }] => *pods,
        other => panic!("{other:?}"),
    };
    assert_eq!(short(json!({}), &[]), 0);
    let there =
        json!({"spec": {"nodeName": "a", "containers": [{"resources": {"requests": {"cpu": "1500m"}}}]}});
    assert_eq!(short(json!({}), std::slice::from_ref(&there)), 2);
    let tolerant = json!({"tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]});
    assert_eq!(short(tolerant.clone(), &[there]), 0);
    assert_eq!(short(json!({"nodeSelector": {"disk": "b"}}), &[]), 2);
    assert_eq!(short(json!({"nodeSelector": {"disk": "c"}}), &[]), 2);
    let mut both = tolerant;
    both["nodeSelector"] = json!({"disk": "b"});
    assert_eq!(short(both, &[]), 0);
}
