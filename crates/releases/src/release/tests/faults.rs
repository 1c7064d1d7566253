//! Failures in the cluster: each has a clear state, message and condition within one reconcile, and transient ones recover without a new
//! spec.

use std::sync::Arc;

use domain::clock::SystemClock;
use helm_release::{Record, Status, Storage};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolumeClaim, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use kube_types::HelmRelease;
use kube_types::conditions::find_condition;
use kube_types::release::conditions::{READY, STALLED};
use serde_json::{Value, json};
use testkit::wait_for;

use super::{record_statuses, release_spec};
use crate::service::update::DeleteOptions;
use crate::testing::{SHOP, TestHarness, chart_archive, web_chart};

/// A hook Job for an event, whose pod has this behaviour.
fn hook_job(event: &str, behaviour: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {{helm.sh/hook: {event}}}\nspec:\n  backoffLimit: 0\n  \
         template:\n    metadata: {{annotations: {{sim.longshore.dev/behaviour: \"{behaviour}\"}}}}\n    \
         spec: {{restartPolicy: Never, containers: [{{name: c, image: i}}]}}\n"
    )
}

/// A CRD of the kind `Gadget`: of two CRDs with the same kind only the first is established.
fn gadget_crd(plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.x.dev")},
        "spec": {
            "group": "x.dev", "scope": "Namespaced", "names": {"plural": plural, "singular": plural, "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

/// Lets a `ServiceAccount` of the namespace create CRDs.
async fn grant_crd_access(stage: &TestHarness, account: &str) {
    let named = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "define"}});
    let mut role = named("ClusterRole");
    role["rules"] = json!([{"apiGroups": ["apiextensions.k8s.io"], "resources": ["*"], "verbs": ["*"]}]);
    let mut binding = named("ClusterRoleBinding");
    binding["roleRef"] =
        json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "define"});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": SHOP, "name": account}]);
    stage.world.apply([role, binding]).await;
}

/// The reported failure: reason, message, whether it is retried.
async fn wait_for_failure(stage: &TestHarness, name: &str) -> (String, String, bool) {
    let status = stage.wait_for_state(name, "failed").await.status.unwrap();
    let ready = find_condition(&status.conditions, READY).unwrap();
    assert_eq!((ready.status.as_str(), &ready.message), ("False", &status.message), "{name}");
    assert!(status.operation.is_none(), "{name}");
    let stalled = find_condition(&status.conditions, STALLED).unwrap().status == "True";
    assert_eq!(stalled, status.next_retry_time.is_none(), "{name}: it is stalled or tried again");
    (ready.reason.clone(), status.message, !stalled)
}

#[tokio::test]
async fn operation_failure_is_reported_with_its_reason() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let crds = |plural: &str| {
        chart_archive("web", "1.0.0", &[("crds/gadgets.yaml", &gadget_crd(plural).to_string())])
    };
    stage.world.apply([gadget_crd("gadgets")]).await;
    grant_crd_access(&stage, "longshore-deployer").await;
    let defining = stage.store_chart(crds("gizmos")).await;
    let short = json!({"timeout": "1s"});
    let waiting = json!({"timeout": "1s", "wait": true});
    #[rustfmt::skip]
    let cases = [
        ("breaks",   &package,  json!({"extra": hook_job("pre-install", "exit=3")}),      json!({}), "OperationFailed", "Job shop/hook: Job failed", true),
        ("breaks2",  &package,  json!({"extra": hook_job("post-install", "exit=3")}),     json!({}), "OperationFailed", "failed post-install", true),
        ("hangs",    &package,  json!({"extra": hook_job("pre-install", "exit=0@10m")}),  short,     "TimedOut",        "failed pre-install: not ready: Job shop/hook", true),
        ("waits",    &package,  json!({"behaviour": "never-ready"}),                  waiting,   "TimedOut",        "not ready: Deployment shop/waits", true),
        ("defines",  &defining, json!({}),                                            json!({}), "TimedOut",        "crds/gadgets.yaml", true),
        ("nonsense", &package,  json!({"extra": "apiVersion: v1\nkind: Nonsense\nmetadata: {name: a}"}), json!({}), "Invalid", "Nonsense", false),
        ("broken",   &package,  json!({"extra": "a: b: c"}),                          json!({}), "Invalid",         "yaml", false),
        ("foreign",  &package,  json!({"extra": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: kube-system}"}), json!({}), "Invalid", "must be in the namespaces", false),
    ];
    for (name, package, values, options, reason, message, again) in cases {
        let mut spec = release_spec(name, package);
        (spec["valuesObject"], spec["options"]) = (values, options);
        stage.create_release(name, spec).await.unwrap();
        let told = wait_for_failure(&stage, name).await;
        assert!(told.1.contains(message), "{name}: {}", told.1);
        assert_eq!((told.0.as_str(), told.2), (reason, again), "{name}: {}", told.1);
    }
}

#[tokio::test]
async fn chart_with_crds_is_rejected_without_permission() {
    let stage = TestHarness::new().await;
    let defining =
        chart_archive("web", "1.0.0", &[("crds/gadgets.yaml", &gadget_crd("gadgets").to_string())]);
    let package = stage.store_chart(defining).await;
    stage.create_release("defines", release_spec("defines", &package)).await.unwrap();
    let (reason, message, again) = wait_for_failure(&stage, "defines").await;
    assert!(message.contains("gadgets.x.dev"), "{message}");
    assert_eq!((reason.as_str(), again), ("Forbidden", false), "{message}");
    assert!(record_statuses(&stage, "defines").await.is_empty());
}

#[tokio::test]
async fn object_of_another_owner_is_not_overwritten() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let theirs = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": SHOP}, "data": {"greeting": "mine"}});
    stage.world.apply([theirs]).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    let (_, message, _) = wait_for_failure(&stage, "web").await;
    assert!(message.contains("ConfigMap shop/web") && message.contains("cannot be imported"), "{message}");
    let map = stage.namespaced_api::<ConfigMap>().get("web").await.unwrap();
    assert_eq!(map.data.unwrap()["greeting"], "mine");
    assert!(record_statuses(&stage, "web").await.is_empty(), "nothing was written");
    // With `takeOwnership` the object is adopted.
    stage.patch_release("web", json!({"spec": {"options": {"takeOwnership": true}, "version": 2}})).await;
    stage.wait_for_state("web", "active").await;
}

#[tokio::test]
async fn exceeded_quota_is_reported_and_retried() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": SHOP}, "spec": {"hard": {"count/deployments.apps": "0"}}});
    stage.world.apply([quota]).await;
    wait_for("the quota counts", async || {
        let quotas: Api<ResourceQuota> = stage.namespaced_api();
        quotas.get("few").await.unwrap().status?.hard?.contains_key("count/deployments.apps").then_some(())
    })
    .await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    let (reason, message, again) = wait_for_failure(&stage, "web").await;
    assert!(message.contains("exceeded quota: few"), "{message}");
    assert_eq!((reason.as_str(), again), ("Exhausted", true));
    // The quota is removed; a new version retries at once.
    let quotas: Api<ResourceQuota> = stage.namespaced_api();
    quotas.delete("few", &DeleteParams::default()).await.unwrap();
    stage.patch_release("web", json!({"spec": {"version": 2}})).await;
    stage.wait_for_state("web", "active").await;
}

#[tokio::test]
async fn quota_check_precedes_writes_and_counts_rollout_surge() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": SHOP}, "spec": {"hard": {"pods": "1"}}});
    stage.world.apply([quota]).await;
    let counted = async |pods: &str| {
        wait_for("the quota counts", async || {
            let status = stage.namespaced_api::<ResourceQuota>().get("few").await.unwrap().status?;
            (status.used?.get("pods")?.0 == pods).then_some(())
        })
        .await;
    };
    counted("0").await;
    let mut two = release_spec("web", &package);
    two["valuesObject"] = json!({"replicas": 2});
    stage.create_release("web", two).await.unwrap();
    let (reason, message, again) = wait_for_failure(&stage, "web").await;
    assert!(message.contains("exceeded quota: few in shop: 2 more of pods needed, 1 left"), "{message}");
    assert_eq!((reason.as_str(), again), ("Exhausted", true));
    assert!(record_statuses(&stage, "web").await.is_empty());
    assert!(stage.namespaced_api::<ConfigMap>().get_opt("web").await.unwrap().is_none());
    assert!(stage.namespaced_api::<Deployment>().get_opt("web").await.unwrap().is_none());

    stage.patch_release("web", json!({"spec": {"valuesObject": {"replicas": 1}}})).await;
    stage.wait_for_state("web", "active").await;
    counted("1").await;
    // A changed template creates a new pod before the old one is deleted.
    let other = json!({"greeting": "hi", "behaviour": "never-ready"});
    stage.patch_release("web", json!({"spec": {"valuesObject": other}})).await;
    let (reason, message, again) = wait_for_failure(&stage, "web").await;
    assert!(message.contains("exceeded quota: few in shop: 1 more of pods needed, 0 left"), "{message}");
    assert_eq!((reason.as_str(), again), ("Exhausted", true));
    assert_eq!(record_statuses(&stage, "web").await, ["1 deployed"]);
    let greeting = async || {
        stage.namespaced_api::<ConfigMap>().get("web").await.unwrap().data.unwrap()["greeting"].clone()
    };
    assert_eq!(greeting().await, "hello");
    // A change without pods needs no quota.
    stage.patch_release("web", json!({"spec": {"valuesObject": {"behaviour": ""}}})).await;
    stage.wait_for_state("web", "active").await;
    assert_eq!((greeting().await.as_str(), record_statuses(&stage, "web").await.len()), ("hi", 2));
}

#[tokio::test]
async fn deleting_a_namespace_deletes_its_releases() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    stage.wait_for_state("web", "active").await;
    // Including a release that never deployed.
    stage.create_release("failed", release_spec("failed", "pkg-none")).await.unwrap();
    wait_for_failure(&stage, "failed").await;
    let namespaces: Api<Namespace> = Api::all(stage.world.admin_client());
    namespaces.delete(SHOP, &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&namespaces, SHOP).await;
    assert!(
        stage.namespaced_api::<HelmRelease>().list(&ListParams::default()).await.unwrap().items.is_empty()
    );
}

/// A `StatefulSet` with a claim.
const STATEFULSET_TEMPLATE: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: {{ .Release.Name }}}\nspec:\n  serviceName: db\n  \
                   selector: {matchLabels: {app: db}}\n  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}\n  \
                   volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]\n";

#[tokio::test]
async fn claims_are_kept_unless_deletion_is_requested() {
    use crate::service::install::InstallRequest;
    let stage = TestHarness::new().await;
    let developer = crate::testing::developer();
    let claims: Api<PersistentVolumeClaim> = stage.namespaced_api();
    for (name, gone) in [("kept", false), ("taken", true)] {
        let chart = chart_archive("db", "1.0.0", &[("templates/db.yaml", STATEFULSET_TEMPLATE)]);
        let wanted =
            InstallRequest { namespace: SHOP.to_owned(), name: name.to_owned(), ..InstallRequest::default() };
        stage.releases.install(&developer, &chart_store::ChartSource::Archive(chart), wanted).await.unwrap();
        stage.wait_for_state(name, "active").await;
        let claim = format!("data-{name}-0");
        assert!(claims.get_opt(&claim).await.unwrap().is_some(), "{name}");
        stage
            .releases
            .delete(&developer, SHOP, name, DeleteOptions { delete_claims: gone, ..DeleteOptions::default() })
            .await
            .unwrap();
        stage.wait_until_deleted(&stage.namespaced_api::<HelmRelease>(), name).await;
        if gone {
            stage.wait_until_deleted(&claims, &claim).await;
        } else {
            assert!(claims.get(&claim).await.unwrap().metadata.deletion_timestamp.is_none());
        }
    }
}

#[tokio::test]
async fn forged_record_does_not_delete_foreign_objects() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let ours = json!({"meta.helm.sh/release-name": "forged", "meta.helm.sh/release-namespace": SHOP});
    let place = json!({
        "name": "theirs", "namespace": "kube-system", "annotations": ours, "labels": {"app.kubernetes.io/managed-by": "Helm"},
    });
    stage.world.apply([json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": place})]).await;
    // Tenants can write Secrets, and so they can forge records.
    let mut record = Record {
        name: "forged".to_owned(),
        namespace: SHOP.to_owned(),
        version: 1,
        manifest: "---\n# Source: web/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs, namespace: kube-system}\n".to_owned(),
        ..Record::default()
    };
    record.set_status(Status::Deployed, "");
    let storage = Storage::new(stage.world.admin_client(), SHOP, Arc::new(SystemClock));
    storage.create(&record).await.unwrap();
    stage.create_release("forged", release_spec("forged", &package)).await.unwrap();
    // The forged record neither blocks the release nor is it trusted.
    stage.wait_for_state("forged", "active").await;
    let releases: Api<HelmRelease> = stage.namespaced_api();
    releases.delete("forged", &DeleteParams::default()).await.unwrap();
    stage.wait_until_deleted(&releases, "forged").await;
    let theirs =
        Api::<ConfigMap>::namespaced(stage.world.admin_client(), "kube-system").get("theirs").await.unwrap();
    assert!(theirs.metadata.deletion_timestamp.is_none());
}

#[tokio::test]
async fn failed_uninstall_is_reported_and_keeps_objects() {
    let stage = TestHarness::new().await;
    let package = stage.store_chart(web_chart()).await;
    let mut stuck = release_spec("stuck", &package);
    stuck["valuesObject"] = json!({"extra": hook_job("pre-delete", "exit=3")});
    stage.create_release("stuck", stuck).await.unwrap();
    stage.wait_for_state("stuck", "active").await;
    let releases: Api<HelmRelease> = stage.namespaced_api();
    releases.delete("stuck", &DeleteParams::default()).await.unwrap();
    let status = wait_for("it is told", async || {
        let status = releases.get("stuck").await.unwrap().status?;
        (status.state == "deleting" && !status.message.is_empty()).then_some(status)
    })
    .await;
    assert!(status.message.contains("hook"), "{}", status.message);
    assert_eq!(find_condition(&status.conditions, READY).unwrap().reason, "UninstallFailed");
    assert!(status.next_retry_time.is_some() && status.operation.is_none());
    assert!(stage.namespaced_api::<ConfigMap>().get_opt("stuck").await.unwrap().is_some());
}
