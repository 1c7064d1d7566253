//! The lifecycle of a hand-written release.
//!
//! Modules:
//!
//! * [`faults`], [`remedies`]: failures in the cluster, and remediation.
//! * [`references`]: values from other objects.
//! * [`customs`]: custom resources.
//! * [`repositories`]: malicious and broken repositories.
//! * [`chance`]: concurrent actors, randomised.
//! * [`trust`]: edited Helm records.
//! * [`administrator`]: objects of an administrator.
//! * [`watches`]: faulty watches.
//! * [`hostile`]: objects with extreme numbers.
//! * [`quarantine`]: repeatedly interrupted operations.

mod administrator;
mod chance;
mod customs;
mod faults;
mod hostile;
mod quarantine;
mod references;
mod remedies;
mod repositories;
mod trust;
mod watches;

use std::sync::Arc;

use domain::clock::SystemClock;
use futures::{StreamExt, future};
use helm_release::storage::{HELD_BY, secret_name};
use helm_release::{Record, Status, Storage};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube_access::Change;
use kube_access::queue::Next;
use kube_types::HelmRelease;
use kube_types::marks::OPERATION;
use kube_types::progress::{condition, is_true};
use kube_types::release::conditions::{DRIFTED, OUT_OF_BAND, READY, STALLED};
use serde_json::{Value, json};
use testkit::until;

use crate::key::Key;
use crate::stage::{SHOP, Stage, web};

fn spec(name: &str, package: &str) -> Value {
    json!({"name": name, "source": {"package": package}})
}

async fn records(stage: &Stage, name: &str) -> Vec<String> {
    let of_release = ListParams::default().labels(&format!("owner=helm,name={name}"));
    let found = stage.of::<Secret>().list(&of_release).await.unwrap();
    let status = |secret: &Secret| {
        let labels = secret.metadata.labels.clone().unwrap_or_default();
        format!("{} {}", labels["version"], labels["status"])
    };
    let mut all: Vec<String> = found.items.iter().map(status).collect();
    all.sort();
    all
}

#[tokio::test]
async fn a_release_is_installed_changed_and_removed() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.write("web", spec("web", &package)).await.unwrap();
    let active = stage.until_state("web", "active").await;
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
    assert!(is_true(&status.conditions, READY) && !is_true(&status.conditions, STALLED));
    assert!(status.operation.is_none());

    stage.change("web", json!({"spec": {"valuesObject": {"greeting": "hi", "replicas": 2}}})).await;
    let status = stage.until_state("web", "active").await.status.unwrap();
    assert_eq!(status.helm.unwrap().revision, 2);
    let map = stage.of::<ConfigMap>().get("web").await.unwrap();
    assert_eq!(map.data.unwrap()["greeting"], "hi");
    assert_eq!(records(&stage, "web").await, ["1 superseded", "2 deployed"]);
    let path: Vec<String> =
        status.transitions.iter().map(|step| step.to.clone()).filter(|to| !to.contains('=')).collect();
    assert_eq!(path.first().map(String::as_str), Some("creating"));
    assert!(path.contains(&"upgrading".to_owned()), "{path:?}");

    let releases: Api<HelmRelease> = stage.of();
    releases.delete("web", &DeleteParams::default()).await.unwrap();
    stage.until_gone(&releases, "web").await;
    assert!(stage.of::<Deployment>().get_opt("web").await.unwrap().is_none());
    assert!(records(&stage, "web").await.is_empty());
}

#[tokio::test]
async fn what_cannot_work_is_told_at_once_and_mended_by_a_change() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let cases = [
        ("nowhere", json!({"source": {"package": "pkg-none"}}), "there is no package `pkg-none`"),
        ("base64", json!({"source": {"package": package}, "values": "%%%"}), "spec.values: is not base64"),
        ("store", json!({"applicationId": "app-1"}), "application store"),
        ("other", json!({"source": {"package": package}, "chartName": "mysql"}), "and not `mysql`"),
        (
            "empty",
            json!({"source": {"package": package}, "valuesObject": {"greeting": ""}}),
            "a greeting is needed",
        ),
        (
            "wide",
            json!({"source": {"package": package}, "valuesObject": {"extra": "apiVersion: v1\nkind: Namespace\nmetadata: {name: mine}"}}),
            "does not give to system:serviceaccount:shop:longshore-deployer: Namespace mine",
        ),
    ];
    for (name, mut spec, message) in cases.clone() {
        spec["name"] = name.into();
        stage.write(name, spec).await.unwrap();
        let status = stage.until_state(name, "failed").await.status.unwrap();
        assert!(status.message.contains(message), "{name}: {}", status.message);
        let stalled = condition(&status.conditions, STALLED).unwrap();
        assert_eq!((stalled.status.as_str(), &stalled.message), ("True", &status.message), "{name}");
        assert!(records(&stage, name).await.is_empty(), "{name}: nothing was written");
    }
    stage.change("empty", json!({"spec": {"valuesObject": {"greeting": "hello"}}})).await;
    stage.until_state("empty", "active").await;
}

/// Cluster-scoped objects need RBAC for creation and for deletion.
#[tokio::test]
async fn what_belongs_to_the_whole_cluster_is_for_whom_kubernetes_lets() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let extra = "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: urgent}\nvalue: 7";
    let wide = |greeting: &str| json!({"valuesObject": {"extra": extra, "greeting": greeting}});
    let mut spec = spec("wide", &package);
    spec["valuesObject"] = wide("one")["valuesObject"].take();
    stage.write("wide", spec).await.unwrap();
    let refused = "does not give to system:serviceaccount:shop:longshore-deployer: PriorityClass urgent";
    let status = stage.until_state("wide", "failed").await.status.unwrap();
    assert!(status.message.contains(refused), "{}", status.message);

    let roles: Api<ClusterRole> = Api::all(stage.world.admin());
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
    Api::all(stage.world.admin()).create(&PostParams::default(), &binding).await.unwrap();
    stage.change("wide", json!({"spec": wide("two")})).await;
    let status = stage.until_state("wide", "failed").await.status.unwrap();
    assert!(status.message.contains(refused), "{}", status.message);
    assert!(records(&stage, "wide").await.is_empty(), "nothing was written");

    roles
        .replace("priorities", &PostParams::default(), &role(&["get", "create", "patch", "delete"]))
        .await
        .unwrap();
    stage.change("wide", json!({"spec": wide("three")})).await;
    stage.until_state("wide", "active").await;
    let classes: Api<PriorityClass> = Api::all(stage.world.admin());
    assert_eq!(classes.get("urgent").await.unwrap().value, Some(7));
    let releases: Api<HelmRelease> = stage.of();
    releases.delete("wide", &DeleteParams::default()).await.unwrap();
    stage.until_gone(&releases, "wide").await;
    assert!(classes.get_opt("urgent").await.unwrap().is_none());
}

#[tokio::test]
async fn a_release_acts_as_its_service_account_and_nobody_else() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let mut nobody = spec("nobody", &package);
    nobody["serviceAccountName"] = "nobody".into();
    // The other fields are only for display.
    nobody["username"] = "system:masters".into();
    stage.write("nobody", nobody).await.unwrap();
    let status = stage.until_state("nobody", "failed").await.status.unwrap();
    assert!(status.message.contains("system:serviceaccount:shop:nobody"), "{}", status.message);
    assert!(stage.of::<Deployment>().get_opt("nobody").await.unwrap().is_none());
    let mut forged = spec("forged", &package);
    forged["requestRef"] = json!({"name": "req-x", "uid": "1"});
    stage.write("forged", forged.clone()).await.unwrap();
    let status = stage.until_state("forged", "failed").await.status.unwrap();
    assert!(status.message.contains("no request"), "{}", status.message);
    // A tenant cannot write the reference at all.
    let tenant = stage.acting_as(&crate::stage::developer().impersonation());
    forged["name"] = "forged2".into();
    let release = json!({"apiVersion": "longshore.dev/v1alpha1", "kind": "HelmRelease", "metadata": {"name": "forged2"}, "spec": forged});
    let release: HelmRelease = serde_json::from_value(release).unwrap();
    let refused = Api::namespaced(tenant, crate::stage::SHOP)
        .create(&PostParams::default(), &release)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("belongs to a request"), "{refused}");
}

#[tokio::test]
async fn pods_that_never_become_ready_degrade_a_release_and_heal_it() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let mut sick = spec("sick", &package);
    sick["valuesObject"] = json!({"behaviour": "never-ready"});
    sick["options"] = json!({"timeout": "1s"});
    stage.write("sick", sick).await.unwrap();
    let status = stage.until_state("sick", "degraded").await.status.unwrap();
    let resources = status.resources.unwrap();
    assert_eq!((resources.total, resources.ready), (2, 1));
    assert_eq!(
        (resources.not_ready[0].kind.as_str(), resources.not_ready[0].name.as_str()),
        ("Deployment", "sick")
    );
    stage.change("sick", json!({"spec": {"valuesObject": {"behaviour": ""}}})).await;
    stage.until_state("sick", "active").await;
}

#[tokio::test]
async fn a_suspended_release_is_left_alone_and_a_paused_one_is_at_zero() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.write("web", spec("web", &package)).await.unwrap();
    stage.until_state("web", "active").await;
    stage.change("web", json!({"spec": {"suspend": true, "valuesObject": {"greeting": "hi"}}})).await;
    stage.until_state("web", "suspended").await;
    assert_eq!(records(&stage, "web").await, ["1 deployed"]);
    stage.change("web", json!({"spec": {"suspend": false, "paused": true}})).await;
    stage.until_state("web", "paused").await;
    let replicas = async || stage.of::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas;
    assert_eq!(replicas().await, Some(0));
    stage.change("web", json!({"spec": {"paused": false}})).await;
    stage.until_state("web", "active").await;
    assert_eq!(replicas().await, Some(1));
}

#[tokio::test]
async fn a_release_waits_for_those_that_it_depends_on() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let mut later = spec("later", &package);
    later["dependsOn"] = json!([{"name": "first"}]);
    stage.write("later", later).await.unwrap();
    let waiting = until("it waits", async || {
        let release = stage.of::<HelmRelease>().get("later").await.unwrap();
        release.status.filter(|status| status.message.contains("waits for first"))
    })
    .await;
    assert!(waiting.helm.is_none());
    stage.write("first", spec("first", &package)).await.unwrap();
    stage.until_state("later", "active").await;
}

#[tokio::test]
async fn what_others_did_is_told_and_what_is_taken_off_comes_back() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.write("web", spec("web", &package)).await.unwrap();
    stage.until_state("web", "active").await;
    // A record as the `helm` command writes it.
    let mut record = stage.of::<Secret>().get("sh.helm.release.v1.web.v1").await.unwrap();
    record.metadata = serde_json::from_value(json!({
        "name": "sh.helm.release.v1.web.v2",
        "labels": {"owner": "helm", "name": "web", "version": "2", "status": "deployed", "createdAt": "1767323045"},
    }))
    .unwrap();
    stage.of::<Secret>().create(&PostParams::default(), &record).await.unwrap();
    until("it is noticed", async || {
        let status = stage.of::<HelmRelease>().get("web").await.unwrap().status?;
        is_true(&status.conditions, OUT_OF_BAND).then_some(())
    })
    .await;
}

/// Revision numbers start again after an uninstallation, and the `helm` command copies labels from one revision to the next.
#[tokio::test]
async fn a_revision_of_the_same_number_that_somebody_else_made_is_not_taken_for_ours() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let mut enforced = spec("web", &package);
    enforced["options"] = json!({"enforce": true});
    stage.write("web", enforced).await.unwrap();
    stage.until_state("web", "active").await;
    stage.change("web", json!({"spec": {"valuesObject": {"greeting": "again"}}})).await;
    until("it is changed", async || (records(&stage, "web").await.len() == 2).then_some(())).await;
    stage.until_state("web", "active").await;
    stage.change("web", json!({"spec": {"suspend": true}})).await;
    stage.until_state("web", "suspended").await;
    // Both revisions are purged, a server reinstalls and crashes before it writes the status, and the `helm` command upgrades.
    let storage = Storage::new(stage.world.admin(), SHOP, Arc::new(SystemClock));
    let ours = storage.last("web").await.unwrap().unwrap();
    for revision in [1, 2] {
        let name = secret_name("web", revision);
        stage.of::<Secret>().delete(&name, &DeleteParams::default()).await.unwrap();
        let mut record = Record { version: revision, ..ours.record.clone() };
        record.labels.insert(OPERATION.to_owned(), "of-the-one-that-died".to_owned());
        if revision == 1 {
            record.set_status(Status::Superseded, "");
        }
        storage.create(&record).await.unwrap();
    }
    let unmarked = Patch::Merge(json!({"metadata": {"annotations": {HELD_BY: null}}}));
    let newest = secret_name("web", 2);
    stage.of::<Secret>().patch(&newest, &PatchParams::default(), &unmarked).await.unwrap();
    stage.change("web", json!({"spec": {"suspend": false}})).await;
    until("what is wanted is enforced", async || {
        (records(&stage, "web").await == ["1 superseded", "2 superseded", "3 deployed"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_operation_that_somebody_died_over_before_it_showed_is_not_told_for_ever() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.write("web", spec("web", &package)).await.unwrap();
    stage.until_state("web", "active").await;
    let begun = json!({"id": "x", "kind": "upgrade", "startedAt": "2026-01-02T03:04:05Z", "deadline": "2026-01-02T03:09:05Z"});
    let patch = Patch::Merge(json!({"status": {"operation": begun}}));
    let releases = stage.of::<HelmRelease>();
    releases.patch_status("web", &PatchParams::default(), &patch).await.unwrap();
    until("it is over", async || {
        let status = releases.get("web").await.unwrap().status?;
        status.operation.is_none().then_some(())
    })
    .await;
    assert_eq!(records(&stage, "web").await, ["1 deployed"]);
}

#[tokio::test]
async fn a_pass_that_finds_nothing_new_writes_nothing() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    stage.write("web", spec("web", &package)).await.unwrap();
    let before = stage.until_state("web", "active").await;
    // Another server on the same cluster, with empty caches.
    let fault = testkit::Fault::none();
    let other = crate::stage::releases(&stage.world, &fault).await;
    let (again, _waiting) = tokio::sync::mpsc::unbounded_channel();
    let (controller, marks, key) =
        (other.controller(again), other.parts().marks.clone(), Key::new("shop", "web"));
    marks.synced().await;
    marks.all().into_iter().for_each(|mark| drop(controller.records.enter(&Change::Applied(mark))));
    let following =
        tokio::spawn(controller.workloads.follow(&stage.world.platform()).for_each(|_| future::ready(())));
    until("its objects are known", async || (!controller.workloads.of(&key).is_empty()).then_some(())).await;
    for _ in 0..2 {
        assert_eq!(controller.pass_release(&key).await.unwrap(), Next::Rest);
    }
    following.abort();
    assert_eq!(fault.writes(), 0);
    let calls = fault.calls();
    assert_eq!(controller.pass_release(&key).await.unwrap(), Next::Rest);
    assert_eq!(fault.calls(), calls, "a pass that was made before asks nobody");
    assert_eq!(stage.of::<HelmRelease>().get("web").await.unwrap().status, before.status);
}

#[tokio::test]
async fn definitions_refuse_what_makes_no_sense() {
    let stage = Stage::new().await;
    let cases = [
        ("a", json!({"name": "b", "source": {"package": "p"}}), "spec.name is the name"),
        ("a", json!({"name": "a"}), "needs a source"),
        ("a", json!({"name": "a", "source": {"package": "p", "repo": "r"}}), "exactly one of"),
        ("a", json!({"name": "a", "source": {}}), "exactly one of"),
        ("a", json!({"name": "a", "source": {"package": "p"}, "interval": "soon"}), "interval"),
    ];
    for (name, spec, message) in cases {
        let refused = stage.write(name, spec).await.unwrap_err().to_string();
        assert!(refused.contains(message), "{refused}");
    }
}

#[tokio::test]
async fn what_others_changed_is_told_or_put_right() {
    let stage = Stage::new().await;
    let package = stage.keep(web()).await;
    let mut watched = spec("web", &package);
    watched["interval"] = "1s".into();
    watched["driftDetection"] = json!({"mode": "warn"});
    stage.write("web", watched).await.unwrap();
    stage.until_state("web", "active").await;
    let maps: Api<ConfigMap> = stage.of();
    let patch = Patch::Merge(json!({"data": {"greeting": "mine"}}));
    maps.patch("web", &PatchParams::default(), &patch).await.unwrap();
    let drifted = until("it is told", async || {
        let status = stage.of::<HelmRelease>().get("web").await.unwrap().status?;
        condition(&status.conditions, DRIFTED).filter(|drifted| drifted.status == "True").cloned()
    })
    .await;
    assert!(drifted.message.contains("ConfigMap shop/web differs at /data/greeting"), "{}", drifted.message);
    stage.change("web", json!({"spec": {"driftDetection": {"mode": "enabled"}}})).await;
    until("it is put right", async || {
        (maps.get("web").await.unwrap().data.unwrap()["greeting"] == "hello").then_some(())
    })
    .await;
    until("it is told", async || {
        let status = stage.of::<HelmRelease>().get("web").await.unwrap().status?;
        condition(&status.conditions, DRIFTED).filter(|drifted| drifted.status == "False").cloned()
    })
    .await;
    assert_eq!(records(&stage, "web").await, ["1 deployed"]);
    let ignore = json!([{"paths": ["/data/greeting"], "target": {"kind": "ConfigMap"}}]);
    stage.change("web", json!({"spec": {"driftDetection": {"ignore": ignore}}})).await;
    stage.until_state("web", "active").await;
    maps.patch("web", &PatchParams::default(), &patch).await.unwrap();
    // With an interval, everything is reconciled again.
    stage.change("web", json!({"spec": {"interval": "2s"}})).await;
    stage.until_state("web", "active").await;
    assert_eq!(maps.get("web").await.unwrap().data.unwrap()["greeting"], "mine");
}
