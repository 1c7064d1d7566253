//! `FlowSchema` and `PriorityLevelConfiguration`: validated and stored, without effect.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::accessors::{go_names, int, members, set_if_absent};
use super::check::{self, PathValue};
use super::{DEFAULT_RULES, GenerationPolicy, KindRules};
use crate::field::{FieldError, FieldErrors};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

pub const RULES: &[KindRules] = &[
    KindRules {
        group: GROUP,
        kind: "FlowSchema",
        generation: GenerationPolicy::Content,
        default: |schema| {
            let spec = members(schema, "spec");
            if spec.get("matchingPrecedence").is_none_or(|precedence| int(precedence) == 0) {
                spec.insert("matchingPrecedence".to_owned(), 1000.into());
            }
        },
        validate: validate_schema,
        validate_update: |new, _| validate_schema(new),
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "PriorityLevelConfiguration",
        generation: GenerationPolicy::Content,
        default: default_level,
        validate: validate_level,
        validate_update: |new, _| validate_level(new),
        ..DEFAULT_RULES
    },
];

fn default_level(level: &mut Value) {
    let spec = members(level, "spec");
    if let Some(Value::Object(exempt)) = spec.get_mut("exempt") {
        set_if_absent(exempt, "nominalConcurrencyShares", 0);
        set_if_absent(exempt, "lendablePercent", 0);
    }
    if let Some(Value::Object(limited)) = spec.get_mut("limited") {
        set_if_absent(limited, "nominalConcurrencyShares", 30);
        set_if_absent(limited, "lendablePercent", 0);
        let queuing = limited.get_mut("limitResponse").and_then(|response| response.get_mut("queuing"));
        if let Some(Value::Object(queuing)) = queuing {
            for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                if queuing.get(field).is_none_or(|given| int(given) == 0) {
                    queuing.insert(field.to_owned(), json!(value));
                }
            }
        }
    }
}

const VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];

fn validate_schema(schema: &Value) -> FieldErrors {
    let root = PathValue::root(schema);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    let precedence = spec.get("matchingPrecedence");
    let words = match precedence.int() {
        ..=0 => Some("must be a positive value"),
        10_001.. => Some("must not be greater than 10000"),
        1 if root.nested("metadata.name").text() != "exempt" => {
            Some("only the schema named 'exempt' may have matchingPrecedence 1")
        }
        _ => None,
    };
    errs.extend(words.map(|words| FieldError::invalid(&precedence.path, precedence.int(), words)));
    let method = spec.get("distinguisherMethod");
    if method.exists() {
        let kind = method.get("type");
        let supported = ["ByNamespace", "ByUser"];
        if !supported.contains(&kind.text()) {
            errs.push(FieldError::unsupported(&kind.path, go_names(&method.to_json()), &supported));
        }
    }
    let level = spec.nested("priorityLevelConfiguration.name");
    if level.is_empty() {
        errs.push(FieldError::required(&level.path, "must reference a priority level"));
    } else {
        check::text(&level, check::dns_subdomain, &mut errs);
    }
    for rule in spec.get("rules").items() {
        validate_rule(&rule, &mut errs);
    }
    conditions(&root.nested("status.conditions"), &mut errs);
    errs
}

fn validate_rule(rule: &PathValue, errs: &mut FieldErrors) {
    let subjects = rule.get("subjects");
    if subjects.is_empty() {
        errs.push(FieldError::required(&subjects.path, "subjects must contain at least one value"));
    }
    for subject in subjects.items() {
        validate_subject(&subject, errs);
    }
    let (resources, others) = (rule.get("resourceRules"), rule.get("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let words = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errs.push(FieldError::required(&rule.path, words));
    }
    for resource in resources.items() {
        validate_verbs(&resource.get("verbs"), errs);
        validate_list(
            &resource.get("apiGroups"),
            "resource rules must supply at least one api group",
            "api groups",
            errs,
        );
        validate_list(
            &resource.get("resources"),
            "resource rules must supply at least one resource",
            "resources",
            errs,
        );
        validate_namespaces(&resource, errs);
    }
    for other in others.items() {
        validate_verbs(&other.get("verbs"), errs);
        let urls = other.get("nonResourceURLs");
        validate_list(&urls, "nonResourceURLs must contain at least one value", "non-resource URLs", errs);
        if urls.items().all(|url| url.text() != "*") {
            urls.items().for_each(|url| validate_url_path(&url, errs));
        }
    }
}

/// Required; a `*` must be the only element.
fn validate_list(list: &PathValue, required: &str, what: &str, errs: &mut FieldErrors) {
    if list.is_empty() {
        errs.push(FieldError::required(&list.path, required));
    } else if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        let words = format!("if '*' is present, must not specify other {what}");
        errs.push(FieldError::invalid(&list.path, list.to_json(), words));
    }
}

fn validate_verbs(list: &PathValue, errs: &mut FieldErrors) {
    validate_list(list, "verbs must contain at least one value", "verbs", errs);
    let star = list.items().any(|verb| verb.text() == "*");
    if !star && list.items().any(|verb| !VERBS.contains(&verb.text())) {
        errs.push(FieldError::unsupported(&list.path, list.to_json(), VERBS));
    }
}

fn validate_namespaces(rule: &PathValue, errs: &mut FieldErrors) {
    let list = rule.get("namespaces");
    if list.is_empty() {
        if !rule.get("clusterScope").bool_or_false() {
            let words = "resource rules that are not cluster scoped must supply at least one namespace";
            errs.push(FieldError::required(&list.path, words));
        }
        return;
    }
    validate_list(&list, "", "namespaces", errs);
    if list.items().all(|namespace| namespace.text() != "*") {
        for namespace in list.items() {
            for words in check::dns_label(namespace.text()) {
                let words = format!("each member of this list must be '*' or a DNS-1123 label; {words}");
                errs.push(FieldError::invalid(&namespace.path, namespace.text(), words));
            }
        }
    }
}

fn validate_url_path(url: &PathValue, errs: &mut FieldErrors) {
    let path = url.text();
    let stars = path.matches('*').count();
    let words = if path.is_empty() {
        "must not be empty"
    } else if path == "/" {
        return;
    } else if !path.starts_with('/') {
        "must start with slash"
    } else if path.contains(' ') {
        "must not contain white-space"
    } else if path.contains("//") {
        "must not contain double slash"
    } else if stars > 1 || stars == 1 && !path.ends_with("/*") {
        "wildcard can only do suffix matching"
    } else {
        return;
    };
    errs.push(FieldError::invalid(&url.path, path, words));
}

fn validate_subject(subject: &PathValue, errs: &mut FieldErrors) {
    const KINDS: &[(&str, &str)] =
        &[("Group", "group"), ("ServiceAccount", "serviceAccount"), ("User", "user")];
    let kind = subject.get("kind");
    let Some((_, own)) = KINDS.iter().find(|(name, _)| *name == kind.text()) else {
        check::one_of(&kind, &["Group", "ServiceAccount", "User"], errs);
        return;
    };
    for (name, field) in KINDS {
        let at = subject.get(field);
        if field != own {
            if at.exists() {
                let words = format!("{field} is forbidden when subject kind is not '{name}'");
                errs.push(FieldError::forbidden(&at.path, words));
            }
        } else if !at.exists() {
            let words = format!("{field} is required when subject kind is '{name}'");
            errs.push(FieldError::required(&at.path, words));
        } else {
            let called = at.get("name");
            check::required(&called, errs);
            if *field == "serviceAccount" {
                if !called.is_empty() && called.text() != "*" {
                    check::text(&called, check::dns_subdomain, errs);
                }
                let namespace = at.get("namespace");
                if namespace.is_empty() {
                    let words = "must specify namespace for service account";
                    errs.push(FieldError::required(&namespace.path, words));
                } else {
                    check::text(&namespace, check::dns_label, errs);
                }
            }
        }
    }
}

fn conditions(list: &PathValue, errs: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for condition in list.items() {
        let kind = condition.get("type");
        if seen.contains(&kind.text()) {
            errs.push(FieldError::duplicate(&kind.path, kind.text()));
        }
        seen.insert(kind.text());
        check::required(&kind, errs);
    }
}

fn validate_level(level: &Value) -> FieldErrors {
    let root = PathValue::root(level);
    let spec = root.get("spec");
    let kind = spec.get("type");
    let mut errs = FieldErrors::new();
    if (root.nested("metadata.name").text() == "exempt") != (kind.text() == "Exempt") {
        let words = "must be 'Exempt' if and only if `name` is 'exempt'";
        errs.push(FieldError::invalid(&kind.path, kind.text(), words));
    }
    let (limited, exempt) = (spec.get("limited"), spec.get("exempt"));
    match kind.text() {
        "Exempt" => {
            if limited.exists() {
                errs.push(FieldError::forbidden(&limited.path, "must be nil if the type is not Limited"));
            }
            validate_shares(&exempt, &mut errs);
        }
        "Limited" => {
            if exempt.exists() {
                errs.push(FieldError::forbidden(&exempt.path, "must be nil if the type is Limited"));
            }
            if limited.exists() {
                validate_shares(&limited, &mut errs);
                validate_limit_response(&limited.get("limitResponse"), &mut errs);
                let borrowing = limited.get("borrowingLimitPercent");
                if borrowing.int() < 0 {
                    let words = "if specified, must be a non-negative integer";
                    errs.push(FieldError::invalid(&borrowing.path, borrowing.int(), words));
                }
            } else {
                errs.push(FieldError::required(&limited.path, "must not be empty when type is Limited"));
            }
        }
        _ => check::required_one_of(&kind, &["Exempt", "Limited"], &mut errs),
    }
    conditions(&root.nested("status.conditions"), &mut errs);
    errs
}

fn validate_shares(at: &PathValue, errs: &mut FieldErrors) {
    let shares = at.get("nominalConcurrencyShares");
    if shares.int() < 0 {
        errs.push(FieldError::invalid(&shares.path, shares.int(), "must be a non-negative integer"));
    }
    check::number_in_range(&at.get("lendablePercent"), 0, 100, errs);
}

fn validate_limit_response(at: &PathValue, errs: &mut FieldErrors) {
    let (kind, queuing) = (at.get("type"), at.get("queuing"));
    match kind.text() {
        "Reject" => {
            if queuing.exists() {
                let words = "must be nil if limited.limitResponse.type is not Limited";
                errs.push(FieldError::forbidden(&queuing.path, words));
            }
        }
        "Queue" if !queuing.exists() => {
            let words = "must not be empty if limited.limitResponse.type is Limited";
            errs.push(FieldError::required(&queuing.path, words));
        }
        "Queue" => {
            for field in ["queueLengthLimit", "queues", "handSize"] {
                let number = queuing.get(field);
                if number.int() <= 0 {
                    errs.push(FieldError::invalid(&number.path, number.int(), "must be positive"));
                }
            }
            let (queues, hand) = (queuing.get("queues"), queuing.get("handSize"));
            if queues.int() > 10_000_000 {
                errs.push(FieldError::invalid(
                    &queues.path,
                    queues.int(),
                    "must not be greater than 10000000",
                ));
            }
            if hand.int() > 0 && hand.int() > queues.int() {
                let words = format!("should not be greater than queues ({})", queues.int());
                errs.push(FieldError::invalid(&hand.path, hand.int(), words));
            }
        }
        _ => check::required_one_of(&kind, &["Queue", "Reject"], errs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priority_levels_are_defaulted_and_validated() {
        let mut level = json!({"metadata": {"name": "a"}, "spec": {"type": "Limited", "limited":
            {"limitResponse": {"type": "Queue", "queuing": {}}}}});
        default_level(&mut level);
        assert_eq!(
            level["spec"]["limited"],
            json!({"nominalConcurrencyShares": 30, "lendablePercent": 0, "limitResponse":
                {"type": "Queue", "queuing": {"queues": 64, "handSize": 8, "queueLengthLimit": 50}}})
        );
        assert_eq!(validate_level(&level), []);
        level["spec"]["limited"]["limitResponse"]["queuing"]["handSize"] = 65.into();
        let told: Vec<_> = validate_level(&level).iter().map(ToString::to_string).collect();
        assert_eq!(
            told,
            [
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 65: should not be greater than queues (64)"
            ]
        );
    }
}
