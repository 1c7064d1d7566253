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
use crate::testing::Town;

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
fn pods_are_found_by_what_their_objects_select() {
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
        let found = pods_of(std::slice::from_ref(&object), "shop");
        let found: Vec<&str> = found.iter().map(|pods| pods.labels.as_str()).collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{object:?}");
    }
    let pod =
        object(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": "x"}}));
    let expected = Pods { namespace: "x".to_owned(), name: Some("one".to_owned()), labels: String::new() };
    assert_eq!(pods_of(&[pod], "shop"), BTreeSet::from([expected]));
}

impl Town {
    async fn prints(&self, name: &str, colour: &str) {
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

    async fn goes(&self, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.target.client.clone(), "shop");
        pods.delete(name, &DeleteParams::default().grace_period(0)).await.unwrap();
    }
}

fn all() -> BTreeSet<Pods> {
    BTreeSet::from([Pods { namespace: "shop".to_owned(), name: None, labels: "app=web".to_owned() }])
}

/// Reads until this line.
async fn until(following: &mut Following, last: &str) -> Vec<String> {
    let mut heard = Vec::new();
    while heard.last().is_none_or(|line: &String| line != last) {
        let next = tokio::time::timeout(std::time::Duration::from_mins(1), following.next()).await;
        heard.push(words(next.unwrap_or_else(|_| panic!("waited for {last}: {heard:?}")).as_ref()));
    }
    heard
}

fn words(heard: Option<&Heard>) -> String {
    match heard {
        Some(Heard::Begun(source)) => format!("+ {}/{}", source.pod, source.container),
        Some(Heard::Line(source, line)) => format!("{}: {}", source.pod, line.shown(str::to_owned)),
        Some(Heard::Silent(source, why)) => format!("{}? {why}", source.pod),
        Some(Heard::Full) => "full".to_owned(),
        None => "end".to_owned(),
    }
}

#[tokio::test]
async fn those_that_come_later_are_heard_from_their_beginning() {
    let town = Town::alive().await;
    town.prints("a", "red").await;
    let wish = Wish { tail: Some(1), at_once: 5, ..Wish::default() };
    let mut following = Following::follow(town.target.client.clone(), all(), wish).await.unwrap();
    // It may not have started when following began: then all of it is new.
    until(&mut following, "a: two of a").await;
    town.prints("b", "blue").await;
    let heard = until(&mut following, "b: two of b").await;
    assert_eq!(heard[0], "+ b/main");
    assert_eq!(heard[heard.len() - 2..], ["b: one of b", "b: two of b"]);
    // A pod matched by two selectors is read once.
    let same = Pods { labels: "colour=blue".to_owned(), ..all().pop_first().unwrap() };
    following.also(BTreeSet::from([same]));
    town.goes("a").await;
    town.prints("c", "red").await;
    let heard = until(&mut following, "c: two of c").await;
    assert!(!heard.iter().any(|line| line.starts_with("b: ") || line.starts_with("+ b")), "{heard:?}");
}

#[tokio::test]
async fn only_so_many_are_read_at_once_and_the_others_wait() {
    let town = Town::alive().await;
    let wish = Wish { at_once: 1, selector: Some("colour=red".to_owned()), ..Wish::default() };
    let mut following = Following::follow(town.target.client.clone(), all(), wish).await.unwrap();
    town.prints("blue", "blue").await;
    town.prints("a", "red").await;
    until(&mut following, "a: two of a").await;
    town.prints("b", "red").await;
    let heard = until(&mut following, "full").await;
    assert!(!heard.iter().any(|line| line.starts_with("b: ")), "{heard:?}");
    town.goes("a").await;
    let heard = until(&mut following, "b: two of b").await;
    assert!(heard.contains(&"+ b/main".to_owned()), "{heard:?}");
    assert!(!heard.iter().any(|line| line.contains("blue")), "{heard:?}");
}

/// A client whose first log requests are rejected.
fn refusing(client: Client, times: usize) -> Client {
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
async fn what_could_not_be_read_at_first_is_read_from_its_beginning() {
    let town = Town::alive().await;
    town.prints("a", "red").await;
    let wish = Wish { at_once: 1, ..Wish::default() };
    // Long enough that its lines are old.
    let client = refusing(town.target.client.clone(), 3);
    let mut following = Following::follow(client, all(), wish).await.unwrap();
    let heard = until(&mut following, "a: two of a").await;
    assert_eq!(heard[..2], ["+ a/main", "a? not now"], "{heard:?}");
    assert!(heard.contains(&"a: one of a".to_owned()), "{heard:?}");
}

#[tokio::test]
async fn what_is_there_is_read_to_its_end() {
    let town = Town::alive().await;
    for name in ["a", "b"] {
        town.prints(name, "red").await;
        let mut following =
            Following::follow(town.target.client.clone(), all(), Wish { at_once: 2, ..Wish::default() })
                .await
                .unwrap();
        until(&mut following, &format!("{name}: two of {name}")).await;
    }
    let wish = Wish { tail: Some(1), ..Wish::default() };
    let mut once = Following::once(town.target.client.clone(), all(), wish).await.unwrap();
    let heard = until(&mut once, "end").await;
    assert_eq!(heard, ["+ a/main", "a: two of a", "+ b/main", "b: two of b", "end"]);
    let wish = Wish { selector: Some("no (selector".to_owned()), ..Wish::default() };
    assert!(Following::follow(town.target.client.clone(), all(), wish).await.is_err());
}
