//! Scheduling constraints: affinity, tolerations, topology spread, and deprecated node labels.

use std::collections::{HashMap, HashSet};

use crate::field::{FieldError, FieldErrors, Path};
use crate::rules::check::{self, PathValue};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

pub fn validate_affinity(affinity: &PathValue, errs: &mut FieldErrors) {
    let node = affinity.get("nodeAffinity");
    let required = node.get(REQUIRED);
    if required.exists() {
        validate_node_selector(&required, errs);
    }
    for term in node.get(PREFERRED).items() {
        validate_weight(&term, errs);
        validate_node_selector_term(&term.get("preference"), false, errs);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(kind);
        for term in pods.get(REQUIRED).items() {
            validate_pod_affinity_term(&term, errs);
        }
        for term in pods.get(PREFERRED).items() {
            validate_weight(&term, errs);
            validate_pod_affinity_term(&term.get("podAffinityTerm"), errs);
        }
    }
}

fn validate_weight(term: &PathValue, errs: &mut FieldErrors) {
    let weight = term.get("weight");
    if !(1..=100).contains(&weight.int()) {
        errs.push(FieldError::invalid(&weight.path, weight.int(), "must be in the range 1-100"));
    }
}

/// `nodeSelectorTerms` of node affinity and volumes.
pub fn validate_node_selector(selector: &PathValue, errs: &mut FieldErrors) {
    let terms = selector.get("nodeSelectorTerms");
    if terms.is_empty() {
        errs.push(FieldError::required(&terms.path, "must have at least one node selector term"));
    }
    for term in terms.items() {
        validate_node_selector_term(&term, true, errs);
    }
}

fn validate_node_selector_term(term: &PathValue, judge_values: bool, errs: &mut FieldErrors) {
    for expression in term.get("matchExpressions").items() {
        let (operator, values) = (expression.get("operator"), expression.get("values"));
        match operator.text() {
            _ if check::set_operator(&operator, &values, errs) => {}
            "Gt" | "Lt" if values.len() != 1 => errs.push(FieldError::required(
                &values.path,
                "must be specified single value when `operator` is 'Lt' or 'Gt'",
            )),
            "Gt" | "Lt" => {}
            other => errs.push(FieldError::invalid(&operator.path, other, "not a valid selector operator")),
        }
        check::text(&expression.get("key"), check::qualified_name, errs);
        if judge_values {
            values.items().for_each(|value| check::text(&value, check::label_value, errs));
        }
    }
    for field in term.get("matchFields").items() {
        let (key, operator, values) = (field.get("key"), field.get("operator"), field.get("values"));
        match operator.text() {
            "In" | "NotIn" if values.len() != 1 => errs.push(FieldError::required(
                &values.path,
                "must be only one value when `operator` is 'In' or 'NotIn' for node field selector",
            )),
            "In" | "NotIn" => {}
            other => errs.push(FieldError::invalid(&operator.path, other, "not a valid selector operator")),
        }
        if key.text() == "metadata.name" {
            values.items().for_each(|value| check::text(&value, check::dns_subdomain, errs));
        } else {
            errs.push(FieldError::invalid(&key.path, key.text(), "not a valid field selector key"));
        }
    }
}

fn validate_pod_affinity_term(term: &PathValue, errs: &mut FieldErrors) {
    check::label_selector(&term.get("labelSelector"), errs);
    check::label_selector(&term.get("namespaceSelector"), errs);
    for name in term.get("namespaces").items() {
        check::text(&name.with_path(term.path.field("namespace")), check::dns_label, errs);
    }
    validate_label_keys(term, errs);
    let key = term.get("topologyKey");
    if key.is_empty() {
        errs.push(FieldError::required(&key.path, "can not be empty"));
    }
    check::text(&key, check::qualified_name, errs);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys` together with a `labelSelector`.
fn validate_label_keys(term: &PathValue, errs: &mut FieldErrors) {
    let selector = term.get("labelSelector");
    let (matching, mismatching) = (term.get("matchLabelKeys"), term.get("mismatchLabelKeys"));
    for keys in [&matching, &mismatching] {
        if keys.is_empty() {
            continue;
        }
        if selector.exists() {
            keys.items().for_each(|key| check::text(&key, check::qualified_name, errs));
        } else {
            let words = "must not be specified when labelSelector is not set";
            errs.push(FieldError::forbidden(&keys.path, words));
        }
    }
    let mut selected: HashSet<_> = selector.get("matchLabels").entries().map(|(key, _)| key).collect();
    // The last position of each key.
    let places: HashMap<_, _> = matching.items().enumerate().map(|(i, key)| (key.text(), i)).collect();
    for expression in selector.get("matchExpressions").items() {
        let key = expression.get("key").text();
        // The key may occur twice: from the user, and merged from the key list.
        if let Some(&i) = places.get(key)
            && selected.contains(&key)
        {
            let words = "exists in both matchLabelKeys and labelSelector";
            errs.push(FieldError::invalid(&term.path.index(i), key, words));
        }
        selected.insert(key);
    }
    let mismatching: HashSet<_> = mismatching.items().map(|key| key.text()).collect();
    for key in matching.items() {
        if mismatching.contains(key.text()) {
            let words = "exists in both matchLabelKeys and mismatchLabelKeys";
            errs.push(FieldError::invalid(&key.path, key.text(), words));
        }
    }
}

pub fn validate_tolerations(list: &PathValue, errs: &mut FieldErrors) {
    for toleration in list.items() {
        let (key, operator) = (toleration.get("key"), toleration.get("operator"));
        let (value, effect) = (toleration.get("value"), toleration.get("effect"));
        if key.is_empty() {
            if operator.text() != "Exists" {
                let words = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
                errs.push(FieldError::invalid(&operator.path, operator.text(), words));
            }
        } else {
            check::text(&key, check::qualified_name, errs);
        }
        if toleration.has("tolerationSeconds") && effect.text() != "NoExecute" {
            let words = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errs.push(FieldError::invalid(&effect.path, effect.text(), words));
        }
        match operator.text() {
            "Equal" | "" => {
                let wrong = check::label_value(value.text());
                if !wrong.is_empty() {
                    errs.push(FieldError::invalid(&operator.path, value.text(), wrong.join(";")));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let words = "value must be empty when `operator` is 'Exists'";
                    errs.push(FieldError::invalid(&operator.path, value.text(), words));
                }
            }
            // A disabled feature gate; the message lists these operators nevertheless.
            "Lt" | "Gt" => {
                let named = ["Equal", "Exists", "Lt", "Gt"];
                errs.push(FieldError::unsupported(&operator.path, operator.text(), &named));
            }
            _ => check::one_of(&operator, &["Equal", "Exists"], errs),
        }
        if !effect.is_empty() {
            check::one_of(&effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"], errs);
        }
    }
}

pub fn validate_topology_spread<'a>(list: &PathValue<'a>, errs: &mut FieldErrors) {
    let pair = |constraint: &PathValue<'a>| {
        (constraint.get("topologyKey").text(), constraint.get("whenUnsatisfiable").text())
    };
    // The last position of each pair: earlier ones are reported as duplicates.
    let final_places: HashMap<_, _> =
        list.items().enumerate().map(|(i, constraint)| (pair(&constraint), i)).collect();
    for (i, constraint) in list.items().enumerate() {
        check::positive(&constraint.get("maxSkew"), errs);
        let (key, action) = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"));
        if key.is_empty() {
            errs.push(FieldError::required(&key.path, "can not be empty"));
        }
        check::one_of(&action, &["DoNotSchedule", "ScheduleAnyway"], errs);
        if final_places.get(&pair(&constraint)).is_some_and(|&place| place > i) {
            let path = constraint.path.field("{topologyKey, whenUnsatisfiable}");
            errs.push(FieldError::duplicate(&path, format!("{{{}, {}}}", key.text(), action.text())));
        }
        let domains = constraint.get("minDomains");
        if domains.exists() {
            check::positive(&domains, errs);
            if action.text() != "DoNotSchedule" {
                let words = format!(
                    "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {}",
                    action.text()
                );
                errs.push(FieldError::invalid(&domains.path, domains.int(), words));
            }
        }
        for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if constraint.has(name) {
                check::one_of(&constraint.get(name), &["Honor", "Ignore"], errs);
            }
        }
        validate_label_keys(&constraint, errs);
        check::label_selector(&constraint.get("labelSelector"), errs);
    }
}

/// The deprecation message of a node label.
pub fn deprecated_node_label(key: &str) -> Option<&'static str> {
    Some(match key {
        "beta.kubernetes.io/arch" => "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
        "beta.kubernetes.io/os" => "deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "failure-domain.beta.kubernetes.io/region" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead"
        }
        "failure-domain.beta.kubernetes.io/zone" => {
            "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        }
        "beta.kubernetes.io/instance-type" => {
            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead"
        }
        "app.kubernetes.io/created-by" => "deprecated since v1.9",
        "scheduler.alpha.kubernetes.io/preferAvoidPods" => {
            "deprecated since v1.22; use Taints and Tolerations instead"
        }
        "node-role.kubernetes.io/master" => "use \"node-role.kubernetes.io/control-plane\" instead",
        _ => return None,
    })
}

/// Warnings about scheduling constraints.
pub fn warnings(spec: &PathValue) -> Vec<String> {
    let mut warnings = Vec::new();
    for (key, at) in spec.get("nodeSelector").entries() {
        warnings.extend(deprecated_node_label(key).map(|words| format!("{}: {words}", at.path)));
    }
    let affinity = spec.get("affinity");
    let node = affinity.get("nodeAffinity");
    for term in node.get(REQUIRED).get("nodeSelectorTerms").items() {
        term_warnings(&term, false, &mut warnings);
    }
    for term in node.get(PREFERRED).items() {
        term_warnings(&term.get("preference"), true, &mut warnings);
    }
    for constraint in spec.get("topologySpreadConstraints").items() {
        let key = constraint.get("topologyKey");
        let words = deprecated_node_label(key.text());
        warnings.extend(words.map(|words| format!("{}: {} is {words}", key.path, key.text())));
        if !constraint.has("labelSelector") {
            warnings.push(null_selector_warning(&constraint.get("labelSelector").path));
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let pods = affinity.get(kind);
        let required = pods.get(REQUIRED);
        let preferred = pods.get(PREFERRED);
        let terms = required.items().chain(preferred.items().map(|term| term.get("podAffinityTerm")));
        for term in terms.filter(|term| !term.has("labelSelector")) {
            warnings.push(null_selector_warning(&term.get("labelSelector").path));
        }
    }
    warnings
}

fn null_selector_warning(path: &Path) -> String {
    format!("{path}: a null labelSelector results in matching no pod")
}

fn term_warnings(term: &PathValue, judge_values: bool, warnings: &mut Vec<String>) {
    for expression in term.get("matchExpressions").items() {
        let key = expression.get("key");
        let words = deprecated_node_label(key.text());
        warnings.extend(words.map(|words| format!("{}: {} is {words}", key.path, key.text())));
        if judge_values {
            for value in expression.get("values").items() {
                let wrong = check::label_value(value.text());
                let wrong =
                    wrong.into_iter().map(|w| format!("{}: {} is invalid, {w}", value.path, value.text()));
                warnings.extend(wrong);
            }
        }
    }
}
