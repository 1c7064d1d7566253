//! Topology spread constraints: they limit the skew of matching pods between domains. Pure: no I/O, no clock.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;

use super::nodes::{is_selected, untolerated};
use super::snapshot::{ClusterSnapshot, NodeInfo};
use super::{NodeRejection, PendingPod};
use crate::access::{text, texts};
use crate::control::view::Node;
use crate::selector::LabelSelector;

const REJECTION_REASON: &str = "node(s) didn't match pod topology spread constraints";

/// One constraint, with the matching pods that exist.
#[derive(Debug)]
struct SpreadConstraint {
    topology: String,
    max_skew: i64,
    min_domains: usize,
    /// The pod itself matches the selector.
    counts_itself: bool,
    /// Number of matching pods per domain, by the value of the topology label.
    matching: HashMap<String, i64>,
}

#[derive(Debug, Default)]
pub(super) struct TopologySpread(Vec<SpreadConstraint>);

impl TopologySpread {
    /// Evaluates the constraints with this `whenUnsatisfiable`.
    pub fn new(wishes: &PendingPod<'_>, picture: &ClusterSnapshot, when: &str) -> Self {
        let constraints = &wishes.pod.spec.topology_spread_constraints;
        let wanted: Vec<&Value> =
            constraints.iter().filter(|constraint| text(constraint, "whenUnsatisfiable") == when).collect();
        let keys: Vec<&str> = wanted.iter().map(|constraint| text(constraint, "topologyKey")).collect();
        // Only nodes with the topology labels of all constraints count. No node has as many labels as a hostile pod has constraints.
        let has_all = |node: &Node| keys.iter().all(|key| node.metadata.labels.contains_key(*key));
        let eligible: Vec<_> = picture.nodes().filter(|(_, node, _)| has_all(node)).collect();
        let read = |constraint: &&Value| {
            let topology = text(constraint, "topologyKey");
            let selector = if eligible.is_empty() {
                LabelSelector::nothing()
            } else {
                selector(constraint, &wishes.pod.metadata.labels)
            };
            let mut matching = HashMap::new();
            for (_, node, place) in &eligible {
                if is_node_counted(constraint, wishes, node) {
                    let here = matching.entry(node.metadata.labels[topology].clone()).or_default();
                    *here += matching_at(place, wishes.namespace, &selector);
                }
            }
            SpreadConstraint {
                topology: topology.to_owned(),
                max_skew: constraint["maxSkew"].as_i64().unwrap_or(1),
                min_domains: constraint["minDomains"]
                    .as_u64()
                    .map_or(1, |n| usize::try_from(n).unwrap_or(usize::MAX)),
                counts_itself: selector
                    .matches(|key| wishes.pod.metadata.labels.get(key).map(String::as_str)),
                matching,
            }
        };
        Self(wanted.iter().map(read).collect())
    }

    pub fn reject(&self, node: &Node) -> Option<NodeRejection> {
        for constraint in &self.0 {
            let Some(value) = node.metadata.labels.get(&constraint.topology) else {
                return Some(NodeRejection::unresolvable(&format!(
                    "{REJECTION_REASON} (missing required label)"
                )));
            };
            let too_few = constraint.matching.len() < constraint.min_domains;
            let least = if too_few { None } else { constraint.matching.values().min().copied() };
            let here = constraint.matching.get(value).copied().unwrap_or(0);
            if here.saturating_add(constraint.counts_itself.into()).saturating_sub(least.unwrap_or(0))
                > constraint.max_skew
            {
                return Some(NodeRejection::unschedulable(REJECTION_REASON));
            }
        }
        None
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Number of matching pods in the domains of a node.
    pub fn matching_pods(&self, node: &Node) -> i64 {
        let here = |constraint: &SpreadConstraint| {
            let value = node.metadata.labels.get(&constraint.topology);
            value.and_then(|value| constraint.matching.get(value)).copied().unwrap_or(0)
        };
        self.0.iter().map(here).sum()
    }
}

/// The selector of a constraint, with the pod's own values of `matchLabelKeys`.
fn selector(constraint: &Value, labels: &BTreeMap<String, String>) -> LabelSelector {
    let mut selector = constraint["labelSelector"].clone();
    for key in texts(constraint, "matchLabelKeys") {
        if let Some(value) = labels.get(&key) {
            selector["matchLabels"][&key] = value.as_str().into();
        }
    }
    LabelSelector::from_label_selector_object(&selector).unwrap_or_else(|_| LabelSelector::nothing())
}

/// Whether the pods of a node count, by the constraint's inclusion policies.
fn is_node_counted(constraint: &Value, wishes: &PendingPod<'_>, node: &Node) -> bool {
    let by_affinity =
        text(constraint, "nodeAffinityPolicy") == "Ignore" || is_selected(&wishes.pod.spec, node);
    let by_taints = text(constraint, "nodeTaintsPolicy") != "Honor"
        || untolerated(&wishes.pod.spec, node, &["NoSchedule", "NoExecute"]).is_empty();
    by_affinity && by_taints
}

fn matching_at(place: &NodeInfo, namespace: &str, selector: &LabelSelector) -> i64 {
    let groups = place.groups.iter().filter(|(group, _)| {
        let matches = || selector.matches(|key| group.labels.get(key).map(String::as_str));
        group.namespace == namespace && !group.is_deleting && matches()
    });
    groups.map(|(_, members)| i64::from(members.count)).sum()
}
