//! Objects of this benchmark.

use bytes::Bytes;
use serde_json::{Value, json};

/// Namespace of all objects except those in [`CREATE_NAMESPACE`].
pub const NAMESPACE: &str = "bench";
/// Namespace of measured creates, so that lists keep their size.
pub const CREATE_NAMESPACE: &str = "bench-created";
pub const ACCOUNT: &str = "bench";

/// A ConfigMap of about 2 KiB.
pub fn config_map(name: &str) -> Bytes {
    let line = "a line of settings as programs have them: some.key=some value\n";
    let data: serde_json::Map<String, Value> =
        (0..4).map(|n| (format!("settings-{n}.properties"), line.repeat(7).into())).collect();
    let labels = json!({"app.kubernetes.io/name": "bench", "app.kubernetes.io/part-of": "longshore"});
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": data,
    })
    .to_string()
    .into()
}

/// A Deployment as in typical charts: two containers with probes, resources, environment and volumes.
pub fn deployment(name: &str) -> Bytes {
    let labels = json!({"app.kubernetes.io/name": name, "app.kubernetes.io/instance": "bench"});
    let container = |name: &str, port: u16| {
        let probe = |path: &str| json!({"httpGet": {"path": path, "port": "http"}, "periodSeconds": 10});
        let variable = |n: u16| json!({"name": format!("SETTING_{n}"), "value": format!("value {n}")});
        json!({
            "name": name,
            "image": format!("registry.example/{name}:1.2.3"),
            "args": ["--listen", format!(":{port}"), "--config", "/etc/config/settings.yaml"],
            "env": (0..8).map(variable).collect::<Vec<_>>(),
            "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
            "livenessProbe": probe("/livez"),
            "readinessProbe": probe("/readyz"),
            "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {"runAsNonRoot": true, "allowPrivilegeEscalation": false},
            "volumeMounts": [{"name": "config", "mountPath": "/etc/config", "readOnly": true}],
        })
    };
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": labels},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": labels, "annotations": {"checksum/config": "0123456789abcdef"}},
                "spec": {
                    "serviceAccountName": "default",
                    "containers": [container("main", 8080), container("sidecar", 9090)],
                    "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
                    "nodeSelector": {"kubernetes.io/os": "linux"},
                    "tolerations": [{"key": "dedicated", "operator": "Equal", "value": "bench", "effect": "NoSchedule"}],
                },
            },
        },
    })
    .to_string()
    .into()
}

/// Objects required before measuring: path to create them at, and object.
pub fn prerequisites() -> Vec<(String, Value)> {
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "bench"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": NAMESPACE, "name": ACCOUNT}],
    });
    vec![
        ("/api/v1/namespaces".to_owned(), namespace(NAMESPACE)),
        ("/api/v1/namespaces".to_owned(), namespace(CREATE_NAMESPACE)),
        (format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), account),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings".to_owned(), binding),
    ]
}

pub fn config_maps_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_map_has_two_kibibytes() {
        let length = config_map("settings-00000").len();
        assert!((1900..2200).contains(&length), "{length}");
    }
}
