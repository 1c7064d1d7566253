//! Filtering and scoring: the node for a pod, or why none fits. Same filters, order and messages as kube-scheduler. Pure: no I/O, no clock.

use std::collections::BTreeMap;

use super::neighbours::{Namespaces, Neighbours, preferences};
use super::nodes::{is_closed, is_selected, matches_terms, named, preference, untolerated};
use super::picture::{Picture, Place, Port, ports};
use super::resources::Resources;
use super::spread::Spread;
use super::volumes::Volumes;
use super::{Refusal, Wishes};
use crate::control::view::Node;

/// Scores are normalised to 0..=`BEST` before they are weighted.
const BEST: i64 = 100;

/// Weights of the scores.
const TAINTS: i64 = 3;
const PREFERENCE: i64 = 2;
const EVENNESS: i64 = 2;
const COMPANY: i64 = 2;
const ROOM: i64 = 1;
const BALANCE: i64 = 1;

/// Returns the name of the chosen node, or the message why none fits.
pub(super) fn choose(
    wishes: &Wishes<'_>,
    volumes: &Volumes,
    picture: &Picture,
    namespaces: Namespaces<'_>,
) -> Result<String, String> {
    let asked = Resources::of_pod(&wishes.pod.spec);
    let filters = Filters {
        wishes,
        volumes,
        named: named(&wishes.pod.spec),
        ports: ports(wishes.pod),
        spread: Spread::of(wishes, picture, "DoNotSchedule"),
        neighbours: Neighbours::of(wishes, picture, namespaces),
        asked: &asked,
    };
    let mut refusals = Vec::new();
    let mut open = Vec::new();
    for (at, (name, node, place)) in picture.places().enumerate() {
        match filters.refuse(name, node, place) {
            Some(refusal) => refusals.push(refusal),
            None => open.push((at, name, node, place)),
        }
    }
    if open.is_empty() {
        return Err(explain(&refusals, &wishes.pod.spec.preemption_policy));
    }
    if let [(_, only, ..)] = open.as_slice() {
        return Ok((*only).to_owned());
    }
    let soft = Spread::of(wishes, picture, "ScheduleAnyway");
    let company = preferences(wishes, picture, namespaces);
    let owner = wishes.pod.metadata.controller().map(|owner| owner.uid.as_str());
    let crowd = |node: &Node, place: &Place| {
        // Without constraints of its own, a pod is spread away from pods of the same owner.
        if soft.is_empty() {
            owner.and_then(|owner| place.owners.get(owner)).copied().map_or(0, i64::from)
        } else {
            soft.crowd(node)
        }
    };
    let scored = |of: &dyn Fn(usize, &Node, &Place) -> i64| -> Vec<i64> {
        normalise(&open.iter().map(|(at, _, node, place)| of(*at, node, place)).collect::<Vec<_>>())
    };
    let spec = &wishes.pod.spec;
    let repelling = |_: usize, node: &Node, _: &Place| {
        i64::try_from(untolerated(spec, node, &["PreferNoSchedule"]).len())
            .unwrap_or(i64::MAX)
            .saturating_neg()
    };
    let weighed = [
        (TAINTS, scored(&repelling)),
        (PREFERENCE, scored(&|_, node, _| preference(spec, node))),
        (EVENNESS, scored(&|_, node, place| crowd(node, place).saturating_neg())),
        (COMPANY, scored(&|at, _, _| company[at])),
        (ROOM, open.iter().map(|(.., place)| room(place, &asked, wishes).0).collect()),
        (BALANCE, open.iter().map(|(.., place)| room(place, &asked, wishes).1).collect()),
    ];
    let total = |at: usize| {
        weighed
            .iter()
            .map(|(weight, scores)| weight.saturating_mul(scores[at]))
            .fold(0_i64, i64::saturating_add)
    };
    let best = (0..open.len()).max_by_key(|at| {
        let (_, name, _, place) = open[*at];
        (total(*at), place.taken.pods.saturating_neg(), std::cmp::Reverse(name))
    });
    Ok(open[best.expect("several nodes are open")].1.to_owned())
}

/// Normalises scores to 0..=[`BEST`]; equal scores all become the same and do not matter.
fn normalise(scores: &[i64]) -> Vec<i64> {
    let (least, most) =
        (scores.iter().min().copied().unwrap_or(0), scores.iter().max().copied().unwrap_or(0));
    let range = most.saturating_sub(least);
    if range == 0 {
        return scores.iter().map(|_| 0).collect();
    }
    scores.iter().map(|score| score.saturating_sub(least).saturating_mul(BEST) / range).collect()
}

/// `taken` as a share of `has`, from 0 to [`BEST`].
fn share(taken: i128, has: i128) -> i64 {
    let share = taken.max(0).saturating_mul(BEST.into()).checked_div(has);
    share.and_then(|share| i64::try_from(share).ok()).unwrap_or(BEST).min(BEST)
}

/// Scores of a node with the pod on it: free capacity, and balance between CPU and memory.
fn room(place: &Place, asked: &Resources, wishes: &Wishes<'_>) -> (i64, i64) {
    let (cpu, memory) = asked.assumed_of_pod(&wishes.pod.spec);
    let used = |taken: i128, has: i128| if has <= 0 { BEST } else { share(taken, has) };
    let cpu = used(place.assumed.0.saturating_add(cpu), place.allocatable.cpu);
    let memory = used(place.assumed.1.saturating_add(memory), place.allocatable.memory);
    let free = |used: i64| BEST.saturating_sub(used);
    (free(cpu).saturating_add(free(memory)) / 2, BEST.saturating_sub(cpu.saturating_sub(memory).abs() / 2))
}

/// The filters that can reject a node for a pod.
struct Filters<'a> {
    wishes: &'a Wishes<'a>,
    volumes: &'a Volumes,
    named: Option<std::collections::BTreeSet<String>>,
    ports: Vec<Port>,
    spread: Spread,
    neighbours: Neighbours,
    asked: &'a Resources,
}

impl Filters<'_> {
    /// Returns the first reason to reject a node, in kube-scheduler's order.
    fn refuse(&self, name: &str, node: &Node, place: &Place) -> Option<Refusal> {
        let spec = &self.wishes.pod.spec;
        if self.named.as_ref().is_some_and(|named| !named.contains(name)) {
            return Some(Refusal::hopeless("node(s) didn't satisfy plugin(s) [NodeAffinity]"));
        }
        if self.wishes.is_unwelcome {
            return Some(Refusal::hopeless(
                "node(s) refuse the pod, as it asks for (sim.longshore.dev/behaviour)",
            ));
        }
        if is_closed(spec, node) {
            return Some(Refusal::hopeless("node(s) were unschedulable"));
        }
        if !untolerated(spec, node, &["NoSchedule", "NoExecute"]).is_empty() {
            return Some(Refusal::hopeless("node(s) had untolerated taint(s)"));
        }
        if !is_selected(spec, node) {
            return Some(Refusal::hopeless("node(s) didn't match Pod's node affinity/selector"));
        }
        if self.ports.iter().any(|port| is_taken(place, port)) {
            return Some(Refusal::now("node(s) didn't have free ports for the requested pod ports"));
        }
        let lacking = place.allocatable.lacks(&place.taken, self.asked);
        if !lacking.is_empty() {
            return Some(Refusal { reasons: lacking, is_hopeless: place.allocatable.never_fits(self.asked) });
        }
        if !self.volumes.reachable.iter().all(|terms| matches_terms(terms, node)) {
            return Some(Refusal::hopeless("node(s) didn't match PersistentVolume's node affinity"));
        }
        self.spread.refuse(node).or_else(|| self.neighbours.refuse(node))
    }
}

/// Whether a host port is in use. The same port may be used on different addresses of the node.
fn is_taken(place: &Place, (address, protocol, port): &Port) -> bool {
    let any = |address: &str| matches!(address, "" | "0.0.0.0");
    place.ports.keys().any(|(other, of_protocol, taken)| {
        taken == port && of_protocol == protocol && (any(other) || any(address) || other == address)
    })
}

/// The message why no node fits, as kube-scheduler words it.
fn explain(refusals: &[Refusal], preemption: &str) -> String {
    if refusals.is_empty() {
        return "no nodes available to schedule pods".to_owned();
    }
    let nodes = refusals.len();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refusals.iter().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    let hopeless = refusals.iter().filter(|refusal| refusal.is_hopeless).count();
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
