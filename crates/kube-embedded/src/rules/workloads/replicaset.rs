//! ReplicaSets and ReplicationControllers.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, At};
use crate::rules::{Generation, PLAIN, Rules};

use super::fill::{ensure, is_empty, missing, put};
use super::{defaults, selector, status, template, warnings};

pub const REPLICA_SET: Rules = Rules {
    group: "apps",
    kind: "ReplicaSet",
    generation: Generation::Content,
    default: |set| {
        if let Some(spec) = ensure(set, "spec") {
            missing(spec, "replicas", 1);
            missing(spec, "template", json!({}));
            defaults::template(spec, "template");
        }
    },
    validate,
    validate_update: |new, old| selector::unchanged(validate(new), new, old),
    validate_status,
    warnings: |new, old| warnings::of_maker(new, old, "spec.template", true),
    ..PLAIN
};

pub const REPLICATION_CONTROLLER: Rules = Rules {
    kind: "ReplicationController",
    generation: Generation::Content,
    default: default_controller,
    validate: validate_controller,
    validate_update: |new, _| validate_controller(new),
    validate_status,
    warnings: |new, old| warnings::of_maker(new, old, "spec.template", true),
    ..PLAIN
};

fn validate(set: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = At::root(set).get("spec");
    let chosen = spec.get("selector");
    check::not_negative(&spec.get("replicas"), &mut errs);
    check::not_negative(&spec.get("minReadySeconds"), &mut errs);
    // Kubernetes' message has "deployment" here as well.
    if selector::validate(&chosen, "deployment", "invalid label selector", &mut errs) {
        selector::fits(&chosen, &spec.get("template"), &mut errs);
        template::validate_lasting(&spec.get("template"), "ReplicaSet", &mut errs);
    }
    errs
}

fn validate_status(new: &Value, _: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let now = At::root(new).get("status");
    let below = ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"];
    let all = ["replicas", "observedGeneration", "terminatingReplicas"];
    status::counters(&now, &all, &[], &mut errs);
    status::counters(&now, &below, &below, &mut errs);
    status::available_are_ready(&now, "cannot be greater than readyReplicas", &mut errs);
    errs
}

fn default_controller(controller: &mut Value) {
    if let Some(spec) = ensure(controller, "spec") {
        missing(spec, "replicas", 1);
        let labels = spec.get("template").and_then(|t| t.get("metadata")?.get("labels")).cloned();
        if let Some(labels) = labels
            && is_empty(spec, "selector")
        {
            put(spec, "selector", labels);
        }
        defaults::template(spec, "template");
    }
    defaults::labels_from_template(controller, "spec.template");
}

fn validate_controller(controller: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = At::root(controller).get("spec");
    let (chosen, pods) = (spec.get("selector"), spec.get("template"));
    check::not_negative(&spec.get("minReadySeconds"), &mut errs);
    check::required(&chosen, &mut errs);
    check::not_negative(&spec.get("replicas"), &mut errs);
    if !pods.exists() {
        errs.push(FieldError::required(&pods.path, ""));
        return errs;
    }
    let labels = pods.down("metadata.labels");
    if chosen.entries().any(|(key, value)| labels.peek(key) != value.value) {
        template::selector_misses(&pods, &mut errs);
    }
    template::validate_lasting(&pods, "ReplicationController", &mut errs);
    errs
}
