//! Waiting against the embedded cluster with simulated workloads.

use serde_json::json;

use super::*;
use crate::tell::{Silent, Step};
use crate::testing::*;
use crate::{Options, Removal, apply, remove};

async fn put(town: &Town, objects: &[Object]) {
    apply(&town.target, &[], objects, &Options::new(SERVER_SIDE), &Silent).await.unwrap();
}

fn behaving(how: &str) -> serde_json::Value {
    json!({"sim.longshore.dev/behaviour": how})
}

fn job(how: &str) -> Object {
    Object::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {"annotations": behaving(how)},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]},
        }},
    }))
    .unwrap()
}

#[tokio::test]
async fn workloads_become_ready_and_it_is_told() {
    let town = Town::alive().await;
    let mut wanted: Vec<Object> = (0..5).map(|n| deployment(&format!("web-{n}"), 2, json!({}))).collect();
    wanted.push(map("a", json!({})));
    wanted.push(job("exit=0@0s"));
    put(&town, &wanted).await;
    for strategy in [
        Strategy::Watcher,
        Strategy::WatcherWithJobs,
        Strategy::Legacy,
        Strategy::LegacyWithJobs,
        Strategy::HookOnly,
    ] {
        let ear = Ear::default();
        wait(&town.target, &wanted, strategy, within(60), &ear).await.unwrap();
        let ready = ear.steps().iter().filter(|step| matches!(step, Step::Ready { .. })).count();
        let judged = match strategy {
            Strategy::HookOnly => 1,
            Strategy::Legacy => 5,
            _ => 6,
        };
        assert_eq!(ready, judged, "{strategy:?}");
    }
}

#[tokio::test]
async fn what_never_becomes_ready_is_named_with_the_last_warning() {
    let town = Town::alive().await;
    let wanted = [deployment("good", 1, json!({})), deployment("bad", 1, behaving("image-pull-fail"))];
    put(&town, &wanted).await;
    let ear = Ear::default();
    let error = wait(&town.target, &wanted, Strategy::Watcher, within(8), &ear).await.unwrap_err();
    assert!(error.timed_out && error.kind() == domain::Kind::Timeout);
    assert_eq!(error.objects.len(), 1);
    let text = error.to_string();
    assert!(text.starts_with("not ready: Deployment shop/bad: Available: 0/1; last warning: "), "{text}");
    assert!(ear.steps().iter().any(|step| matches!(step, Step::Waiting { event: Some(_), .. })));
}

#[tokio::test]
async fn a_job_that_has_failed_ends_the_wait_at_once() {
    let town = Town::alive().await;
    let wanted = [job("exit=1@0s")];
    put(&town, &wanted).await;
    let error = wait(&town.target, &wanted, Strategy::HookOnly, within(60), &Silent).await.unwrap_err();
    assert!(!error.timed_out, "{error}");
    assert!(error.to_string().starts_with("not ready: Job shop/j: Job failed: "), "{error}");
}

#[tokio::test]
async fn who_may_not_look_is_told_so() {
    let town = Town::alive().await;
    let wanted = [deployment("web", 1, json!({}))];
    put(&town, &wanted).await;
    let nobody = town.by(town.cluster.client(kube_embedded::access::User::named("nobody", &[])));
    let error = wait(&nobody, &wanted, Strategy::Watcher, within(60), &Silent).await.unwrap_err();
    assert!(
        error.to_string().contains("it cannot be watched: deployments.apps \"web\" is forbidden"),
        "{error}"
    );
}

#[tokio::test]
async fn a_line_that_breaks_is_taken_up_again() {
    let town = Town::alive().await;
    let fault = testkit::Fault::none();
    let target = town.by(fault.over(town.target.client.clone()));
    let wanted = [deployment("web", 1, behaving("slow-ready=3s"))];
    put(&town, &wanted).await;
    let breaks = async {
        let unready =
            || async { town.get(DEPLOYMENT, "web").await.filter(|live| live["status"]["replicas"] == 1) };
        testkit::until("it has a pod", unready).await;
        fault.turn(testkit::fault::Line::Cut);
        fault.turn(testkit::fault::Line::Sound);
    };
    let (done, ()) = tokio::join!(wait(&target, &wanted, Strategy::Watcher, within(60), &Silent), breaks);
    done.unwrap();
}

#[tokio::test]
async fn removal_waits_until_everything_is_gone_and_says_what_holds_it() {
    let town = Town::alive().await;
    let mut held = map("held", json!({})).into_value();
    held["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    let held = Object::from_value(held).unwrap();
    let wanted = [deployment("web", 1, json!({})), map("a", json!({}))];
    put(&town, &wanted).await;
    put(&town, std::slice::from_ref(&held)).await;
    let how = Removal { wait_until: Some(within(60)), ..Removal::default() };
    let removed = remove(&town.target, &wanted, &how, &Silent).await.unwrap();
    assert_eq!(removed.removed.len(), 2);
    assert_eq!(town.get(DEPLOYMENT, "web").await, None);

    let how = Removal { wait_until: Some(within(1)), ..Removal::default() };
    let error = remove(&town.target, &[held], &how, &Silent).await.unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap shop/held: it is being deleted, held by x.dev/hold");
    assert_eq!(error.kind(), domain::Kind::Timeout);
}

#[tokio::test]
async fn objects_of_a_kind_that_goes_too_are_gone() {
    let town = Town::still().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "gadgets.x.dev"},
        "spec": {
            "group": "x.dev", "scope": "Namespaced", "names": {"kind": "Gadget", "plural": "gadgets"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
            }],
        },
    });
    let gadget = json!({"apiVersion": "x.dev/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let wanted = [definition, gadget].map(|value| Object::from_value(value).unwrap());
    put(&town, &wanted).await;
    let how = Removal { wait_until: Some(within(60)), ..Removal::default() };
    let removed = remove(&town.target, &wanted, &how, &Silent).await.unwrap();
    assert_eq!(removed.removed.len(), 2);
}
