//! `longshore-pools`: a pool that has nodes is not deleted, by whomever. What its controller last counted is what holds: a pool that
//! nobody has counted has none.

use serde_json::{Value, json};

use super::labels;

const NAME: &str = "longshore-pools";

/// The policy, and its binding.
pub(super) fn objects() -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": NAME, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": {},
                "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": ["apps.openyurt.io"],
                    "apiVersions": ["*"],
                    "operations": ["DELETE"],
                    "resources": ["nodepools"],
                    "scope": "Cluster",
                }],
            },
            "validations": [{
                "expression": "!has(oldObject.status) || !has(oldObject.status.nodes) || size(oldObject.status.nodes) == 0",
                "message": "this node pool still has nodes: move them first",
                "reason": "Forbidden",
            }],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": NAME, "labels": labels() },
        "spec": { "policyName": NAME, "validationActions": ["Deny"] },
    });
    [policy, binding]
}
