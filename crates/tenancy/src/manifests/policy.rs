//! The policy that keeps tenants from what the platform provisioned for them.
//!
//! Tenants may write RoleBindings, NetworkPolicies and ServiceAccounts of their own, so Kubernetes' roles alone cannot keep
//! them from those that hold them in their place. A tenant is a person (by whichever door) or a ServiceAccount of the
//! workspace's own namespace; that no other ServiceAccount and no person gets a right there by a tenant's RoleBinding is
//! one of the rules, so that nobody keeps access who is no longer a member.
//!
//! An administrator of the platform is a person too: what they changed by hand the platform would put back.

use kube_types::SYSTEM_NAMESPACE;
use kube_types::marks::{PROVISIONED, WORKSPACE};
use serde_json::{Value, json};

use super::labels;

const NAME: &str = "longshore-provisioned";

/// The policy and its binding.
pub(super) fn objects() -> [Value; 2] {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": NAME, "labels": labels() },
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "matchPolicy": "Equivalent",
                "namespaceSelector": { "matchExpressions": [{ "key": WORKSPACE, "operator": "Exists" }] },
                "objectSelector": {},
                "resourceRules": [{
                    "apiGroups": ["*"],
                    "apiVersions": ["*"],
                    "operations": ["CREATE", "UPDATE", "DELETE"],
                    "resources": ["*"],
                    "scope": "Namespaced",
                }],
            },
            "matchConditions": [{ "name": "by-a-tenant", "expression": by_a_tenant() }],
            "validations": validations(),
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

fn by_a_tenant() -> String {
    let starts = |prefix: &str| format!("request.userInfo.username.startsWith({prefix})");
    let person = starts("'longshore:user:'");
    // Ids begin with `u`; the platform's own ServiceAccount does not.
    let by_kubeconfig = starts(&format!("'system:serviceaccount:{SYSTEM_NAMESPACE}:u'"));
    let program = starts("'system:serviceaccount:' + namespaceObject.metadata.name + ':'");
    format!("{person} || {by_kubeconfig} || {program}")
}

fn validations() -> Value {
    let labelled = |object: &str, label: &str| {
        format!("{object} != null && has({object}.metadata.labels) && '{label}' in {object}.metadata.labels")
    };
    let own =
        format!("object.metadata.labels['{WORKSPACE}'] == namespaceObject.metadata.labels['{WORKSPACE}']");
    json!([
        {
            "expression": format!("!({})", labelled("oldObject", PROVISIONED)),
            "message": "this object was provisioned by Longshore: it cannot be changed or deleted",
            "reason": "Forbidden",
        },
        {
            "expression": format!("!({})", labelled("object", PROVISIONED)),
            "message": format!("the label {PROVISIONED} is for what Longshore provisions"),
            "reason": "Forbidden",
        },
        {
            "expression": format!("!({}) || {own}", labelled("object", WORKSPACE)),
            "message": format!("the label {WORKSPACE} can only name the workspace that the namespace belongs to"),
            "reason": "Forbidden",
        },
        {
            "expression": "request.resource.resource != 'rolebindings' || object == null || !has(object.subjects) || \
                           object.subjects.all(subject, subject.kind == 'ServiceAccount' && \
                           (!has(subject.namespace) || subject.namespace == namespaceObject.metadata.name))",
            "message": "people get their rights as members of the workspace: a RoleBinding can only name ServiceAccounts of its own namespace",
            "reason": "Forbidden",
        },
    ])
}
