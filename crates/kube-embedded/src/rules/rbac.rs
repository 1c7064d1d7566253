//! Roles and bindings. See also: `crate::access` checks privilege escalation.

use serde_json::Value;

use super::accessors::{go_names, maps_mut, members, set_if_empty};
use super::check::{self, PathValue};
use super::{DEFAULT_RULES, KindRules, NamePolicy, meta};
use crate::field::{FieldError, FieldErrors, Path};

const GROUP: &str = "rbac.authorization.k8s.io";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: GROUP,
        kind: "Role",
        naming: NamePolicy::PathSegment,
        default: default_role,
        validate: |role| validate_rules(role, true),
        validate_update: |new, _| validate_update_as_create(new, true, validate_rules),
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "ClusterRole",
        naming: NamePolicy::PathSegment,
        default: default_role,
        validate: |role| validate_rules(role, false),
        validate_update: |new, _| validate_update_as_create(new, false, validate_rules),
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "RoleBinding",
        naming: NamePolicy::PathSegment,
        default: default_binding,
        validate: |binding| validate_binding(binding, true),
        validate_update: |new, old| validate_binding_update(new, old, true),
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "ClusterRoleBinding",
        naming: NamePolicy::PathSegment,
        default: default_binding,
        validate: |binding| validate_binding(binding, false),
        validate_update: |new, old| validate_binding_update(new, old, false),
        ..DEFAULT_RULES
    },
];

/// Empty rules are stored as `null`.
fn default_role(role: &mut Value) {
    if role["rules"].as_array().is_some_and(Vec::is_empty) {
        role["rules"] = Value::Null;
    }
}

/// An update is validated as if the object were new.
fn validate_update_as_create(
    new: &Value,
    namespaced: bool,
    check: fn(&Value, bool) -> FieldErrors,
) -> FieldErrors {
    let mut errs = meta::validate_create(&new["metadata"], namespaced, NamePolicy::PathSegment);
    errs.extend(check(new, namespaced));
    errs
}

/// Maximum number of rules of one role, and of values in all its rules: authorisation compares each of them with a request. Not in
/// Kubernetes.
const MAX_RULES: usize = 5_000;
const MAX_VALUES: usize = 50_000;

/// Maximum number of subjects of one binding. Not in Kubernetes.
const MAX_SUBJECTS: usize = 5_000;

fn validate_rules(role: &Value, namespaced: bool) -> FieldErrors {
    let root = PathValue::root(role);
    let mut errs = FieldErrors::new();
    let list = root.get("rules");
    if list.len() > MAX_RULES {
        errs.push(FieldError::too_many(&list.path, list.len(), MAX_RULES));
        return errs;
    }
    let fields = ["verbs", "apiGroups", "resources", "resourceNames", "nonResourceURLs"];
    let values: usize =
        list.items().map(|rule| fields.map(|field| rule.get(field).len()).iter().sum::<usize>()).sum();
    if values > MAX_VALUES {
        let detail = format!("must have at most {MAX_VALUES} values in all rules");
        errs.push(FieldError { detail, ..FieldError::too_many(&list.path, values, MAX_VALUES) });
        return errs;
    }
    for rule in list.items() {
        validate_policy_rule(&rule, namespaced, &mut errs);
    }
    let aggregation = root.get("aggregationRule");
    if !namespaced && aggregation.exists() {
        let selectors = aggregation.get("clusterRoleSelectors");
        if selectors.is_empty() {
            let words = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errs.push(FieldError::required(&selectors.path, words));
        }
        for selector in selectors.items() {
            let before = errs.len();
            check::label_selector(&selector, &mut errs);
            if errs.len() != before {
                errs.push(FieldError::invalid(&selector.path, Value::Null, "invalid label selector."));
            }
        }
    }
    errs
}

fn validate_policy_rule(rule: &PathValue, namespaced: bool, errs: &mut FieldErrors) {
    let mut require = |field: &str, words: &str| {
        if rule.get(field).is_empty() {
            errs.push(FieldError::required(&rule.path.field(field), words));
        }
    };
    require("verbs", "verbs must contain at least one value");
    let urls = rule.get("nonResourceURLs");
    if urls.is_empty() {
        require("apiGroups", "resource rules must supply at least one api group");
        require("resources", "resource rules must supply at least one resource");
        return;
    }
    if namespaced {
        let words = "namespaced rules cannot apply to non-resource URLs";
        errs.push(FieldError::invalid(&urls.path, urls.to_json(), words));
    }
    if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !rule.get(field).is_empty()) {
        let words = "rules cannot apply to both regular resources and non-resource URLs";
        errs.push(FieldError::invalid(&urls.path, urls.to_json(), words));
    }
}

fn default_binding(binding: &mut Value) {
    set_if_empty(members(binding, "roleRef"), "apiGroup", GROUP);
    for subject in maps_mut(binding, "subjects") {
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            set_if_empty(subject, "apiGroup", GROUP);
        }
    }
}

fn validate_binding(binding: &Value, namespaced: bool) -> FieldErrors {
    let root = PathValue::root(binding);
    let role = root.get("roleRef");
    let mut errs = FieldErrors::new();
    check::one_of(&role.get("apiGroup"), &[GROUP], &mut errs);
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    check::one_of(&role.get("kind"), kinds, &mut errs);
    check::required_text(&role.get("name"), check::path_segment, &mut errs);
    let subjects = root.get("subjects");
    if subjects.len() > MAX_SUBJECTS {
        errs.push(FieldError::too_many(&subjects.path, subjects.len(), MAX_SUBJECTS));
        return errs;
    }
    for subject in subjects.items() {
        let (name, group) = (subject.get("name"), subject.get("apiGroup"));
        check::required(&name, &mut errs);
        match subject.get("kind").text() {
            "ServiceAccount" => {
                if !name.is_empty() {
                    check::text(&name, check::dns_subdomain, &mut errs);
                }
                check::one_of(&group, &[""], &mut errs);
                if !namespaced {
                    check::required(&subject.get("namespace"), &mut errs);
                }
            }
            "User" | "Group" => check::one_of(&group, &[GROUP], &mut errs),
            _ => check::one_of(&subject.get("kind"), &["ServiceAccount", "User", "Group"], &mut errs),
        }
    }
    errs
}

fn validate_binding_update(new: &Value, old: &Value, namespaced: bool) -> FieldErrors {
    let mut errs = validate_update_as_create(new, namespaced, validate_binding);
    if new["roleRef"] != old["roleRef"] {
        errs.push(FieldError::invalid(
            &Path::new("roleRef"),
            go_names(&new["roleRef"]),
            "cannot change roleRef",
        ));
    }
    errs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rbac_rule_has_resources_or_urls() {
        let table = [
            (json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), true, 0),
            (json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}), false, 0),
            (json!({"verbs": ["get"], "nonResourceURLs": ["/a"]}), true, 1),
            (json!({"nonResourceURLs": ["/a"], "resources": ["pods"]}), false, 2),
            (json!({}), true, 3),
        ];
        for (rule, namespaced, wrong) in table {
            assert_eq!(validate_rules(&json!({"rules": [rule]}), namespaced).len(), wrong, "{rule}");
        }
    }

    #[test]
    fn binding_is_defaulted_and_role_ref_immutable() {
        let mut binding = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]});
        default_binding(&mut binding);
        assert_eq!(binding["roleRef"]["apiGroup"], GROUP);
        assert_eq!(binding["subjects"][0]["apiGroup"], GROUP);
        assert!(binding["subjects"][1].get("apiGroup").is_none());
        assert_eq!(validate_binding(&binding, true), []);
        let mut other = binding.clone();
        other["metadata"] = json!({"name": "b", "namespace": "n"});
        other["roleRef"]["name"] = "q".into();
        let errs = validate_binding_update(&other, &binding, true);
        assert_eq!(errs.len(), 1);
        assert_eq!(errs[0].detail, "cannot change roleRef");
    }

    #[test]
    fn rules_of_a_role_and_their_values_are_limited() {
        let messages = |rules: Vec<Value>, namespaced: bool| -> Vec<String> {
            let role = json!({"metadata": {"name": "r", "namespace": if namespaced { "n" } else { "" }}, "rules": rules});
            let errors = validate_rules(&role, namespaced);
            // Updates have the same limits.
            assert_eq!(validate_update_as_create(&role, namespaced, validate_rules), errors);
            errors.iter().map(ToString::to_string).collect()
        };
        let values = |count: usize| (0..count).map(|n| format!("v{n}")).collect::<Vec<_>>();
        let resources = |names: usize| json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": values(names)});
        let mut table = vec![
            // (rules, values in all of them, whether only a ClusterRole may have them)
            (vec![resources(0); MAX_RULES], 3 * MAX_RULES, false),
            (vec![resources(7); MAX_RULES], 10 * MAX_RULES, false),
        ];
        for field in ["verbs", "apiGroups", "resources", "resourceNames"] {
            let mut rule = resources(1);
            rule[field] = json!(values(MAX_VALUES - 3));
            table.push((vec![rule], MAX_VALUES, false));
        }
        let urls = json!({"verbs": ["get"], "nonResourceURLs": values(MAX_VALUES - 1)});
        table.push((vec![urls], MAX_VALUES, true));
        for (rules, count, is_cluster_only) in table {
            for namespaced in [true, false].into_iter().filter(|namespaced| !(*namespaced && is_cluster_only))
            {
                assert_eq!(messages(rules.clone(), namespaced), Vec::<String>::new());
                if rules.len() == MAX_RULES {
                    let mut more = rules.clone();
                    more.push(resources(0));
                    let expected = "rules: Too many: 5001: must have at most 5000 items";
                    assert_eq!(messages(more, namespaced), [expected]);
                }
                if count == MAX_VALUES {
                    let mut more = rules.clone();
                    more[0]["verbs"].as_array_mut().unwrap().push("list".into());
                    let expected = "rules: Too many: 50001: must have at most 50000 values in all rules";
                    assert_eq!(messages(more, namespaced), [expected]);
                }
            }
        }
    }

    #[test]
    fn binding_subjects_are_limited() {
        let subject = json!({"kind": "User", "apiGroup": GROUP, "name": "jane"});
        let role = json!({"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"});
        let binding = |subjects: usize| json!({"roleRef": role, "subjects": vec![subject.clone(); subjects]});
        assert_eq!(validate_binding(&binding(MAX_SUBJECTS), true), []);
        let refused = validate_binding(&binding(MAX_SUBJECTS + 1), true);
        let told: Vec<String> = refused.iter().map(FieldError::message_body).collect();
        assert_eq!(told, ["Too many: 5001: must have at most 5000 items"]);
    }
}
