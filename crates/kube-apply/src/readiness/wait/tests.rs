//! Waiting against the embedded cluster with simulated workloads.

use serde_json::json;

use super::*;
use crate::progress::{NoProgress, ProgressEvent};
use crate::testing::*;
use crate::{ApplyOptions, RemoveOptions, apply, remove};

async fn apply_objects(town: &TestCluster, objects: &[Object]) {
    apply(&town.target, &[], objects, &ApplyOptions::new(SERVER_SIDE), &NoProgress).await.unwrap();
}

fn behaviour_annotation(how: &str) -> serde_json::Value {
    json!({"sim.longshore.dev/behaviour": how})
}

fn job(how: &str) -> Object {
    Object::from_value(json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"backoffLimit": 0, "template": {
            "metadata": {"annotations": behaviour_annotation(how)},
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "c"}]},
        }},
    }))
    .unwrap()
}

#[tokio::test]
async fn wait_reports_readiness_of_workloads() {
    let town = TestCluster::simulated().await;
    let mut wanted: Vec<Object> = (0..5).map(|n| deployment(&format!("web-{n}"), 2, json!({}))).collect();
    wanted.push(config_map("a", json!({})));
    wanted.push(job("exit=0@0s"));
    apply_objects(&town, &wanted).await;
    for strategy in [
        WaitStrategy::Watcher,
        WaitStrategy::WatcherWithJobs,
        WaitStrategy::Legacy,
        WaitStrategy::LegacyWithJobs,
        WaitStrategy::HookOnly,
    ] {
        let ear = RecordingSink::default();
        wait_until_ready(&town.target, &wanted, strategy, deadline_in(60), &ear).await.unwrap();
        let ready = ear.events().iter().filter(|step| matches!(step, ProgressEvent::Ready { .. })).count();
        let judged = match strategy {
            WaitStrategy::HookOnly => 1,
            WaitStrategy::Legacy => 5,
            _ => 6,
        };
        assert_eq!(ready, judged, "{strategy:?}");
    }
}

#[tokio::test]
async fn timeout_names_unready_objects_and_last_warning() {
    let town = TestCluster::simulated().await;
    let wanted =
        [deployment("good", 1, json!({})), deployment("bad", 1, behaviour_annotation("image-pull-fail"))];
    apply_objects(&town, &wanted).await;
    let ear = RecordingSink::default();
    let error = wait_until_ready(&town.target, &wanted, WaitStrategy::Watcher, deadline_in(8), &ear)
        .await
        .unwrap_err();
    assert!(error.timed_out && error.kind() == domain::ErrorKind::Timeout);
    assert_eq!(error.objects.len(), 1);
    let text = error.to_string();
    assert!(text.starts_with("not ready: Deployment shop/bad: Available: 0/1; last warning: "), "{text}");
    assert!(ear.events().iter().any(|step| matches!(step, ProgressEvent::Waiting { event: Some(_), .. })));
}

#[tokio::test]
async fn failed_job_ends_the_wait() {
    let town = TestCluster::simulated().await;
    let wanted = [job("exit=1@0s")];
    apply_objects(&town, &wanted).await;
    let error = wait_until_ready(&town.target, &wanted, WaitStrategy::HookOnly, deadline_in(60), &NoProgress)
        .await
        .unwrap_err();
    assert!(!error.timed_out, "{error}");
    assert!(error.to_string().starts_with("not ready: Job shop/j: Job failed: "), "{error}");
}

#[tokio::test]
async fn wait_fails_without_watch_permission() {
    let town = TestCluster::simulated().await;
    let wanted = [deployment("web", 1, json!({}))];
    apply_objects(&town, &wanted).await;
    let nobody =
        town.target_with_client(town.cluster.client(kube_embedded::access::User::named("nobody", &[])));
    let error = wait_until_ready(&nobody, &wanted, WaitStrategy::Watcher, deadline_in(60), &NoProgress)
        .await
        .unwrap_err();
    assert!(
        error.to_string().contains("it cannot be watched: deployments.apps \"web\" is forbidden"),
        "{error}"
    );
}

#[tokio::test]
async fn wait_survives_a_broken_connection() {
    let town = TestCluster::simulated().await;
    let fault = testkit::FaultInjector::healthy();
    let target = town.target_with_client(fault.wrap(town.target.client.clone()));
    let wanted = [deployment("web", 1, behaviour_annotation("slow-ready=3s"))];
    apply_objects(&town, &wanted).await;
    let breaks = async {
        let unready =
            || async { town.get(DEPLOYMENT, "web").await.filter(|live| live["status"]["replicas"] == 1) };
        testkit::wait_for("it has a pod", unready).await;
        fault.set_link(testkit::fault::LinkState::Disconnected);
        fault.set_link(testkit::fault::LinkState::Healthy);
    };
    let (done, ()) = tokio::join!(
        wait_until_ready(&target, &wanted, WaitStrategy::Watcher, deadline_in(60), &NoProgress),
        breaks
    );
    done.unwrap();
}

#[tokio::test]
async fn removal_waits_for_deletion_and_names_finalizers() {
    let town = TestCluster::simulated().await;
    let mut held = config_map("held", json!({})).into_value();
    held["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    let held = Object::from_value(held).unwrap();
    let wanted = [deployment("web", 1, json!({})), config_map("a", json!({}))];
    apply_objects(&town, &wanted).await;
    apply_objects(&town, std::slice::from_ref(&held)).await;
    let how = RemoveOptions { wait_until: Some(deadline_in(60)), ..RemoveOptions::default() };
    let removed = remove(&town.target, &wanted, &how, &NoProgress).await.unwrap();
    assert_eq!(removed.removed.len(), 2);
    assert_eq!(town.get(DEPLOYMENT, "web").await, None);

    let how = RemoveOptions { wait_until: Some(deadline_in(1)), ..RemoveOptions::default() };
    let error = remove(&town.target, &[held], &how, &NoProgress).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "ConfigMap shop/held: it is being deleted and waits for finalizers x.dev/hold"
    );
    assert_eq!(error.kind(), domain::ErrorKind::Timeout);
}

#[tokio::test]
async fn objects_are_deleted_together_with_their_crd() {
    let town = TestCluster::without_controllers().await;
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
    apply_objects(&town, &wanted).await;
    let how = RemoveOptions { wait_until: Some(deadline_in(60)), ..RemoveOptions::default() };
    let removed = remove(&town.target, &wanted, &how, &NoProgress).await.unwrap();
    assert_eq!(removed.removed.len(), 2);
}
