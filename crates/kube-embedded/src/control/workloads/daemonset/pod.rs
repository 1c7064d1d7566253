//! The pods of a DaemonSet: each is created for one node and tolerates the node's failures. Pure: no I/O, no clock.

#![warn(clippy::arithmetic_side_effects)]

use serde_json::{Value, json};

use super::view::DaemonSet;
use crate::control::view::Pod;
use crate::control::workloads::pods::{self, Owner};
use crate::control::workloads::revisions::POD_LABEL;

pub const GENERATION_LABEL: &str = "pod-template-generation";

/// Tolerations of every such pod; the last one only with the host network.
#[rustfmt::skip]
const DAEMON_TOLERATIONS: [(&str, &str); 7] = [
    ("node.kubernetes.io/not-ready",           "NoExecute"),
    ("node.kubernetes.io/unreachable",         "NoExecute"),
    ("node.kubernetes.io/disk-pressure",       "NoSchedule"),
    ("node.kubernetes.io/memory-pressure",     "NoSchedule"),
    ("node.kubernetes.io/pid-pressure",        "NoSchedule"),
    ("node.kubernetes.io/unschedulable",       "NoSchedule"),
    ("node.kubernetes.io/network-unavailable", "NoSchedule"),
];

/// Returns the template's spec with the tolerations of DaemonSet pods. An existing equal toleration keeps its position and
/// loses its `tolerationSeconds`.
pub fn with_tolerations(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let count = if spec["hostNetwork"] == true { 7 } else { 6 };
    for (key, effect) in &DAEMON_TOLERATIONS[..count] {
        let wanted = json!({"key": key, "operator": "Exists", "effect": effect});
        let same = |found: &&mut Value| {
            ["key", "operator", "effect"].iter().all(|field| found[*field] == wanted[*field])
                && found["value"].as_str().unwrap_or_default().is_empty()
        };
        match tolerations.iter_mut().find(same) {
            Some(found) => *found = wanted,
            None => tolerations.push(wanted),
        }
    }
    spec["tolerations"] = tolerations.into();
    spec
}

/// Builds the pod for a node.
pub fn pod(owner: &Owner<'_>, set: &DaemonSet, hash: &str, node: &str) -> Value {
    let mut pod = pods::from_template(owner, &set.spec.template);
    pod["metadata"]["generateName"] = pods::name_prefix(&set.metadata.name).into();
    let labels = &mut pod["metadata"]["labels"];
    labels[POD_LABEL] = hash.into();
    if let Some(generation) = set.template_generation() {
        labels[GENERATION_LABEL] = generation.into();
    }
    pod["spec"] = with_tolerations(&pod["spec"]);
    let only_there = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]);
    let required =
        &mut pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"] = only_there;
    pod
}

/// The node that a pod is bound to or created for.
pub fn node_of(pod: &Pod) -> Option<&str> {
    if !pod.spec.node_name.is_empty() {
        return Some(&pod.spec.node_name);
    }
    let affinity = &pod.spec.affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = affinity["nodeSelectorTerms"].as_array()?;
    let mut fields = terms.iter().filter_map(|term| term["matchFields"].as_array()).flatten();
    let field = fields.find(|field| field["key"] == "metadata.name" && field["operator"] == "In")?;
    match field["values"].as_array()?.as_slice() {
        [name] => name.as_str(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_tolerates_node_conditions() {
        let seconds = json!({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute",
            "tolerationSeconds": 5});
        let any = json!({"key": "node.kubernetes.io/disk-pressure", "operator": "Exists"});
        let spec = with_tolerations(&json!({"hostNetwork": true, "tolerations": [any, seconds]}));
        let all = spec["tolerations"].as_array().unwrap();
        assert_eq!((all.len(), &all[0]), (8, &any));
        assert_eq!(all[1]["tolerationSeconds"], Value::Null, "it stays for good");
        assert_eq!(with_tolerations(&json!({}))["tolerations"].as_array().unwrap().len(), 6);
    }

    #[test]
    fn node_of_reads_binding_or_affinity() {
        let pod = |spec: Value| serde_json::from_value::<Pod>(json!({"spec": spec})).unwrap();
        let meant = |values: Value| {
            let field = json!({"key": "metadata.name", "operator": "In", "values": values});
            json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": [field]}]}}}})
        };
        assert_eq!(node_of(&pod(json!({"nodeName": "a"}))), Some("a"));
        assert_eq!(node_of(&pod(meant(json!(["b"])))), Some("b"));
        assert_eq!(node_of(&pod(meant(json!(["b", "c"])))), None);
        assert_eq!(node_of(&pod(json!({}))), None);
    }
}
