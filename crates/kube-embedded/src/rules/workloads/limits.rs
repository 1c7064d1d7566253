//! Limit ranges and resource quotas.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::field::{FieldError, FieldErrors};
use crate::quantity::Quantity;
use crate::rules::check::{self, PathValue};
use crate::rules::{DEFAULT_RULES, KindRules};

use super::defaulting::{default_if_absent, items_mut, nested_mut};
use super::{defaults, resources};

pub const LIMIT_RANGE: KindRules = KindRules {
    kind: "LimitRange",
    default: default_range,
    validate: validate_range,
    validate_update: |new, _| validate_range(new),
    ..DEFAULT_RULES
};

pub const QUOTA: KindRules = KindRules {
    kind: "ResourceQuota",
    default: |quota| {
        for list in ["spec.hard", "status.hard", "status.used"] {
            defaults::resource_list(nested_mut(quota, list));
        }
    },
    validate: validate_quota,
    validate_update: |new, old| {
        let mut errs = validate_quota(new);
        let (new, old) =
            (PathValue::root(new).nested("spec.scopes"), PathValue::root(old).nested("spec.scopes"));
        let set = |scopes: &PathValue| {
            let mut scopes: Vec<_> = scopes.items().map(|scope| scope.text().to_owned()).collect();
            scopes.sort();
            scopes.dedup();
            scopes
        };
        if set(&new) != set(&old) {
            errs.push(FieldError::invalid(&new.path, new.to_json(), check::IMMUTABLE));
        }
        errs
    },
    validate_status: |new, _| {
        let mut errs = FieldErrors::new();
        for list in ["status.hard", "status.used"] {
            validate_amounts(&PathValue::root(new).nested(list), &mut errs);
        }
        errs
    },
    warnings: |new, old| if old.is_some() { Vec::new() } else { quota_warnings(new) },
    ..DEFAULT_RULES
};

const LIMIT_FIELDS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

fn default_range(range: &mut Value) {
    let Some(spec) = nested_mut(range, "spec") else { return };
    for item in items_mut(spec, "limits") {
        for list in LIMIT_FIELDS {
            defaults::resource_list(item.get_mut(list));
        }
        if item["type"] != "Container" {
            continue;
        }
        for (to, from) in [("default", "max"), ("defaultRequest", "default"), ("defaultRequest", "min")] {
            let amounts = item.get(from).and_then(Value::as_object).cloned().unwrap_or_default();
            if amounts.is_empty() {
                continue;
            }
            default_if_absent(item, to, Map::new());
            if let Some(target) = nested_mut(item, to) {
                amounts.into_iter().for_each(|(name, amount)| default_if_absent(target, &name, amount));
            }
        }
    }
}

fn validate_range(range: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let mut seen = HashSet::new();
    for item in PathValue::root(range).nested("spec.limits").items() {
        let kind = item.get("type");
        let before = errs.len();
        check::text(&kind, check::qualified_name, &mut errs);
        let standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&kind.text());
        if errs.len() == before && !kind.text().contains('/') && !standard {
            let words = "must be a standard limit type or fully qualified";
            errs.push(FieldError::invalid(&kind.path, kind.text(), words));
        }
        if seen.contains(&kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        }
        seen.insert(kind.text());
        validate_item(&item, &mut errs);
    }
    errs
}

fn validate_item(item: &PathValue, errs: &mut FieldErrors) {
    let kind = item.get("type").text();
    let (mut names, mut known) = (Vec::new(), HashSet::new());
    for list in LIMIT_FIELDS {
        let amounts = item.get(list);
        if kind == "Pod" && matches!(list, "default" | "defaultRequest") {
            if !amounts.is_empty() {
                errs.push(FieldError::forbidden(&amounts.path, "may not be specified when `type` is 'Pod'"));
            }
            continue;
        }
        for (name, at) in amounts.entries() {
            if matches!(kind, "Pod" | "Container") {
                resources::validate_container_resource_name(name, &at.path, errs);
            } else {
                resources::validate_name(name, &at.path, errs);
            }
            if known.insert(name) {
                names.push(name);
            }
        }
    }
    let storage = |list: &str| item.get(list).has("storage");
    if kind == "PersistentVolumeClaim" && !storage("min") && !storage("max") {
        let words = "either minimum or maximum storage value is required, but neither was provided";
        errs.push(FieldError::required(&item.get("limits").path, words));
    }
    for name in names {
        validate_order(item, name, errs);
    }
}

/// A quantity and its path.
type QuantityValue<'a> = Option<(Quantity, PathValue<'a>)>;

/// Checks min <= default request <= default <= max.
fn validate_order(item: &PathValue, name: &str, errs: &mut FieldErrors) {
    let of = |list: &str| {
        let at = item.get(list).key(name);
        let pod = item.get("type").text() == "Pod" && list.starts_with("default");
        at.value.and_then(Quantity::from_value).filter(|_| !pod).map(|amount| (amount, at))
    };
    let (min, max) = (of("min"), of("max"));
    let (usual, request, ratio) = (of("default"), of("defaultRequest"), of("maxLimitRequestRatio"));
    // Which value exceeds which; where it is reported, with which value and message.
    let mut order = |less: &QuantityValue,
                     more: &QuantityValue,
                     told_at: &str,
                     value: &QuantityValue,
                     words: [&str; 2]| {
        if let (Some((low, a)), Some((high, b)), Some((_, value))) = (less, more, value)
            && low > high
        {
            let path = item.get(told_at).key(name).path;
            let words =
                format!("{} value {} is greater than {} value {}", words[0], a.text(), words[1], b.text());
            errs.push(FieldError::invalid(&path, value.to_json(), words));
        }
    };
    order(&min, &max, "min", &min, ["min", "max"]);
    order(&min, &request, "defaultRequest", &request, ["min", "default request"]);
    order(&request, &max, "defaultRequest", &request, ["default request", "max"]);
    order(&request, &usual, "defaultRequest", &request, ["default request", "default limit"]);
    order(&min, &usual, "default", &min, ["min", "default"]);
    order(&usual, &max, "default", &max, ["default", "max"]);
    if let Some((amount, at)) = &ratio {
        if amount.as_f64() < 1.0 {
            let words = format!("ratio {} is less than 1", at.text());
            errs.push(FieldError::invalid(&at.path, at.to_json(), words));
        }
        if let (Some((min, _)), Some((max, _))) = (&min, &max) {
            let most = max.as_f64() / min.as_f64();
            if amount.as_f64() > most {
                let words = format!("ratio {} is greater than max/min = {most:.6}", at.text());
                errs.push(FieldError::invalid(&at.path, at.to_json(), words));
            }
        }
    }
    if let (Some((usual, a)), Some((request, b))) = (&usual, &request)
        && !resources::may_overcommit(name)
        && usual != request
    {
        let words =
            format!("default value {} must equal to defaultRequest value {} in {name}", a.text(), b.text());
        errs.push(FieldError::invalid(&b.path, b.to_json(), words));
    }
}

fn validate_amounts(list: &PathValue, errs: &mut FieldErrors) {
    for (name, at) in list.entries() {
        resources::validate_quota_resource_name(name, &at.path, errs);
        resources::validate_quantity(name, &at, errs);
    }
}

fn validate_quota(quota: &Value) -> FieldErrors {
    let mut errs = FieldErrors::new();
    let spec = PathValue::root(quota).get("spec");
    validate_amounts(&spec.get("hard"), &mut errs);
    let mut unfit = UnsupportedScopes { spec: &spec, counts: HashMap::new() };
    let scopes = spec.get("scopes");
    let list: Vec<_> = scopes.items().map(|scope| scope.text()).collect();
    for scope in &list {
        // Each message repeats all scopes.
        if errs.len() >= MAX_LIST_MESSAGES {
            break;
        }
        if !is_scope(scope) {
            errs.push(FieldError::invalid(&scopes.path, scopes.to_json(), "unsupported scope"));
        }
        for _ in 0..unfit.count(scope).min(MAX_LIST_MESSAGES) {
            let words = "unsupported scope applied to resource";
            errs.push(FieldError::invalid(&scopes.path, scopes.to_json(), words));
        }
    }
    validate_scope_conflicts(&list, &scopes, &scopes, &mut errs);
    let selector = spec.get("scopeSelector");
    let expressions = selector.get("matchExpressions");
    let list: Vec<_> = expressions.items().map(|expression| expression.get("scopeName").text()).collect();
    for expression in expressions.items() {
        validate_scope_expression(
            &expression.with_path(expressions.path.clone()),
            &selector,
            &mut unfit,
            &mut errs,
        );
    }
    validate_scope_conflicts(&list, &expressions, &scopes, &mut errs);
    errs
}

/// Maximum number of messages that repeat a whole list.
const MAX_LIST_MESSAGES: usize = 100;

fn validate_scope_expression<'a>(
    expression: &PathValue<'a>,
    selector: &PathValue,
    unfit: &mut UnsupportedScopes<'_, 'a>,
    errs: &mut FieldErrors,
) {
    let (scope, operator, values) =
        (expression.get("scopeName"), expression.get("operator"), expression.get("values"));
    if !is_scope(scope.text()) {
        errs.push(FieldError::invalid(&scope.path, scope.text(), "unsupported scope"));
    }
    // Each message repeats the whole selector.
    let most = MAX_LIST_MESSAGES.saturating_sub(errs.len());
    for _ in 0..unfit.count(scope.text()).min(most) {
        let words = "unsupported scope applied to resource";
        errs.push(FieldError::invalid(&expression.path, selector.to_go_names(), words));
    }
    let yes_or_no =
        ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
    if yes_or_no.contains(&scope.text()) && operator.text() != "Exists" {
        let words = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
        errs.push(FieldError::invalid(&operator.path, operator.text(), words));
    }
    match operator.text() {
        "In" | "NotIn" => {
            if values.is_empty() {
                let words =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errs.push(FieldError::required(&values.path, words));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let words =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errs.push(FieldError::invalid(&values.path, values.to_json(), words));
            }
        }
        other => errs.push(FieldError::invalid(&operator.path, other, "not a valid selector operator")),
    }
}

fn validate_scope_conflicts(scopes: &[&str], at: &PathValue, shown: &PathValue, errs: &mut FieldErrors) {
    for pair in [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errs.push(FieldError::invalid(&at.path, shown.to_json(), "conflicting scopes"));
        }
    }
}

fn is_scope(scope: &str) -> bool {
    let known = [
        "Terminating",
        "NotTerminating",
        "BestEffort",
        "NotBestEffort",
        "PriorityClass",
        "VolumeAttributesClass",
        "CrossNamespacePodAffinity",
    ];
    known.contains(&scope)
}

/// The number of resources of a quota that each scope cannot restrict, counted once per scope.
struct UnsupportedScopes<'s, 'a> {
    spec: &'s PathValue<'a>,
    counts: HashMap<&'a str, usize>,
}

impl<'a> UnsupportedScopes<'_, 'a> {
    fn count(&mut self, scope: &'a str) -> usize {
        let fits: &[&str] = match scope {
            "Terminating"
            | "NotTerminating"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity" => {
                &["pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"]
            }
            "BestEffort" => &["pods"],
            "VolumeAttributesClass" => &["persistentvolumeclaims", "requests.storage"],
            _ => return 0,
        };
        *self.counts.entry(scope).or_insert_with(|| {
            let names = self.spec.get("hard").entries().map(|(name, _)| name);
            names.filter(|name| resources::is_standard_quota(name) && !fits.contains(name)).count()
        })
    }
}

fn quota_warnings(quota: &Value) -> Vec<String> {
    let hard = PathValue::root(quota).nested("spec.hard");
    let mut warnings = Vec::new();
    for name in ["cpu", "memory", "ephemeral-storage"] {
        let mut requested = hard.get(&format!("requests.{name}"));
        if !requested.exists() && name != "ephemeral-storage" {
            requested = hard.get(name);
        }
        let limit = hard.get(&format!("limits.{name}"));
        if let (Some(request), Some(most)) =
            (requested.value.and_then(Quantity::from_value), limit.value.and_then(Quantity::from_value))
            && request > most
        {
            let what = requested.path.as_str().trim_start_matches("spec.hard.");
            warnings.push(format!(
                "ResourceQuota {what} ({}) should be less than limits.{name} ({})",
                requested.text(),
                limit.text()
            ));
        }
    }
    warnings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limit_defaults_follow_max() {
        let mut range = json!({"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}]}});
        default_range(&mut range);
        let item = &range["spec"]["limits"][0];
        assert_eq!(item["default"], json!({"cpu": "2"}));
        assert_eq!(item["defaultRequest"], json!({"cpu": "2", "memory": "1Mi"}));
        assert_eq!(validate_range(&range), []);
        range["spec"]["limits"][0]["max"]["memory"] = "1".into();
        assert_eq!(
            validate_range(&range)[0].to_string(),
            r#"spec.limits[0].min[memory]: Invalid value: "1Mi": min value 1Mi is greater than max value 1"#
        );
    }

    #[test]
    fn a_scope_narrows_only_some_resources() {
        let quota = json!({"spec": {"hard": {"pods": "1", "services": "1.5", "cpus": "1"}, "scopes": ["BestEffort", "X"]}});
        let told: Vec<_> = validate_quota(&quota).iter().map(ToString::to_string).collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
            spec.hard[cpus]: Invalid value: "cpus": must be a standard resource type or fully qualified
            spec.hard[cpus]: Invalid value: "cpus": must be a standard resource for quota
            spec.hard[services]: Invalid value: "1.5": must be an integer
            spec.scopes: Invalid value: ["BestEffort","X"]: unsupported scope applied to resource
            spec.scopes: Invalid value: ["BestEffort","X"]: unsupported scope
            "#);
    }
}
