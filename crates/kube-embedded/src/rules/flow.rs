//! `FlowSchema` and `PriorityLevelConfiguration`: validated and stored, without effect.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::check::{self, At};
use super::read::{fill, go_names, int, members};
use super::{Generation, PLAIN, Rules};
use crate::field::{FieldError, FieldErrors};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";

pub const RULES: &[Rules] = &[
    Rules {
        group: GROUP,
        kind: "FlowSchema",
        generation: Generation::Content,
        default: |schema| {
            let spec = members(schema, "spec");
            if spec.get("matchingPrecedence").is_none_or(|precedence| int(precedence) == 0) {
                spec.insert("matchingPrecedence".to_owned(), 1000.into());
            }
        },
        validate: validate_schema,
        validate_update: |new, _| validate_schema(new),
        ..PLAIN
    },
    Rules {
        group: GROUP,
        kind: "PriorityLevelConfiguration",
        generation: Generation::Content,
        default: default_level,
        validate: validate_level,
        validate_update: |new, _| validate_level(new),
        ..PLAIN
    },
];

fn default_level(level: &mut Value) {
    let spec = members(level, "spec");
    if let Some(Value::Object(exempt)) = spec.get_mut("exempt") {
        fill(exempt, "nominalConcurrencyShares", 0);
        fill(exempt, "lendablePercent", 0);
    }
    if let Some(Value::Object(limited)) = spec.get_mut("limited") {
        fill(limited, "nominalConcurrencyShares", 30);
        fill(limited, "lendablePercent", 0);
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
    let root = At::root(schema);
    let spec = root.get("spec");
    let mut errs = FieldErrors::new();
    let precedence = spec.get("matchingPrecedence");
    let words = match precedence.int() {
        ..=0 => Some("must be a positive value"),
        10_001.. => Some("must not be greater than 10000"),
        1 if root.down("metadata.name").text() != "exempt" => {
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
            errs.push(FieldError::unsupported(&kind.path, go_names(&method.json()), &supported));
        }
    }
    let level = spec.down("priorityLevelConfiguration.name");
    if level.is_empty() {
        errs.push(FieldError::required(&level.path, "must reference a priority level"));
    } else {
        check::text(&level, check::dns_subdomain, &mut errs);
    }
    for rule in spec.get("rules").items() {
        schema_rule(&rule, &mut errs);
    }
    conditions(&root.down("status.conditions"), &mut errs);
    errs
}

fn schema_rule(rule: &At, errs: &mut FieldErrors) {
    let subjects = rule.get("subjects");
    if subjects.is_empty() {
        errs.push(FieldError::required(&subjects.path, "subjects must contain at least one value"));
    }
    for subject in subjects.items() {
        schema_subject(&subject, errs);
    }
    let (resources, others) = (rule.get("resourceRules"), rule.get("nonResourceRules"));
    if resources.is_empty() && others.is_empty() {
        let words = "at least one of resourceRules and nonResourceRules has to be non-empty";
        errs.push(FieldError::required(&rule.path, words));
    }
    for resource in resources.items() {
        verbs(&resource.get("verbs"), errs);
        listed(
            &resource.get("apiGroups"),
            "resource rules must supply at least one api group",
            "api groups",
            errs,
        );
        listed(
            &resource.get("resources"),
            "resource rules must supply at least one resource",
            "resources",
            errs,
        );
        namespaces(&resource, errs);
    }
    for other in others.items() {
        verbs(&other.get("verbs"), errs);
        let urls = other.get("nonResourceURLs");
        listed(&urls, "nonResourceURLs must contain at least one value", "non-resource URLs", errs);
        if urls.items().all(|url| url.text() != "*") {
            urls.items().for_each(|url| url_path(&url, errs));
        }
    }
}

/// Required; a `*` must be the only element.
fn listed(list: &At, required: &str, what: &str, errs: &mut FieldErrors) {
    if list.is_empty() {
        errs.push(FieldError::required(&list.path, required));
    } else if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        let words = format!("if '*' is present, must not specify other {what}");
        errs.push(FieldError::invalid(&list.path, list.json(), words));
    }
}

fn verbs(list: &At, errs: &mut FieldErrors) {
    listed(list, "verbs must contain at least one value", "verbs", errs);
    let star = list.items().any(|verb| verb.text() == "*");
    if !star && list.items().any(|verb| !VERBS.contains(&verb.text())) {
        errs.push(FieldError::unsupported(&list.path, list.json(), VERBS));
    }
}

fn namespaces(rule: &At, errs: &mut FieldErrors) {
    let list = rule.get("namespaces");
    if list.is_empty() {
        if !rule.get("clusterScope").flag() {
            let words = "resource rules that are not cluster scoped must supply at least one namespace";
            errs.push(FieldError::required(&list.path, words));
        }
        return;
    }
    listed(&list, "", "namespaces", errs);
    if list.items().all(|namespace| namespace.text() != "*") {
        for namespace in list.items() {
            for words in check::dns_label(namespace.text()) {
                let words = format!("each member of this list must be '*' or a DNS-1123 label; {words}");
                errs.push(FieldError::invalid(&namespace.path, namespace.text(), words));
            }
        }
    }
}

fn url_path(url: &At, errs: &mut FieldErrors) {
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

fn schema_subject(subject: &At, errs: &mut FieldErrors) {
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

fn conditions(list: &At, errs: &mut FieldErrors) {
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
    let root = At::root(level);
    let spec = root.get("spec");
    let kind = spec.get("type");
    let mut errs = FieldErrors::new();
    if (root.down("metadata.name").text() == "exempt") != (kind.text() == "Exempt") {
        let words = "must be 'Exempt' if and only if `name` is 'exempt'";
        errs.push(FieldError::invalid(&kind.path, kind.text(), words));
    }
    let (limited, exempt) = (spec.get("limited"), spec.get("exempt"));
    match kind.text() {
        "Exempt" => {
            if limited.exists() {
                errs.push(FieldError::forbidden(&limited.path, "must be nil if the type is not Limited"));
            }
            shares(&exempt, &mut errs);
        }
        "Limited" => {
            if exempt.exists() {
                errs.push(FieldError::forbidden(&exempt.path, "must be nil if the type is Limited"));
            }
            if limited.exists() {
                shares(&limited, &mut errs);
                response(&limited.get("limitResponse"), &mut errs);
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
    conditions(&root.down("status.conditions"), &mut errs);
    errs
}

fn shares(at: &At, errs: &mut FieldErrors) {
    let shares = at.get("nominalConcurrencyShares");
    if shares.int() < 0 {
        errs.push(FieldError::invalid(&shares.path, shares.int(), "must be a non-negative integer"));
    }
    check::within(&at.get("lendablePercent"), 0, 100, errs);
}

fn response(at: &At, errs: &mut FieldErrors) {
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
    fn levels_are_completed_and_checked() {
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
