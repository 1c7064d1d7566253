//! Admission policies that restrict tenants where RBAC cannot.
//!
//! `longshore-provisioned`: tenants may write RoleBindings, NetworkPolicies and ServiceAccounts of their own, so RBAC cannot protect the
//! provisioned ones. A tenant is a user (through the platform or with a kubeconfig) or a ServiceAccount of the workspace's own namespace.
//! A tenant's RoleBinding grants rights to no other ServiceAccount and to no user, so that no removed member keeps access. Tenants create
//! no RoleBindings whose names begin with `longshore-`.
//! Administrators of the platform are restricted too: the platform would revert their manual changes.
//!
//! `longshore-requested`: a release that belongs to a request acts as the user who requested it. A client that could change it would act
//! as that user, so tenants can neither change nor create one. Nor do tenants write the status of any release: it decides which Helm
//! records are trusted.
//!
//! `longshore-nodes`: a tenant's pods run on nodes without a tenant and on the tenant's own. The namespace decides, whichever client
//! creates the pod (mostly a controller on behalf of a tenant).
//!
//! Elsewhere: what nodes themselves may write ([`super::nodes`]).

use kube_types::SYSTEM_NAMESPACE;
use kube_types::well_known::{ACCOUNT, PROVISIONED_OBJECT, TENANT, WORKSPACE};
use serde_json::{Value, json};

use super::labels;
use crate::controller::OwnedKind;

/// Names of the platform's RoleBindings. A closed workspace has none: one that a tenant created under such a name would be in the way of its
/// restore.
const RESERVED_PREFIX: &str = "longshore-";

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let provisioned = json!({
        "resourceRules": [{
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["*"],
            "scope": "Namespaced",
        }],
    });
    let pods = json!({
        "resourceRules": [{
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }],
    });
    let releases = json!({
        "resourceRules": [{
            "apiGroups": ["longshore.dev"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": ["helmreleases", "helmreleases/status"],
            "scope": "Namespaced",
        }],
    });
    let by_a_tenant = || Some(json!([{ "name": "by-a-tenant", "expression": is_tenant_request() }]));
    [
        policy("longshore-provisioned", provisioned, by_a_tenant(), &provisioned_validations()),
        policy("longshore-requested", releases, by_a_tenant(), &requested_validations()),
        policy("longshore-nodes", pods, None, &node_validations()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A policy for writes in the namespaces of workspaces, and its binding.
pub(super) fn policy(
    name: &str,
    mut what: Value,
    conditions: Option<Value>,
    validations: &Value,
) -> [Value; 2] {
    what["matchPolicy"] = "Equivalent".into();
    what["namespaceSelector"] = json!({ "matchExpressions": [{ "key": WORKSPACE, "operator": "Exists" }] });
    what["objectSelector"] = json!({});
    let mut spec = json!({ "failurePolicy": "Fail", "matchConstraints": what, "validations": validations });
    if let Some(conditions) = conditions {
        spec["matchConditions"] = conditions;
    }
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": { "name": name, "labels": labels() },
        "spec": spec,
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": { "name": name, "labels": labels() },
        "spec": { "policyName": name, "validationActions": ["Deny"] },
    });
    [policy, binding]
}

/// CEL: a tenant sends the request, as a user or as a ServiceAccount of the namespace.
pub(super) fn is_tenant_request() -> String {
    let starts = |prefix: &str| format!("request.userInfo.username.startsWith({prefix})");
    let person = starts("'longshore:user:'");
    // Ids begin with `u`; the name of the platform's own ServiceAccount does not.
    let by_kubeconfig = starts(&format!("'system:serviceaccount:{SYSTEM_NAMESPACE}:u'"));
    // `namespaceObject` and `request.namespace` (`namespace` is a reserved word) are not available here in every cluster.
    let program =
        starts("'system:serviceaccount:' + (object != null ? object : oldObject).metadata.namespace + ':'");
    format!("{person} || {by_kubeconfig} || {program}")
}

/// Validations of `longshore-provisioned`.
fn provisioned_validations() -> Value {
    let labelled = |object: &str, label: &str| {
        format!("{object} != null && has({object}.metadata.labels) && '{label}' in {object}.metadata.labels")
    };
    let own =
        format!("object.metadata.labels['{WORKSPACE}'] == namespaceObject.metadata.labels['{WORKSPACE}']");
    let own_account = format!(
        "'{ACCOUNT}' in namespaceObject.metadata.labels && \
         object.metadata.labels['{ACCOUNT}'] == namespaceObject.metadata.labels['{ACCOUNT}']"
    );
    // Controllers copy labels of a tenant's templates to other kinds, so the label protects these kinds only.
    let resources = OwnedKind::ALL.map(|kind| kind.resource().plural);
    let of_provisioned_kind = format!("request.resource.resource in ['{}']", resources.join("', '"));
    json!([
        {
            "expression": format!("!({of_provisioned_kind}) || !({})", labelled("oldObject", PROVISIONED_OBJECT)),
            "message": "this object was provisioned by Longshore: it cannot be changed or deleted",
            "reason": "Forbidden",
        },
        {
            "expression": format!("!({}) || ({})", labelled("object", PROVISIONED_OBJECT), labelled("oldObject", PROVISIONED_OBJECT)),
            "message": format!("the label {PROVISIONED_OBJECT} is for what Longshore provisions"),
            "reason": "Forbidden",
        },
        {
            "expression": format!(
                "request.resource.resource != 'rolebindings' || request.operation != 'CREATE' || \
                 !(has(object.metadata.name) ? object.metadata.name : object.metadata.generateName).startsWith('{RESERVED_PREFIX}')"
            ),
            "message": format!("names of RoleBindings that begin with {RESERVED_PREFIX} are reserved: choose another name"),
            "reason": "Forbidden",
        },
        {
            "expression": format!("!({}) || {own}", labelled("object", WORKSPACE)),
            "message": format!("the label {WORKSPACE} can only name the workspace that the namespace belongs to"),
            "reason": "Forbidden",
        },
        {
            "expression": format!("!({}) || ({own_account})", labelled("object", ACCOUNT)),
            "message": format!("the label {ACCOUNT} can only name the account whose budgets the namespace uses"),
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

/// Validations of `longshore-requested`.
fn requested_validations() -> Value {
    let has = |object: &str| format!("({object} == null || !has({object}.spec.requestRef))");
    json!([
        {
            "expression": format!("{} && {}", has("object"), has("oldObject")),
            "message": "this release belongs to a request: it is changed and deleted through Longshore",
            "reason": "Forbidden",
        },
        {
            "expression": "!has(request.subResource) || request.subResource != 'status'",
            "message": "the status of a release is written by Longshore",
            "reason": "Forbidden",
        },
    ])
}

/// Validations of `longshore-nodes`.
fn node_validations() -> Value {
    let mirrored =
        "(has(object.spec.nodeName) && request.userInfo.username == 'system:node:' + object.spec.nodeName)";
    let own = format!(
        "has(namespaceObject.metadata.labels) && '{TENANT}' in namespaceObject.metadata.labels && has(toleration.value) && \
         toleration.value == namespaceObject.metadata.labels['{TENANT}'] && \
         (!has(toleration.operator) || toleration.operator == 'Equal')"
    );
    json!([
        {
            // The scheduler binds pods by another request. A node mirrors its static pods; another policy limits which.
            "expression": format!("request.operation != 'CREATE' || !has(object.spec.nodeName) || object.spec.nodeName == '' || {mirrored}"),
            "message": "a pod in a workspace cannot name its node: the scheduler finds one",
            "reason": "Forbidden",
        },
        {
            // Tolerations that a pod has had since its creation are not checked again.
            "expression": format!(
                "!has(object.spec.tolerations) || {mirrored} || (oldObject != null && has(oldObject.spec.tolerations) && \
                 object.spec.tolerations == oldObject.spec.tolerations) || \
                 object.spec.tolerations.all(toleration, has(toleration.key) && toleration.key != '' && \
                 (toleration.key != '{TENANT}' || ({own})))"
            ),
            "message": format!("pods in a workspace must not tolerate all taints, nor {TENANT} of somebody else"),
            "reason": "Forbidden",
        },
    ])
}
