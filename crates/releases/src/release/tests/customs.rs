//! Releases with custom resources: ready when their own status says so.

use domain::actor::Impersonation;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use kube_apply::Id;
use kube_types::HelmRelease;
use kube_types::progress::{condition, is_true};
use kube_types::release::conditions::READY;
use serde_json::{Value, json};
use testkit::{Fault, until};

use super::spec;
use crate::key::Key;
use crate::stage::{SHOP, Stage, archive};
use crate::workloads::customs::{Again, Stands};

/// A Gadget whose status is not ready from the start, and Knative's Service, which is not ready without a status.
const GADGET: &str = "apiVersion: x.dev/v1\nkind: Gadget\nmetadata: {name: {{ .Release.Name }}}\nspec: {size: {{ .Values.size }}}\n\
                      status: {conditions: [{type: Ready, status: \"False\", reason: Cold, message: it warms up}]}\n";
const SERVICE: &str =
    "apiVersion: serving.knative.dev/v1\nkind: Service\nmetadata: {name: {{ .Release.Name }}}\n";

fn definition(group: &str, plural: &str, kind: &str, status: bool) -> Value {
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
fn allowed(account: &str, verbs: &[&str]) -> [Value; 2] {
    let named = |kind: &str| json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": format!("customs-{account}"), "namespace": SHOP}});
    let (mut role, mut binding) = (named("Role"), named("RoleBinding"));
    role["rules"] =
        json!([{"apiGroups": ["x.dev", "serving.knative.dev"], "resources": ["*"], "verbs": verbs}]);
    binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": format!("customs-{account}")});
    binding["subjects"] = json!([{"kind": "ServiceAccount", "namespace": SHOP, "name": account}]);
    [role, binding]
}

async fn stage() -> Stage {
    let stage = Stage::new().await;
    let kinds = [
        definition("x.dev", "gadgets", "Gadget", false),
        definition("serving.knative.dev", "services", "Service", true),
    ];
    stage.world.apply(kinds).await;
    stage.world.apply(allowed("longshore-deployer", &["*"])).await;
    stage
}

fn api(stage: &Stage, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::namespaced_with(stage.world.admin(), SHOP, &resource)
}

fn ready(status: &str) -> Patch<Value> {
    Patch::Merge(
        json!({"status": {"conditions": [{"type": "Ready", "status": status, "reason": "R", "message": "so it is"}]}}),
    )
}

async fn kept(stage: &Stage, templates: &[(&str, &str)]) -> String {
    let files: Vec<(&str, &str)> = [("values.yaml", "size: 1\n")].iter().chain(templates).copied().collect();
    stage.keep(archive("custom", "1.0.0", &files)).await
}

#[tokio::test]
async fn a_release_is_ready_when_its_custom_resources_say_so_and_degraded_when_they_say_no() {
    let stage = stage().await;
    let package =
        kept(&stage, &[("templates/gadget.yaml", GADGET), ("templates/service.yaml", SERVICE)]).await;
    stage.write("web", spec("web", &package)).await.unwrap();
    let status = stage.until_state("web", "created").await.status.unwrap();
    let resources = status.resources.unwrap();
    assert_eq!((resources.total, resources.ready), (2, 0), "{:?}", resources.not_ready);
    let reasons: Vec<&str> = resources.not_ready.iter().map(|object| object.reason.as_str()).collect();
    assert!(reasons.contains(&"Cold: it warms up"), "{reasons:?}");
    assert!(!is_true(&status.conditions, READY));

    let (gadgets, services) = (api(&stage, "x.dev", "Gadget"), api(&stage, "serving.knative.dev", "Service"));
    let params = PatchParams::default();
    gadgets.patch("web", &params, &ready("True")).await.unwrap();
    until("one is ready", async || {
        let status = stage.of::<HelmRelease>().get("web").await.unwrap().status?;
        (status.resources?.ready == 1).then(|| assert_eq!(status.state, "created"))
    })
    .await;
    services.patch_status("web", &params, &ready("True")).await.unwrap();
    stage.until_state("web", "active").await;

    gadgets.patch("web", &params, &ready("False")).await.unwrap();
    let status = stage.until_state("web", "degraded").await.status.unwrap();
    assert!(status.message.contains("Gadget web: R: so it is"), "{}", status.message);
    gadgets.patch("web", &params, &ready("True")).await.unwrap();
    stage.until_state("web", "active").await;

    let kinds: Api<CustomResourceDefinition> = Api::all(stage.world.admin());
    kinds.delete("gadgets.x.dev", &DeleteParams::default()).await.unwrap();
    let status = stage.until_state("web", "degraded").await.status.unwrap();
    assert!(status.message.contains("Gadget web"), "{}", status.message);
}

#[tokio::test]
async fn what_a_release_may_not_watch_is_said_to_be_not_known() {
    let stage = stage().await;
    let package = kept(&stage, &[("templates/service.yaml", SERVICE)]).await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "blind", "namespace": SHOP}});
    stage.world.apply([account]).await;
    stage.world.apply(allowed("blind", &["get", "create", "patch", "delete"])).await;
    let mut blind = spec("web", &package);
    blind["serviceAccountName"] = "blind".into();
    stage.write("web", blind).await.unwrap();
    let status = stage.until_state("web", "active").await.status.unwrap();
    let message = &condition(&status.conditions, READY).unwrap().message;
    assert!(
        message.contains("of 1 objects it is not known whether they are ready; Service web"),
        "{message}"
    );
    assert!(message.contains("cannot list resource"), "{message}");
    // Once RBAC permits it, the next deployment observes the readiness.
    stage.world.apply(allowed("blind", &["*"])).await;
    stage.change("web", json!({"spec": {"version": 2, "valuesObject": {"size": 2}}})).await;
    let status = stage.until_state("web", "upgraded").await.status.unwrap();
    assert_eq!(status.resources.unwrap().ready, 0);
    let services = api(&stage, "serving.knative.dev", "Service");
    services.patch_status("web", &PatchParams::default(), &ready("True")).await.unwrap();
    stage.until_state("web", "active").await;
}

#[tokio::test]
async fn a_watch_is_shared_ends_with_the_last_that_needs_it_and_does_not_try_for_ever() {
    let stage = stage().await;
    let releases = crate::stage::releases(&stage.world, &Fault::none()).await;
    let (again, _changed) = tokio::sync::mpsc::unbounded_channel();
    let controller = releases.controller(again);
    let (one, two) = (Key::new(SHOP, "one"), Key::new(SHOP, "two"));
    let id = |kind: &str, group: &str, name: &str| Id {
        group: group.to_owned(),
        kind: kind.to_owned(),
        namespace: Some(SHOP.to_owned()),
        name: name.to_owned(),
    };
    let (gadget, service) = (id("Gadget", "x.dev", "g"), id("Service", "serving.knative.dev", "s"));
    let account = |name: &str| Impersonation::service_account(SHOP, name);
    let deployer = account("longshore-deployer");
    let customs = &controller.customs;
    let count = || customs.count();

    customs
        .follow(&one, &[gadget.clone(), service.clone(), id("ConfigMap", "", "m")], &deployer, Again::Never)
        .await;
    customs.follow(&two, std::slice::from_ref(&gadget), &deployer, Again::Never).await;
    assert_eq!(count(), (2, 2));
    assert_eq!(customs.stands(&one, &gadget), Stands::NotReady("not there".into()));
    customs.follow(&one, std::slice::from_ref(&service), &deployer, Again::Never).await;
    assert_eq!(count(), (2, 2), "the other one still needs it");
    customs.forget(&two);
    assert_eq!(count(), (1, 1));
    customs.forget(&one);
    assert_eq!(count(), (0, 0));

    // With an identity that lacks the permission, and with an unknown kind.
    let unknown = id("Gizmo", "x.dev", "z");
    customs.follow(&one, &[gadget.clone(), unknown.clone()], &account("nobody"), Again::Always).await;
    until("it has ended", async || (count() == (2, 0)).then_some(())).await;
    assert!(matches!(customs.stands(&one, &gadget), Stands::Unknown(why) if why.contains("forbidden")));
    assert_eq!(customs.stands(&one, &unknown), Stands::NotReady("the cluster serves no such kind".into()));
    customs.follow(&one, &[gadget.clone(), unknown], &account("nobody"), Again::Never).await;
    assert_eq!(count(), (2, 0));

    // One namespace cannot use all watches.
    for number in 0..40 {
        let kind = format!("Kind{number}");
        let key = Key::new(SHOP, &format!("many{number}"));
        customs.follow(&key, &[id(&kind, "x.dev", "k")], &deployer, Again::Never).await;
    }
    assert_eq!(count().0, 16);
    let last = id("Kind39", "x.dev", "k");
    assert!(matches!(customs.stands(&Key::new(SHOP, "many39"), &last), Stands::Unknown(_)));
}

#[tokio::test]
async fn a_watch_whose_kind_goes_ends() {
    let stage = stage().await;
    let releases = crate::stage::releases(&stage.world, &Fault::none()).await;
    let (again, mut changed) = tokio::sync::mpsc::unbounded_channel();
    let controller = releases.controller(again);
    let gadget = json!({"apiVersion": "x.dev/v1", "kind": "Gadget", "metadata": {
        "name": "g", "namespace": SHOP, "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {"meta.helm.sh/release-name": "one", "meta.helm.sh/release-namespace": SHOP},
    }});
    stage.world.apply([gadget]).await;
    let (key, id) = (
        Key::new(SHOP, "one"),
        Id { group: "x.dev".into(), kind: "Gadget".into(), namespace: Some(SHOP.into()), name: "g".into() },
    );
    let deployer = Impersonation::service_account(SHOP, "longshore-deployer");
    let customs = &controller.customs;
    customs.follow(&key, std::slice::from_ref(&id), &deployer, Again::Never).await;
    assert_eq!(customs.stands(&key, &id), Stands::Ready);
    while changed.try_recv().is_ok() {}
    let kinds: Api<CustomResourceDefinition> = Api::all(stage.world.admin());
    let gone = kinds.get("gadgets.x.dev").await.unwrap();
    kinds.delete(&gone.name_any(), &DeleteParams::default()).await.unwrap();
    assert_eq!(changed.recv().await, Some(key.clone()), "whose object it was is told");
    let over = Stands::NotReady("the cluster serves no such kind".into());
    until("it has ended", async || {
        (customs.stands(&key, &id) == over && customs.count() == (1, 0)).then_some(())
    })
    .await;
    // The kind is served again, and a full reconcile finds it.
    stage.world.apply([definition("x.dev", "gadgets", "Gadget", false)]).await;
    until("it is known", async || {
        releases.parts().helms.discovery.read_again(&stage.world.admin()).await.unwrap();
        releases.parts().helms.discovery.preferred("x.dev", "Gadget")
    })
    .await;
    customs.follow(&key, std::slice::from_ref(&id), &deployer, Again::Served).await;
    assert_eq!(customs.stands(&key, &id), Stands::NotReady("not there".into()));
}
