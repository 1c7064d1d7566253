//! StatefulSets.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules, NamePolicy};

use super::defaulting::{default_if_absent, default_if_zero, ensure_object, is_empty, items_mut, set_field};
use super::{claim_spec, defaults, selector, status, template, warnings};

pub const RULES: KindRules = KindRules {
    group: "apps",
    kind: "StatefulSet",
    naming: NamePolicy::Label,
    generation: GenerationPolicy::Content,
    default,
    prepare_for_create: drop_disabled_fields,
    prepare_for_update: |new, _| drop_disabled_fields(new),
    validate: |set| validate(set, true),
    validate_update,
    validate_status,
    warnings: spec_warnings,
    ..DEFAULT_RULES
};

/// Mutable fields of the spec.
const MUTABLE_FIELDS: &[&str] = &[
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];
const IMMUTABLE_FIELDS_MESSAGE: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

fn default(set: &mut Value) {
    let Some(spec) = ensure_object(set, "spec") else { return };
    default_if_zero(spec, "podManagementPolicy", "OrderedReady");
    default_if_absent(spec, "replicas", 1);
    default_if_absent(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = ensure_object(spec, "updateStrategy") {
        if is_empty(strategy, "type") {
            set_field(strategy, "type", "RollingUpdate");
            default_if_absent(strategy, "rollingUpdate", json!({}));
        }
        if strategy["type"] == "RollingUpdate"
            && strategy.get("rollingUpdate").is_some_and(Value::is_object)
            && let Some(rolling) = ensure_object(strategy, "rollingUpdate")
        {
            default_if_absent(rolling, "partition", 0);
        }
    }
    if let Some(policy) = ensure_object(spec, "persistentVolumeClaimRetentionPolicy") {
        default_if_zero(policy, "whenDeleted", "Retain");
        default_if_zero(policy, "whenScaled", "Retain");
    }
    default_if_absent(spec, "template", json!({}));
    defaults::template(spec, "template");
    for claim in items_mut(spec, "volumeClaimTemplates") {
        set_field(claim, "apiVersion", "v1");
        set_field(claim, "kind", "PersistentVolumeClaim");
        if let Some(spec) = ensure_object(claim, "spec") {
            defaults::claim_spec(spec);
        }
        if let Some(status) = ensure_object(claim, "status") {
            default_if_zero(status, "phase", "Pending");
        }
    }
}

fn validate(set: &Value, new: bool) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(set).get("spec");
    let management = spec.get("podManagementPolicy");
    match management.text() {
        "OrderedReady" | "Parallel" => {}
        "" => errs.push(FieldError::required(&management.path, "")),
        other => {
            errs.push(FieldError::invalid(&management.path, other, "must be 'OrderedReady' or 'Parallel'"));
        }
    }
    validate_update_strategy(&spec.get("updateStrategy"), &mut errs);
    let retention = spec.get("persistentVolumeClaimRetentionPolicy");
    if retention.exists() {
        for name in ["whenDeleted", "whenScaled"] {
            check::one_of(&retention.get(name), &["Retain", "Delete"], &mut errs);
        }
    }
    if new {
        for template in spec.get("volumeClaimTemplates").items() {
            claim_spec::validate_spec(&template.get("spec"), &mut errs);
        }
        if !spec.get("serviceName").is_empty() {
            check::text(&spec.get("serviceName"), check::dns_label, &mut errs);
        }
    }
    for name in ["replicas", "minReadySeconds", "ordinals.start"] {
        check::not_negative(&spec.nested(name), &mut errs);
    }
    let chosen = spec.get("selector");
    let pods = spec.get("template");
    if selector::validate(&chosen, "statefulset", "", &mut errs) {
        selector::validate_matches_template(&chosen, &pods, &mut errs);
        let as_made = created_pod_template(&spec);
        let as_made = PathValue { value: Some(&as_made), path: pods.path.clone() };
        template::validate(&as_made, &mut errs);
        validate_labels_twice(&as_made, &mut errs);
    }
    template::validate_restart_policy_always(&pods, "StatefulSet", &mut errs);
    errs
}

/// Kubernetes validates labels and annotations a second time here, and reports errors twice.
fn validate_labels_twice(pods: &PathValue, errs: &mut FieldErrors) {
    let metadata = pods.get("metadata");
    check::labels(&metadata.get("labels").with_path(pods.path.field("labels")), errs);
    let notes = metadata.get("annotations").with_path(pods.path.field("annotations"));
    check::annotations(&notes, errs);
    template::validate_annotations(&notes, &pods.get("spec"), errs);
}

/// The template with the volumes of the claims in front, and without the names that the set assigns.
fn created_pod_template(spec: &PathValue) -> Value {
    let mut pods = spec.get("template").to_json();
    let claims: Vec<_> =
        spec.get("volumeClaimTemplates").items().map(|c| c.nested("metadata.name").text()).collect();
    if let Some(pod) = ensure_object(&mut pods, "spec") {
        if let Value::Object(map) = pod {
            map.remove("subdomain");
            map.remove("hostname");
        }
        if !claims.is_empty() {
            let own = pod.get("volumes").and_then(Value::as_array).cloned().unwrap_or_default();
            let claimed: HashSet<&str> = claims.iter().copied().collect();
            let own = own.into_iter().filter(|volume| {
                !volume.get("name").and_then(Value::as_str).is_some_and(|name| claimed.contains(name))
            });
            let mut seen: HashSet<&str> = HashSet::new();
            let mut volumes: Vec<_> = Vec::new();
            for name in &claims {
                if seen.insert(name) {
                    volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
                }
            }
            volumes.extend(own);
            set_field(pod, "volumes", volumes);
        }
    }
    pods
}

/// `maxUnavailable` belongs to a disabled feature gate.
fn drop_disabled_fields(set: &mut Value) {
    let rolling = set.pointer_mut("/spec/updateStrategy/rollingUpdate").and_then(Value::as_object_mut);
    rolling.map(|fields| fields.remove("maxUnavailable"));
}

fn validate_update_strategy(strategy: &PathValue, errs: &mut FieldErrors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "" => errs.push(FieldError::required(&strategy.path, "")),
        "OnDelete" => {
            if rolling.exists() {
                let words = "only allowed for updateStrategy 'RollingUpdate'";
                errs.push(FieldError::invalid(&rolling.path, rolling.to_go_names(), words));
            }
        }
        "RollingUpdate" => {
            check::not_negative(&rolling.get("partition"), errs);
        }
        _ => {
            let words = "must be 'RollingUpdate' or 'OnDelete'";
            errs.push(FieldError::invalid(&strategy.path, strategy.to_go_names(), words));
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = validate(new, false);
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Value::Object(map) = &mut spec {
            map.retain(|name, _| !MUTABLE_FIELDS.contains(&name.as_str()));
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errs.push(FieldError::forbidden(&PathValue::root(new).get("spec").path, IMMUTABLE_FIELDS_MESSAGE));
    }
    errs
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    let now = new.get("status");
    let below = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    status::validate_counters(&now, &["replicas", "observedGeneration", "collisionCount"], &[], &mut errs);
    status::validate_counters(&now, &below, &below, &mut errs);
    status::validate_available(&now, "cannot be greater than status.readyReplicas", &mut errs);
    status::validate_collision_count(&new, &old, &mut errs);
    errs
}

fn spec_warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = warnings::for_controller(new, old, "spec.template", false);
    let spec = PathValue::root(new).get("spec");
    for template in spec.get("volumeClaimTemplates").items() {
        // The path of the warning lacks the spec for a new set, and capitalises it in an update.
        let path = if old.is_none() { template.path.clone() } else { template.path.field("Spec") };
        warnings.extend(claim_spec::warnings(&template.get("spec").with_path(path)));
    }
    if spec.get("revisionHistoryLimit").int() < 0 {
        let words = "a negative value retains all historical revisions; a value >= 0 is recommended";
        warnings.push(format!("spec.revisionHistoryLimit: {words}"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set() -> Value {
        let mut set = json!({"metadata": {"name": "s"}, "spec": {
            "selector": {"matchLabels": {"a": "b"}}, "serviceName": "s",
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}}}});
        default(&mut set);
        set
    }

    #[test]
    fn claim_templates_are_pod_volumes() {
        assert_eq!((RULES.validate)(&set()), []);
        assert_eq!(set()["spec"]["volumeClaimTemplates"][0]["status"]["phase"], "Pending");
    }

    #[test]
    fn statefulset_updates_are_restricted() {
        let (old, mut new) = (set(), set());
        new["spec"]["replicas"] = 3.into();
        assert_eq!(validate_update(&new, &old), []);
        new["spec"]["serviceName"] = "t".into();
        let told = validate_update(&new, &old);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].to_string(), format!("spec: Forbidden: {IMMUTABLE_FIELDS_MESSAGE}"));
    }
}
