//! Filtering and scoring: the node for a pod, or why none fits. Same filters, order and messages as kube-scheduler. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use super::nodes::{is_cordoned, is_selected, matches_terms, named_nodes, preference_score, untolerated};
use super::pod_affinity::{NamespaceMatcher, PodAffinity, preference_scores};
use super::resources::Resources;
use super::snapshot::{ClusterSnapshot, NodeInfo, Port, host_ports};
use super::spread::TopologySpread;
use super::volumes::PodVolumes;
use super::{NodeRejection, PendingPod};
use crate::control::view::Node;

/// Scores are normalised to 0..=`MAX_SCORE` before they are weighted.
const MAX_SCORE: i64 = 100;

/// Weights of the scores.
const TAINT_WEIGHT: i64 = 3;
const NODE_AFFINITY_WEIGHT: i64 = 2;
const SPREAD_WEIGHT: i64 = 2;
const POD_AFFINITY_WEIGHT: i64 = 2;
const CAPACITY_WEIGHT: i64 = 1;
const BALANCE_WEIGHT: i64 = 1;

/// Returns the name of the chosen node, or the message why none fits.
pub(super) fn select_node(
    wishes: &PendingPod<'_>,
    volumes: &PodVolumes,
    picture: &ClusterSnapshot,
    namespaces: NamespaceMatcher<'_>,
) -> Result<String, String> {
    let asked = Resources::from_pod(&wishes.pod.spec);
    let filters = Filters {
        pending: wishes,
        volumes,
        named_nodes: named_nodes(&wishes.pod.spec),
        ports: host_ports(wishes.pod),
        spread: TopologySpread::new(wishes, picture, "DoNotSchedule"),
        pod_affinity: PodAffinity::new(wishes, picture, namespaces),
        requests: &asked,
    };
    let mut refusals = Vec::new();
    let mut open = Vec::new();
    for (at, (name, node, place)) in picture.nodes().enumerate() {
        match filters.reject(name, node, place) {
            Some(refusal) => refusals.push(refusal),
            None => open.push((at, name, node, place)),
        }
    }
    if open.is_empty() {
        return Err(unschedulable_message(&refusals, &wishes.pod.spec.preemption_policy));
    }
    if let [(_, only, ..)] = open.as_slice() {
        return Ok((*only).to_owned());
    }
    let soft = TopologySpread::new(wishes, picture, "ScheduleAnyway");
    let company = preference_scores(wishes, picture, namespaces);
    let owner = wishes.pod.metadata.controller().map(|owner| owner.uid.as_str());
    let crowd = |node: &Node, place: &NodeInfo| {
        // Without constraints of its own, a pod is spread away from pods of the same owner.
        if soft.is_empty() {
            owner.and_then(|owner| place.owners.get(owner)).copied().map_or(0, i64::from)
        } else {
            soft.matching_pods(node)
        }
    };
    let scored = |of: &dyn Fn(usize, &Node, &NodeInfo) -> i64| -> Vec<i64> {
        normalise(&open.iter().map(|(at, _, node, place)| of(*at, node, place)).collect::<Vec<_>>())
    };
    let spec = &wishes.pod.spec;
    let repelling = |_: usize, node: &Node, _: &NodeInfo| {
        i64::try_from(untolerated(spec, node, &["PreferNoSchedule"]).len())
            .unwrap_or(i64::MAX)
            .saturating_neg()
    };
    let weighed = [
        (TAINT_WEIGHT, scored(&repelling)),
        (NODE_AFFINITY_WEIGHT, scored(&|_, node, _| preference_score(spec, node))),
        (SPREAD_WEIGHT, scored(&|_, node, place| crowd(node, place).saturating_neg())),
        (POD_AFFINITY_WEIGHT, scored(&|at, _, _| company[at])),
        (CAPACITY_WEIGHT, open.iter().map(|(.., place)| capacity_scores(place, &asked, wishes).0).collect()),
        (BALANCE_WEIGHT, open.iter().map(|(.., place)| capacity_scores(place, &asked, wishes).1).collect()),
    ];
    let total = |at: usize| {
        weighed
            .iter()
            .map(|(weight, scores)| weight.saturating_mul(scores[at]))
            .fold(0_i64, i64::saturating_add)
    };
    let best = (0..open.len()).max_by_key(|at| {
        let (_, name, _, place) = open[*at];
        (total(*at), place.requested.pods.saturating_neg(), std::cmp::Reverse(name))
    });
    Ok(open[best.expect("several nodes are open")].1.to_owned())
}

/// Normalises scores to 0..=[`MAX_SCORE`]; equal scores all become the same and do not matter.
fn normalise(scores: &[i64]) -> Vec<i64> {
    let (least, most) =
        (scores.iter().min().copied().unwrap_or(0), scores.iter().max().copied().unwrap_or(0));
    let range = most.saturating_sub(least);
    if range == 0 {
        return scores.iter().map(|_| 0).collect();
    }
    scores.iter().map(|score| score.saturating_sub(least).saturating_mul(MAX_SCORE) / range).collect()
}

/// `taken` as a share of `has`, from 0 to [`MAX_SCORE`].
fn utilisation_score(taken: i128, has: i128) -> i64 {
    let share = taken.max(0).saturating_mul(MAX_SCORE.into()).checked_div(has);
    share.and_then(|share| i64::try_from(share).ok()).unwrap_or(MAX_SCORE).min(MAX_SCORE)
}

/// Scores of a node with the pod on it: free capacity, and balance between CPU and memory.
fn capacity_scores(place: &NodeInfo, asked: &Resources, wishes: &PendingPod<'_>) -> (i64, i64) {
    let (cpu, memory) = asked.nonzero_requests(&wishes.pod.spec);
    let used = |taken: i128, has: i128| if has <= 0 { MAX_SCORE } else { utilisation_score(taken, has) };
    let cpu = used(place.nonzero_requested.0.saturating_add(cpu), place.allocatable.cpu);
    let memory = used(place.nonzero_requested.1.saturating_add(memory), place.allocatable.memory);
    let free = |used: i64| MAX_SCORE.saturating_sub(used);
    (
        free(cpu).saturating_add(free(memory)) / 2,
        MAX_SCORE.saturating_sub(cpu.saturating_sub(memory).abs() / 2),
    )
}

/// The filters that can reject a node for a pod.
struct Filters<'a> {
    pending: &'a PendingPod<'a>,
    volumes: &'a PodVolumes,
    named_nodes: Option<std::collections::BTreeSet<String>>,
    ports: Vec<Port>,
    spread: TopologySpread,
    pod_affinity: PodAffinity,
    requests: &'a Resources,
}

impl Filters<'_> {
    /// Returns the first reason to reject a node, in kube-scheduler's order.
    fn reject(&self, name: &str, node: &Node, place: &NodeInfo) -> Option<NodeRejection> {
        let spec = &self.pending.pod.spec;
        if self.named_nodes.as_ref().is_some_and(|named| !named.contains(name)) {
            return Some(NodeRejection::unresolvable("node(s) didn't satisfy plugin(s) [NodeAffinity]"));
        }
        if self.pending.is_unschedulable {
            return Some(NodeRejection::unresolvable(
                "node(s) refuse the pod, as it asks for (sim.longshore.dev/behaviour)",
            ));
        }
        if is_cordoned(spec, node) {
            return Some(NodeRejection::unresolvable("node(s) were unschedulable"));
        }
        if !untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_empty() {
            return Some(NodeRejection::unresolvable("node(s) had untolerated taint(s)"));
        }
        if !is_selected(spec, node) {
            return Some(NodeRejection::unresolvable("node(s) didn't match Pod's node affinity/selector"));
        }
        if self.ports.iter().any(|port| is_port_in_use(place, port)) {
            return Some(NodeRejection::unschedulable(
                "node(s) didn't have free ports for the requested pod ports",
            ));
        }
        let lacking = place.allocatable.insufficient(&place.requested, self.requests);
        if !lacking.is_empty() {
            return Some(NodeRejection {
                reasons: lacking,
                is_unresolvable: place.allocatable.never_fits(self.requests),
            });
        }
        if !self.volumes.reachable.iter().all(|terms| matches_terms(terms, node)) {
            return Some(NodeRejection::unresolvable(
                "node(s) didn't match PersistentVolume's node affinity",
            ));
        }
        self.spread.reject(node).or_else(|| self.pod_affinity.reject(node))
    }
}

/// Whether a host port is in use. The same port may be used on different addresses of the node.
fn is_port_in_use(place: &NodeInfo, (address, protocol, port): &Port) -> bool {
    let any = |address: &str| matches!(address, "" | "0.0.0.0");
    place.ports.keys().any(|(other, of_protocol, taken)| {
        taken == port && of_protocol == protocol && (any(other) || any(address) || other == address)
    })
}

/// The message why no node fits, as kube-scheduler words it.
fn unschedulable_message(refusals: &[NodeRejection], preemption: &str) -> String {
    if refusals.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let nodes = refusals.len();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refusals.iter().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let hopeless = refusals.iter().filter(|refusal| refusal.is_unresolvable).count();
    let mut victims = BTreeMap::from([("Preemption is not helpful for scheduling", hopeless)]);
    victims.insert("No preemption victims found for incoming pod", nodes - hopeless);
    let preempting = if preemption == "Never" {
        "not eligible due to preemptionPolicy=Never.".to_owned()
    } else {
        format!("0/{nodes} nodes are available: {}.", histogram(&victims))
    };
    let reasons = histogram(&counts);
    format!("0/{nodes} nodes are available: {reasons}. no new claims to deallocate, preemption: {preempting}")
}

/// Formats counts as `2 this, 3 that`, sorted as text.
fn histogram(counts: &BTreeMap<&str, usize>) -> String {
    let counted = counts.iter().filter(|(_, count)| **count > 0);
    let mut lines: Vec<String> = counted.map(|(reason, count)| format!("{count} {reason}")).collect();
    lines.sort();
    lines.join(", ")
}
