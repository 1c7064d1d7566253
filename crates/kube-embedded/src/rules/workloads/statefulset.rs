//! StatefulSets.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, At};
use crate::rules::{Generation, Naming, PLAIN, Rules};

use super::fill::{each, ensure, is_empty, missing, put, zero};
use super::{claim, defaults, selector, status, template, warnings};

pub const RULES: Rules = Rules {
    group: "apps",
    kind: "StatefulSet",
    naming: Naming::Label,
    generation: Generation::Content,
    default,
    create: drop_gated,
    update: |new, _| drop_gated(new),
    validate: |set| validate(set, true),
    validate_update,
    validate_status,
    warnings: warnings_of,
    ..PLAIN
};

/// Mutable fields of the spec.
const CHANGEABLE: &[&str] = &[
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];
const CHANGE_REFUSED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

fn default(set: &mut Value) {
    let Some(spec) = ensure(set, "spec") else { return };
    zero(spec, "podManagementPolicy", "OrderedReady");
    missing(spec, "replicas", 1);
    missing(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = ensure(spec, "updateStrategy") {
        if is_empty(strategy, "type") {
            put(strategy, "type", "RollingUpdate");
            missing(strategy, "rollingUpdate", json!({}));
        }
        if strategy["type"] == "RollingUpdate"
            && strategy.get("rollingUpdate").is_some_and(Value::is_object)
            && let Some(rolling) = ensure(strategy, "rollingUpdate")
        {
            missing(rolling, "partition", 0);
        }
    }
    if let Some(policy) = ensure(spec, "persistentVolumeClaimRetentionPolicy") {
        zero(policy, "whenDeleted", "Retain");
        zero(policy, "whenScaled", "Retain");
    }
    missing(spec, "template", json!({}));
    defaults::template(spec, "template");
    for claim in each(spec, "volumeClaimTemplates") {
        put(claim, "apiVersion", "v1");
        put(claim, "kind", "PersistentVolumeClaim");
        if let Some(spec) = ensure(claim, "spec") {
            defaults::claim_spec(spec);
        }
        if let Some(status) = ensure(claim, "status") {
            zero(status, "phase", "Pending");
        }
    }
}

fn validate(set: &Value, new: bool) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = At::root(set).get("spec");
    let management = spec.get("podManagementPolicy");
    match management.text() {
        "OrderedReady" | "Parallel" => {}
        "" => errs.push(FieldError::required(&management.path, "")),
        other => {
            errs.push(FieldError::invalid(&management.path, other, "must be 'OrderedReady' or 'Parallel'"));
        }
    }
    update_strategy(&spec.get("updateStrategy"), &mut errs);
    let retention = spec.get("persistentVolumeClaimRetentionPolicy");
    if retention.exists() {
        for name in ["whenDeleted", "whenScaled"] {
            check::one_of(&retention.get(name), &["Retain", "Delete"], &mut errs);
        }
    }
    if new {
        for template in spec.get("volumeClaimTemplates").items() {
            claim::spec(&template.get("spec"), &mut errs);
        }
        if !spec.get("serviceName").is_empty() {
            check::text(&spec.get("serviceName"), check::dns_label, &mut errs);
        }
    }
    for name in ["replicas", "minReadySeconds", "ordinals.start"] {
        check::not_negative(&spec.down(name), &mut errs);
    }
    let chosen = spec.get("selector");
    let pods = spec.get("template");
    if selector::validate(&chosen, "statefulset", "", &mut errs) {
        selector::fits(&chosen, &pods, &mut errs);
        let as_made = pods_as_made(&spec);
        let as_made = At { value: Some(&as_made), path: pods.path.clone() };
        template::validate(&as_made, &mut errs);
        labels_again(&as_made, &mut errs);
    }
    template::lasts(&pods, "StatefulSet", &mut errs);
    errs
}

/// Kubernetes validates labels and annotations a second time here, and reports errors twice.
fn labels_again(pods: &At, errs: &mut FieldErrors) {
    let metadata = pods.get("metadata");
    check::labels(&metadata.get("labels").named(pods.path.field("labels")), errs);
    let notes = metadata.get("annotations").named(pods.path.field("annotations"));
    check::annotations(&notes, errs);
    template::annotations(&notes, &pods.get("spec"), errs);
}

/// The template with the volumes of the claims in front, and without the names that the set assigns.
fn pods_as_made(spec: &At) -> Value {
    let mut pods = spec.get("template").json();
    let claims: Vec<_> =
        spec.get("volumeClaimTemplates").items().map(|c| c.down("metadata.name").text()).collect();
    if let Some(pod) = ensure(&mut pods, "spec") {
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
            put(pod, "volumes", volumes);
        }
    }
    pods
}

/// `maxUnavailable` belongs to a disabled feature gate.
fn drop_gated(set: &mut Value) {
    let rolling = set.pointer_mut("/spec/updateStrategy/rollingUpdate").and_then(Value::as_object_mut);
    rolling.map(|fields| fields.remove("maxUnavailable"));
}

fn update_strategy(strategy: &At, errs: &mut FieldErrors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "" => errs.push(FieldError::required(&strategy.path, "")),
        "OnDelete" => {
            if rolling.exists() {
                let words = "only allowed for updateStrategy 'RollingUpdate'";
                errs.push(FieldError::invalid(&rolling.path, rolling.go(), words));
            }
        }
        "RollingUpdate" => {
            check::not_negative(&rolling.get("partition"), errs);
        }
        _ => {
            let words = "must be 'RollingUpdate' or 'OnDelete'";
            errs.push(FieldError::invalid(&strategy.path, strategy.go(), words));
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = validate(new, false);
    let fixed = |object: &Value| {
        let mut spec = object.get("spec").cloned().unwrap_or_default();
        if let Value::Object(map) = &mut spec {
            map.retain(|name, _| !CHANGEABLE.contains(&name.as_str()));
        }
        spec
    };
    if fixed(new) != fixed(old) {
        errs.push(FieldError::forbidden(&At::root(new).get("spec").path, CHANGE_REFUSED));
    }
    errs
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (At::root(new), At::root(old));
    let now = new.get("status");
    let below = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    status::counters(&now, &["replicas", "observedGeneration", "collisionCount"], &[], &mut errs);
    status::counters(&now, &below, &below, &mut errs);
    status::available_are_ready(&now, "cannot be greater than status.readyReplicas", &mut errs);
    status::collisions_only_grow(&new, &old, &mut errs);
    errs
}

fn warnings_of(new: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = warnings::of_maker(new, old, "spec.template", false);
    let spec = At::root(new).get("spec");
    for template in spec.get("volumeClaimTemplates").items() {
        // The path of the warning lacks the spec for a new set, and capitalises it in an update.
        let path = if old.is_none() { template.path.clone() } else { template.path.field("Spec") };
        warnings.extend(claim::warnings(&template.get("spec").named(path)));
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
    fn claims_are_volumes_of_the_pods() {
        assert_eq!((RULES.validate)(&set()), []);
        assert_eq!(set()["spec"]["volumeClaimTemplates"][0]["status"]["phase"], "Pending");
    }

    #[test]
    fn only_a_part_of_the_spec_may_change() {
        let (old, mut new) = (set(), set());
        new["spec"]["replicas"] = 3.into();
        assert_eq!(validate_update(&new, &old), []);
        new["spec"]["serviceName"] = "t".into();
        let told = validate_update(&new, &old);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].to_string(), format!("spec: Forbidden: {CHANGE_REFUSED}"));
    }
}
