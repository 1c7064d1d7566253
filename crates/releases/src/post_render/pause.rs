//! Pause: scales workloads to zero and keeps data and addresses.
//!
//! [`RULES`] has one row per kind. Kinds without a row are not changed, e.g. claims, Services, Ingresses, ConfigMaps and Secrets. A
//! stopped role uses the same rules for one workload.

use kube_apply::Object;
use serde_json::{Map, Value, json};

use super::is_hook;

/// The node label that a paused `DaemonSet` selects. No node has it.
pub const PAUSED_NODE_LABEL: &str = "longshore.dev/paused";
/// A `StatefulSet` with this annotation set to `true` keeps its replicas. Its vendor's controller takes the pods offline and keeps their
/// identity, because of [`OFFLINE_ANNOTATION`].
pub const USE_OFFLINE_ANNOTATION: &str = "Transwarp_Walm_Use_Pod_Offline";
pub const OFFLINE_ANNOTATION: &str = "offline-pod.transwarp.io/all-ordinals";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseRule {
    /// `spec.replicas: 0`
    NoReplicas,
    /// Like `NoReplicas`, unless the vendor's controller takes its pods offline.
    NoReplicasOrOffline,
    /// A node selector that matches nothing.
    NoNode,
    /// `spec.suspend: true`. A finished `Job` is unaffected; a running one terminates its pods and restarts later.
    Suspended,
    /// The annotation that makes KEDA hold the target at zero.
    KedaPaused,
    /// Omitted until the release is resumed: it cannot be scaled to zero, or it would scale up its target.
    Omitted,
}

use PauseRule::*;

/// Group, kind and rule.
#[rustfmt::skip]
const RULES: &[(&str, &str, PauseRule)] = &[
    ("apps",        "Deployment",              NoReplicas),
    ("extensions",  "Deployment",              NoReplicas),
    ("apps",        "StatefulSet",             NoReplicasOrOffline),
    ("apps",        "ReplicaSet",              NoReplicas),
    ("extensions",  "ReplicaSet",              NoReplicas),
    ("",            "ReplicationController",   NoReplicas),
    ("apps",        "DaemonSet",               NoNode),
    ("extensions",  "DaemonSet",               NoNode),
    ("batch",       "CronJob",                 Suspended),
    ("batch",       "Job",                     Suspended),
    ("",            "Pod",                     Omitted),
    ("autoscaling", "HorizontalPodAutoscaler", Omitted),
    ("keda.sh",     "ScaledObject",            KedaPaused),
];

/// Pauses all objects except hooks.
pub fn pause_all(objects: Vec<Object>) -> Vec<Object> {
    objects
        .into_iter()
        .filter_map(|object| if is_hook(&object) { Some(object) } else { pause_object(object) })
        .collect()
}

/// Pauses one object; `None` if it is omitted.
pub fn pause_object(object: Object) -> Option<Object> {
    let Some(rule) = rule_for(&object) else { return Some(object) };
    if rule == Omitted {
        return None;
    }
    let mut value = object.value().clone();
    apply(rule, &mut value);
    Some(object.with_value(value).expect("an object is still one when a field of its spec is set"))
}

/// Whether the object creates pods and can be scaled to zero.
pub fn is_workload(object: &Object) -> bool {
    rule_for(object).is_some() && !matches!(object.kind(), "HorizontalPodAutoscaler" | "ScaledObject")
}

/// Whether the object autoscales this workload.
pub fn is_autoscaler_of(object: &Object, kind: &str, name: &str) -> bool {
    let target = &object.value()["spec"]["scaleTargetRef"];
    // KEDA's default is a Deployment.
    let targets = target["kind"].as_str().unwrap_or("Deployment");
    matches!(rule_for(object), Some(Omitted | KedaPaused)) && target["name"] == name && targets == kind
}

fn rule_for(object: &Object) -> Option<PauseRule> {
    let group = kube_apply::object::group(object.api_version());
    RULES.iter().find(|row| (row.0, row.1) == (group, object.kind())).map(|row| row.2)
}

fn apply(rule: PauseRule, object: &mut Value) {
    let offline = object["metadata"]["annotations"][USE_OFFLINE_ANNOTATION] == "true";
    match rule {
        NoReplicasOrOffline if offline => {
            set_field(object, &["metadata", "annotations", OFFLINE_ANNOTATION], json!(""));
        }
        NoReplicas | NoReplicasOrOffline => set_field(object, &["spec", "replicas"], json!(0)),
        NoNode => {
            set_field(
                object,
                &["spec", "template", "spec", "nodeSelector", PAUSED_NODE_LABEL],
                json!("true"),
            );
        }
        Suspended => set_field(object, &["spec", "suspend"], json!(true)),
        KedaPaused => {
            set_field(
                object,
                &["metadata", "annotations", "autoscaling.keda.sh/paused-replicas"],
                json!("0"),
            );
        }
        Omitted => {}
    }
}

/// Sets a field. A value on the path that is not a map is replaced by one.
pub(super) fn set_field(object: &mut Value, path: &[&str], value: Value) {
    let mut place = object;
    for key in path {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        place = &mut place[*key];
    }
    *place = value;
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    #[test]
    fn every_kind_while_paused() {
        let spec = json!({"replicas": 3, "template": {"spec": {"nodeSelector": {"disk": "fast"}}}});
        let others = [
            ("v1", "PersistentVolumeClaim"),
            ("v1", "Service"),
            ("v1", "ConfigMap"),
            ("v1", "Secret"),
            ("networking.k8s.io/v1", "Ingress"),
            ("policy/v1", "PodDisruptionBudget"),
            ("example.com/v1", "Deployment"),
        ];
        let kinds = RULES.iter().map(|(group, kind, _)| match *group {
            "" => ("v1".to_owned(), *kind),
            group => (format!("{group}/v1"), *kind),
        });
        let others = others.iter().map(|(api_version, kind)| ((*api_version).to_owned(), *kind));
        let mut picture = String::new();
        for (api_version, kind) in kinds.chain(others) {
            let object =
                json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
            let before = Object::from_value(object).unwrap();
            let after = match pause_object(before.clone()) {
                None => "absent".to_owned(),
                Some(after) if after == before => "as it was".to_owned(),
                Some(after) => format!("{} {}", after.value()["metadata"], after.value()["spec"]),
            };
            writeln!(picture, "{api_version} {kind}: {after}").unwrap();
        }
        insta::assert_snapshot!(picture);
    }

    #[test]
    fn offline_statefulset_keeps_its_replicas() {
        let metadata = |annotations: Value| json!({"name": "x", "annotations": annotations});
        let object = |annotations: Value| {
            Object::from_value(json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
                "metadata": metadata(annotations), "spec": {"replicas": 3}}))
            .unwrap()
        };
        let after = pause_object(object(json!({USE_OFFLINE_ANNOTATION: "true"}))).unwrap();
        assert_eq!(after, object(json!({USE_OFFLINE_ANNOTATION: "true", OFFLINE_ANNOTATION: ""})));
        let after = pause_object(object(json!({USE_OFFLINE_ANNOTATION: "false"}))).unwrap();
        assert_eq!(after.value()["spec"]["replicas"], 0);
    }
}
