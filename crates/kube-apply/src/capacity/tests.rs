//! Capacity checks with sufficient and insufficient quotas and nodes.

use kube_embedded::sim::Simulation;
use serde_json::json;

use super::*;
use crate::progress::NoProgress;
use crate::testing::*;
use crate::{ApplyOptions, apply};

fn messages(shortages: &[Shortage]) -> Vec<String> {
    shortages.iter().map(ToString::to_string).collect()
}

/// Shortages, computed in both ways.
async fn shortages(town: &TestCluster, before: &[Object], after: &[Object]) -> Vec<String> {
    let quotas = quotas(&town.target, after).await.unwrap();
    let turns = ObjectChanges::read(&town.target, before, after).await.unwrap();
    let short = messages(&turns.shortages_of_quotas(&quotas, 0));
    assert_eq!(messages(&quota_shortages(&quotas, &town.target, before, after).await.unwrap()), short);
    short
}

#[tokio::test]
async fn exceeded_quota_is_reported_before_any_write() {
    let town = TestCluster::simulated().await;
    let hard = json!({"requests.cpu": "3", "count/deployments.apps": "2", "pods": "10"});
    town.put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let counted = || async {
        town.get(("v1", "ResourceQuota"), "q").await.filter(|quota| quota["status"]["used"].is_object())
    };
    testkit::wait_for("the quota is counted", counted).await;

    let fits = [deployment("a", 2, json!({}))];
    assert_eq!(shortages(&town, &[], &fits).await, [""; 0]);
    let large = [deployment("a", 4, json!({})), deployment("b", 1, json!({})), deployment("c", 0, json!({}))];
    assert_eq!(
        shortages(&town, &[], &large).await,
        [
            "exceeded quota: q in shop: 3 more of count/deployments.apps needed, 2 left",
            "exceeded quota: q in shop: 5 more of requests.cpu needed, 3 left",
        ]
    );

    apply(&town.target, &[], &fits, &ApplyOptions::new(SERVER_SIDE), &NoProgress).await.unwrap();
    let used = || async {
        town.get(("v1", "ResourceQuota"), "q").await.filter(|quota| quota["status"]["used"]["pods"] == "2")
    };
    testkit::wait_for("the pods are counted", used).await;
    // A repeated check after the write gives the same result.
    assert_eq!(shortages(&town, &[], &fits).await, [""; 0]);
    // An update needs surge: one more pod for three.
    let mut new = deployment("a", 3, json!({})).into_value();
    new["spec"]["template"]["spec"]["containers"][0]["image"] = json!("c:2");
    let new = [Object::from_value(new).unwrap()];
    assert_eq!(
        shortages(&town, &fits, &new).await,
        ["exceeded quota: q in shop: 2 more of requests.cpu needed, 1 left"]
    );
}

#[tokio::test]
async fn unschedulable_pods_are_counted() {
    let town = TestCluster::with_simulation(Some(Simulation {
        nodes: 2,
        cpu: "4".to_owned(),
        ..Simulation::default()
    }))
    .await;
    for name in ["node-0", "node-1"] {
        let ready = || async {
            let node = town.get(("v1", "Node"), name).await?;
            node["spec"]["taints"].as_array().is_none_or(Vec::is_empty).then_some(())
        };
        testkit::wait_for("the node is ready", ready).await;
    }
    let short = async |wanted: &[Object]| {
        let turns = ObjectChanges::read(&town.target, &[], wanted).await.unwrap();
        messages(&NodeHeadroom::read(&town.target.client).await.unwrap().shortages(&turns))
    };
    let wanted = [deployment("a", 3, json!({})), deployment("b", 6, json!({}))];
    assert_eq!(short(&wanted).await, ["1 of 6 pods of Deployment shop/b do not fit onto any node"]);
    assert_eq!(short(&wanted[1..]).await, [""; 0]);
}

#[test]
fn scheduling_respects_labels_taints_and_used_resources() {
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
        ObjectChanges(vec![ObjectChange { id, live: None, previous: None, desired: Some(object) }])
    };
    let short = |spec: Value, pods: &[Value]| match NodeHeadroom::with_pods(all(), pods)
        .shortages(&turn(spec))
        .as_slice()
    {
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
async fn fitting_objects_need_no_calls_and_surge_counts_only_for_changed_templates() {
    let town = TestCluster::simulated().await;
    let hard = json!({"requests.cpu": "3", "pods": "3"});
    town.put(json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}})).await;
    let fault = testkit::FaultInjector::healthy();
    let counted = town.target_with_client(fault.wrap(town.target.client.clone()));
    let quota = |used: Value| {
        let metadata = json!({"name": "q", "namespace": "shop"});
        QuotaHeadroom::from_object(
            &json!({"metadata": metadata, "spec": {"hard": hard}, "status": {"used": used}}),
        )
        .unwrap()
    };
    // Two pods plus one for surge are three.
    let web = [deployment("web", 2, json!({})), config_map("web", json!({}))];
    assert_eq!(quota_shortages(&[quota(json!({}))], &counted, &[], &web).await.unwrap(), []);
    assert_eq!(fault.calls(), 0);

    apply(&town.target, &[], &web, &ApplyOptions::new(SERVER_SIDE), &NoProgress).await.unwrap();
    let used = [quota(json!({"requests.cpu": "2500m", "pods": "2"}))];
    // Server defaults and other spellings of a quantity are not changes.
    assert_eq!(quota_shortages(&used, &counted, &web, &web).await.unwrap(), []);
    assert_eq!(quota_shortages(&used, &counted, &[], &web).await.unwrap(), []);
    let mut same = web[0].value().clone();
    same["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("1000m");
    assert_eq!(
        quota_shortages(&used, &counted, &web, &[Object::from_value(same).unwrap()]).await.unwrap(),
        []
    );
    assert_eq!(fault.calls(), 3, "what no quota counts is not read");
    // Any change of the template replaces the pods.
    let other = [deployment("web", 2, json!({"checksum/config": "2"})), config_map("web", json!({}))];
    assert_eq!(
        messages(&quota_shortages(&used, &counted, &web, &other).await.unwrap()),
        ["exceeded quota: q in shop: 1 more of requests.cpu needed, 500m left"]
    );
    // After the write it counts as live.
    apply(&town.target, &web, &other, &ApplyOptions::new(SERVER_SIDE), &NoProgress).await.unwrap();
    assert_eq!(quota_shortages(&used, &counted, &web, &other).await.unwrap(), []);
}
