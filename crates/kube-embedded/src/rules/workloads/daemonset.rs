//! DaemonSets. The template generation is kept in an annotation.

use serde_json::{Value, json};

use crate::field::{FieldError, FieldErrors};
use crate::rules::check::{self, At};
use crate::rules::{Generation, PLAIN, Rules};

use super::fill::{ensure, missing, put, zero};
use super::{defaults, deployment, selector, status, template, warnings};

pub const RULES: Rules = Rules {
    group: "apps",
    kind: "DaemonSet",
    generation: Generation::Content,
    default,
    create: |set| {
        let number = template_generation(set).max(1);
        set_template_generation(set, number);
    },
    update: |new, old| {
        let changed = new["spec"]["template"] != old["spec"]["template"];
        set_template_generation(new, template_generation(old).saturating_add(i64::from(changed)));
    },
    validate,
    validate_update: |new, old| selector::unchanged(validate(new), new, old),
    validate_status,
    warnings: |new, old| match old {
        Some(old) if new["spec"]["template"] == old["spec"]["template"] => Vec::new(),
        _ => warnings::of_maker(new, old, "spec.template", false),
    },
    ..PLAIN
};

const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

fn template_generation(set: &Value) -> i64 {
    At::root(set).down("metadata.annotations").get(TEMPLATE_GENERATION).text().parse().unwrap_or_default()
}

fn set_template_generation(set: &mut Value, number: i64) {
    if let Some(metadata) = ensure(set, "metadata")
        && let Some(annotations) = ensure(metadata, "annotations")
    {
        put(annotations, TEMPLATE_GENERATION, number.to_string());
    }
}

fn default(set: &mut Value) {
    // Set first, so that it always exists; the client's field manager owns it.
    let number = template_generation(set);
    set_template_generation(set, number);
    let Some(spec) = ensure(set, "spec") else { return };
    missing(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = ensure(spec, "updateStrategy") {
        zero(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate"
            && let Some(rolling) = ensure(strategy, "rollingUpdate")
        {
            missing(rolling, "maxUnavailable", 1);
            missing(rolling, "maxSurge", 0);
        }
    }
    missing(spec, "template", json!({}));
    defaults::template(spec, "template");
}

fn validate(set: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = At::root(set).get("spec");
    let (chosen, pods) = (spec.get("selector"), spec.get("template"));
    check::label_selector(&chosen, &mut errs);
    if !chosen.exists()
        || selector::usable(&chosen) && !check::selector_picks(&chosen, &pods.down("metadata.labels"))
    {
        template::selector_misses(&pods, &mut errs);
    }
    if chosen.exists() && check::selector_is_empty(&chosen) {
        let words = "empty selector is invalid for daemonset";
        errs.push(FieldError::invalid(&chosen.path, chosen.json(), words));
    }
    template::validate_lasting(&pods, "DaemonSet", &mut errs);
    check::not_negative(&spec.get("minReadySeconds"), &mut errs);
    check::not_negative(&spec.get("revisionHistoryLimit"), &mut errs);
    update_strategy(&spec.get("updateStrategy"), &mut errs);
    errs
}

fn update_strategy(strategy: &At, errs: &mut FieldErrors) {
    match strategy.get("type").text() {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = strategy.get("rollingUpdate");
            let (unavailable, surge) = (rolling.get("maxUnavailable"), rolling.get("maxSurge"));
            for at in [&unavailable, &surge] {
                check::number_or_percent(at, errs);
                check::at_most_hundred_percent(at, errs);
            }
            match (deployment::amount(&unavailable) != 0, deployment::amount(&surge) != 0) {
                (true, true) => {
                    let words = "may not be set when maxUnavailable is non-zero";
                    errs.push(FieldError::invalid(&surge.path, surge.json(), words));
                }
                (false, false) => {
                    errs.push(FieldError::required(&unavailable.path, "cannot be 0 when maxSurge is 0"));
                }
                _ => {}
            }
        }
        _ => {
            errs.push(FieldError::unsupported(&strategy.path, strategy.go(), &["RollingUpdate", "OnDelete"]));
        }
    }
}

fn validate_status(new: &Value, old: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let (new, old) = (At::root(new), At::root(old));
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
    status::counters(&new.get("status"), &all, &[], &mut errs);
    status::collisions_only_grow(&new, &old, &mut errs);
    errs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_generation_counts_changes_of_the_template() {
        let set = |image: &str| json!({"metadata": {}, "spec": {"template": {"spec": {"image": image}}}});
        let mut first = set("a");
        (RULES.create)(&mut first);
        let mut same = set("a");
        (RULES.update)(&mut same, &first);
        let mut other = set("b");
        (RULES.update)(&mut other, &same);
        assert_eq!([&first, &same, &other].map(template_generation), [1, 1, 2]);
    }
}
