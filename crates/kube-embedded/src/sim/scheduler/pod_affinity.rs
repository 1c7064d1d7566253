//! Inter-pod affinity and anti-affinity. Pure: no I/O, no clock, except for the lookup of namespace labels.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::snapshot::{ClusterSnapshot, PodGroup};
use super::{NodeRejection, PendingPod};
use crate::access::{items, text, texts};
use crate::control::view::Node;
use crate::selector::LabelSelector;

/// Whether the labels of a namespace match a selector.
pub(super) type NamespaceMatcher<'a> = &'a (dyn Fn(&str, &LabelSelector) -> bool + Sync);

/// A topology domain: label key and value.
type TopologyDomain = (String, String);

/// A term of pod affinity or anti-affinity.
#[derive(Debug)]
pub(super) struct AffinityTerm {
    topology: String,
    selector: LabelSelector,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<LabelSelector>,
}

impl AffinityTerm {
    /// Parses a term of a pod in `namespace`.
    pub fn parse(term: &Value, namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> = texts(term, "namespaces").into_iter().collect();
        let by_label = &term["namespaceSelector"];
        if namespaces.is_empty() && by_label.is_null() {
            namespaces.insert(namespace.to_owned());
        }
        // The API rejects invalid selectors; one that cannot be parsed matches nothing.
        let selector = |value: &Value| {
            LabelSelector::from_label_selector_object(value).unwrap_or_else(|_| LabelSelector::nothing())
        };
        Self {
            topology: text(term, "topologyKey").to_owned(),
            selector: selector(&term["labelSelector"]),
            namespaces,
            namespace_selector: (!by_label.is_null()).then(|| selector(by_label)),
        }
    }

    fn covers(&self, group: &PodGroup, namespaces: NamespaceMatcher<'_>) -> bool {
        self.matches(&group.namespace, &group.labels, namespaces)
    }

    fn matches(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        namespaces: NamespaceMatcher<'_>,
    ) -> bool {
        let by_label =
            || self.namespace_selector.as_ref().is_some_and(|labels| namespaces(namespace, labels));
        self.selector.matches(|key| labels.get(key).map(String::as_str))
            && (self.namespaces.contains(namespace) || by_label())
    }

    fn domain(&self, node: &Node) -> Option<TopologyDomain> {
        Some((self.topology.clone(), node.metadata.labels.get(&self.topology)?.clone()))
    }
}

/// Returns the required terms of one kind (`podAffinity` or `podAntiAffinity`).
fn required_terms(affinity: &Value, kind: &str, namespace: &str) -> Vec<AffinityTerm> {
    let terms = items(&affinity[kind], "requiredDuringSchedulingIgnoredDuringExecution");
    terms.iter().map(|term| AffinityTerm::parse(term, namespace)).collect()
}

/// Affinity of one incoming pod, evaluated against the pods in the snapshot.
#[derive(Debug, Default)]
pub(super) struct PodAffinity {
    affinity_terms: Vec<AffinityTerm>,
    /// Number of pods that match all required affinity terms, by term and domain.
    matches_by_domain: HashMap<(usize, TopologyDomain), u32>,
    /// No pod matches its affinity yet except itself: it may go anywhere.
    is_first: bool,
    /// Domains with pods that its anti-affinity matches.
    anti_affinity_domains: HashSet<TopologyDomain>,
    /// Domains with pods whose anti-affinity matches it.
    incoming_anti_affinity_domains: HashSet<TopologyDomain>,
}

impl PodAffinity {
    pub fn new(wishes: &PendingPod<'_>, picture: &ClusterSnapshot, namespaces: NamespaceMatcher<'_>) -> Self {
        let (namespace, labels) = (wishes.namespace, &wishes.pod.metadata.labels);
        let wanted = required_terms(&wishes.pod.spec.affinity, "podAffinity", namespace);
        let unwanted = required_terms(&wishes.pod.spec.affinity, "podAntiAffinity", namespace);
        let mut found = Self::default();
        for (_, node, place) in picture.nodes() {
            for (group, members) in &place.groups {
                let shuns =
                    members.anti_affinity.iter().filter(|term| term.matches(namespace, labels, namespaces));
                found.incoming_anti_affinity_domains.extend(shuns.filter_map(|term| term.domain(node)));
                let shunned = unwanted.iter().filter(|term| term.covers(group, namespaces));
                found.anti_affinity_domains.extend(shunned.filter_map(|term| term.domain(node)));
                if !wanted.is_empty() && wanted.iter().all(|term| term.covers(group, namespaces)) {
                    for (at, term) in wanted.iter().enumerate() {
                        if let Some(domain) = term.domain(node) {
                            *found.matches_by_domain.entry((at, domain)).or_default() += members.count;
                        }
                    }
                }
            }
        }
        found.is_first = found.matches_by_domain.is_empty()
            && wanted.iter().all(|term| term.matches(namespace, labels, namespaces));
        found.affinity_terms = wanted;
        found
    }

    pub fn reject(&self, node: &Node) -> Option<NodeRejection> {
        let has_all = self.affinity_terms.iter().all(|term| term.domain(node).is_some());
        let met = |(at, term): (usize, &AffinityTerm)| {
            term.domain(node).is_some_and(|domain| self.matches_by_domain.contains_key(&(at, domain)))
        };
        if !(has_all && (self.is_first || self.affinity_terms.iter().enumerate().all(met))) {
            return Some(NodeRejection::unresolvable("node(s) didn't match pod affinity rules"));
        }
        let is_in = |domains: &HashSet<TopologyDomain>| {
            domains.iter().any(|(key, value)| node.metadata.labels.get(key) == Some(value))
        };
        if is_in(&self.anti_affinity_domains) {
            return Some(NodeRejection::unschedulable("node(s) didn't match pod anti-affinity rules"));
        }
        is_in(&self.incoming_anti_affinity_domains)
            .then(|| NodeRejection::unschedulable("node(s) didn't satisfy existing pods anti-affinity rules"))
    }
}

/// Returns the sum of the preferred terms' weights per node, in the order of the snapshot's nodes.
pub(super) fn preference_scores(
    wishes: &PendingPod<'_>,
    picture: &ClusterSnapshot,
    namespaces: NamespaceMatcher<'_>,
) -> Vec<i64> {
    let mut weights: HashMap<TopologyDomain, i64> = HashMap::new();
    let kinds = [("podAffinity", 1), ("podAntiAffinity", -1)];
    let terms: Vec<(AffinityTerm, i64)> = kinds
        .iter()
        .flat_map(|(kind, sign)| {
            let terms =
                items(&wishes.pod.spec.affinity[*kind], "preferredDuringSchedulingIgnoredDuringExecution");
            let read = |term: &Value| AffinityTerm::parse(&term["podAffinityTerm"], wishes.namespace);
            terms
                .iter()
                .map(move |term| (read(term), term["weight"].as_i64().unwrap_or(0).saturating_mul(*sign)))
        })
        .collect();
    for (_, node, place) in picture.nodes().take_while(|_| !terms.is_empty()) {
        for (group, members) in &place.groups {
            for (term, weight) in terms.iter().filter(|(term, _)| term.covers(group, namespaces)) {
                if let Some(domain) = term.domain(node) {
                    let sum = weights.entry(domain).or_default();
                    *sum = weight.saturating_mul(members.count.into()).saturating_add(*sum);
                }
            }
        }
    }
    let of_node = |node: &Node| {
        let here = |(key, value): &TopologyDomain| node.metadata.labels.get(key) == Some(value);
        weights
            .iter()
            .filter(|(domain, _)| here(domain))
            .fold(0_i64, |sum, (_, weight)| sum.saturating_add(*weight))
    };
    picture.nodes().map(|(_, node, _)| of_node(node)).collect()
}
