//! Post-rendering as a whole, and its properties.

use kube_types::release::spec::RoleResources;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn objects(values: Vec<Value>) -> Vec<Object> {
    values.into_iter().map(|value| Object::from_value(value).unwrap()).collect()
}

fn workload(kind: &str, name: &str) -> Value {
    let api_version = match kind {
        "Job" | "CronJob" => "batch/v1",
        "Pod" | "Service" | "ConfigMap" => "v1",
        "HorizontalPodAutoscaler" => "autoscaling/v2",
        _ => "apps/v1",
    };
    json!({
        "apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "replicas": 2, "selector": {"matchLabels": {"app": name}},
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [
                {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1"}}}, {"name": "side"},
            ]}},
        },
    })
}

fn role(kind: &str, name: &str) -> RoleOverride {
    RoleOverride { kind: kind.into(), name: name.into(), ..RoleOverride::default() }
}

fn patch(text: &str, target: Option<Value>) -> ManifestPatch {
    ManifestPatch { patch: text.into(), target: target.map(|target| serde_json::from_value(target).unwrap()) }
}

fn post_render_error(objects: Vec<Object>, chain: &PostRenderSpec<'_>) -> String {
    apply(objects, chain, &Budget::default()).unwrap_err().to_string()
}

#[test]
fn empty_spec_changes_nothing() {
    let before = objects(vec![workload("Deployment", "web"), workload("Service", "web")]);
    assert_eq!(apply(before.clone(), &PostRenderSpec::default(), &Budget::default()), Ok(before));
}

#[test]
fn role_override_sets_replicas_and_resources() {
    let resources = RoleResources {
        requests: [("cpu".into(), "100m".into())].into(),
        limits: [("memory".into(), "1Gi".into())].into(),
    };
    let main =
        RoleOverride { replicas: Some(5), resources: Some(resources.clone()), ..role("Deployment", "web") };
    let side = RoleOverride {
        container: Some("side".into()),
        resources: Some(resources),
        ..role("Deployment", "web")
    };
    let chain = PostRenderSpec { roles: &[main, side], ..PostRenderSpec::default() };
    let after = apply(
        objects(vec![workload("Deployment", "web"), workload("Deployment", "api")]),
        &chain,
        &Budget::default(),
    )
    .unwrap();
    let spec = &after[0].value()["spec"];
    assert_eq!(spec["replicas"], 5);
    let containers = &spec["template"]["spec"]["containers"];
    assert_eq!(
        containers[0]["resources"],
        json!({"requests": {"cpu": "100m"}, "limits": {"cpu": "1", "memory": "1Gi"}})
    );
    assert_eq!(containers[1]["resources"], json!({"requests": {"cpu": "100m"}, "limits": {"memory": "1Gi"}}));
    assert_eq!(after[1].value(), &workload("Deployment", "api"));
}

#[test]
fn stopped_role_removes_its_autoscaler() {
    let stopped = RoleOverride { replicas: Some(5), stopped: true, ..role("Deployment", "web") };
    let chain = PostRenderSpec { roles: &[stopped], ..PostRenderSpec::default() };
    let before = objects(vec![
        workload("Deployment", "web"),
        workload("HorizontalPodAutoscaler", "web"),
        workload("StatefulSet", "db"),
    ]);
    let after = apply(before, &chain, &Budget::default()).unwrap();
    let left: Vec<_> =
        after.iter().map(|object| (object.kind(), object.value()["spec"]["replicas"].clone())).collect();
    assert_eq!(left, [("Deployment", json!(0)), ("StatefulSet", json!(2))]);
}

#[test]
fn invalid_override_is_named() {
    let web = || objects(vec![workload("DaemonSet", "web")]);
    let wrong = |role: RoleOverride| {
        post_render_error(web(), &PostRenderSpec { roles: &[role], ..PostRenderSpec::default() })
    };
    let replicas = RoleOverride { replicas: Some(1), ..role("DaemonSet", "web") };
    assert_eq!(wrong(replicas), "spec.roles[0]: a DaemonSet has no replicas");
    let amount =
        RoleResources { requests: [("cpu".into(), "much".into())].into(), ..RoleResources::default() };
    let amount = RoleOverride { resources: Some(amount), ..role("DaemonSet", "web") };
    assert!(wrong(amount).starts_with("spec.roles[0]: resources.requests[cpu]: quantities must match"));
    let container = RoleOverride {
        container: Some("x".into()),
        resources: Some(RoleResources::default()),
        ..role("DaemonSet", "web")
    };
    assert_eq!(wrong(container), "spec.roles[0]: DaemonSet/web has no container x");
    // An override without a workload is valid: the workload may return.
    let absent = [role("DaemonSet", "other")];
    assert_eq!(unmatched_overrides(&web(), &absent), absent.iter().collect::<Vec<_>>());
    assert!(
        apply(web(), &PostRenderSpec { roles: &absent, ..PostRenderSpec::default() }, &Budget::default())
            .is_ok()
    );
}

#[test]
fn strategic_and_json_patches_apply() {
    let patches = [
        patch(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {template: {spec: {containers: [{name: side, image: s}]}}}",
            None,
        ),
        patch(
            "- {op: replace, path: /spec/replicas, value: 7}",
            Some(json!({"kind": "Deployment", "name": "w.*"})),
        ),
        patch(
            "{apiVersion: v1, kind: Any, metadata: {name: any, annotations: {team: shop}}}",
            Some(json!({"labelSelector": "app"})),
        ),
        patch("{$patch: delete, apiVersion: v1, kind: ConfigMap, metadata: {name: old}}", None),
    ];
    let before = objects(vec![
        workload("Deployment", "web"),
        workload("Service", "web"),
        workload("ConfigMap", "old"),
    ]);
    let after =
        apply(before, &PostRenderSpec { patches: &patches, ..PostRenderSpec::default() }, &Budget::default())
            .unwrap();
    assert_eq!(after.len(), 2);
    let web = after[0].value();
    assert_eq!(web["spec"]["replicas"], 7);
    assert_eq!(web["spec"]["template"]["spec"]["containers"][1], json!({"name": "side", "image": "s"}));
    assert!(after.iter().all(|object| object.annotation("team") == Some("shop")));
    assert_eq!((after[1].kind(), after[1].name()), ("Service", "web"));
}

#[test]
fn patch_of_immutable_field_is_rejected() {
    let to = |path: &str| format!("- {{op: add, path: {path}, value: other}}");
    let marks = "/metadata/labels/app.kubernetes.io~1managed-by";
    let table = [
        (to("/kind"), "kind"),
        (to("/apiVersion"), "apiVersion"),
        (to("/metadata/name"), "metadata.name"),
        (to("/metadata/namespace"), "metadata.namespace"),
        (to("/spec/selector"), "spec.selector"),
        (to("/spec/selector/matchLabels/app"), "spec.selector"),
        ("{spec: {selector: null}}".into(), "spec.selector"),
        (to(marks), "metadata.labels[app.kubernetes.io/managed-by]"),
        (
            "{metadata: {annotations: {meta.helm.sh/release-name: other}}}".into(),
            "metadata.annotations[meta.helm.sh/release-name]",
        ),
        (
            "{metadata: {annotations: {helm.sh/hook: pre-install}}}".into(),
            "metadata.annotations[helm.sh/hook]",
        ),
        ("- {op: replace, path: '', value: {}}".into(), "apiVersion"),
    ];
    for (text, field) in table {
        let good = patch("{metadata: {labels: {x: y}}}", Some(json!({"name": "web"})));
        let patches = [good, patch(&text, Some(json!({"name": "web"})))];
        let chain = PostRenderSpec { patches: &patches, ..PostRenderSpec::default() };
        assert_eq!(
            post_render_error(objects(vec![workload("Deployment", "web")]), &chain),
            format!("spec.patches[1]: Deployment web: {field} cannot be changed by a patch"),
        );
    }
}

#[test]
fn invalid_patch_error_omits_content() {
    let any = || Some(json!({"name": "web"}));
    let table = [
        (patch("secret: [", any()), "patch is not valid YAML"),
        (patch("secret", any()), "patch must be a map or a list of operations"),
        (patch("- {op: add, path: /a, value: 1}", None), "a JSON patch requires a target"),
        (
            patch("- {op: remove, path: /a}\n- {op: secret}", any()),
            "operation 1 is invalid: it must have `op`, `path` and, depending on `op`, `value` or `from`",
        ),
        (
            patch("- {op: test, path: /kind, value: secret}", any()),
            "Deployment web: operation 0 at /kind: value did not match",
        ),
        (patch("{}", Some(json!({"name": "("}))), "target.name is not a valid pattern"),
        (
            patch("{apiVersion: apps/v1, kind: Deployment, metadata: {name: gone}}", None),
            "the release has no Deployment gone, and the patch has no target",
        ),
        (patch("{spec: 1}", None), "the release has no object (without a name), and the patch has no target"),
    ];
    for (patch, why) in table {
        let chain = PostRenderSpec { patches: &[patch], ..PostRenderSpec::default() };
        assert_eq!(
            post_render_error(objects(vec![workload("Deployment", "web")]), &chain),
            format!("spec.patches[0]: {why}")
        );
    }
}

#[test]
fn hooks_are_not_scaled_to_zero() {
    let mut hook = workload("Job", "migrate");
    hook["metadata"]["annotations"] = json!({"helm.sh/hook": "pre-upgrade"});
    let before = objects(vec![hook]);
    let stopped = RoleOverride { stopped: true, ..role("Job", "migrate") };
    let chain = PostRenderSpec { roles: &[stopped], paused: true, ..PostRenderSpec::default() };
    assert_eq!(apply(before.clone(), &chain, &Budget::default()), Ok(before));
}

fn any_objects() -> impl Strategy<Value = Vec<Object>> {
    let kinds = vec![
        "Deployment",
        "StatefulSet",
        "DaemonSet",
        "ReplicaSet",
        "Job",
        "CronJob",
        "Pod",
        "Service",
        "HorizontalPodAutoscaler",
        "ConfigMap",
    ];
    let one = (proptest::sample::select(kinds), "[ab]").prop_map(|(kind, name)| workload(kind, &name));
    proptest::collection::vec(one, 0..6).prop_map(objects)
}

fn any_roles() -> impl Strategy<Value = Vec<RoleOverride>> {
    let kinds = proptest::sample::select(vec!["Deployment", "StatefulSet", "ReplicaSet"]);
    let one = (kinds, "[ab]", proptest::option::of(0i64..9), any::<bool>())
        .prop_map(|(kind, name, replicas, stopped)| RoleOverride { replicas, stopped, ..role(kind, &name) });
    proptest::collection::vec(one, 0..4)
}

fn any_patches() -> impl Strategy<Value = Vec<ManifestPatch>> {
    let texts = vec![
        "{metadata: {labels: {x: y}}}",
        "{spec: {replicas: 4}}",
        "{spec: {selector: {matchLabels: {app: other}}}}",
        "{spec: {template: {spec: {containers: [{name: main, image: j}, {name: new}]}}}}",
        "[{op: replace, path: /spec/selector/matchLabels/app, value: z}]",
        "[{op: remove, path: /spec/selector}]",
        "[{op: add, path: /spec/replicas, value: 3}]",
    ];
    let one = (proptest::sample::select(texts), "[ab]")
        .prop_map(|(text, name)| patch(text, Some(json!({"name": name}))));
    proptest::collection::vec(one, 0..4)
}

proptest! {
    #[test]
    fn no_selector_ever_changes(objects in any_objects(), roles in any_roles(), patches in any_patches(), paused: bool) {
        let chain = PostRenderSpec { roles: &roles, patches: &patches, paused };
        if let Ok(after) = apply(objects.clone(), &chain, &Budget::default()) {
            for object in after {
                let same = |before: &&Object| {
                    before.id() == object.id() && before.value()["spec"]["selector"] == object.value()["spec"]["selector"]
                };
                prop_assert!(objects.iter().any(|before| same(&before)));
            }
        }
    }

    /// Post-rendering is idempotent, except for JSON patches that append to a list.
    #[test]
    fn twice_is_once(objects in any_objects(), roles in any_roles(), patches in any_patches(), paused: bool) {
        let chain = PostRenderSpec { roles: &roles, patches: &patches, paused };
        if let Ok(once) = apply(objects, &chain, &Budget::default()) {
            prop_assert_eq!(apply(once.clone(), &chain, &Budget::default()), Ok(once));
        }
    }
}
