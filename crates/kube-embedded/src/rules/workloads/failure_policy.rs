//! Pod failure policy and success policy of a Job.

use std::collections::HashSet;

use serde_json::json;

use crate::field::{FieldError, FieldErrorType, FieldErrors, Path};
use crate::rules::check::{self, PathValue};

/// Maximum number of rules, and of conditions per rule. Longer lists are not validated further.
const MAX_RULES: usize = 20;
const ACTIONS: &[&str] = &["Count", "FailIndex", "FailJob", "Ignore"];

/// `spec.podFailurePolicy`
pub fn validate_failure_policy(spec: &PathValue, errs: &mut FieldErrors) {
    let rules = spec.nested("podFailurePolicy.rules");
    if rules.len() > MAX_RULES {
        errs.push(FieldError::too_many(&rules.path, rules.len(), MAX_RULES));
        return;
    }
    let pod = spec.nested("template.spec");
    let (regular, init) = (pod.get("containers"), pod.get("initContainers"));
    let containers: HashSet<_> = regular.items().chain(init.items()).map(|c| c.get("name").text()).collect();
    for rule in rules.items() {
        let action = rule.get("action");
        required_one_of(&action, ACTIONS, errs);
        if action.text() == "FailIndex" && !spec.has("backoffLimitPerIndex") {
            let words = "requires the backoffLimitPerIndex to be set";
            errs.push(FieldError::invalid(&action.path, action.text(), words));
        }
        let (codes, conditions) = (rule.get("onExitCodes"), rule.get("onPodConditions"));
        if codes.exists() {
            validate_exit_codes(&codes, &containers, errs);
        }
        if conditions.len() > MAX_RULES {
            errs.push(FieldError::too_many(&conditions.path, conditions.len(), MAX_RULES));
            continue;
        }
        for pattern in conditions.items() {
            check::text(&pattern.get("type"), check::qualified_name, errs);
            required_one_of(&pattern.get("status"), &["False", "True", "Unknown"], errs);
        }
        match (codes.exists(), !conditions.is_empty()) {
            (true, true) => errs.push(invalid_without_value(
                &rule.path,
                "specifying both OnExitCodes and OnPodConditions is not supported",
            )),
            (false, false) => errs.push(invalid_without_value(
                &rule.path,
                "specifying one of OnExitCodes and OnPodConditions is required",
            )),
            _ => {}
        }
    }
}

/// `path: Invalid value: detail`, without the value.
pub fn invalid_without_value(path: &Path, detail: &str) -> FieldError {
    FieldError {
        path: path.clone(),
        error_type: FieldErrorType::Invalid,
        value: None,
        detail: detail.to_owned(),
    }
}

fn required_one_of(at: &PathValue, supported: &[&str], errs: &mut FieldErrors) {
    if at.is_empty() {
        let quoted: Vec<_> = supported.iter().map(|word| format!("{word:?}")).collect();
        errs.push(FieldError::required(&at.path, format!("valid values: [{}]", quoted.join(" "))));
    } else {
        check::one_of(at, supported, errs);
    }
}

fn validate_exit_codes(codes: &PathValue, containers: &HashSet<&str>, errs: &mut FieldErrors) {
    let (operator, values, container) =
        (codes.get("operator"), codes.get("values"), codes.get("containerName"));
    required_one_of(&operator, &["In", "NotIn"], errs);
    if container.exists() && !containers.contains(container.text()) {
        let words = "must be one of the container or initContainer names in the pod template";
        errs.push(FieldError::invalid(&container.path, container.text(), words));
    }
    if values.is_empty() {
        errs.push(FieldError::invalid(&values.path, json!([]), "at least one value is required"));
    } else if values.len() > 255 {
        errs.push(FieldError::too_many(&values.path, values.len(), 255));
        return;
    }
    let mut seen = HashSet::new();
    for value in values.items() {
        if operator.text() == "In" && value.int() == 0 {
            errs.push(FieldError::invalid(&value.path, 0, "must not be 0 for the In operator"));
        }
        if seen.contains(&value.int()) {
            errs.push(FieldError::duplicate(&value.path, value.int()));
        }
        seen.insert(value.int());
    }
    if !values.items().map(|value| value.int()).is_sorted() {
        errs.push(FieldError::invalid(&values.path, values.to_json(), "must be ordered"));
    }
}

/// `spec.successPolicy` of an indexed Job.
pub fn validate_success_policy(spec: &PathValue, errs: &mut FieldErrors) {
    let rules = spec.nested("successPolicy.rules");
    if rules.is_empty() {
        let words = "at least one rules must be specified when the successPolicy is specified";
        errs.push(FieldError::required(&rules.path, words));
    }
    if rules.len() > MAX_RULES {
        errs.push(FieldError::too_many(&rules.path, rules.len(), MAX_RULES));
        return;
    }
    let completions = spec.get("completions").int();
    for rule in rules.items() {
        let (indexes, count) = (rule.get("succeededIndexes"), rule.get("succeededCount"));
        if !indexes.exists() && !count.exists() {
            let words = "at least one of succeededCount or succeededIndexes must be specified";
            errs.push(FieldError::required(&rule.path, words));
        }
        if indexes.len() > 64 * 1024 {
            errs.push(FieldError::too_long(&indexes.path, 64 * 1024));
            continue;
        }
        let total = count_indexes(indexes.text(), completions);
        if let Err(why) = &total {
            let words = format!("error parsing succeededIndexes: {why}");
            errs.push(FieldError::invalid(&indexes.path, indexes.text(), words));
        }
        let total = total.unwrap_or_default();
        if let Some(wanted) = count.number() {
            check::not_negative(&count, errs);
            if wanted > completions {
                let words = format!(
                    "must be less than or equal to {completions} (the number of specified completions)"
                );
                errs.push(FieldError::invalid(&count.path, wanted, words));
            }
            if indexes.exists() && wanted > total {
                let words = format!(
                    "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
                );
                errs.push(FieldError::invalid(&count.path, wanted, words));
            }
        }
    }
}

/// The number of indexes in a list such as `1,3-5`.
pub fn count_indexes(list: &str, completions: i64) -> Result<i64, String> {
    if list.is_empty() {
        return Ok(0);
    }
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: {text:?}")),
        Ok(index) if index >= completions => Err(format!("too large index: {text:?}")),
        Ok(index) => Ok(index),
    };
    let (mut total, mut previous) = (0, None);
    for interval in list.split(',') {
        let parts: Vec<_> = interval.split('-').collect();
        let (from, to) = match parts[..] {
            [one] => (index(one)?, index(one)?),
            [from, to] => {
                let (from, to) = (index(from)?, index(to)?);
                if from >= to {
                    return Err(format!("non-increasing order, previous: {from}, current: {to}"));
                }
                (from, to)
            }
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        if let Some(last) = previous.filter(|last| *last >= from) {
            return Err(format!("non-increasing order, previous: {last}, current: {from}"));
        }
        total = to.saturating_sub(from).saturating_add(1).saturating_add(total);
        previous = Some(to);
    }
    Ok(total)
}

/// The first common index of two lists; invalid parts are ignored.
pub fn first_common_index(one: &str, other: &str) -> Option<i64> {
    let intervals = |list: &str| -> Vec<(i64, i64)> {
        let interval = |text: &str| {
            let (from, to) = text.split_once('-').unwrap_or((text, text));
            Some((from.parse().ok()?, to.parse().ok()?))
        };
        list.split(',').filter_map(interval).collect()
    };
    // Both sorted: of two intervals without overlap, the one that ends first overlaps nothing that follows.
    let (mut one, mut other) = (intervals(one), intervals(other));
    one.sort_unstable();
    other.sort_unstable();
    let (mut i, mut j) = (0, 0);
    while let (Some(&(from, to)), Some(&(start, end))) = (one.get(i), other.get(j)) {
        if from <= end && start <= to {
            return Some(from.max(start));
        }
        if to < end {
            i += 1;
        } else {
            j += 1;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlong_rule_lists_are_not_evaluated() {
        let rules = vec![json!({}); 15_000];
        let spec = json!({"podFailurePolicy": {"rules": rules}, "successPolicy": {"rules": rules}});
        let mut errs = FieldErrors::new();
        validate_failure_policy(&PathValue::root(&spec), &mut errs);
        validate_success_policy(&PathValue::root(&spec), &mut errs);
        assert_eq!(
            crate::field::error_messages(&errs),
            [
                "podFailurePolicy.rules: Too many: 15000: must have at most 20 items",
                "successPolicy.rules: Too many: 15000: must have at most 20 items",
            ]
        );
    }

    #[test]
    fn failure_policy_rules_name_template_containers() {
        let rule = |name: &str| json!({"action": "FailJob", "onExitCodes": {"containerName": name, "operator": "In", "values": [1]}});
        let spec = json!({
            "podFailurePolicy": {"rules": [rule("a"), rule("b"), rule("c")]},
            "template": {"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "b"}]}},
        });
        let mut errs = FieldErrors::new();
        validate_failure_policy(&PathValue::root(&spec), &mut errs);
        let places: Vec<_> = errs.iter().map(|error| error.path.as_str()).collect();
        assert_eq!(places, ["podFailurePolicy.rules[2].onExitCodes.containerName"]);
    }

    #[test]
    fn index_lists_are_counted_in_order() {
        assert_eq!(count_indexes("0,2-4", 5), Ok(4));
        assert_eq!(count_indexes("", 5), Ok(0));
        assert_eq!(first_common_index("0,2-4", "1,3"), Some(3));
        assert_eq!(first_common_index("0,x,2", ""), None);
        for (bad, why) in [
            ("5", "too large index: \"5\""),
            ("2,1", "non-increasing order, previous: 2, current: 1"),
            (
                "1-2-3",
                "the fragment \"1-2-3\" violates the requirement that an index interval can have at most two parts separated by '-'",
            ),
            ("x", "cannot convert string to integer for index: \"x\""),
        ] {
            assert_eq!(count_indexes(bad, 5), Err(why.to_owned()));
        }
    }
}
