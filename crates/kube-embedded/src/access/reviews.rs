//! Access reviews: `SubjectAccessReview` and its variants, `SelfSubjectRulesReview`, `SelfSubjectReview`.
//!
//! Each function takes the posted object (decoded and defaulted) and returns the object of the response (201). Nothing is stored.
//! `TokenReview` is in `super::tokens`.

use serde_json::{Map, Value, json};

use super::rbac::Authorizer;
use super::{Attributes, User, items, text, texts};
use crate::clock::{Clock, rfc3339};
use crate::error::{ApiError, Result};
use crate::field::{FieldError, FieldErrors, Path};
use crate::selector::{FieldSelector, LabelSelector};

const GROUP: &str = "authorization.k8s.io";

/// The kind of access review.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewScope<'a> {
    /// `SubjectAccessReview`: about any user.
    Any,
    /// `LocalSubjectAccessReview`: about any user, in this namespace (from the path).
    Local(&'a str),
    /// `SelfSubjectAccessReview`: about the caller.
    Caller,
}

/// Answers `SubjectAccessReview`, `LocalSubjectAccessReview` and `SelfSubjectAccessReview`.
pub fn review_access(
    authorizer: &Authorizer,
    caller: &User,
    scope: ReviewScope<'_>,
    mut review: Value,
) -> Result<Value> {
    let namespace = match scope {
        ReviewScope::Local(namespace) => {
            let given = text(&review["metadata"], "namespace");
            if !given.is_empty() && given != namespace {
                return Err(ApiError::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            namespace
        }
        _ => "",
    };
    let errors = validate_review(&review, scope, namespace);
    if !errors.is_empty() {
        // Kubernetes omits the kind here.
        return Err(ApiError::invalid(GROUP, "", "", &errors));
    }
    let spec = &review["spec"];
    if let Some(node) = super::node::node_of(caller).filter(|_| authorizer.is_tenant_node(caller)) {
        let about = &spec["resourceAttributes"];
        let is_own = text(about, "group").is_empty()
            && text(about, "resource") == "nodes"
            && text(about, "name") == node;
        if scope == ReviewScope::Any && !is_own {
            let why = "a tenant's node can only review access to itself";
            return Err(ApiError::forbidden(GROUP, "subjectaccessreviews", "", why));
        }
    }
    let subject = match scope {
        ReviewScope::Caller => caller.clone(),
        _ => parse_user(spec),
    };
    let decision = authorizer.decide(&subject, &parse_attributes(spec));
    let mut status = Map::new();
    status.insert("allowed".to_owned(), decision.allowed.into());
    if !decision.reason.is_empty() {
        status.insert("reason".to_owned(), decision.reason.as_ref().into());
    }
    if let Some(error) = evaluation_error(&spec["resourceAttributes"]) {
        status.insert("evaluationError".to_owned(), error.into());
    }
    review["metadata"] = if namespace.is_empty() { json!({}) } else { json!({ "namespace": namespace }) };
    review["status"] = Value::Object(status);
    Ok(review)
}

fn parse_user(spec: &Value) -> User {
    let extra = spec["extra"].as_object().into_iter().flatten();
    User {
        name: text(spec, "user").to_owned(),
        uid: text(spec, "uid").to_owned(),
        groups: texts(spec, "groups"),
        extra: extra
            .map(|(key, values)| {
                let values = values.as_array().into_iter().flatten();
                (key.clone(), values.filter_map(Value::as_str).map(str::to_owned).collect())
            })
            .collect(),
    }
}

fn parse_attributes(spec: &Value) -> Attributes {
    let resource = &spec["resourceAttributes"];
    if resource.is_null() {
        let path = &spec["nonResourceAttributes"];
        return Attributes {
            verb: text(path, "verb").to_owned(),
            path: text(path, "path").to_owned(),
            ..Attributes::default()
        };
    }
    let version = text(resource, "version");
    Attributes {
        verb: text(resource, "verb").to_owned(),
        group: text(resource, "group").to_owned(),
        version: if version.is_empty() { "*" } else { version }.to_owned(),
        resource: text(resource, "resource").to_owned(),
        subresource: text(resource, "subresource").to_owned(),
        namespace: text(resource, "namespace").to_owned(),
        name: text(resource, "name").to_owned(),
        node_name: super::node::node_in_reviewed_selector(&resource["fieldSelector"])
            .unwrap_or_default()
            .to_owned(),
        path: String::new(),
    }
}

fn validate_review(review: &Value, scope: ReviewScope<'_>, namespace: &str) -> FieldErrors {
    let spec = &review["spec"];
    let (resource, path) = (&spec["resourceAttributes"], &spec["nonResourceAttributes"]);
    let at = Path::new("spec");
    // The error quotes the Go structure, whose fields have no JSON names.
    let quoted_path = || json!({ "Path": text(path, "path"), "Verb": text(path, "verb") });
    let mut errors = FieldErrors::new();
    if !resource.is_null() && !path.is_null() {
        let detail = "cannot be specified in combination with resourceAttributes";
        errors.push(FieldError::invalid(&at.field("nonResourceAttributes"), quoted_path(), detail));
    }
    if resource.is_null() && path.is_null() {
        let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        errors.push(FieldError::invalid(&at.field("resourceAttributes"), Value::Null, detail));
    }
    if scope != ReviewScope::Caller && text(spec, "user").is_empty() && items(spec, "groups").is_empty() {
        let detail = "at least one of user or group must be specified";
        errors.push(FieldError::invalid(&at.field("user"), "", detail));
    }
    for (name, kind) in [("fieldSelector", false), ("labelSelector", true)] {
        let path = at.field("resourceAttributes").field(name);
        validate_selector(&resource[name], &path, kind, &mut errors);
    }
    let metadata = review["metadata"].as_object().cloned().unwrap_or_default();
    let filled = |(key, value): (&String, &Value)| {
        let nothing = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        key != "managedFields" && key != "namespace" && !nothing
    };
    if metadata.iter().any(filled) {
        let (shown, detail) = match scope {
            ReviewScope::Local(_) => (metadata.clone(), "must be empty except for namespace"),
            _ => (metadata.into_iter().filter(|(key, _)| key != "namespace").collect(), "must be empty"),
        };
        errors.push(FieldError::invalid(&Path::new("metadata"), Value::Object(shown), detail));
    }
    if matches!(scope, ReviewScope::Local(_)) {
        if !resource.is_null() && text(resource, "namespace") != namespace {
            let path = at.field("resourceAttributes").field("namespace");
            let given = text(resource, "namespace");
            errors.push(FieldError::invalid(&path, given, "must match metadata.namespace"));
        }
        if !path.is_null() {
            let detail = "disallowed on this kind of request";
            errors.push(FieldError::invalid(&at.field("nonResourceAttributes"), quoted_path(), detail));
        }
    }
    errors
}

fn validate_selector(selector: &Value, at: &Path, labels: bool, errors: &mut FieldErrors) {
    if selector.is_null() {
        return;
    }
    let (raw, requirements) = (text(selector, "rawSelector"), items(selector, "requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        errors.push(FieldError::invalid(&at.field("rawSelector"), raw, detail));
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {at} is specified, requirements or rawSelector is required");
        errors.push(FieldError::required(&at.field("requirements"), detail));
    }
    for (n, requirement) in requirements.iter().enumerate() {
        let at = at.field("requirements").index(n);
        if text(requirement, "key").is_empty() && !labels {
            errors.push(FieldError::required(&at.field("key"), "must be specified"));
        }
        let none = items(requirement, "values").is_empty();
        match text(requirement, "operator") {
            "In" | "NotIn" if none => errors.push(FieldError::required(
                &at.field("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if !none => errors.push(FieldError::forbidden(
                &at.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            _ => {}
        }
    }
}

/// Reports selectors that cannot be parsed. RBAC ignores selectors otherwise.
fn evaluation_error(resource: &Value) -> Option<String> {
    let raw = |name: &str| text(&resource[name], "rawSelector");
    let odd = |name: &str, known: &[&str]| {
        items(&resource[name], "requirements").iter().any(|one| !known.contains(&text(one, "operator")))
    };
    let (set, exists) = (["In", "NotIn"], ["In", "NotIn", "Exists", "DoesNotExist"]);
    let unreadable = [
        (
            "fieldSelector",
            FieldSelector::parse_terms(raw("fieldSelector")).is_err() || odd("fieldSelector", &set),
        ),
        (
            "labelSelector",
            LabelSelector::parse(raw("labelSelector")).is_err() || odd("labelSelector", &exists),
        ),
    ];
    let errors = unreadable.into_iter().filter(|(_, bad)| *bad);
    let errors: Vec<String> = errors
        .map(|(name, _)| format!("spec.resourceAttributes.{name} ignored due to parse error"))
        .collect();
    (!errors.is_empty()).then(|| errors.join("; "))
}

/// Limits of the rules in one response: number of values, and bytes.
const MAX_VALUES: usize = 60_000;
const MAX_RULE_BYTES: usize = 4 << 20;

/// Answers `SelfSubjectRulesReview`: the caller's rules in one namespace, truncated to the limits.
pub fn review_rules(authorizer: &Authorizer, caller: &User, review: &Value) -> Result<Value> {
    let namespace = text(&review["spec"], "namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let held = authorizer.rules_for(caller, namespace);
    let mut errors = Vec::new();
    // The node authorizer depends on pods and cannot be listed as rules.
    if super::node::node_of(caller).is_some() {
        errors.push("node authorizer does not support user rule resolution".to_owned());
    }
    let (mut of_resources, mut of_paths) = (Vec::new(), Vec::new());
    let (mut values, mut bytes) = (0_usize, 0_usize);
    for rule in held.rules() {
        values = values.saturating_add(rule.values().count());
        bytes = bytes.saturating_add(rule.bytes());
        if values > MAX_VALUES || bytes > MAX_RULE_BYTES {
            errors.push(format!(
                "the rules have more than {MAX_VALUES} values or {MAX_RULE_BYTES} bytes, the rest is left out"
            ));
            break;
        }
        of_resources.extend(rule.resource_rule());
        of_paths.extend(rule.path_rule());
    }
    let incomplete = !errors.is_empty();
    errors.extend(held.errors.iter().map(str::to_owned));
    let mut status = json!({ "incomplete": incomplete });
    status["resourceRules"] = Value::Array(of_resources);
    status["nonResourceRules"] = Value::Array(of_paths);
    match errors.as_slice() {
        [] => {}
        [only] => status["evaluationError"] = only.as_str().into(),
        many => status["evaluationError"] = format!("[{}]", many.join(", ")).into(),
    }
    let mut answer = json!({
        "kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {}, "spec": {},
    });
    answer["status"] = status;
    Ok(answer)
}

/// Answers `SelfSubjectReview`: the caller as authenticated.
pub fn whoami(caller: &User, clock: &dyn Clock) -> Value {
    json!({
        "kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": { "creationTimestamp": rfc3339(clock.now()) },
        "status": { "userInfo": caller.user_info() },
    })
}

#[cfg(test)]
mod tests {
    use super::super::rbac::tests::{binding, put};
    use super::*;
    use crate::store::Store;

    async fn authorizer() -> Authorizer {
        let store = Store::in_memory();
        let rules =
            json!([{"apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"], "verbs": ["get"]}]);
        put(&store, json!({"kind": "Role", "metadata": {"name": "r", "namespace": "a"}, "rules": rules}))
            .await;
        put(&store, binding("a", "b", ("Role", "r"), ("User", "ann"))).await;
        Authorizer::new(store)
    }

    #[tokio::test]
    async fn reviews_are_answered_or_rejected() {
        let authorizer = authorizer().await;
        let ann = User::named("ann", &[]);
        let pod = json!({"namespace": "a", "verb": "get", "resource": "pods", "name": "p"});
        let yes = json!({"allowed": true, "reason": "RBAC: allowed by RoleBinding \"b/a\" of Role \"r\" to User \"ann\""});
        let good = [
            (ReviewScope::Caller, json!({"resourceAttributes": pod}), yes.clone()),
            (ReviewScope::Any, json!({"user": "ann", "resourceAttributes": pod}), yes.clone()),
            (ReviewScope::Local("a"), json!({"user": "ann", "resourceAttributes": pod}), yes),
            (ReviewScope::Any, json!({"user": "x", "resourceAttributes": pod}), json!({"allowed": false})),
            (
                ReviewScope::Any,
                json!({"user": "x", "groups": ["system:masters"], "nonResourceAttributes": {"path": "/x", "verb": "get"}}),
                json!({"allowed": true}),
            ),
            (
                ReviewScope::Any,
                json!({"user": "x", "resourceAttributes": {"verb": "get", "resource": "pods", "labelSelector": {"rawSelector": "a b c"}}}),
                json!({"allowed": false, "evaluationError": "spec.resourceAttributes.labelSelector ignored due to parse error"}),
            ),
        ];
        for (scope, spec, status) in good {
            let answer = review_access(&authorizer, &ann, scope, json!({"spec": spec})).unwrap();
            assert_eq!(answer["status"], status, "{spec}");
        }
        let bad = [
            (
                ReviewScope::Caller,
                json!({}),
                ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified",
            ),
            (
                ReviewScope::Any,
                json!({"resourceAttributes": pod}),
                ".authorization.k8s.io \"\" is invalid: spec.user: Invalid value: \"\": at least one of user or group must be specified",
            ),
            (
                ReviewScope::Any,
                json!({"user": "a", "resourceAttributes": pod, "nonResourceAttributes": {"path": "/a", "verb": "get"}}),
                ".authorization.k8s.io \"\" is invalid: spec.nonResourceAttributes: Invalid value: {\"Path\":\"/a\",\"Verb\":\"get\"}: cannot be specified in combination with resourceAttributes",
            ),
            (
                ReviewScope::Local("b"),
                json!({"user": "a", "resourceAttributes": pod}),
                ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.namespace: Invalid value: \"a\": must match metadata.namespace",
            ),
            (
                ReviewScope::Any,
                json!({"user": "a", "resourceAttributes": {"fieldSelector": {}}}),
                ".authorization.k8s.io \"\" is invalid: spec.resourceAttributes.fieldSelector.requirements: Required value: when spec.resourceAttributes.fieldSelector is specified, requirements or rawSelector is required",
            ),
        ];
        for (scope, spec, message) in bad {
            let error = review_access(&authorizer, &ann, scope, json!({"spec": spec})).unwrap_err();
            assert_eq!(error.message, message);
        }
    }

    #[tokio::test]
    async fn rules_review_lists_rules_of_caller() {
        let authorizer = authorizer().await;
        let answer =
            review_rules(&authorizer, &User::named("ann", &[]), &json!({"spec": {"namespace": "a"}}))
                .unwrap();
        let rule =
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["p"]});
        assert_eq!(
            answer["status"],
            json!({"resourceRules": [rule], "nonResourceRules": [], "incomplete": false})
        );
        assert_eq!(review_rules(&authorizer, &User::named("ann", &[]), &json!({})).unwrap_err().code, 400);
    }
}
