//! Metadata that node controllers write: taints from conditions, and deprecated labels. Pure: no I/O, no clock.

use serde_json::{Value, json};

/// Annotation: seconds that a kubelet may cache objects; 0 in small clusters.
pub(super) const TTL_ANNOTATION: &str = "node.alpha.kubernetes.io/ttl";

const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Condition type, condition status, and the taint that follows from them.
#[rustfmt::skip]
const TAINTS: [(&str, &str, &str); 6] = [
    ("Ready",              "False",   "node.kubernetes.io/not-ready"),
    ("Ready",              "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure",     "True",    "node.kubernetes.io/memory-pressure"),
    ("DiskPressure",       "True",    "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True",    "node.kubernetes.io/network-unavailable"),
    ("PIDPressure",        "True",    "node.kubernetes.io/pid-pressure"),
];

/// Labels, each with its deprecated name.
const DEPRECATED_LABELS: [(&str, &str); 2] =
    [("kubernetes.io/arch", "beta.kubernetes.io/arch"), ("kubernetes.io/os", "beta.kubernetes.io/os")];

/// Applies taints, labels and the annotation. Returns whether anything changed.
pub(super) fn apply(node: &mut Value, now: &str) -> bool {
    let before = node.clone();
    if node["metadata"]["annotations"][TTL_ANNOTATION].is_null() {
        node["metadata"]["annotations"][TTL_ANNOTATION] = "0".into();
    }
    for (new, old) in DEPRECATED_LABELS {
        let value = node["metadata"]["labels"][new].clone();
        if value.is_string() {
            node["metadata"]["labels"][old] = value;
        }
    }
    update_taints(node, now);
    *node != before
}

/// Returns key and effect of the taints that a node should have because of its state.
fn desired_taints(node: &Value) -> Vec<(&'static str, &'static str)> {
    let mut wanted = Vec::new();
    for (kind, status, key) in TAINTS {
        let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
        if conditions.any(|found| found["type"] == kind && found["status"] == status) {
            wanted.push((key, "NoSchedule"));
            if kind == "Ready" {
                wanted.push((key, "NoExecute"));
            }
        }
    }
    if node["spec"]["unschedulable"] == true {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    wanted
}

fn update_taints(node: &mut Value, now: &str) {
    let known = node["status"]["conditions"].as_array().into_iter().flatten();
    if !known.into_iter().any(|condition| condition["type"] == "Ready") {
        // No heartbeat yet: the node keeps the taint that it was created with.
        return;
    }
    let wanted = desired_taints(node);
    let is = |taint: &Value, (key, effect): (&str, &str)| taint["key"] == key && taint["effect"] == effect;
    let mut taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    let follows = |taint: &Value| {
        let of_readiness = |key: &str| key.ends_with("/not-ready") || key.ends_with("/unreachable");
        let keys = TAINTS.iter().map(|(.., key)| *key).chain([UNSCHEDULABLE]);
        keys.into_iter()
            .any(|key| is(taint, (key, "NoSchedule")) || of_readiness(key) && is(taint, (key, "NoExecute")))
    };
    taints.retain(|taint| !follows(taint) || wanted.iter().any(|wish| is(taint, *wish)));
    for wish in wanted {
        if !taints.iter().any(|taint| is(taint, wish)) {
            taints.push(json!({"key": wish.0, "effect": wish.1, "timeAdded": now}));
        }
    }
    let spec = node["spec"].as_object_mut();
    match spec {
        Some(spec) if taints.is_empty() => drop(spec.remove("taints")),
        _ => node["spec"]["taints"] = taints.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_follow_conditions_and_foreign_taints_are_kept() {
        let taint = |key: &str, effect: &str| json!({"key": key, "effect": effect});
        let ready = |status: &str| json!([{"type": "Ready", "status": status}]);
        let keys = |node: &Value| -> Vec<String> {
            let taints = node["spec"]["taints"].as_array().into_iter().flatten();
            taints
                .map(|t| format!("{}:{}", t["key"].as_str().unwrap(), t["effect"].as_str().unwrap()))
                .collect()
        };
        let mut node = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux"}},
            "spec": {"taints": [taint("mine", "NoExecute"), taint("node.kubernetes.io/not-ready", "NoSchedule")]},
            "status": {"conditions": ready("True")}});
        assert!(apply(&mut node, "t"));
        assert_eq!(
            (keys(&node), &node["metadata"]["labels"]["beta.kubernetes.io/os"]),
            (vec!["mine:NoExecute".to_owned()], &json!("linux"))
        );
        node["spec"]["unschedulable"] = true.into();
        node["status"]["conditions"] = ready("Unknown");
        assert!(apply(&mut node, "t"));
        assert!(!apply(&mut node, "u"));
        let all = [
            "mine:NoExecute",
            "node.kubernetes.io/unreachable:NoSchedule",
            "node.kubernetes.io/unreachable:NoExecute",
            "node.kubernetes.io/unschedulable:NoSchedule",
        ];
        assert_eq!(keys(&node), all);
        assert_eq!(node["spec"]["taints"][1]["timeAdded"], "t");
        let mut unheard = json!({"spec": {"taints": [taint("node.kubernetes.io/not-ready", "NoSchedule")]}});
        apply(&mut unheard, "t");
        assert_eq!(keys(&unheard), ["node.kubernetes.io/not-ready:NoSchedule"]);
    }
}
