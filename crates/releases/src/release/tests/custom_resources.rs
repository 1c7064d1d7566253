//! Releases with custom resources: ready when their own status says so.

use domain::actor::Impersonation;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use kube_apply::ObjectId;
use kube_types::HelmRelease;
use kube_types::conditions::{find_condition, is_condition_true};
use kube_types::release::conditions::READY;
use serde_json::{Value, json};
use testkit::{FaultInjector, wait_for};

use super::release_spec;
use crate::key::ReleaseKey;
use crate::readiness::custom_resources::{Readiness, RestartPolicy};
use crate::testing::{SHOP, TestHarness, chart_archive};

/// A Gadget whose status is not ready from the start, and Knative's Service, which is not ready without a status.
const GADGET: &str = "apiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: {{ .Release.Name }}}\nspec: {size: {{ .Values.size }}}\n\
                      status: {conditions: [{type: Ready, status: \"False\", reason: Cold, message: it warms up}]}\n";
const SERVICE: &str =
    "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\n";

fn crd(group: &str, plural: &str, kind: &str, status: bool) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let mut version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    if status {
        version["subresources"] = json!({"status": {}});
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
        },
    })
}

/// Grants a `ServiceAccount` of the namespace these verbs on both kinds.
fn grant(account: &str, verbs: &[&str]) -> [Value; 2] {
    let named = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": format!("customs-{account}"), "namespace": SHOP}});
    let (mut role, mut binding) = (named("Role"), named("RoleBinding"));
    role["rules"] =
        json!([{"apiGroups": ["x.dev", "serving.knative.dev"], "resources": ["*"], "verbs": verbs}]);
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": format!("customs-{account}")});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": SHOP, "name": account}]);
    [role, binding]
}

async fn custom_resource_harness() -> TestHarness {
    let stage = TestHarness::new().await;
    let kinds =
        [crd("x.dev", "gadgets", "Gadget", false), crd("serving.knative.dev", "services", "Service", true)];
    stage.world.apply(kinds).await;
    stage.world.apply(grant("longshore-deployer", &["*"])).await;
    stage
}

fn dynamic_api(stage: &TestHarness, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(stage.world.admin_client(), SHOP, &resource)
}

fn ready_patch(status: &str) -> Patch<Value> {
    Patch::Merge(
        json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "R", "message": "so it is"}]}}),
    )
}

async fn store_custom_chart(stage: &TestHarness, templates: &[(&str, &str)]) -> String {
    let files: Vec<(&str, &str)> = [("values.yaml", "size: 1\n")].iter().chain(templates).copied().collect();
    stage.store_chart(chart_archive("custom", "1.0.0", &files)).await
}

#[tokio::test]
async fn release_readiness_follows_its_custom_resources() {
    let stage = custom_resource_harness().await;
    let package =
        store_custom_chart(&stage, &[("templates/gadget.yaml", GADGET), ("templates/service.yaml", SERVICE)])
            .await;
    stage.create_release("web", release_spec("web", &package)).await.unwrap();
    let status = stage.wait_for_state("web", "created").await.status.unwrap();
    let resources = status.resources.unwrap();
    assert_eq!((resources.total, resources.ready), (2, 0), "{:?}", resources.not_ready);
    let reasons: Vec<&str> = resources.not_ready.iter().map(|object| object.reason.as_str()).collect();
    assert!(reasons.contains(&"Cold: it warms up"), "{reasons:?}");
    assert!(!is_condition_true(&status.conditions, READY));

    let (gadgets, services) =
        (dynamic_api(&stage, "x.dev", "Gadget"), dynamic_api(&stage, "serving.knative.dev", "Service"));
    let params = PatchParams::default();
    gadgets.patch("web", &params, &ready_patch("True")).await.unwrap();
    wait_for("one is ready", async || {
        let status = stage.namespaced_api::<HelmRelease>().get("web").await.unwrap().status?;
        (status.resources?.ready == 1).then(|| assert_eq!(status.state, "created"))
    })
    .await;
    services.patch_status("web", &params, &ready_patch("True")).await.unwrap();
    stage.wait_for_state("web", "active").await;

    gadgets.patch("web", &params, &ready_patch("False")).await.unwrap();
    let status = stage.wait_for_state("web", "degraded").await.status.unwrap();
    assert!(status.message.contains("Gadget web: R: so it is"), "{}", status.message);
    gadgets.patch("web", &params, &ready_patch("True")).await.unwrap();
    stage.wait_for_state("web", "active").await;

    let kinds: Api<CustomResourceDefinition> = Api::all(stage.world.admin_client());
    kinds.delete("gadgets.x.dev", &DeleteParams::default()).await.unwrap();
    let status = stage.wait_for_state("web", "degraded").await.status.unwrap();
    assert!(status.message.contains("Gadget web"), "{}", status.message);
}

#[tokio::test]
async fn readiness_is_unknown_without_watch_permission() {
    let stage = custom_resource_harness().await;
    let package = store_custom_chart(&stage, &[("templates/service.yaml", SERVICE)]).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "blind", "namespace": SHOP}});
    stage.world.apply([account]).await;
    stage.world.apply(grant("blind", &["get", "create", "patch", "delete"])).await;
    let mut blind = release_spec("web", &package);
    blind["serviceAccountName"] = "blind".into();
    stage.create_release("web", blind).await.unwrap();
    let status = stage.wait_for_state("web", "active").await.status.unwrap();
    let message = &find_condition(&status.conditions, READY).unwrap().message;
    assert!(message.contains("the readiness of 1 objects is unknown; Service web"), "{message}");
    assert!(message.contains("cannot list resource"), "{message}");
    // Once RBAC permits it, the next deployment observes the readiness.
    stage.world.apply(grant("blind", &["*"])).await;
    stage.patch_release("web", json!({"spec": {"version": 2, "valuesObject": {"size": 2}}})).await;
    let status = stage.wait_for_state("web", "upgraded").await.status.unwrap();
    assert_eq!(status.resources.unwrap().ready, 0);
    let services = dynamic_api(&stage, "serving.knative.dev", "Service");
    services.patch_status("web", &PatchParams::default(), &ready_patch("True")).await.unwrap();
    stage.wait_for_state("web", "active").await;
}

#[tokio::test]
async fn watch_is_shared_and_stops_with_its_last_release() {
    let stage = custom_resource_harness().await;
    let releases = crate::testing::start_releases(&stage.world, &FaultInjector::healthy()).await;
    let (again, _changed) = tokio::sync::mpsc::unbounded_channel();
    let controller = releases.new_controller(again);
    let (one, two) = (ReleaseKey::new(SHOP, "one"), ReleaseKey::new(SHOP, "two"));
    let id = |kind: &str, group: &str, name: &str| ObjectId {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: Some(SHOP.to_owned()),
        name: name.to_owned(),
    };
    let (gadget, service) = (id("Gadget", "x.dev", "g"), id("Service", "serving.knative.dev", "s"));
    let account = |name: &str| Impersonation::service_account(SHOP, name);
    let deployer = account("longshore-deployer");
    let customs = &controller.custom_resources;
    let count = || customs.watch_counts();

    customs
        .ensure_watches(
            &one,
            &[gadget.clone(), service.clone(), id("ConfigMap", "", "m")],
            &deployer,
            RestartPolicy::Never,
        )
        .await;
    customs.ensure_watches(&two, std::slice::from_ref(&gadget), &deployer, RestartPolicy::Never).await;
    assert_eq!(count(), (2, 2));
    assert_eq!(customs.readiness(&one, &gadget), Readiness::NotReady("not found".into()));
    customs.ensure_watches(&one, std::slice::from_ref(&service), &deployer, RestartPolicy::Never).await;
    assert_eq!(count(), (2, 2), "the other one still needs it");
    customs.remove(&two);
    assert_eq!(count(), (1, 1));
    customs.remove(&one);
    assert_eq!(count(), (0, 0));

    // With an identity that lacks the permission, and with an unknown kind.
    let unknown = id("Gizmo", "x.dev", "z");
    customs
        .ensure_watches(&one, &[gadget.clone(), unknown.clone()], &account("nobody"), RestartPolicy::Always)
        .await;
    wait_for("it has ended", async || (count() == (2, 0)).then_some(())).await;
    assert!(matches!(customs.readiness(&one, &gadget), Readiness::Unknown(why) if why.contains("forbidden")));
    assert_eq!(
        customs.readiness(&one, &unknown),
        Readiness::NotReady("the cluster does not serve this kind".into())
    );
    customs.ensure_watches(&one, &[gadget.clone(), unknown], &account("nobody"), RestartPolicy::Never).await;
    assert_eq!(count(), (2, 0));

    // One namespace cannot use all watches.
    for number in 0..40 {
        let kind = format!("Kind{number}");
        let key = ReleaseKey::new(SHOP, &format!("many{number}"));
        customs.ensure_watches(&key, &[id(&kind, "x.dev", "k")], &deployer, RestartPolicy::Never).await;
    }
    assert_eq!(count().0, 16);
    let last = id("Kind39", "x.dev", "k");
    assert!(matches!(customs.readiness(&ReleaseKey::new(SHOP, "many39"), &last), Readiness::Unknown(_)));
}

#[tokio::test]
async fn watch_ends_when_its_crd_is_deleted() {
    let stage = custom_resource_harness().await;
    let releases = crate::testing::start_releases(&stage.world, &FaultInjector::healthy()).await;
    let (again, mut changed) = tokio::sync::mpsc::unbounded_channel();
    let controller = releases.new_controller(again);
    let gadget = json!({"apiVersion": "x.dev/v1", "kind": "Gadget", "metadata": {
        "name": "g", "namespace": SHOP, "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "one", "meta.helm.sh/release-namespace": SHOP},
    }});
    stage.world.apply([gadget]).await;
    let (key, id) = (
        ReleaseKey::new(SHOP, "one"),
        ObjectId {
            group: "x.dev".into(),
            kind: "Gadget".into(),
            namespace: Some(SHOP.into()),
            name: "g".into(),
        },
    );
    let deployer = Impersonation::service_account(SHOP, "longshore-deployer");
    let customs = &controller.custom_resources;
    customs.ensure_watches(&key, std::slice::from_ref(&id), &deployer, RestartPolicy::Never).await;
    assert_eq!(customs.readiness(&key, &id), Readiness::Ready);
    while changed.try_recv().is_ok() {}
    let kinds: Api<CustomResourceDefinition> = Api::all(stage.world.admin_client());
    let gone = kinds.get("gadgets.x.dev").await.unwrap();
    kinds.delete(&gone.name_any(), &DeleteParams::default()).await.unwrap();
    assert_eq!(changed.recv().await, Some(key.clone()), "whose object it was is told");
    let over = Readiness::NotReady("the cluster does not serve this kind".into());
    wait_for("it has ended", async || {
        (customs.readiness(&key, &id) == over && customs.watch_counts() == (1, 0)).then_some(())
    })
    .await;
    // The kind is served again, and a full reconcile finds it.
    stage.world.apply([crd("x.dev", "gadgets", "Gadget", false)]).await;
    wait_for("it is known", async || {
        releases.inner().helm_factory.discovery.refresh(&stage.world.admin_client()).await.unwrap();
        releases.inner().helm_factory.discovery.preferred("x.dev", "Gadget")
    })
    .await;
    customs.ensure_watches(&key, std::slice::from_ref(&id), &deployer, RestartPolicy::IfNotServed).await;
    assert_eq!(customs.readiness(&key, &id), Readiness::NotReady("not found".into()));
}
