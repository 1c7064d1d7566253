//! ReplicaSets and ReplicationControllers.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::{default_if_absent, ensure_object, is_empty, set_field};
use super::{defaults, selector, status, template, warnings};

pub const REPLICA_SET: KindRules = KindRules {
    group: "apps",
    kind: "ReplicaSet",
    generation: GenerationPolicy::Content,
    default: |set| {
        if let Some(spec) = ensure_object(set, "spec") {
            default_if_absent(spec, "replicas", 1);
            default_if_absent(spec, "template", json!({}));
            defaults::template(spec, "template");
        }
    },
    validate,
    validate_update: |new, old| selector::validate_immutable(validate(new), new, old),
    validate_status,
    warnings: |new, old| warnings::for_controller(new, old, "spec.template", true),
    ..DEFAULT_RULES
};

pub const REPLICATION_CONTROLLER: KindRules = KindRules {
    kind: "ReplicationController",
    generation: GenerationPolicy::Content,
    default: default_controller,
    validate: validate_controller,
    validate_update: |new, _| validate_controller(new),
    validate_status,
    warnings: |new, old| warnings::for_controller(new, old, "spec.template", true),
    ..DEFAULT_RULES
};

fn validate(set: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(set).get("spec");
    let chosen = spec.get("selector");
    check::not_negative(&spec.get("replicas"), &mut errs);
    check::not_negative(&spec.get("minReadySeconds"), &mut errs);
    // Kubernetes' message has "deployment" here as well.
    if selector::validate(&chosen, "deployment", "invalid label selector", &mut errs) {
        selector::validate_matches_template(&chosen, &spec.get("template"), &mut errs);
        template::validate_long_running(&spec.get("template"), "ReplicaSet", &mut errs);
    }
    errs
}

fn validate_status(new: &Value, _: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let now = PathValue::root(new).get("status");
    let below = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    let all = ["replicas", "observedGeneration", "terminatingReplicas"];
    status::validate_counters(&now, &all, &[], &mut errs);
    status::validate_counters(&now, &below, &below, &mut errs);
    status::validate_available(&now, "cannot be greater than readyReplicas", &mut errs);
    errs
}

fn default_controller(controller: &mut Value) {
    if let Some(spec) = ensure_object(controller, "spec") {
        default_if_absent(spec, "replicas", 1);
        let labels = spec.get("template").and_then(|t| t.get("metadata")?.get("labels")).cloned();
        if let Some(labels) = labels
            && is_empty(spec, "selector")
        {
            set_field(spec, "selector", labels);
        }
        defaults::template(spec, "template");
    }
    defaults::labels_from_template(controller, "spec.template");
}

fn validate_controller(controller: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(controller).get("spec");
    let (chosen, pods) = (spec.get("selector"), spec.get("template"));
    check::not_negative(&spec.get("minReadySeconds"), &mut errs);
    check::required(&chosen, &mut errs);
    check::not_negative(&spec.get("replicas"), &mut errs);
    if !pods.exists() {
        errs.push(FieldError::required(&pods.path, ""));
        return errs;
    }
    let labels = pods.nested("metadata.labels");
    if chosen.entries().any(|(key, value)| labels.peek(key) != value.value) {
        template::selector_mismatch(&pods, &mut errs);
    }
    template::validate_long_running(&pods, "ReplicationController", &mut errs);
    errs
}
