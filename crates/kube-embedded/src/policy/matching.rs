//! Matching of requests to policies and bindings.

use serde_json::Value;

use crate::admission::{AdmissionRequest, Operation};

pub fn is_namespace(request: &AdmissionRequest<'_>) -> bool {
    request.resource.group.is_empty() && request.resource.name.as_ref() == "namespaces"
}

/// Whether `matchConstraints` or `matchResources` match a request.
pub fn matches(
    limits: &Value,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    namespace: Option<&Value>,
) -> bool {
    namespace_matches(&limits["namespaceSelector"], request, object, namespace)
        && object_matches(&limits["objectSelector"], request, object)
        && !rules_match(&limits["excludeResourceRules"], limits, request, object)
        && (limits["resourceRules"].as_array().is_none_or(Vec::is_empty)
            || rules_match(&limits["resourceRules"], limits, request, object))
}

fn namespace_matches(
    selector: &Value,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
    namespace: Option<&Value>,
) -> bool {
    let labelled = match (namespace, is_namespace(request)) {
        (Some(namespace), _) => namespace,
        (None, true) => match object.or(request.old) {
            Some(namespace) => namespace,
            None => return true,
        },
        (None, false) => return true, // cluster-scoped objects are never exempt
    };
    label_selector_matches(selector, &labelled["metadata"]["labels"])
}

/// The new or the old object must match.
fn object_matches(selector: &Value, request: &AdmissionRequest<'_>, object: Option<&Value>) -> bool {
    let mut states = object.into_iter().chain(request.old);
    selects_everything(selector)
        || states.any(|state| label_selector_matches(selector, &state["metadata"]["labels"]))
}

fn selects_everything(selector: &Value) -> bool {
    let empty = |key: &str| match &selector[key] {
        Value::Object(labels) => labels.is_empty(),
        Value::Array(requirements) => requirements.is_empty(),
        _ => true,
    };
    empty("matchLabels") && empty("matchExpressions")
}

/// Evaluates a `LabelSelector` for labels, both as JSON.
pub fn label_selector_matches(selector: &Value, labels: &Value) -> bool {
    let pairs = selector["matchLabels"].as_object().into_iter().flatten();
    let requirements = selector["matchExpressions"].as_array().into_iter().flatten();
    pairs.into_iter().all(|(key, value)| labels.get(key) == Some(value))
        && requirements.into_iter().all(|requirement| {
            let found = labels.get(requirement["key"].as_str().unwrap_or_default());
            let values = requirement["values"].as_array().map(Vec::as_slice).unwrap_or_default();
            match requirement["operator"].as_str().unwrap_or_default() {
                "In" => found.is_some_and(|found| values.contains(found)),
                "NotIn" => found.is_none_or(|found| !values.contains(found)),
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => false,
            }
        })
}

fn rules_match(
    rules: &Value,
    limits: &Value,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> bool {
    let rules = rules.as_array().map(Vec::as_slice).unwrap_or_default();
    let equivalent = limits["matchPolicy"] != "Exact";
    rules.iter().any(|rule| rule_matches(rule, equivalent, request, object))
}

fn rule_matches(
    rule: &Value,
    equivalent: bool,
    request: &AdmissionRequest<'_>,
    object: Option<&Value>,
) -> bool {
    let one_of = |key: &str, wanted: &str| {
        let list = rule[key].as_array().into_iter().flatten();
        list.into_iter().any(|value| value == "*" || value == wanted)
    };
    let operation = match request.operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
    };
    let resource = |written: &Value| {
        let written = written.as_str().unwrap_or_default();
        let (name, subresource) = written.split_once('/').unwrap_or((written, ""));
        (name == "*" || name == request.resource.name.as_ref())
            && (subresource == "*" || subresource == request.subresource)
    };
    let scope = match rule["scope"].as_str() {
        Some("Namespaced") => request.resource.namespaced,
        Some("Cluster") => !request.resource.namespaced,
        _ => true,
    };
    // Two versions of a resource have the same objects: with `Equivalent`, a rule for one matches the other.
    let version = one_of("apiVersions", &request.resource.version)
        || (equivalent
            && request.resource.storage_version != request.resource.version
            && one_of("apiVersions", &request.resource.storage_version))
        || (equivalent && request.resource.is_custom());
    let names = rule["resourceNames"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = match request.name {
        "" => object.and_then(|object| object["metadata"]["name"].as_str()).unwrap_or_default(),
        name => name,
    };
    scope
        && one_of("operations", operation)
        && one_of("apiGroups", &request.resource.group)
        && version
        && rule["resources"].as_array().into_iter().flatten().any(resource)
        && (names.is_empty() || names.iter().any(|known| known == name))
}
