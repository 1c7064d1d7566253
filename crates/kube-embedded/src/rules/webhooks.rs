//! Webhook configurations and admission policies: validation.
//!
//! Webhooks are stored and never called. `crate::policy` evaluates policies and compiles
//! their expressions.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use super::accessors::{maps_mut, members, set_if_absent, text};
use super::check::{self, PathValue};
use super::{DEFAULT_RULES, GenerationPolicy, KindRules};
use crate::field::{FieldError, FieldErrors};

const GROUP: &str = "admissionregistration.k8s.io";
const NOT_CALLED_WARNING: &str = "kube-embedded stores this object but does not call admission webhooks";

pub const RULES: &[KindRules] = &[
    KindRules { kind: "ValidatingWebhookConfiguration", default: |c| default_webhooks(c, false), ..WEBHOOKS },
    KindRules { kind: "MutatingWebhookConfiguration", default: |c| default_webhooks(c, true), ..WEBHOOKS },
    KindRules {
        group: GROUP,
        kind: "ValidatingAdmissionPolicy",
        allows_any_finalizer: true,
        generation: GenerationPolicy::Content,
        default: default_policy,
        validate: validate_policy_with_expressions,
        validate_update: |new, _| validate_policy_with_expressions(new),
        ..DEFAULT_RULES
    },
    KindRules {
        group: GROUP,
        kind: "ValidatingAdmissionPolicyBinding",
        allows_any_finalizer: true,
        generation: GenerationPolicy::Content,
        default: default_binding,
        validate: validate_binding,
        validate_update: |new, _| validate_binding(new),
        ..DEFAULT_RULES
    },
];

const WEBHOOKS: KindRules = KindRules {
    group: GROUP,
    allows_any_finalizer: true,
    generation: GenerationPolicy::Content,
    validate: validate_webhooks,
    validate_update: |new, _| validate_webhooks(new),
    warnings: |_, old| if old.is_none() { vec![NOT_CALLED_WARNING.to_owned()] } else { Vec::new() },
    ..DEFAULT_RULES
};

fn default_webhooks(configuration: &mut Value, mutating: bool) {
    for hook in maps_mut(configuration, "webhooks") {
        set_if_absent(hook, "failurePolicy", "Fail");
        set_if_absent(hook, "matchPolicy", "Equivalent");
        set_if_absent(hook, "namespaceSelector", json!({}));
        set_if_absent(hook, "objectSelector", json!({}));
        set_if_absent(hook, "timeoutSeconds", 10);
        if mutating {
            set_if_absent(hook, "reinvocationPolicy", "Never");
        }
        let service = hook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
        if let Some(Value::Object(service)) = service {
            set_if_absent(service, "port", 443);
        }
        default_scopes(hook, "rules");
    }
}

pub(super) fn default_policy(policy: &mut Value) {
    let spec = members(policy, "spec");
    set_if_absent(spec, "failurePolicy", "Fail");
    if let Some(Value::Object(matching)) = spec.get_mut("matchConstraints") {
        default_matching(matching);
    }
}

pub(super) fn default_binding(binding: &mut Value) {
    if let Some(Value::Object(matching)) = members(binding, "spec").get_mut("matchResources") {
        default_matching(matching);
    }
}

fn default_matching(matching: &mut Map<String, Value>) {
    set_if_absent(matching, "matchPolicy", "Equivalent");
    set_if_absent(matching, "namespaceSelector", json!({}));
    set_if_absent(matching, "objectSelector", json!({}));
    default_scopes(matching, "resourceRules");
    default_scopes(matching, "excludeResourceRules");
}

fn default_scopes(holder: &mut Map<String, Value>, field: &str) {
    for rule in holder.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(rule) = rule.as_object_mut() {
            set_if_absent(rule, "scope", "*");
        }
    }
}

fn validate_webhooks(configuration: &Value) -> FieldErrors {
    let root = PathValue::root(configuration);
    let mut errs = FieldErrors::new();
    let mut names = HashSet::new();
    for hook in root.get("webhooks").items() {
        let name = hook.get("name");
        validate_webhook(&hook, &mut errs);
        validate_review_versions(&hook.get("admissionReviewVersions"), &mut errs);
        if !name.is_empty() && names.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        names.insert(name.text());
    }
    errs
}

fn validate_webhook(hook: &PathValue, errs: &mut FieldErrors) {
    validate_qualified_name(&hook.get("name"), errs);
    for rule in hook.get("rules").items() {
        validate_operations_rule(&rule, errs);
    }
    validate_failure_and_match_policy(hook, errs);
    let effects = hook.get("sideEffects");
    if effects.exists() {
        check::one_of(&effects, &["None", "NoneOnDryRun"], errs);
    } else {
        errs.push(FieldError::required(&effects.path, "must specify one of None, NoneOnDryRun"));
    }
    let timeout = hook.get("timeoutSeconds");
    if timeout.number().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        let words = "the timeout value must be between 1 and 30 seconds";
        errs.push(FieldError::invalid(&timeout.path, timeout.int(), words));
    }
    check::label_selector(&hook.get("namespaceSelector"), errs);
    check::label_selector(&hook.get("objectSelector"), errs);
    let again = hook.get("reinvocationPolicy");
    if again.exists() {
        check::one_of(&again, &["IfNeeded", "Never"], errs);
    }
    let config = hook.get("clientConfig");
    match (config.has("url"), config.has("service")) {
        (true, false) => validate_url(&config.get("url"), errs),
        (false, true) => validate_service(&config.get("service"), errs),
        _ => errs.push(FieldError::required(&config.path, "exactly one of url or service is required")),
    }
    validate_match_conditions(&hook.get("matchConditions"), errs);
}

fn validate_failure_and_match_policy(at: &PathValue, errs: &mut FieldErrors) {
    for (field, supported) in
        [("failurePolicy", &["Fail", "Ignore"]), ("matchPolicy", &["Equivalent", "Exact"])]
    {
        let policy = at.get(field);
        if policy.exists() {
            check::one_of(&policy, supported, errs);
        }
    }
}

/// A name of at least three labels.
fn validate_qualified_name(at: &PathValue, errs: &mut FieldErrors) {
    let name = at.text();
    let wrong = check::dns_subdomain(name);
    if name.is_empty() {
        errs.push(FieldError::required(&at.path, ""));
    } else if !wrong.is_empty() {
        errs.push(FieldError::invalid(&at.path, name, wrong.join(",")));
    } else if name.split('.').count() < 3 {
        let words = "should be a domain with at least three segments separated by dots";
        errs.push(FieldError::invalid(&at.path, name, words));
    }
}

fn validate_review_versions(versions: &PathValue, errs: &mut FieldErrors) {
    const ACCEPTED: &[&str] = &["v1", "v1beta1"];
    if versions.is_empty() {
        errs.push(FieldError::required(&versions.path, "must specify one of v1, v1beta1"));
        return;
    }
    let mut seen = HashSet::new();
    for version in versions.items() {
        if seen.contains(&version.text()) {
            errs.push(FieldError::invalid(&version.path, version.text(), "duplicate version"));
            continue;
        }
        seen.insert(version.text());
        check::text(&version, check::dns_1035_label, errs);
    }
    if !seen.iter().any(|version| ACCEPTED.contains(version)) {
        let words = "must include at least one of v1, v1beta1";
        errs.push(FieldError::invalid(&versions.path, versions.to_json(), words));
    }
}

/// The operations, groups, versions and resources of a rule.
fn validate_operations_rule(rule: &PathValue, errs: &mut FieldErrors) {
    let operations = rule.get("operations");
    check::required(&operations, errs);
    validate_wildcard_alone(&operations, "operations", errs);
    for operation in operations.items() {
        check::one_of(&operation, &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"], errs);
    }
    for (field, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        let list = rule.get(field);
        check::required(&list, errs);
        validate_wildcard_alone(&list, what, errs);
    }
    for version in rule.get("apiVersions").items() {
        check::required(&version, errs);
    }
    validate_resources(&rule.get("resources"), errs);
    let scope = rule.get("scope");
    if scope.exists() {
        check::one_of(&scope, &["*", "Cluster", "Namespaced"], errs);
    }
}

/// A `*` must be the only element.
fn validate_wildcard_alone(list: &PathValue, what: &str, errs: &mut FieldErrors) {
    if list.len() > 1 && list.items().any(|item| item.text() == "*") {
        let words = format!("if '*' is present, must not specify other {what}");
        errs.push(FieldError::invalid(&list.path, list.to_json(), words));
    }
}

fn validate_resources(list: &PathValue, errs: &mut FieldErrors) {
    check::required(list, errs);
    let (mut all_of, mut of_all) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for item in list.items() {
        let name = item.text();
        check::required(&item, errs);
        let Some((resource, sub)) = name.split_once('/') else {
            plain = !name.is_empty() && name != "*" || name.is_empty() && plain;
            continue;
        };
        if all_of.contains(&resource) {
            let words = format!("if '{resource}/*' is present, must not specify {name}");
            errs.push(FieldError::invalid(&item.path, name, words));
        }
        if of_all.contains(&sub) {
            let words = format!("if '*/{sub}' is present, must not specify {name}");
            errs.push(FieldError::invalid(&item.path, name, words));
        }
        if sub == "*" {
            all_of.insert(resource);
        }
        if resource == "*" {
            of_all.insert(sub);
        }
    }
    let has = |name: &str| list.items().any(|item| item.text() == name);
    if list.len() > 1 && has("*/*") {
        let words = "if '*/*' is present, must not specify other resources";
        errs.push(FieldError::invalid(&list.path, list.to_json(), words));
    }
    if has("*") && plain {
        let words = "if '*' is present, must not specify other resources without subresources";
        errs.push(FieldError::invalid(&list.path, list.to_json(), words));
    }
}

fn validate_url(at: &PathValue, errs: &mut FieldErrors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let given = at.text();
    let (scheme, rest) = given.split_once(':').unwrap_or(("", given));
    if scheme != "https" {
        let words = format!("'https' is the only allowed URL scheme{FORM}");
        errs.push(FieldError::invalid(&at.path, scheme, words));
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    for (wrong, shown, words) in [
        (host.is_empty(), host, format!("host must be specified{FORM}")),
        (authority.contains('@'), user, "user information is not permitted in the URL".to_owned()),
        (!fragment.is_empty(), fragment, "fragments are not permitted in the URL".to_owned()),
        (!query.is_empty(), query, "query parameters are not permitted in the URL".to_owned()),
    ] {
        if wrong {
            errs.push(FieldError::invalid(&at.path, shown, words));
        }
    }
}

fn validate_service(at: &PathValue, errs: &mut FieldErrors) {
    check::required(&at.get("name"), errs);
    check::required(&at.get("namespace"), errs);
    let port = at.get("port");
    if !(1..=65_535).contains(&port.int()) {
        let words = format!("port is not valid: {}", check::between(1, 65_535));
        errs.push(FieldError::invalid(&port.path, port.int(), words));
    }
    let path = at.get("path");
    let given = path.text();
    let mut refuse = |words: String| errs.push(FieldError::invalid(&path.path, given, words));
    match given {
        "" | "/" => return,
        "//" => {
            refuse("segment[0] may not be empty".to_owned());
            return;
        }
        _ => {}
    }
    if !given.starts_with('/') {
        refuse("must start with a '/'".to_owned());
    }
    let steps = given.char_indices().nth(1).map_or("", |(at, _)| &given[at..]);
    for (at, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            refuse(format!("segment[{at}] may not be empty"));
        } else {
            for words in check::dns_subdomain(step) {
                refuse(format!("segment[{at}]: {words}"));
            }
        }
    }
}

fn validate_match_conditions(conditions: &PathValue, errs: &mut FieldErrors) {
    const MAX_MATCH_CONDITIONS: usize = 64;
    if conditions.len() > MAX_MATCH_CONDITIONS {
        errs.push(FieldError::too_many(&conditions.path, conditions.len(), MAX_MATCH_CONDITIONS));
    }
    let mut names = HashSet::new();
    for condition in conditions.items() {
        let (name, expression) = (condition.get("name"), condition.get("expression"));
        if expression.text().trim().is_empty() {
            errs.push(FieldError::required(&expression.path, ""));
        }
        check::required_text(&name, check::qualified_name, errs);
        if !name.is_empty() && names.contains(&name.text()) {
            errs.push(FieldError::duplicate(&name.path, name.text()));
        }
        names.insert(name.text());
    }
}

/// Validates a policy including its expressions.
fn validate_policy_with_expressions(policy: &Value) -> FieldErrors {
    let mut errors = validate_policy(policy);
    errors.extend(crate::policy::check_policy(policy));
    errors
}

/// Common fields of validating and mutating policies: match conditions and variables.
pub(super) fn validate_policy_common(spec: &PathValue, errs: &mut FieldErrors) {
    check::one_of(&spec.get("failurePolicy"), &["Fail", "Ignore"], errs);
    validate_param_kind(&spec.get("paramKind"), errs);
    let matching = spec.get("matchConstraints");
    if matching.exists() {
        validate_matching_resources(&matching, errs);
        check::required(&matching.get("resourceRules"), errs);
    } else {
        check::required(&matching, errs);
    }
    validate_match_conditions(&spec.get("matchConditions"), errs);
    for variable in spec.get("variables").items() {
        let (name, expression) = (variable.get("name"), variable.get("expression"));
        if name.text().trim().is_empty() {
            errs.push(FieldError::required(&name.path, "name is not specified"));
        } else if !check::c_identifier(name.text()).is_empty() {
            errs.push(FieldError::invalid(&name.path, name.text(), "must be a valid CEL identifier"));
        }
        if expression.text().trim().is_empty() {
            errs.push(FieldError::required(&expression.path, "expression is not specified"));
        }
    }
}

fn validate_policy(policy: &Value) -> FieldErrors {
    let spec = PathValue::root(policy).get("spec");
    let mut errs = FieldErrors::new();
    validate_policy_common(&spec, &mut errs);
    let (validations, annotations) = (spec.get("validations"), spec.get("auditAnnotations"));
    if validations.is_empty() && annotations.is_empty() {
        let words = "validations or auditAnnotations must contain at least one item";
        errs.push(FieldError::required(&validations.path, words));
        errs.push(FieldError::required(&annotations.path, words));
    }
    for validation in validations.items() {
        validate_validation(&validation, &mut errs);
    }
    validate_audit_annotations(&annotations, text(&policy["metadata"]["name"]), &mut errs);
    errs
}

fn validate_validation(validation: &PathValue, errs: &mut FieldErrors) {
    let (expression, message) = (validation.get("expression"), validation.get("message"));
    if expression.text().trim().is_empty() {
        errs.push(FieldError::required(&expression.path, "expression is not specified"));
    }
    let given = validation.get("messageExpression");
    if !given.is_empty() && given.text().trim().is_empty() {
        errs.push(FieldError::invalid(&given.path, given.text(), "must be non-empty if specified"));
    }
    let trimmed = message.text().trim();
    if !message.is_empty() && trimmed.is_empty() {
        errs.push(FieldError::invalid(&message.path, message.text(), "must be non-empty if specified"));
    } else if trimmed.contains(['\n', '\r']) {
        errs.push(FieldError::invalid(&message.path, message.text(), "must not contain line breaks"));
    }
    let reason = validation.get("reason");
    if reason.exists() {
        check::one_of(&reason, &["Forbidden", "Invalid", "RequestEntityTooLarge"], errs);
    }
}

fn validate_audit_annotations(annotations: &PathValue, policy: &str, errs: &mut FieldErrors) {
    const MAX_AUDIT_ANNOTATIONS: usize = 20;
    const MAX_AUDIT_ANNOTATION_BYTES: usize = 5 * 1024;
    if annotations.len() > MAX_AUDIT_ANNOTATIONS {
        let words = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errs.push(FieldError::invalid(&annotations.path, annotations.to_json(), words));
    }
    let mut keys = HashSet::new();
    for annotation in annotations.items() {
        let (key, expression) = (annotation.get("key"), annotation.get("valueExpression"));
        let full = format!("{policy}/{}", key.text());
        let words = check::qualified_name(&full).into_iter();
        errs.extend(words.map(|words| FieldError::invalid(&key.path, full.as_str(), words)));
        let trimmed = expression.text().trim();
        if trimmed.is_empty() {
            errs.push(FieldError::required(&expression.path, "valueExpression is not specified"));
        } else if trimmed.len() > MAX_AUDIT_ANNOTATION_BYTES {
            let words = format!("must not exceed {MAX_AUDIT_ANNOTATION_BYTES} bytes in length");
            errs.push(FieldError::required(&expression.path, words));
        }
        if keys.contains(&key.text()) {
            errs.push(FieldError::duplicate(&key.path, key.text()));
        }
        keys.insert(key.text());
    }
}

fn validate_param_kind(at: &PathValue, errs: &mut FieldErrors) {
    if !at.exists() {
        return;
    }
    let (api_version, kind) = (at.get("apiVersion"), at.get("kind"));
    let given = api_version.text();
    let (group, version) = given.split_once('/').unwrap_or(("", given));
    let mut refuse = |shown: &str, words: String| {
        errs.push(FieldError::invalid(&api_version.path, shown, words));
    };
    if given.is_empty() {
        errs.push(FieldError::required(&api_version.path, ""));
    } else if version.contains('/') {
        refuse(given, format!("unexpected GroupVersion string: {given}"));
    } else {
        let wrong = check::dns_subdomain(group);
        if !group.is_empty() && !wrong.is_empty() {
            refuse(group, wrong.join(","));
        }
        let wrong = check::dns_1035_label(version);
        if version.is_empty() {
            refuse(given, "version must be specified".to_owned());
        } else if !wrong.is_empty() {
            refuse(version, wrong.join(","));
        }
    }
    let wrong = check::dns_1035_label(&kind.text().to_lowercase());
    if kind.is_empty() {
        errs.push(FieldError::required(&kind.path, ""));
    } else if !wrong.is_empty() {
        let words = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errs.push(FieldError::invalid(&kind.path, kind.text(), words));
    }
}

fn validate_matching_resources(matching: &PathValue, errs: &mut FieldErrors) {
    validate_failure_and_match_policy(matching, errs);
    check::label_selector(&matching.get("namespaceSelector"), errs);
    check::label_selector(&matching.get("objectSelector"), errs);
    for rule in matching.get("resourceRules").items().chain(matching.get("excludeResourceRules").items()) {
        let mut names = HashSet::new();
        for name in rule.get("resourceNames").items() {
            check::text(&name, check::path_segment, errs);
            if names.contains(&name.text()) {
                errs.push(FieldError::duplicate(&name.path, name.text()));
            }
            names.insert(name.text());
        }
        validate_operations_rule(&rule, errs);
    }
}

/// Common fields of both kinds of bindings: the policy, its parameters and the matched resources.
pub(super) fn validate_binding_common(spec: &PathValue, errs: &mut FieldErrors) {
    check::required_text(&spec.get("policyName"), check::dns_subdomain, errs);
    validate_param_ref(&spec.get("paramRef"), errs);
    if spec.has("matchResources") {
        validate_matching_resources(&spec.get("matchResources"), errs);
    }
}

fn validate_binding(binding: &Value) -> FieldErrors {
    let spec = PathValue::root(binding).get("spec");
    let mut errs = FieldErrors::new();
    validate_binding_common(&spec, &mut errs);
    let actions = spec.get("validationActions");
    let mut seen = HashSet::new();
    for action in actions.items() {
        check::one_of(&action, &["Audit", "Deny", "Warn"], &mut errs);
        if seen.contains(&action.text()) {
            errs.push(FieldError::duplicate(&action.path, action.text()));
        }
        seen.insert(action.text());
    }
    if seen.contains(&"Deny") && seen.contains(&"Warn") {
        let words = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errs.push(FieldError::invalid(&actions.path, actions.to_json(), words));
    }
    if seen.is_empty() {
        errs.push(FieldError::required(&actions.path, "at least one validation action is required"));
    }
    errs
}

fn validate_param_ref(at: &PathValue, errs: &mut FieldErrors) {
    const ONE: &str = "name and selector are mutually exclusive";
    if !at.exists() {
        return;
    }
    let (name, selector) = (at.get("name"), at.get("selector"));
    if !name.is_empty() {
        check::text(&name, check::path_segment, errs);
    }
    check::label_selector(&selector, errs);
    match (name.is_empty(), selector.exists()) {
        (false, true) => {
            errs.push(FieldError::forbidden(&name.path, ONE));
            errs.push(FieldError::forbidden(&selector.path, ONE));
        }
        (true, false) => {
            errs.push(FieldError::required(&at.path, "one of name or selector must be specified"));
        }
        _ => {}
    }
    check::required_one_of(&at.get("parameterNotFoundAction"), &["Deny", "Allow"], errs);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::error_messages;

    #[test]
    fn empty_webhook_errors() {
        assert_eq!(
            error_messages(&validate_webhooks(&json!({"webhooks": [{"name": "x"}]}))),
            [
                "webhooks[0].name: Invalid value: \"x\": should be a domain with at least three segments separated by dots",
                "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
                "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
                "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
            ]
        );
    }

    #[test]
    fn empty_policy_and_binding_errors() {
        let mut policy = json!({"spec": {}});
        (RULES[2].default)(&mut policy);
        assert_eq!(
            error_messages(&validate_policy(&policy)),
            [
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ]
        );
        assert_eq!(
            error_messages(&validate_binding(&json!({"spec": {}}))),
            [
                "spec.policyName: Required value",
                "spec.validationActions: Required value: at least one validation action is required"
            ]
        );
    }

    #[test]
    fn webhook_url_is_https_without_query_or_user() {
        for (given, wrong) in [
            ("https://a.b/c", 0),
            ("http://a.b", 1),
            ("https://u@a.b", 1),
            ("https:///x", 1),
            ("https://a?b#c", 2),
        ] {
            let mut errs = FieldErrors::new();
            validate_url(
                &PathValue { value: Some(&json!(given)), path: crate::field::Path::new("url") },
                &mut errs,
            );
            assert_eq!(errs.len(), wrong, "{given}");
        }
    }
}
