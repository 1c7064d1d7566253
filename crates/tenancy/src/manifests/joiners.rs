//! What a machine may do that joins by one of our tokens, before it has a certificate: ask for one, and read what it must know.
//!
//! kubeadm's own groups are not given to it: they are bound to automatic approval, by which nobody would be counted and no node would be
//! anybody's.

use serde_json::{Value, json};

use super::labels;
use crate::edge::token::{JOINERS, NAMESPACE};

const NAME: &str = "longshore-join";

/// What join tools read before there is a node.
const READ: [&str; 4] = ["kubeadm-config", "kubelet-config", "kube-proxy", "yurt-hub-cfg"];

pub(super) fn objects() -> Vec<Value> {
    let group = json!([{ "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": JOINERS }]);
    let role = |kind: &str, name: &str| json!({ "apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name });
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": { "name": NAME, "labels": labels() },
            "roleRef": role("ClusterRole", "system:node-bootstrapper"),
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
    ]
}
