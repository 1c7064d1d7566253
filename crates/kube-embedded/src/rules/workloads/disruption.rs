//! Pod disruption budgets and priority classes.

use serde_json::Value;

use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, GenerationPolicy, KindRules};

use super::defaulting::default_if_absent;

pub const BUDGET: KindRules = KindRules {
    group: "policy",
    kind: "PodDisruptionBudget",
    allows_any_finalizer: true,
    generation: GenerationPolicy::Content,
    validate: validate_budget,
    validate_update: |new, _| validate_budget(new),
    validate_status: |new, _| {
        let mut errs = FieldErrors::new();
        let status = PathValue::root(new).get("status");
        check::conditions(&status.get("conditions"), &mut errs);
        for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            check::not_negative(&status.get(name), &mut errs);
        }
        errs
    },
    ..DEFAULT_RULES
};

pub const PRIORITY_CLASS: KindRules = KindRules {
    group: "scheduling.k8s.io",
    kind: "PriorityClass",
    generation: GenerationPolicy::Fixed,
    default: |class| default_if_absent(class, "preemptionPolicy", "PreemptLowerPriority"),
    validate: validate_class,
    validate_update: |new, old| {
        let (new, old) = (PathValue::root(new), PathValue::root(old));
        let mut errs = FieldErrors::new();
        if new.get("value").int() != old.get("value").int() {
            errs.push(FieldError::forbidden(&Path::new("value"), "may not be changed in an update."));
        }
        check::immutable(&new.get("preemptionPolicy"), &old.get("preemptionPolicy"), &mut errs);
        errs
    },
    ..DEFAULT_RULES
};

/// The system priority classes.
pub const SYSTEM_CLASSES: &[(&str, i64)] =
    &[("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];
const MAX_USER_PRIORITY: i64 = 1_000_000_000;

fn validate_budget(object: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(object).get("spec");
    let (available, unavailable) = (spec.get("minAvailable"), spec.get("maxUnavailable"));
    if available.exists() && unavailable.exists() {
        let words = "minAvailable and maxUnavailable cannot be both set";
        errs.push(FieldError::invalid(&spec.path, spec.to_go_names(), words));
    }
    for at in [available, unavailable].iter().filter(|at| at.exists()) {
        check::number_or_percent(at, &mut errs);
        check::at_most_hundred_percent(at, &mut errs);
    }
    check::label_selector(&spec.get("selector"), &mut errs);
    if spec.has("unhealthyPodEvictionPolicy") {
        let policy = spec.get("unhealthyPodEvictionPolicy");
        check::one_of(&policy, &["AlwaysAllow", "IfHealthyBudget"], &mut errs);
    }
    errs
}

fn validate_class(object: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let class = PathValue::root(object);
    let (name, value) = (class.nested("metadata.name"), class.get("value"));
    if name.text().starts_with("system-") {
        let known = SYSTEM_CLASSES.iter().find(|(known, _)| *known == name.text());
        let why = match known {
            None => Some(format!("{} is not a known system priority class", name.text())),
            Some((name, known)) if value.int() != *known => {
                Some(format!("value of {name} PriorityClass must be {known}"))
            }
            Some((name, _)) if class.get("globalDefault").bool_or_false() => {
                Some(format!("globalDefault of {name} PriorityClass must be false"))
            }
            Some(_) => None,
        };
        if let Some(why) = why {
            let words = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            errs.push(FieldError::forbidden(&name.path, words));
        }
    } else if value.int() > MAX_USER_PRIORITY {
        let words = format!("maximum allowed value of a user defined priority is {MAX_USER_PRIORITY}");
        errs.push(FieldError::forbidden(&value.path, words));
    }
    let policy = class.get("preemptionPolicy");
    if policy.exists() {
        check::required_one_of(&policy, &["PreemptLowerPriority", "Never"], &mut errs);
    }
    errs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn system_priority_class_names_are_reserved() {
        let class = |name: &str, value: i64| {
            let told = validate_class(&json!({"metadata": {"name": name}, "value": value}));
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(class("system-node-critical", 2_000_001_000).is_empty() && class("mine", 5).is_empty());
        assert_eq!(
            class("system-mine", 5),
            [
                "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class"
            ]
        );
        assert_eq!(
            class("mine", MAX_USER_PRIORITY + 1),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]
        );
    }
}
