//! Tests of rejections and warnings, with the messages of Kubernetes.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::access::User;
use crate::access::testing::{resource, store_object};

async fn namespace(labels: &[(&str, &str)]) -> Arc<Store> {
    let store = Store::in_memory();
    let labels: serde_json::Map<String, Value> =
        labels.iter().map(|(key, value)| (format!("{LABEL_PREFIX}{key}"), (*value).into())).collect();
    store_object(&store, "namespaces", json!({"metadata": {"name": "a", "labels": labels}})).await;
    store
}

fn check_write(
    store: &Store,
    group: &str,
    kind: &str,
    object: &Value,
    old: Option<&Value>,
) -> Result<Vec<String>> {
    let (resource, user) = (resource(group, kind), User::admin());
    let request = AdmissionRequest {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        resource: &resource,
        subresource: "",
        namespace: "a",
        name: "",
        user: &user,
        old,
        dry_run: false,
    };
    check(store, &request, object)
}

fn pod(spec: impl Into<Value>) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec.into()})
}

fn plain() -> Value {
    json!({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]})
}

const PLAIN: &str = "allowPrivilegeEscalation != false (containers \"a\", \"b\" must set \
    securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers \"a\", \"b\" must set \
    securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or containers \"a\", \"b\" must set \
    securityContext.runAsNonRoot=true), seccompProfile (pod or containers \"a\", \"b\" must set \
    securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")";

#[tokio::test]
async fn pods_are_rejected_by_level_and_version() {
    let good = json!({"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{"name": "a", "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]});
    let hosts = json!({"hostNetwork": true, "hostIPC": true, "volumes": [{"name": "v", "hostPath": {"path": "/"}}],
        "containers": [{"name": "a", "ports": [{"hostPort": 81}, {"hostPort": 80}],
            "securityContext": {"privileged": true, "capabilities": {"add": ["SYS_ADMIN", "CHOWN"]}}}]});
    let table = [
        (vec![("enforce", "baseline")], plain(), "ok".to_owned()),
        (vec![("enforce", "restricted")], plain(), format!("violates PodSecurity \"restricted:latest\": {PLAIN}")),
        (
            vec![("enforce", "restricted"), ("enforce-version", "v1.18")],
            plain(),
            "violates PodSecurity \"restricted:v1.18\": allowPrivilegeEscalation != false (containers \"a\", \"b\" must set \
             securityContext.allowPrivilegeEscalation=false), runAsNonRoot != true (pod or containers \"a\", \"b\" must \
             set securityContext.runAsNonRoot=true)"
                .to_owned(),
        ),
        (vec![("enforce", "restricted")], good, "ok".to_owned()),
        (vec![], hosts.clone(), "ok".to_owned()),
        (
            vec![("enforce", "baseline")],
            hosts,
            "violates PodSecurity \"baseline:latest\": non-default capabilities (container \"a\" must not include \
             \"SYS_ADMIN\" in securityContext.capabilities.add), host namespaces (hostNetwork=true, hostIPC=true), \
             hostPath volumes (volume \"v\"), hostPort (container \"a\" uses hostPorts 80, 81), privileged (container \
             \"a\" must not set securityContext.privileged=true)"
                .to_owned(),
        ),
    ];
    for (labels, spec, expected) in table {
        let store = namespace(&labels).await;
        let verdict = check_write(&store, "", "pods", &pod(spec), None)
            .map_or_else(|error| error.message, |_| "ok".to_owned());
        assert_eq!(verdict.trim_start_matches("pods \"p\" is forbidden: "), expected);
    }
}

#[tokio::test]
async fn warnings_cover_pods_and_templates() {
    let warning = vec![format!("would violate PodSecurity \"restricted:latest\": {PLAIN}")];
    let store = namespace(&[("enforce", "baseline"), ("warn", "restricted")]).await;
    let deployment = json!({"spec": {"template": {"spec": plain()}}});
    assert_eq!(check_write(&store, "", "pods", &pod(plain()), None).unwrap(), warning);
    assert_eq!(check_write(&store, "apps", "deployments", &deployment, None).unwrap(), warning);
    // Enforcing rejects only pods; templates cause warnings.
    let store = namespace(&[("enforce", "restricted")]).await;
    assert_eq!(check_write(&store, "apps", "deployments", &deployment, None).unwrap(), warning);
    // An existing pod may change its labels, but not its image.
    let (old, mut new) = (pod(plain()), pod(plain()));
    new["metadata"]["labels"] = json!({"a": "b"});
    assert!(check_write(&store, "", "pods", &new, Some(&old)).is_ok());
    new["spec"]["containers"][0]["image"] = "j".into();
    assert!(check_write(&store, "", "pods", &new, Some(&old)).is_err());
}

#[tokio::test]
async fn namespace_labels_are_validated_and_violating_pods_counted() {
    let store = namespace(&[]).await;
    let labelled = |key: &str, value: &str| json!({"metadata": {"name": "a", "labels": {(format!("{LABEL_PREFIX}{key}")): value}}});
    for (key, value, detail) in [
        ("enforce", "wrong", "\"wrong\": must be one of privileged, baseline, restricted"),
        ("enforce-version", "v1.01", "\"v1.01\": must be \"latest\" or \"v1.x\""),
        ("audit", "x", "\"x\": must be one of privileged, baseline, restricted"),
    ] {
        let error = check_write(&store, "", "namespaces", &labelled(key, value), None).unwrap_err();
        let expected = format!(
            "Namespace \"a\" is invalid: metadata.labels[{LABEL_PREFIX}{key}]: Invalid value: {detail}"
        );
        assert_eq!(error.message, expected);
    }
    for name in ["x", "y", "z"] {
        let mut pod = pod(plain());
        pod["metadata"] = json!({"name": name, "namespace": "a"});
        pod["spec"]["hostNetwork"] = (name == "y").into();
        store_object(&store, "pods", pod).await;
    }
    let (old, new) = (json!({"metadata": {"name": "a"}}), labelled("enforce", "baseline"));
    assert_eq!(
        check_write(&store, "", "namespaces", &new, Some(&old)).unwrap(),
        [
            "existing pods in namespace \"a\" violate the new PodSecurity enforce level \"baseline:latest\"",
            "y: host namespaces"
        ]
    );
    assert_eq!(check_write(&store, "", "namespaces", &old, Some(&new)).unwrap(), [""; 0]);
}
