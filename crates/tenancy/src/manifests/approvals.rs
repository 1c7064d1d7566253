//! Admission policies for the approval of certificate requests: only the platform approves requests of tenants' nodes and of join tokens.
//!
//! kubeadm binds `system:certificates.k8s.io:certificatesigningrequests:selfnodeclient` to the group `system:nodes`, so
//! kube-controller-manager approves the renewals of every node: a tenant's node could renew its certificate forever, even after its
//! account is deleted. That approver checks the rights of the requester and no admission policy, so the approval itself is denied here.
//!
//! - `longshore-tenant-node-approvals`: client certificates of tenants' nodes and of join tokens are approved by the platform or by an
//!   administrator of the cluster.
//! - `longshore-older-node-approvals`: the same for nodes whose names have no prefix.
//!
//! The platform does not decide on serving certificates; other approvers remain free to.

use kube_types::SYSTEM_NAMESPACE;
use serde_json::{Value, json};

use super::PLATFORM_SERVICE_ACCOUNT;
use super::nodes::{
    KUBELET_SERVING_SIGNER, TENANT_NODE_USER_PATTERN, only_for_tenants_nodes, parameterized_policy, policy,
    tenant_by_params,
};
use crate::node_join::token::JOIN_TOKENS_GROUP;

/// Groups of the administrators of a cluster.
const ADMINISTRATORS: [&str; 2] = ["system:masters", "kubeadm:cluster-admins"];

/// The policies, each with its binding.
pub(super) fn objects() -> Vec<Value> {
    let requester = "oldObject.spec.username";
    let by_name = format!(
        "{requester}.matches('{TENANT_NODE_USER_PATTERN}') || \
         (has(oldObject.spec.groups) && '{JOIN_TOKENS_GROUP}' in oldObject.spec.groups)"
    );
    let by_params = format!("{requester}.startsWith('system:node:')");
    let mut all = Vec::new();
    all.extend(policy(
        "longshore-tenant-node-approvals",
        &rules(),
        &conditions("of-a-tenants-machine", &by_name),
        &json!([]),
        &approver_validations(),
    ));
    all.extend(parameterized_policy(
        "longshore-older-node-approvals",
        &rules(),
        &conditions("of-a-node", &by_params),
        &tenant_by_params(requester),
        &only_for_tenants_nodes(approver_validations()),
    ));
    all
}

fn rules() -> Value {
    json!([{
        "apiGroups": ["certificates.k8s.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
        "resources": ["certificatesigningrequests/approval"], "scope": "Cluster",
    }])
}

/// Match conditions on the stored request, because an approval changes nothing of its `spec`.
fn conditions(name: &str, requested: &str) -> Value {
    let has = |object: &str| {
        format!(
            "(has({object}.status) && has({object}.status.conditions) && \
             {object}.status.conditions.exists(condition, condition.type == 'Approved'))"
        )
    };
    json!([
        { "name": "approves", "expression": format!("{} && !{}", has("object"), has("oldObject")) },
        { "name": "a-client-certificate", "expression": format!("oldObject.spec.signerName != '{KUBELET_SERVING_SIGNER}'") },
        { "name": name, "expression": requested },
    ])
}

/// Validation: the approver is the platform or an administrator of the cluster.
fn approver_validations() -> Value {
    let administrator = ADMINISTRATORS.map(|group| format!("'{group}' in request.userInfo.groups"));
    json!([{
        "expression": format!(
            "request.userInfo.username == 'system:serviceaccount:{SYSTEM_NAMESPACE}:{PLATFORM_SERVICE_ACCOUNT}' || \
             (has(request.userInfo.groups) && ({}))",
            administrator.join(" || ")
        ),
        "message": "this is a request of a tenant's node: only Longshore approves it, for as long as its account is open",
        "reason": "Forbidden",
    }])
}
