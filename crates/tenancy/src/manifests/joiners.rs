//! What a machine may do that joins by one of our tokens, before it has a certificate: ask for one, and read what it must know.
//!
//! kubeadm's own groups are not given to it: they are bound to automatic approval, by which nobody would be counted and no node would be
//! anybody's. Nor is `system:node-bootstrapper`, by which it could list the requests of others: the right to read a request is given for each by
//! its name, when it is made (`crate::provision::joining`).
//!
//! `longshore-join-requests`: a join token requests certificates of nodes only, in requests of bounded size, because no quota counts them.

use serde_json::{Value, json};

use super::labels;
use super::nodes::{bounded_requests, certificate_requests, condition, policy};
use crate::edge::request::{CLIENT, KUBELET};
use crate::edge::token::{JOINERS, NAMESPACE};

const NAME: &str = "longshore-join";
/// Binds the role that lets joining machines create requests.
const REQUESTS: &str = "longshore-join-requests";

/// What join tools read before there is a node.
const READ: [&str; 4] = ["kubeadm-config", "kubelet-config", "kube-proxy", "yurt-hub-cfg"];

pub(super) fn objects() -> Vec<Value> {
    let group = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": JOINERS }]);
    let role = |kind: &str, name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    let mut all = vec![
        // Takes away what older versions gave. The role of a binding cannot be changed, its subjects can.
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
            "metadata": { "name": REQUESTS, "labels": labels() },
            "rules": [{ "apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"] }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": REQUESTS, "labels": labels() },
            "roleRef": role("ClusterRole", REQUESTS),
            "subjects": group,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels() },
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "resourceNames": READ, "verbs": ["get"] }],
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
        &format!("has(request.userInfo.groups) && '{JOINERS}' in request.userInfo.groups"),
    );
    let validations = bounded_requests(&[KUBELET, CLIENT]);
    all.extend(policy(REQUESTS, &certificate_requests(), &by_a_join_token, &json!([]), &validations));
    all
}
