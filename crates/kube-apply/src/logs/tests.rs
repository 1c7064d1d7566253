//! Logs of simulated pods, followed as pods come and go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use http::{Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::client::Body;
use kube::{Api, Client};
use serde_json::json;
use tower::service_fn;

use super::*;
use crate::testing::TestCluster;

fn object(value: Value) -> Object {
    Object::from_value(value).unwrap()
}

fn workload(kind: &str, selector: &Value) -> Object {
    object(json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"},
        "spec": {"selector": selector, "template": {}},
    }))
}

#[test]
fn pods_are_selected_by_name_or_labels() {
    let expressions = json!([
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "old", "operator": "NotIn", "values": ["x"]},
        {"key": "ours", "operator": "Exists"},
        {"key": "theirs", "operator": "DoesNotExist"},
    ]);
    let table = [
        (workload("Deployment", &json!({"matchLabels": {"app": "web", "v": "1"}})), Some("app=web,v=1")),
        (
            workload("StatefulSet", &json!({"matchLabels": {"app": "web"}, "matchExpressions": expressions})),
            Some("app=web,tier in (a,b),old notin (x),ours,!theirs"),
        ),
        (workload("ReplicationController", &json!({"app": "web"})), Some("app=web")),
        (workload("Job", &json!({})), Some("batch.kubernetes.io/job-name=web")),
        (workload("Deployment", &json!({})), None),
        (
            object(json!({
                "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
                "spec": {"selector": {"matchLabels": {"app": "web"}}},
            })),
            None,
        ),
    ];
    for (object, expected) in table {
        let found = pod_selectors(std::slice::from_ref(&object), "shop");
        let found: Vec<&str> = found.iter().map(|pods| pods.labels.as_str()).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{object:?}");
    }
    let pod =
        object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "x"}}));
    let expected =
        PodSelector { namespace: "x".to_owned(), name: Some("one".to_owned()), labels: String::new() };
    assert_eq!(pod_selectors(&[pod], "shop"), BTreeSet::from([expected]));
}

impl TestCluster {
    async fn put_logging_pod(&self, name: &str, colour: &str) {
        self.put(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": name, "namespace": "shop", "labels": {"app": "web", "colour": colour},
                "annotations": {"sim.longshore.dev/log.main": format!("one of {name}\ntwo of {name}")},
            },
            "spec": {"containers": [{"name": "main", "image": "web"}]},
        }))
        .await;
    }

    async fn delete_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.target.client.clone(), "shop");
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

fn web_pods() -> BTreeSet<PodSelector> {
    BTreeSet::from([PodSelector { namespace: "shop".to_owned(), name: None, labels: "app=web".to_owned() }])
}

/// Reads until this line.
async fn read_until(following: &mut LogFollower, last: &str) -> Vec<String> {
    let mut heard = Vec::new();
    while heard.last().is_none_or(|line: &String| line != last) {
        let next = tokio::time::timeout(std::time::Duration::from_mins(1), following.next()).await;
        heard.push(describe(next.unwrap_or_else(|_| panic!("waited for {last}: {heard:?}")).as_ref()));
    }
    heard
}

fn describe(heard: Option<&LogEvent>) -> String {
    match heard {
        Some(LogEvent::Started(source)) => format!("+ {}/{}", source.pod, source.container),
        Some(LogEvent::Line(source, line)) => format!("{}: {}", source.pod, line.masked(str::to_owned)),
        Some(LogEvent::Unreadable(source, why)) => format!("{}? {why}", source.pod),
        Some(LogEvent::LimitReached) => "full".to_owned(),
        None => "end".to_owned(),
    }
}

#[tokio::test]
async fn pods_created_later_are_read_from_the_beginning() {
    let town = TestCluster::simulated().await;
    town.put_logging_pod("a", "red").await;
    let wish = LogOptions { tail: Some(1), max_concurrent: 5, ..LogOptions::default() };
    let mut following = LogFollower::follow(town.target.client.clone(), web_pods(), wish).await.unwrap();
    // It may not have started when following began: then all of it is new.
    read_until(&mut following, "a: two of a").await;
    town.put_logging_pod("b", "blue").await;
    let heard = read_until(&mut following, "b: two of b").await;
    assert_eq!(heard[0], "+ b/main");
    assert_eq!(heard[heard.len() - 2..], ["b: one of b", "b: two of b"]);
    // A pod matched by two selectors is read once.
    let same = PodSelector { labels: "colour=blue".to_owned(), ..web_pods().pop_first().unwrap() };
    following.add(BTreeSet::from([same]));
    town.delete_pod("a").await;
    town.put_logging_pod("c", "red").await;
    let heard = read_until(&mut following, "c: two of c").await;
    assert!(!heard.iter().any(|line| line.starts_with("b: ") || line.starts_with("+ b")), "{heard:?}");
}

#[tokio::test]
async fn concurrent_streams_are_limited() {
    let town = TestCluster::simulated().await;
    let wish =
        LogOptions { max_concurrent: 1, selector: Some("colour=red".to_owned()), ..LogOptions::default() };
    let mut following = LogFollower::follow(town.target.client.clone(), web_pods(), wish).await.unwrap();
    town.put_logging_pod("blue", "blue").await;
    town.put_logging_pod("a", "red").await;
    read_until(&mut following, "a: two of a").await;
    town.put_logging_pod("b", "red").await;
    let heard = read_until(&mut following, "full").await;
    assert!(!heard.iter().any(|line| line.starts_with("b: ")), "{heard:?}");
    town.delete_pod("a").await;
    let heard = read_until(&mut following, "b: two of b").await;
    assert!(heard.contains(&"+ b/main".to_owned()), "{heard:?}");
    assert!(!heard.iter().any(|line| line.contains("blue")), "{heard:?}");
}

/// A client whose first log requests are rejected.
fn log_rejecting_client(client: Client, times: usize) -> Client {
    let left = Arc::new(AtomicUsize::new(times));
    let call = move |request: Request<Body>| {
        let (client, left) = (client.clone(), left.clone());
        async move {
            let refused = request.uri().path().ends_with("/log")
                && left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
            if refused {
                let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "not now", "code": 503});
                return Ok(Response::builder()
                    .status(503)
                    .body(Body::from(status.to_string().into_bytes()))
                    .unwrap());
            }
            client.send(request).await
        }
    };
    Client::new(service_fn(call), "shop")
}

#[tokio::test]
async fn rejected_log_is_retried_from_the_beginning() {
    let town = TestCluster::simulated().await;
    town.put_logging_pod("a", "red").await;
    let wish = LogOptions { max_concurrent: 1, ..LogOptions::default() };
    // Long enough that its lines are old.
    let client = log_rejecting_client(town.target.client.clone(), 3);
    let mut following = LogFollower::follow(client, web_pods(), wish).await.unwrap();
    let heard = read_until(&mut following, "a: two of a").await;
    assert_eq!(heard[..2], ["+ a/main", "a? not now"], "{heard:?}");
    assert!(heard.contains(&"a: one of a".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn existing_logs_are_read_to_the_end() {
    let town = TestCluster::simulated().await;
    for name in ["a", "b"] {
        town.put_logging_pod(name, "red").await;
        let mut following = LogFollower::follow(
            town.target.client.clone(),
            web_pods(),
            LogOptions { max_concurrent: 2, ..LogOptions::default() },
        )
        .await
        .unwrap();
        read_until(&mut following, &format!("{name}: two of {name}")).await;
    }
    let wish = LogOptions { tail: Some(1), ..LogOptions::default() };
    let mut once = LogFollower::read_existing(town.target.client.clone(), web_pods(), wish).await.unwrap();
    let heard = read_until(&mut once, "end").await;
    assert_eq!(heard, ["+ a/main", "a: two of a", "+ b/main", "b: two of b", "end"]);
    let wish = LogOptions { selector: Some("no (selector".to_owned()), ..LogOptions::default() };
    assert!(LogFollower::follow(town.target.client.clone(), web_pods(), wish).await.is_err());
}
