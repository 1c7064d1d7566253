//! Rights of join tokens before a machine has a certificate: create a certificate request and read the cluster information for joining.
//!
//! Join tokens are not in kubeadm's groups, which are bound to automatic approval: then nodes would be neither counted nor owned. Nor
//! do they have `system:node-bootstrapper`, which permits listing the requests of others: the controller grants the right to read each
//! request by its name when it is created (`crate::controller::node_csr`).
//!
//! `longshore-join-requests`: a join token requests only certificates of nodes, in requests of bounded size, because no quota counts them.

use serde_json::{Value, json};

use super::labels;
use super::nodes::{bounded_requests, certificate_requests, condition, policy};
use crate::node_join::node_csr::{CLIENT_SIGNER, KUBELET_SIGNER};
use crate::node_join::token::{JOIN_TOKENS_GROUP, NAMESPACE};

const NAME: &str = "longshore-join";
/// The role that permits creating requests, and its binding.
const JOIN_REQUESTS_ROLE: &str = "longshore-join-requests";

/// The ConfigMaps that join tools read before the Node exists.
const READABLE_CONFIG_MAPS: [&str; 4] = ["kubeadm-config", "kubelet-config", "kube-proxy", "yurt-hub-cfg"];

pub(super) fn objects() -> Vec<Value> {
    let group =
        json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": JOIN_TOKENS_GROUP }]);
    let role = |kind: &str, name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    let mut all = vec![
        // Revokes what older versions granted. The role of a binding is immutable, its subjects are not.
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": NAME, "labels": labels() },
            "roleRef": role("ClusterRole", "system:node-bootstrapper"),
            "subjects": [],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": { "name": JOIN_REQUESTS_ROLE, "labels": labels() },
            "rules": [{ "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"] }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": JOIN_REQUESTS_ROLE, "labels": labels() },
            "roleRef": role("ClusterRole", JOIN_REQUESTS_ROLE),
            "subjects": group,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels() },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": READABLE_CONFIG_MAPS, "verbs": ["get"] }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels() },
            "roleRef": role("Role", NAME),
            "subjects": group,
        }),
    ];
    let by_a_join_token = condition(
        "by-a-join-token",
        &format!("has(request.userInfo.groups) && '{JOIN_TOKENS_GROUP}' in request.userInfo.groups"),
    );
    let validations = bounded_requests(&[KUBELET_SIGNER, CLIENT_SIGNER]);
    all.extend(policy(
        JOIN_REQUESTS_ROLE,
        &certificate_requests(),
        &by_a_join_token,
        &json!([]),
        &validations,
    ));
    all
}
