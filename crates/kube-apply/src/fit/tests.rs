//! Capacity checks with sufficient and insufficient quotas and nodes.

use kube_embedded::sim::Simulation;
use serde_json::json;

use super::*;
use crate::tell::Silent;
use crate::testing::*;
use crate::{Options, apply};

fn told(shortages: &[Shortage]) -> Vec<String> {
    shortages.iter().map(ToString::to_string).collect()
}

/// Shortages, computed in both ways.
async fn short(town: &Town, before: &[Object], after: &[Object]) -> Vec<String> {
    let quotas = quotas(&town.target, after).await.unwrap();
    let turns = Turns::read(&town.target, before, after).await.unwrap();
    let short = told(&turns.short_of_quota(&quotas, 0));
    assert_eq!(told(&room(&quotas, &town.target, before, after).await.unwrap()), short);
    short
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
    assert_eq!(short(&town, &[], &fits).await, [""; 0]);
    let large = [deployment("a", 4, json!({})), deployment("b", 1, json!({})), deployment("c", 0, json!({}))];
    assert_eq!(
        short(&town, &[], &large).await,
        [
            "exceeded quota: q in shop: 3 more of count/deployments.apps needed, 2 left",
            "exceeded quota: q in shop: 5 more of requests.cpu needed, 3 left",
        ]
    );

    apply(&town.target, &[], &fits, &Options::new(SERVER_SIDE), &Silent).await.unwrap();
    let used = || async {
        town.get(("v1", "ResourceQuota"), "q").await.filter(|quota| quota["status"]["used"]["pods"] == "2")
    };
    testkit::until("the pods are counted", used).await;
    // A repeated check after the write gives the same result.
    assert_eq!(short(&town, &[], &fits).await, [""; 0]);
    // An update needs surge: one more pod for three.
    let mut new = deployment("a", 3, json!({})).into_value();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("c:2");
    let new = [Object::from_value(new).unwrap()];
    assert_eq!(
        short(&town, &fits, &new).await,
        ["exceeded quota: q in shop: 2 more of requests.cpu needed, 1 left"]
    );
}

#[tokio::test]
async fn pods_that_would_find_no_node_are_counted() {
    let town = Town::open(Some(Simulation { nodes: 2, cpu: "4".to_owned(), ..Simulation::default() })).await;
    let short = async |wanted: &[Object]| {
        let turns = Turns::read(&town.target, &[], wanted).await.unwrap();
        told(&Nodes::read(&town.target.client).await.unwrap().short(&turns))
    };
    let wanted = [deployment("a", 3, json!({})), deployment("b", 6, json!({}))];
    assert_eq!(short(&wanted).await, ["1 of 6 pods of Deployment shop/b would find no node with room"]);
    assert_eq!(short(&wanted[1..]).await, [""; 0]);
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
        Turns(vec![Turn { id, live: None, before: None, wanted: Some(object) }])
    };
    let short = |spec: Value, pods: &[Value]| match Nodes::left(all(), pods).short(&turn(spec)).as_slice() {
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

#[tokio::test]
async fn what_plainly_fits_costs_no_call_and_only_a_changed_template_needs_a_surge() {
    let town = Town::alive().await;
    let hard = json!({"requests.cpu": "3", "pods": "3"});
    town.put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let fault = testkit::Fault::none();
    let counted = town.by(fault.over(town.target.client.clone()));
    let quota = |used: Value| {
        let metadata = json!({"name": "q", "namespace": "shop"});
        Quota::of(&json!({"metadata": metadata, "spec": {"hard": hard}, "status": {"used": used}})).unwrap()
    };
    // Two pods plus one for surge are three.
    let web = [deployment("web", 2, json!({})), map("web", json!({}))];
    assert_eq!(room(&[quota(json!({}))], &counted, &[], &web).await.unwrap(), []);
    assert_eq!(fault.calls(), 0);

    apply(&town.target, &[], &web, &Options::new(SERVER_SIDE), &Silent).await.unwrap();
    let used = [quota(json!({"requests.cpu": "2500m", "pods": "2"}))];
    // Server defaults and other spellings of a quantity are not changes.
    assert_eq!(room(&used, &counted, &web, &web).await.unwrap(), []);
    assert_eq!(room(&used, &counted, &[], &web).await.unwrap(), []);
    let mut same = web[0].value().clone();
    same["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000m");
    assert_eq!(room(&used, &counted, &web, &[Object::from_value(same).unwrap()]).await.unwrap(), []);
    assert_eq!(fault.calls(), 3, "what no quota counts is not read");
    // Any change of the template replaces the pods.
    let other = [deployment("web", 2, json!({"checksum/config": "2"})), map("web", json!({}))];
    assert_eq!(
        told(&room(&used, &counted, &web, &other).await.unwrap()),
        ["exceeded quota: q in shop: 1 more of requests.cpu needed, 500m left"]
    );
    // After the write it counts as live.
    apply(&town.target, &web, &other, &Options::new(SERVER_SIDE), &Silent).await.unwrap();
    assert_eq!(room(&used, &counted, &web, &other).await.unwrap(), []);
}
