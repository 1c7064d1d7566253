//! DaemonSets. The template generation is kept in an annotation.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::{default_if_absent, default_if_zero, ensure_object, set_field};
use super::{defaults, deployment, selector, status, template, warnings};

pub const RULES: KindRules = KindRules {
    group: "apps",
    kind: "DaemonSet",
    generation: GenerationPolicy::Content,
    default,
    prepare_for_create: |set| {
        let number = template_generation(set).max(1);
        set_template_generation(set, number);
    },
    prepare_for_update: |new, old| {
        let changed = new["spec"]["template"] != old["spec"]["template"];
        set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
    },
    validate,
    validate_update: |new, old| selector::validate_immutable(validate(new), new, old),
    validate_status,
    warnings: |new, old| match old {
        Some(old) if new["spec"]["template"] == old["spec"]["template"] => Vec::new(),
        _ => warnings::for_controller(new, old, "spec.template", false),
    },
    ..DEFAULT_RULES
};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(set: &Value) -> i64 {
    PathValue::root(set)
        .nested("metadata.annotations")
        .get(TEMPLATE_GENERATION)
        .text()
        .parse()
        .unwrap_or_default()
}

fn set_template_generation(set: &mut Value, number: i64) {
    if let Some(metadata) = ensure_object(set, "metadata")
        && let Some(annotations) = ensure_object(metadata, "annotations")
    {
        set_field(annotations, TEMPLATE_GENERATION, number.to_string());
    }
}

fn default(set: &mut Value) {
    // Set first, so that it always exists; the client's field manager owns it.
    let number = template_generation(set);
    set_template_generation(set, number);
    let Some(spec) = ensure_object(set, "spec") else { return };
    default_if_absent(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = ensure_object(spec, "updateStrategy") {
        default_if_zero(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = ensure_object(strategy, "rollingUpdate")
        {
            default_if_absent(rolling, "maxUnavailable", 1);
            default_if_absent(rolling, "maxSurge", 0);
        }
    }
    default_if_absent(spec, "template", json!({}));
    defaults::template(spec, "template");
}

fn validate(set: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(set).get("spec");
    let (chosen, pods) = (spec.get("selector"), spec.get("template"));
    check::label_selector(&chosen, &mut errs);
    if !chosen.exists()
        || selector::is_parsable(&chosen)
            && !check::selector_matches(&chosen, &pods.nested("metadata.labels"))
    {
        template::selector_mismatch(&pods, &mut errs);
    }
    if chosen.exists() && check::selector_is_empty(&chosen) {
        let words = "empty selector is invalid for daemonset";
        errs.push(FieldError::invalid(&chosen.path, chosen.to_json(), words));
    }
    template::validate_long_running(&pods, "DaemonSet", &mut errs);
    check::not_negative(&spec.get("minReadySeconds"), &mut errs);
    check::not_negative(&spec.get("revisionHistoryLimit"), &mut errs);
    validate_update_strategy(&spec.get("updateStrategy"), &mut errs);
    errs
}

fn validate_update_strategy(strategy: &PathValue, errs: &mut FieldErrors) {
    match strategy.get("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.get("rollingUpdate");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            for at in [&unavailable, &surge] {
                check::number_or_percent(at, errs);
                check::at_most_hundred_percent(at, errs);
            }
            match (deployment::int_or_percent(&unavailable) != 0, deployment::int_or_percent(&surge) != 0) {
                (true, true) => {
                    let words = "may not be set when maxUnavailable is non-zero";
                    errs.push(FieldError::invalid(&surge.path, surge.to_json(), words));
                }
                (false, false) => {
                    errs.push(FieldError::required(&unavailable.path, "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => {
            errs.push(FieldError::unsupported(
                &strategy.path,
                strategy.to_go_names(),
                &["RollingUpdate", "OnDelete"],
            ));
        }
    }
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (PathValue::root(new), PathValue::root(old));
    let all = [
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ];
    status::validate_counters(&new.get("status"), &all, &[], &mut errs);
    status::validate_collision_count(&new, &old, &mut errs);
    errs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn template_generation_counts_template_changes() {
        let set = |image: &str| json!({"metadata": {}, "spec": {"template": {"spec": {"image": image}}}});
        let mut first = set("a");
        (RULES.prepare_for_create)(&mut first);
        let mut same = set("a");
        (RULES.prepare_for_update)(&mut same, &first);
        let mut other = set("b");
        (RULES.prepare_for_update)(&mut other, &same);
        assert_eq!([&first, &same, &other].map(template_generation), [1, 1, 2]);
    }
}
