//! The lifecycle of a hand-written release.
//!
//! Modules:
//!
//! * [`faults`], [`remediation`]: failures in the cluster, and remediation.
//! * [`values_references`]: values from other objects.
//! * [`custom_resources`]: custom resources.
//! * [`repositories`]: malicious and broken repositories.
//! * [`chance`]: concurrent actors, randomised.
//! * [`trust`]: edited Helm records.
//! * [`administrator`]: objects of an administrator.
//! * [`watches`]: faulty watches.
//! * [`extreme_values`]: objects with extreme numbers.
//! * [`quarantine`]: repeatedly interrupted operations.

mod administrator;
mod budget;
mod custom_resources;
mod extreme_values;
mod faults;
mod interleavings;
mod quarantine;
mod reconcile_failures;
mod remediation;
mod repositories;
mod trust;
mod values_references;
mod watches;

use std::sync::Arc;

use domain::clock::SystemClock;
use futures::{StreamExt, future};
use helm_release::storage::{HELD_BY_ANNOTATION, secret_name};
use helm_release::{Record, Status, Storage};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_access::CacheEvent;
use kube_access::queue::Action;
use kube_types::HelmRelease;
use kube_types::conditions::{find_condition, is_condition_true};
use kube_types::release::conditions::{DRIFTED, OUT_OF_BAND, READY, STALLED};
use kube_types::well_known::OPERATION;
use serde_json::{Value, json};
use testkit::wait_for;

use crate::key::ReleaseKey;
use crate::testing::{SHOP, TestHarness, web_chart};

fn release_spec(name: &str, package: &str) -> Value {
    json!({"name": name, "source": {"package": package}})
}

async fn record_statuses(stage: &TestHarness, name: &str) -> Vec<String> {
    let of_release = ListParams::default().labels(&format!("owner=helm,name={name}"));
    let found = stage.namespaced_api::<Secret>().list(&of_release).await.unwrap();
    let status = |secret: &Secret| {
        let labels = secret.metadata.labels.clone().unwrap_or_default();
        format!("{} {}", labels["version"], labels["status"])
    };
    let mut all: Vec<String> = found.items.iter().map(status).collect();
    all.sort();
    all
}

#[tokio::test]
async fn release_is_installed_upgraded_and_uninstalled() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    let active = stage.wait_for_state("web", "active").await;
    let status = active.status.unwrap();
    assert_eq!(status.helm.as_ref().unwrap().revision, 1);
    let chart = status.chart.unwrap();
    assert_eq!(
        (chart.name.as_str(), chart.version.as_str(), chart.app_version.as_str()),
        ("web", "1.0.0", "7")
    );
    assert_eq!(chart.package, package);
    assert_eq!(status.resources.unwrap().total, 2);
    assert_eq!((status.version, status.deploy_status.len()), (1, 1));
    assert!(is_condition_true(&status.conditions, READY) && !is_condition_true(&status.conditions, STALLED));
    assert!(status.operation.is_none());

    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "hi", "replicas": 2}}})).await;
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 2);
    let map = stage.namespaced_api::<ConfigMap>().get("web").await.unwrap();
    assert_eq!(map.data.unwrap()["greeting"], "hi");
    assert_eq!(record_statuses(&stage, "web").await, ["1 superseded", "2 deployed"]);
    let path: Vec<String> =
        status.transitions.iter().map(|step| step.to.clone()).filter(|to| !to.contains('=')).collect();
    assert_eq!(path.first().map(String::as_str), Some("creating"));
    assert!(path.contains(&"upgrading".to_owned()), "{path:?}");

    let releases: Api<HelmRelease> = stage.namespaced_api();
    releases.delete("web", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&releases, "web").await;
    assert!(stage.namespaced_api::<Deployment>().get_opt("web").await.unwrap().is_none());
    assert!(record_statuses(&stage, "web").await.is_empty());
}

#[tokio::test]
async fn permanent_failure_is_reported_and_fixed_by_a_spec_change() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let cases = [
        ("nowhere", json!({"source": {"package": "pkg-none"}}), "package `pkg-none` not found"),
        ("base64", json!({"source": {"package": package}, "values": "%%%"}), "spec.values: is not base64"),
        ("store", json!({"applicationId": "app-1"}), "application store"),
        ("other", json!({"source": {"package": package}, "chartName": "mysql"}), "expected `mysql`"),
        (
            "empty",
            json!({"source": {"package": package}, "valuesObject": {"greeting": ""}}),
            "a greeting is needed",
        ),
        (
            "wide",
            json!({"source": {"package": package}, "valuesObject": {"extra": "apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}"}}),
            "does not grant to system:serviceaccount:shop:longshore-deployer: Namespace mine",
        ),
    ];
    for (name, mut spec, message) in cases.clone() {
        spec["name"] = name.into();
        stage.create_release(name, spec).await.unwrap();
        let status = stage.wait_for_state(name, "failed").await.status.unwrap();
        assert!(status.message.contains(message), "{name}: {}", status.message);
        let stalled = find_condition(&status.conditions, STALLED).unwrap();
        assert_eq!((stalled.status.as_str(), &stalled.message), ("True", &status.message), "{name}");
        assert!(record_statuses(&stage, name).await.is_empty(), "{name}: nothing was written");
    }
    stage.patch_release("empty", json!({"spec": {"valuesObject": {"greeting": "hello"}}})).await;
    stage.wait_for_state("empty", "active").await;
}

/// Cluster-scoped objects need RBAC for creation and for deletion.
#[tokio::test]
async fn cluster_scoped_objects_require_rbac() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let extra = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 7";
    let wide = |greeting: &str| json!({"valuesObject": {"extra": extra, "greeting": greeting}});
    let mut spec = release_spec("wide", &package);
    spec["valuesObject"] = wide("one")["valuesObject"].take();
    stage.create_release("wide", spec).await.unwrap();
    let refused = "does not grant to system:serviceaccount:shop:longshore-deployer: PriorityClass urgent";
    let status = stage.wait_for_state("wide", "failed").await.status.unwrap();
    assert!(status.message.contains(refused), "{}", status.message);

    let roles: Api<ClusterRole> = Api::all(stage.world.admin_client());
    let role = |verbs: &[&str]| -> ClusterRole {
        let rule =
            json!({"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": verbs});
        serde_json::from_value(json!({"metadata": {"name": "priorities"}, "rules": [rule]})).unwrap()
    };
    // Without `delete` the object could never be removed.
    roles.create(&PostParams::default(), &role(&["get", "create", "patch"])).await.unwrap();
    let deployer = json!({"kind": "ServiceAccount", "namespace": SHOP, "name": "longshore-deployer"});
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "shop-priorities"}, "subjects": [deployer],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "priorities"},
    }))
    .unwrap();
    Api::all(stage.world.admin_client()).create(&PostParams::default(), &binding).await.unwrap();
    stage.patch_release("wide", json!({"spec": wide("two")})).await;
    let status = stage.wait_for_state("wide", "failed").await.status.unwrap();
    assert!(status.message.contains(refused), "{}", status.message);
    assert!(record_statuses(&stage, "wide").await.is_empty(), "nothing was written");

    roles
        .replace("priorities", &PostParams::default(), &role(&["get", "create", "patch", "delete"]))
        .await
        .unwrap();
    stage.patch_release("wide", json!({"spec": wide("three")})).await;
    stage.wait_for_state("wide", "active").await;
    let classes: Api<PriorityClass> = Api::all(stage.world.admin_client());
    assert_eq!(classes.get("urgent").await.unwrap().value, Some(7));
    let releases: Api<HelmRelease> = stage.namespaced_api();
    releases.delete("wide", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&releases, "wide").await;
    assert!(classes.get_opt("urgent").await.unwrap().is_none());
}

/// Nobody could delete the namespace, nor its workspace, until an administrator grants the right again.
#[tokio::test]
async fn release_that_lost_a_right_does_not_block_the_deletion_of_its_namespace() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let admin = stage.world.admin_client();
    let rule = json!({
        "apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["get", "create", "patch", "delete"],
    });
    let role: ClusterRole =
        serde_json::from_value(json!({"metadata": {"name": "priorities"}, "rules": [rule]})).unwrap();
    Api::all(admin.clone()).create(&PostParams::default(), &role).await.unwrap();
    let deployer = json!({"kind": "ServiceAccount", "namespace": SHOP, "name": "longshore-deployer"});
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "shop-priorities"}, "subjects": [deployer],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "priorities"},
    }))
    .unwrap();
    let bindings: Api<ClusterRoleBinding> = Api::all(admin.clone());
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let mut spec = release_spec("wide", &package);
    let extra = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 7";
    spec["valuesObject"] = json!({"extra": extra});
    stage.create_release("wide", spec).await.unwrap();
    stage.wait_for_state("wide", "active").await;

    bindings.delete("shop-priorities", &DeleteParams::default()).await.unwrap();
    let namespaces: Api<Namespace> = Api::all(admin.clone());
    namespaces.delete(SHOP, &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&namespaces, SHOP).await;
    let classes: Api<PriorityClass> = Api::all(admin);
    assert_eq!(classes.get("urgent").await.unwrap().value, Some(7), "it is left behind");
}

#[tokio::test]
async fn release_runs_as_its_service_account() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let mut nobody = release_spec("nobody", &package);
    nobody["serviceAccountName"] = "nobody".into();
    // The other fields are only for display.
    nobody["username"] = "system:masters".into();
    stage.create_release("nobody", nobody).await.unwrap();
    let status = stage.wait_for_state("nobody", "failed").await.status.unwrap();
    assert!(status.message.contains("system:serviceaccount:shop:nobody"), "{}", status.message);
    assert!(stage.namespaced_api::<Deployment>().get_opt("nobody").await.unwrap().is_none());
    let mut forged = release_spec("forged", &package);
    forged["requestRef"] = json!({"name": "req-x", "uid": "1"});
    stage.create_release("forged", forged.clone()).await.unwrap();
    let status = stage.wait_for_state("forged", "failed").await.status.unwrap();
    assert!(status.message.contains("HelmRequest `req-x` of this release not found"), "{}", status.message);
    // A tenant cannot write the reference at all.
    let tenant = stage.client_as(&crate::testing::developer().impersonation());
    forged["name"] = "forged2".into();
    let release = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "forged2"}, "spec": forged});
    let release: HelmRelease = serde_json::from_value(release).unwrap();
    let refused = Api::namespaced(tenant, crate::testing::SHOP)
        .create(&PostParams::default(), &release)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("belongs to a request"), "{refused}");
}

#[tokio::test]
async fn unready_pods_degrade_a_release_until_ready() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let mut sick = release_spec("sick", &package);
    sick["valuesObject"] = json!({"behaviour": "never-ready"});
    sick["options"] = json!({"timeout": "1s"});
    stage.create_release("sick", sick).await.unwrap();
    let status = stage.wait_for_state("sick", "degraded").await.status.unwrap();
    let resources = status.resources.unwrap();
    assert_eq!((resources.total, resources.ready), (2, 1));
    assert_eq!(
        (resources.not_ready[0].kind.as_str(), resources.not_ready[0].name.as_str()),
        ("Deployment", "sick")
    );
    stage.patch_release("sick", json!({"spec": {"valuesObject": {"behaviour": ""}}})).await;
    stage.wait_for_state("sick", "active").await;
}

#[tokio::test]
async fn suspended_release_is_not_reconciled_and_paused_one_is_scaled_to_zero() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    stage.wait_for_state("web", "active").await;
    stage.patch_release("web", json!({"spec": {"suspend": true, "valuesObject": {"greeting": "hi"}}})).await;
    stage.wait_for_state("web", "suspended").await;
    assert_eq!(record_statuses(&stage, "web").await, ["1 deployed"]);
    stage.patch_release("web", json!({"spec": {"suspend": false, "paused": true}})).await;
    stage.wait_for_state("web", "paused").await;
    let replicas =
        async || stage.namespaced_api::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas().await, Some(0));
    stage.patch_release("web", json!({"spec": {"paused": false}})).await;
    stage.wait_for_state("web", "active").await;
    assert_eq!(replicas().await, Some(1));
}

#[tokio::test]
async fn release_waits_for_its_dependencies() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let mut later = release_spec("later", &package);
    later["dependsOn"] = json!([{"name": "first"}]);
    stage.create_release("later", later).await.unwrap();
    let waiting = wait_for("it waits", async || {
        let release = stage.namespaced_api::<HelmRelease>().get("later").await.unwrap();
        release.status.filter(|status| status.message.contains("waiting for first"))
    })
    .await;
    assert!(waiting.helm.is_none());
    stage.create_release("first", release_spec("first", &package)).await.unwrap();
    stage.wait_for_state("later", "active").await;
}

#[tokio::test]
async fn revision_of_the_helm_cli_sets_out_of_band_condition() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    stage.wait_for_state("web", "active").await;
    // A record as the `helm` command writes it.
    let mut record = stage.namespaced_api::<Secret>().get("sh.helm.release.v1.web.v1").await.unwrap();
    record.metadata = serde_json::from_value(json!({
        "name": "sh.helm.release.v1.web.v2",
        "labels": {"owner": "helm", "name": "web", "version": "2", "status": "deployed", "createdAt": "1767323045"},
    }))
    .unwrap();
    stage.namespaced_api::<Secret>().create(&PostParams::default(), &record).await.unwrap();
    wait_for("it is noticed", async || {
        let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status?;
        is_condition_true(&status.conditions, OUT_OF_BAND).then_some(())
    })
    .await;
}

/// Revision numbers start again after an uninstallation, and the `helm` command copies labels from one revision to the next.
#[tokio::test]
async fn foreign_revision_with_the_same_number_is_not_own() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let mut enforced = release_spec("web", &package);
    enforced["options"] = json!({"enforce": true});
    stage.create_release("web", enforced).await.unwrap();
    stage.wait_for_state("web", "active").await;
    stage.patch_release("web", json!({"spec": {"valuesObject": {"greeting": "again"}}})).await;
    wait_for("it is changed", async || (record_statuses(&stage, "web").await.len() == 2).then_some(())).await;
    stage.wait_for_state("web", "active").await;
    stage.patch_release("web", json!({"spec": {"suspend": true}})).await;
    stage.wait_for_state("web", "suspended").await;
    // Both revisions are purged, a server reinstalls and crashes before it writes the status, and the `helm` command upgrades.
    let storage = Storage::new(stage.world.admin_client(), SHOP, Arc::new(SystemClock));
    let ours = storage.newest("web").await.unwrap().unwrap();
    for revision in [1, 2] {
        let name = secret_name("web", revision);
        stage.namespaced_api::<Secret>().delete(&name, &DeleteParams::default()).await.unwrap();
        let mut record = Record { version: revision, ..ours.record.clone() };
        record.labels.insert(OPERATION.to_owned(), "of-the-one-that-died".to_owned());
        if revision == 1 {
            record.set_status(Status::Superseded, "");
        }
        storage.create(&record).await.unwrap();
    }
    let unmarked = Patch::Merge(json!({"metadata": {"annotations": {HELD_BY_ANNOTATION: null}}}));
    let newest = secret_name("web", 2);
    stage.namespaced_api::<Secret>().patch(&newest, &PatchParams::default(), &unmarked).await.unwrap();
    stage.patch_release("web", json!({"spec": {"suspend": false}})).await;
    wait_for("what is wanted is enforced", async || {
        (record_statuses(&stage, "web").await == ["1 superseded", "2 superseded", "3 deployed"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn interrupted_operation_is_cleared_from_status() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    stage.wait_for_state("web", "active").await;
    let begun = json!({"id": "x", "kind": "upgrade", "startedAt": "2026-01-02T03:04:05Z", "deadline": "2026-01-02T03:09:05Z"});
    let patch = Patch::Merge(json!({"status": {"operation": begun}}));
    let releases = stage.namespaced_api::<HelmRelease>();
    releases.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    wait_for("it is over", async || {
        let status = releases.get("web").await.unwrap().status?;
        status.operation.is_none().then_some(())
    })
    .await;
    assert_eq!(record_statuses(&stage, "web").await, ["1 deployed"]);
}

#[tokio::test]
async fn reconcile_without_changes_writes_nothing() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    let before = stage.wait_for_state("web", "active").await;
    // Another server on the same cluster, with empty caches.
    let fault = testkit::FaultInjector::healthy();
    let other = crate::testing::start_releases(&stage.world, &fault).await;
    let (again, _waiting) = tokio::sync::mpsc::unbounded_channel();
    let (controller, marks, key) =
        (other.new_controller(again), other.inner().record_labels.clone(), ReleaseKey::new("shop", "web"));
    marks.wait_until_synced().await;
    marks
        .list()
        .into_iter()
        .for_each(|mark| drop(controller.helm_records.apply_event(&CacheEvent::Applied(mark))));
    let following = tokio::spawn(
        controller.readiness.start(&stage.world.platform_client()).for_each(|_| future::ready(())),
    );
    wait_for("its objects are known", async || {
        (!controller.readiness.unready_reasons(&key).is_empty()).then_some(())
    })
    .await;
    for _ in 0..2 {
        assert_eq!(controller.reconcile_release(&key).await.unwrap(), Action::AwaitChange);
    }
    following.abort();
    assert_eq!(fault.writes(), 0);
    let calls = fault.calls();
    assert_eq!(controller.reconcile_release(&key).await.unwrap(), Action::AwaitChange);
    assert_eq!(fault.calls(), calls, "a pass that was made before asks nobody");
    assert_eq!(stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status, before.status);
}

#[tokio::test]
async fn crd_validation_rejects_invalid_specs() {
    let stage = TestHarness::new().await;
    let cases = [
        ("a", json!({"name": "b", "source": {"package": "p"}}), "spec.name must equal metadata.name"),
        ("a", json!({"name": "a"}), "requires a source"),
        ("a", json!({"name": "a", "source": {"package": "p", "repo": "r"}}), "exactly one of"),
        ("a", json!({"name": "a", "source": {}}), "exactly one of"),
        ("a", json!({"name": "a", "source": {"package": "p"}, "interval": "soon"}), "interval"),
    ];
    for (name, spec, message) in cases {
        let refused = stage.create_release(name, spec).await.unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
}

#[tokio::test]
async fn drift_is_reported_or_corrected() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let mut watched = release_spec("web", &package);
    watched["interval"] = "1s".into();
    watched["driftDetection"] = json!({"mode": "warn"});
    stage.create_release("web", watched).await.unwrap();
    stage.wait_for_state("web", "active").await;
    let maps: Api<ConfigMap> = stage.namespaced_api();
    let patch = Patch::Merge(json!({"data": {"greeting": "mine"}}));
    maps.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let drifted = wait_for("it is told", async || {
        let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status?;
        find_condition(&status.conditions, DRIFTED).filter(|drifted| drifted.status == "True").cloned()
    })
    .await;
    assert!(drifted.message.contains("ConfigMap shop/web differs at /data/greeting"), "{}", drifted.message);
    stage.patch_release("web", json!({"spec": {"driftDetection": {"mode": "enabled"}}})).await;
    wait_for("it is put right", async || {
        (maps.get("web").await.unwrap().data.unwrap()["greeting"] == "hello").then_some(())
    })
    .await;
    wait_for("it is told", async || {
        let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status?;
        find_condition(&status.conditions, DRIFTED).filter(|drifted| drifted.status == "False").cloned()
    })
    .await;
    assert_eq!(record_statuses(&stage, "web").await, ["1 deployed"]);
    let ignore = json!([{"paths": ["/data/greeting"], "target": {"kind": "ConfigMap"}}]);
    stage.patch_release("web", json!({"spec": {"driftDetection": {"ignore": ignore}}})).await;
    stage.wait_for_state("web", "active").await;
    maps.patch("web", &PatchParams::default(), &patch).await.unwrap();
    // With an interval, everything is reconciled again.
    stage.patch_release("web", json!({"spec": {"interval": "2s"}})).await;
    stage.wait_for_state("web", "active").await;
    assert_eq!(maps.get("web").await.unwrap().data.unwrap()["greeting"], "mine");
}
