//! Deployments.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::{default_if_absent, default_if_zero, ensure_object};
use super::{defaults, selector, status, template, warnings};

pub const RULES: KindRules = KindRules {
    group: "apps",
    kind: "Deployment",
    generation: GenerationPolicy::ContentAndAnnotations,
    default,
    validate,
    validate_update: |new, old| selector::validate_immutable(validate(new), new, old),
    validate_status,
    warnings: |new, old| warnings::for_controller(new, old, "spec.template", true),
    ..DEFAULT_RULES
};

fn default(deployment: &mut Value) {
    let Some(spec) = ensure_object(deployment, "spec") else { return };
    default_if_absent(spec, "replicas", 1);
    default_if_absent(spec, "revisionHistoryLimit", 10);
    default_if_absent(spec, "progressDeadlineSeconds", 600);
    if let Some(strategy) = ensure_object(spec, "strategy") {
        default_if_zero(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = ensure_object(strategy, "rollingUpdate")
        {
            default_if_absent(rolling, "maxUnavailable", "25%");
            default_if_absent(rolling, "maxSurge", "25%");
        }
    }
    default_if_absent(spec, "template", json!({}));
    defaults::template(spec, "template");
}

fn validate(deployment: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(deployment).get("spec");
    let chosen = spec.get("selector");
    check::not_negative(&spec.get("replicas"), &mut errs);
    if selector::validate(&chosen, "deployment", "invalid label selector", &mut errs) {
        selector::validate_matches_template(&chosen, &spec.get("template"), &mut errs);
        template::validate_long_running(&spec.get("template"), "ReplicaSet", &mut errs);
    }
    validate_strategy(&spec.get("strategy"), &mut errs);
    let ready = spec.get("minReadySeconds");
    check::not_negative(&ready, &mut errs);
    check::not_negative(&spec.get("revisionHistoryLimit"), &mut errs);
    let deadline = spec.get("progressDeadlineSeconds");
    if deadline.exists() {
        check::not_negative(&deadline, &mut errs);
        if deadline.int() <= ready.int() {
            let words = "must be greater than minReadySeconds";
            errs.push(FieldError::invalid(&deadline.path, deadline.int(), words));
        }
    }
    errs
}

fn validate_strategy(strategy: &PathValue, errs: &mut FieldErrors) {
    let rolling = strategy.get("rollingUpdate");
    match strategy.get("type").text() {
        "Recreate" => {
            if rolling.exists() {
                let words = "may not be specified when strategy `type` is 'Recreate'";
                errs.push(FieldError::forbidden(&rolling.path, words));
            }
        }
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            check::number_or_percent(&unavailable, errs);
            check::number_or_percent(&surge, errs);
            if int_or_percent(&unavailable) == 0 && int_or_percent(&surge) == 0 {
                let words = "may not be 0 when `maxSurge` is 0";
                errs.push(FieldError::invalid(&unavailable.path, unavailable.to_json(), words));
            }
            check::at_most_hundred_percent(&unavailable, errs);
        }
        _ => {
            errs.push(FieldError::unsupported(
                &strategy.path,
                strategy.to_go_names(),
                &["Recreate", "RollingUpdate"],
            ));
        }
    }
}

/// The number, or the number of a percentage; for other strings the number that they spell.
pub fn int_or_percent(at: &PathValue) -> i64 {
    at.number().or_else(|| check::percent_of(at)).or_else(|| at.text().parse().ok()).unwrap_or_default()
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    let now = new.get("status");
    let all = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    status::validate_counters(
        &now,
        &all,
        &["updatedReplicas", "readyReplicas", "availableReplicas"],
        &mut errs,
    );
    status::validate_available(&now, "cannot be greater than readyReplicas", &mut errs);
    status::validate_collision_count(&new, &old, &mut errs);
    errs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mistake_is_told() {
        let mut deployment = json!({"metadata": {"name": "d"}, "spec": {
            "replicas": -1, "selector": {"matchLabels": {"a": "b"}}, "minReadySeconds": 600,
            "strategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}},
            "template": {"metadata": {"labels": {"a": "x"}}, "spec": {"restartPolicy": "Never",
                "containers": [{"name": "C", "image": ""}]}}}});
        default(&mut deployment);
        let told: Vec<_> = validate(&deployment).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
            spec.replicas: Invalid value: -1: must be greater than or equal to 0
            spec.template.metadata.labels: Invalid value: {"a":"x"}: `selector` does not match template `labels`
            spec.template.spec.containers[0].name: Invalid value: "C": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            spec.template.spec.containers[0].image: Required value
            spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always"
            spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0
            spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds
            "#);
    }

    #[test]
    fn deployment_selector_is_immutable() {
        let with = |label: &str| {
            let mut deployment = json!({"spec": {"selector": {"matchLabels": {"a": label}},
                "template": {"metadata": {"labels": {"a": label}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
            default(&mut deployment);
            deployment
        };
        assert!((RULES.validate_update)(&with("x"), &with("x")).is_empty());
        let told = (RULES.validate_update)(&with("y"), &with("x"));
        assert_eq!(
            told[0].to_string(),
            r#"spec.selector: Invalid value: {"matchLabels":{"a":"y"}}: field is immutable"#
        );
    }
}
