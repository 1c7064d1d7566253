//! Admission policies for pods on tenants' nodes: pods of others never run there, whatever taints they tolerate.
//!
//! `longshore-tenant-node-placement`: a pod is bound to a tenant's node, or created with its name, only in the namespaces of the tenant.
//! There are two exceptions: the node's own mirror pods (`super::nodes` limits those), and pods of DaemonSets that an administrator of the
//! cluster allowed by name in an annotation of their namespace ([`ALLOWED_DAEMON_SETS_ANNOTATION`]).
//! `longshore-older-node-placement` is the same for nodes whose names have no prefix.
//!
//! The policy denies the binding, not the creation of a DaemonSet's pod: a DaemonSet controller stops at the first denied pod of a round
//! and backs off, which would delay the pods of other nodes. A pod that is not bound has no node, and a node can read nothing of it.
//!
//! The list is an annotation and not a parameter of the policy: if a parameter is missing, Kubernetes either skips the policy or denies
//! every pod of the cluster. A Binding names no owner, so a DaemonSet's pod is recognised by its name, which only clients that write in
//! that namespace choose.

use kube_types::well_known::{TENANT, WORKSPACE};
use serde_json::{Value, json};

use super::nodes::{TENANT_BY_PARAMS, condition, only_for_tenants_nodes, parameterized_policy, policy};

/// The annotation of a namespace that lists, separated by commas, its DaemonSets that may have pods on tenants' nodes.
const ALLOWED_DAEMON_SETS_ANNOTATION: &str = "longshore.dev/tenant-node-daemonsets";

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let has_target = condition(
        "has-a-node",
        "has(object.target) || (has(object.spec) && has(object.spec.nodeName) && object.spec.nodeName != '')",
    );
    let variables = |tenant: &str| {
        json!([
            // An API server passes the Binding, the embedded cluster the pod with its node.
            { "name": "node", "expression": "has(object.target) ? (has(object.target.name) ? object.target.name : '') : object.spec.nodeName" },
            { "name": "tenant", "expression": tenant },
            { "name": "pod", "expression": "has(object.metadata.name) ? object.metadata.name : ''" },
        ])
    };
    let by_name =
        variables("variables.node.matches('^u[a-z2-7]{10}-') ? variables.node.substring(0, 11) : ''");
    let by_params = variables(TENANT_BY_PARAMS);
    let mut all = Vec::new();
    all.extend(policy(
        "longshore-tenant-node-placement",
        &rules(),
        &has_target,
        &by_name,
        &only_for_tenants_nodes(placement_validations()),
    ));
    all.extend(parameterized_policy(
        "longshore-older-node-placement",
        &rules(),
        &has_target,
        &by_params,
        &only_for_tenants_nodes(placement_validations()),
    ));
    all
}

fn rules() -> Value {
    let rule = |operations: &[&str], resources: &[&str]| json!({ "apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources, "scope": "Namespaced" });
    // A binding is a CREATE of a Binding; in the embedded cluster it is an UPDATE of the pod.
    json!([rule(&["CREATE"], &["pods", "bindings"]), rule(&["CREATE", "UPDATE"], &["pods/binding"])])
}

/// Validation: the pod is the tenant's, a mirror pod of the node, or of an allowed DaemonSet.
fn placement_validations() -> Value {
    let labels = "namespaceObject.metadata.labels";
    let own =
        format!("(has({labels}) && '{TENANT}' in {labels} && {labels}['{TENANT}'] == variables.tenant)");
    let mirrored = "request.userInfo.username == 'system:node:' + variables.node";
    let annotations = "namespaceObject.metadata.annotations";
    let allowed = format!(
        "((!has({labels}) || !('{WORKSPACE}' in {labels})) && has({annotations}) && '{ALLOWED_DAEMON_SETS_ANNOTATION}' in {annotations} && \
         variables.pod.matches('^.+-[a-z0-9]{{5}}$') && \
         variables.pod.substring(0, size(variables.pod) - 6) in {annotations}['{ALLOWED_DAEMON_SETS_ANNOTATION}'].split(','))"
    );
    json!([{
        "expression": format!("{own} || {mirrored} || {allowed}"),
        "message": format!(
            "this is the node of a tenant: only pods in the namespaces of the tenant run there; an administrator of the cluster can allow a DaemonSet \
             by its name in the annotation {ALLOWED_DAEMON_SETS_ANNOTATION} of its namespace"
        ),
        "reason": "Forbidden",
    }])
}
