//! Malicious patches and overrides: each ends at the release's budget in bounded time, and the error names its path.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use helm_template::budget::{Budget, RenderLimits, Unlimited};
use kube_apply::Object;
use kube_types::release::spec::RoleResources;
use kube_types::release::{ManifestPatch, RoleOverride};
use serde_json::{Value, json};

use super::{PostRenderSpec, apply, unmatched_overrides};

/// Time limit of one case, in a debug build on a busy machine.
const MAX_CASE_DURATION: Duration = Duration::from_secs(20);

/// Debug builds are slower, so runaway work is stopped sooner.
fn limits() -> RenderLimits {
    let steps = if cfg!(debug_assertions) { 5_000_000 } else { RenderLimits::default().steps };
    RenderLimits { steps, ..RenderLimits::default() }
}

fn deployment(name: &str, spec: &Value) -> Object {
    let value = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"template": {"spec": spec}},
    });
    Object::from_value(value).unwrap()
}

/// A strategic merge patch for the Deployment `web` with these fields of its pod spec.
fn patch(fields: &str) -> ManifestPatch {
    let text = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web}}, spec: {{template: {{spec: {{{fields}}}}}}}}}"
    );
    ManifestPatch { patch: text, target: None }
}

/// A YAML list body with `count` items.
fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = write!(text, "{}, ", item(n));
        text
    })
}

/// Asserts that post-rendering is rejected with an error that names the path and the limit, within time and memory.
fn assert_over_budget(objects: Vec<Object>, chain: &PostRenderSpec<'_>, place: &str) {
    let (budget, began) = (Budget::new(limits(), &Unlimited), Instant::now());
    let error = apply(objects, chain, &budget).unwrap_err().to_string();
    assert!(error.starts_with(place) && error.contains("too much "), "{place}: {error}");
    assert!(began.elapsed() < MAX_CASE_DURATION, "{place}: {:?}", began.elapsed());
    assert!(budget.used_memory() <= limits().memory, "{place}: {} bytes", budget.used_memory());
}

fn assert_patch_over_budget(spec: &Value, fields: &str) {
    let patches = [patch(fields)];
    let chain = PostRenderSpec { patches: &patches, ..PostRenderSpec::default() };
    assert_over_budget(vec![deployment("web", spec)], &chain, "spec.patches[0]: Deployment web");
}

#[test]
fn merges_of_large_lists_end_at_the_budget() {
    let containers: Vec<Value> = (0..20_000).map(|n| json!({"name": format!("c{n:05}")})).collect();
    let named = |first: &str| items(20_000, |n| format!("{{name: {first}{n:05}}}"));
    // Existing elements, new ones, and deleted ones.
    assert_patch_over_budget(&json!({"containers": containers}), &format!("containers: [{}]", named("c")));
    assert_patch_over_budget(&json!({}), &format!("containers: [{}]", named("d")));
    let deleted = items(20_000, |n| format!("{{name: x{n:05}, $patch: delete}}"));
    assert_patch_over_budget(&json!({"containers": containers}), &format!("containers: [{deleted}]"));
}

#[test]
fn merges_of_long_lists_of_texts_end_at_the_budget() {
    let finalizers = |first: &str| items(20_000, |n| format!("{first}{n:05}"));
    let text = format!(
        "{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: web, finalizers: [{}]}}}}",
        finalizers("f")
    );
    let patches = [ManifestPatch { patch: text, target: None }];
    let chain = PostRenderSpec { patches: &patches, ..PostRenderSpec::default() };
    assert_over_budget(vec![deployment("web", &json!({}))], &chain, "spec.patches[0]: Deployment web");
}

#[test]
fn retained_keys_of_large_maps_end_at_the_budget() {
    let selector: serde_json::Map<String, Value> =
        (0..20_000).map(|n| (format!("k{n:05}"), json!("v"))).collect();
    let kept = items(20_000, |n| format!("x{n:05}"));
    assert_patch_over_budget(
        &json!({"nodeSelector": selector}),
        &format!("nodeSelector: {{$retainKeys: [{kept}], a: b}}"),
    );
}

#[test]
fn deletions_from_long_primitive_lists_end_at_the_budget() {
    let list: Vec<String> = (0..20_000).map(|n| format!("k{n:05}")).collect();
    let gone = items(20_000, |n| format!("x{n:05}"));
    assert_patch_over_budget(
        &json!({"anything": list}),
        &format!("$deleteFromPrimitiveList/anything: [{gone}]"),
    );
}

#[test]
fn thousands_of_role_overrides_end_at_the_budget() {
    let names: Vec<String> = (0..5_000).map(|n| format!("w{n:04}")).collect();
    let workloads = || -> Vec<Object> {
        let containers: Vec<Value> = (0..20).map(|n| json!({"name": format!("c{n}")})).collect();
        names.iter().map(|name| deployment(name, &json!({"containers": containers}))).collect()
    };
    let role = |name: &str| RoleOverride {
        kind: "Deployment".into(),
        name: name.into(),
        replicas: Some(1),
        resources: Some(RoleResources {
            requests: [("cpu".into(), "1".into())].into(),
            ..RoleResources::default()
        }),
        ..RoleOverride::default()
    };
    // One for each workload, all for one workload, and none that matches.
    let each: Vec<RoleOverride> = names.iter().map(|name| role(name)).collect();
    let one: Vec<RoleOverride> = (0..50_000).map(|_| role("w0000")).collect();
    let none: Vec<RoleOverride> = (0..20_000).map(|n| role(&format!("absent-{n}"))).collect();
    for roles in [&each, &one, &none] {
        assert_over_budget(
            workloads(),
            &PostRenderSpec { roles, ..PostRenderSpec::default() },
            "spec.roles[",
        );
    }
    let (objects, began) = (workloads(), Instant::now());
    assert_eq!(unmatched_overrides(&objects, &none).len(), none.len());
    assert_eq!(unmatched_overrides(&objects, &each).len(), 0);
    assert!(began.elapsed() < MAX_CASE_DURATION / 10, "{:?}", began.elapsed());
}

#[test]
fn thousands_of_patches_end_at_the_budget() {
    let objects: Vec<Object> = (0..1_000).map(|n| deployment(&format!("w{n:04}"), &json!({}))).collect();
    let target = json!({"kind": "Deployment", "name": "w.*"});
    let one = ManifestPatch {
        patch: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: any, annotations: {a: b}}}".into(),
        target: Some(serde_json::from_value(target).unwrap()),
    };
    let patches = vec![one; 2_000];
    assert_over_budget(
        objects,
        &PostRenderSpec { patches: &patches, ..PostRenderSpec::default() },
        "spec.patches[",
    );
}
