//! The status that a simulated kubelet reports for its node. Pure: no I/O, no clock.
//!
//! Each node has a number, which determines its pod CIDR and its own address. Fields of the node's status that other
//! clients have set are kept.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::SIMULATED_LABEL;
use crate::control::view::Node;
use crate::sim::Simulation;

/// The first addresses of the pod CIDRs and of the nodes. The two ranges do not overlap, and neither overlaps the Service range.
const POD_CIDR_BASE: u32 = u32::from_be_bytes([10, 128, 0, 0]);
const NODE_ADDRESS_BASE: u32 = u32::from_be_bytes([10, 64, 0, 0]);
/// Bits of an address that differ within the pod CIDR of one node.
const RANGE_BITS: u32 = 10;
/// The number of pod CIDRs.
const RANGES: u32 = 1 << (23 - RANGE_BITS);

/// Ephemeral storage. Nothing is written to it, but pods that request some must fit on a node.
const DISK: &str = "256Gi";

/// Type, status, reason and message of each condition of a healthy node.
#[rustfmt::skip]
const CONDITIONS: [(&str, &str, &str, &str); 5] = [
    ("NetworkUnavailable", "False", "RouteCreated",               "RouteController created a route"),
    ("MemoryPressure",     "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure",       "False", "KubeletHasNoDiskPressure",   "kubelet has no disk pressure"),
    ("PIDPressure",        "False", "KubeletHasSufficientPID",    "kubelet has sufficient PID available"),
    ("Ready",              "True",  "KubeletReady",               "kubelet is posting ready status"),
];

/// `status.nodeInfo`.
#[rustfmt::skip]
const NODE_INFO: [(&str, &str); 10] = [
    ("architecture",            "amd64"),
    ("bootID",                  ""),
    ("containerRuntimeVersion", "simulated://1"),
    ("kernelVersion",           "simulated"),
    ("kubeProxyVersion",        ""),
    ("kubeletVersion",          "v1.36.3+longshore"),
    ("machineID",               ""),
    ("operatingSystem",         "linux"),
    ("osImage",                 "Longshore, simulated"),
    ("systemUUID",              ""),
];

/// A Node as its kubelet registers it.
pub(super) fn new_node(name: &str, simulation: &Simulation) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {
            "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
            "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", SIMULATED_LABEL: "true",
        }},
        "status": {"capacity": capacity(simulation), "allocatable": capacity(simulation)},
    })
}

fn capacity(simulation: &Simulation) -> Value {
    json!({
        "cpu": simulation.cpu, "memory": simulation.memory, "pods": simulation.pods.to_string(),
        "ephemeral-storage": DISK,
    })
}

/// Sets a node's status to what its kubelet reports. Returns whether anything changed.
pub(super) fn report(node: &mut Value, simulation: &Simulation, range: u32, now: &str) -> bool {
    let before = node["status"].clone();
    let name = node["metadata"]["name"].clone();
    let born = node["metadata"]["creationTimestamp"].clone();
    let status = &mut node["status"];
    for key in ["capacity", "allocatable"] {
        if status[key].as_object().is_none_or(serde_json::Map::is_empty) {
            status[key] = capacity(simulation);
        }
    }
    for (key, value) in NODE_INFO {
        let found = &mut status["nodeInfo"][key];
        if found.as_str().is_none_or(str::is_empty) {
            *found = value.into();
        }
    }
    if status["daemonEndpoints"].is_null() {
        status["daemonEndpoints"] = json!({"kubeletEndpoint": {"Port": 0}});
    }
    for (kind, address) in [("InternalIP", address(range).to_string().into()), ("Hostname", name)] {
        let addresses = list(&mut status["addresses"]);
        if !addresses.iter().any(|found| found["type"] == kind) {
            addresses.push(json!({"type": kind, "address": address}));
        }
    }
    let is_first = status["conditions"].as_array().is_none_or(Vec::is_empty);
    for (kind, truth, reason, message) in CONDITIONS {
        // The first conditions date from the creation of the node.
        let since = if is_first { &born } else { &Value::from(now) };
        set_condition(list(&mut status["conditions"]), kind, (truth, reason, message), (since, now));
    }
    *status != before
}

/// Sets one condition unless it has that status already.
fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    words: (&str, &str, &str),
    (since, now): (&Value, &str),
) {
    let (status, reason, message) = words;
    let place = conditions.iter().position(|condition| condition["type"] == kind);
    if place.is_some_and(|at| conditions[at]["status"] == status) {
        return;
    }
    let heard = place.map_or(Value::from(now), |at| conditions[at]["lastHeartbeatTime"].clone());
    let heard = if status == "Unknown" { heard } else { now.into() };
    let condition = json!({
        "type": kind, "status": status, "reason": reason, "message": message,
        "lastHeartbeatTime": heard, "lastTransitionTime": since,
    });
    match place {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}

/// Sets the conditions of a node whose heartbeats have stopped to `Unknown`. Returns whether anything changed.
pub(super) fn set_conditions_unknown(node: &mut Value, now: &str) -> bool {
    let before = node["status"].clone();
    for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let words = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.");
        set_condition(list(&mut node["status"]["conditions"]), kind, words, (&now.into(), now));
    }
    node["status"] != before
}

fn list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = json!([]);
    }
    value.as_array_mut().expect("it was made a list")
}

/// The pod CIDR with this number.
pub(super) fn cidr(range: u32) -> String {
    format!("{}/{}", Ipv4Addr::from(POD_CIDR_BASE + ((range % RANGES) << RANGE_BITS)), 32 - RANGE_BITS)
}

fn address(range: u32) -> Ipv4Addr {
    Ipv4Addr::from(NODE_ADDRESS_BASE + 1 + range)
}

/// The number of a pod CIDR that [`cidr`] formatted.
pub(super) fn parse_cidr(cidr: &str) -> Option<u32> {
    let (base, _) = cidr.split_once('/')?;
    let at = u32::from(base.parse::<Ipv4Addr>().ok()?).checked_sub(POD_CIDR_BASE)? >> RANGE_BITS;
    (at < RANGES).then_some(at)
}

/// The number from which a node's own address was derived.
pub(super) fn parse_node_address(node: &Node) -> Option<u32> {
    let address: Ipv4Addr = node.address("InternalIP")?.parse().ok()?;
    let at = u32::from(address).checked_sub(NODE_ADDRESS_BASE + 1)?;
    (at < RANGES).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_fills_missing_fields_and_is_idempotent() {
        let mut node = json!({
            "metadata": {"name": "edge", "creationTimestamp": "2026-01-02T03:00:00Z"},
            "status": {"capacity": {"cpu": "2"}, "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
                "nodeInfo": {"kubeletVersion": "v1.2.3", "osImage": ""}},
        });
        assert!(report(&mut node, &Simulation::default(), 5, "2026-01-02T03:04:05Z"));
        assert!(!report(&mut node, &Simulation::default(), 5, "2026-01-02T03:09:05Z"));
        let status = &node["status"];
        assert_eq!(
            (&status["capacity"], &status["allocatable"]["pods"]),
            (&json!({"cpu": "2"}), &json!("110"))
        );
        assert_eq!(status["allocatable"]["ephemeral-storage"], "256Gi");
        assert_eq!(status["addresses"][1], json!({"type": "Hostname", "address": "edge"}));
        assert_eq!(status["nodeInfo"]["kubeletVersion"], "v1.2.3");
        assert_eq!(status["nodeInfo"]["containerRuntimeVersion"], "simulated://1");
        let ready = status["conditions"][4].clone();
        assert_eq!((&ready["type"], &ready["status"]), (&json!("Ready"), &json!("True")));
        assert_eq!(ready["lastTransitionTime"], "2026-01-02T03:00:00Z");

        assert!(set_conditions_unknown(&mut node, "2026-01-02T03:10:00Z"));
        assert!(!set_conditions_unknown(&mut node, "2026-01-02T03:11:00Z"));
        let ready = &node["status"]["conditions"][4];
        assert_eq!(
            (&ready["reason"], &ready["lastHeartbeatTime"]),
            (&json!("NodeStatusUnknown"), &json!("2026-01-02T03:04:05Z"))
        );
        assert!(report(&mut node, &Simulation::default(), 5, "2026-01-02T03:12:00Z"));
    }

    #[test]
    fn pod_cidr_number_round_trips() {
        assert_eq!((cidr(0).as_str(), cidr(5).as_str()), ("10.128.0.0/22", "10.128.20.0/22"));
        assert_eq!(
            (parse_cidr(&cidr(0)), parse_cidr(&cidr(8191)), parse_cidr("10.244.0.0/24")),
            (Some(0), Some(8191), Some(7424))
        );
        assert_eq!((parse_cidr("192.168.0.0/24"), parse_cidr("")), (None, None));
    }
}
