//! The right of a join token to read its own requests: one ClusterRole for each token, which lists them. Pure: no I/O, no clock.
//!
//! Kubelets list and watch their request by name, which RBAC permits for rules with `resourceNames`.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube_types::FIELD_MANAGER;
use kube_types::well_known::{JOIN_TOKEN, MANAGED_BY, TENANT};
use serde_json::{Value, json};

use super::token::JoinToken;

/// The limit of requests in a role; the newest are kept.
const MAX_REQUESTS: usize = 100;

/// The name of the role and of its binding.
pub(crate) fn role_name(token: &str) -> String {
    format!("longshore-join-{token}")
}

/// The requests that a role names.
pub(crate) fn requests_in_role(role: &ClusterRole) -> Vec<String> {
    let rules = role.rules.iter().flatten();
    rules.flat_map(|rule| rule.resource_names.clone().unwrap_or_default()).collect()
}

fn metadata(token: &JoinToken) -> Value {
    let labels = json!({ TENANT: token.owner, JOIN_TOKEN: token.id, MANAGED_BY: FIELD_MANAGER });
    json!({ "name": role_name(&token.id), "labels": labels })
}

/// The role with one more request.
pub(crate) fn role(token: &JoinToken, mut requests: Vec<String>, request: &str) -> Value {
    requests.push(request.to_owned());
    let names = &requests[requests.len().saturating_sub(MAX_REQUESTS)..];
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata(token),
        "rules": [{
            "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
            "resourceNames": names, "verbs": ["get", "list", "watch"],
        }],
    })
}

/// The ClusterRoleBinding of the role to the token's user.
pub(crate) fn binding(token: &JoinToken) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata(token),
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role_name(&token.id) },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": token.user_name() }],
    })
}
