//! Inter-pod affinity and anti-affinity. Pure: no I/O, no clock, except for the lookup of namespace labels.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::picture::{Group, Picture};
use super::{Refusal, Wishes};
use crate::access::{items, text, texts};
use crate::control::view::Node;
use crate::selector::Labels;

/// Whether the labels of a namespace match a selector.
pub(super) type Namespaces<'a> = &'a (dyn Fn(&str, &Labels) -> bool + Sync);

/// A topology domain: label key and value.
type Domain = (String, String);

/// A term of pod affinity or anti-affinity.
#[derive(Debug)]
pub(super) struct Term {
    topology: String,
    selector: Labels,
    namespaces: BTreeSet<String>,
    namespace_selector: Option<Labels>,
}

impl Term {
    /// Parses a term of a pod in `namespace`.
    pub fn read(term: &Value, namespace: &str) -> Self {
        let mut namespaces: BTreeSet<String> = texts(term, "namespaces").into_iter().collect();
        let by_label = &term["namespaceSelector"];
        if namespaces.is_empty() && by_label.is_null() {
            namespaces.insert(namespace.to_owned());
        }
        // The API rejects invalid selectors; one that cannot be parsed matches nothing.
        let selector = |value: &Value| Labels::from_object(value).unwrap_or_else(|_| Labels::nothing());
        Self {
            topology: text(term, "topologyKey").to_owned(),
            selector: selector(&term["labelSelector"]),
            namespaces,
            namespace_selector: (!by_label.is_null()).then(|| selector(by_label)),
        }
    }

    fn covers(&self, group: &Group, namespaces: Namespaces<'_>) -> bool {
        self.is_about(&group.namespace, &group.labels, namespaces)
    }

    fn is_about(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        namespaces: Namespaces<'_>,
    ) -> bool {
        let by_label =
            || self.namespace_selector.as_ref().is_some_and(|labels| namespaces(namespace, labels));
        self.selector.matches(|key| labels.get(key).map(String::as_str))
            && (self.namespaces.contains(namespace) || by_label())
    }

    fn domain(&self, node: &Node) -> Option<Domain> {
        Some((self.topology.clone(), node.metadata.labels.get(&self.topology)?.clone()))
    }
}

/// Returns the required terms of one kind (`podAffinity` or `podAntiAffinity`).
fn required(affinity: &Value, kind: &str, namespace: &str) -> Vec<Term> {
    let terms = items(&affinity[kind], "requiredDuringSchedulingIgnoredDuringExecution");
    terms.iter().map(|term| Term::read(term, namespace)).collect()
}

/// Affinity of one incoming pod, evaluated against the pods in the snapshot.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    wanted: Vec<Term>,
    /// Number of pods that match all required affinity terms, by term and domain.
    met: HashMap<(usize, Domain), u32>,
    /// No pod matches its affinity yet except itself: it may go anywhere.
    is_first: bool,
    /// Domains with pods that its anti-affinity matches.
    shunned: HashSet<Domain>,
    /// Domains with pods whose anti-affinity matches it.
    shunning: HashSet<Domain>,
}

impl Neighbours {
    pub fn of(wishes: &Wishes<'_>, picture: &Picture, namespaces: Namespaces<'_>) -> Self {
        let (namespace, labels) = (wishes.namespace, &wishes.pod.metadata.labels);
        let wanted = required(&wishes.pod.spec.affinity, "podAffinity", namespace);
        let unwanted = required(&wishes.pod.spec.affinity, "podAntiAffinity", namespace);
        let mut found = Self::default();
        for (_, node, place) in picture.places() {
            for (group, members) in &place.groups {
                let shuns = members.anti.iter().filter(|term| term.is_about(namespace, labels, namespaces));
                found.shunning.extend(shuns.filter_map(|term| term.domain(node)));
                let shunned = unwanted.iter().filter(|term| term.covers(group, namespaces));
                found.shunned.extend(shunned.filter_map(|term| term.domain(node)));
                if !wanted.is_empty() && wanted.iter().all(|term| term.covers(group, namespaces)) {
                    for (at, term) in wanted.iter().enumerate() {
                        if let Some(domain) = term.domain(node) {
                            *found.met.entry((at, domain)).or_default() += members.count;
                        }
                    }
                }
            }
        }
        found.is_first =
            found.met.is_empty() && wanted.iter().all(|term| term.is_about(namespace, labels, namespaces));
        found.wanted = wanted;
        found
    }

    pub fn refuse(&self, node: &Node) -> Option<Refusal> {
        let has_all = self.wanted.iter().all(|term| term.domain(node).is_some());
        let met = |(at, term): (usize, &Term)| {
            term.domain(node).is_some_and(|domain| self.met.contains_key(&(at, domain)))
        };
        if !(has_all && (self.is_first || self.wanted.iter().enumerate().all(met))) {
            return Some(Refusal::hopeless("node(s) didn't match pod affinity rules"));
        }
        let is_in = |domains: &HashSet<Domain>| {
            domains.iter().any(|(key, value)| node.metadata.labels.get(key) == Some(value))
        };
        if is_in(&self.shunned) {
            return Some(Refusal::now("node(s) didn't match pod anti-affinity rules"));
        }
        is_in(&self.shunning)
            .then(|| Refusal::now("node(s) didn't satisfy existing pods anti-affinity rules"))
    }
}

/// Returns the sum of the preferred terms' weights per node, in the order of the snapshot's nodes.
pub(super) fn preferences(wishes: &Wishes<'_>, picture: &Picture, namespaces: Namespaces<'_>) -> Vec<i64> {
    let mut weights: HashMap<Domain, i64> = HashMap::new();
    let kinds = [("podAffinity", 1), ("podAntiAffinity", -1)];
    let terms: Vec<(Term, i64)> = kinds
        .iter()
        .flat_map(|(kind, sign)| {
            let terms =
                items(&wishes.pod.spec.affinity[*kind], "preferredDuringSchedulingIgnoredDuringExecution");
            let read = |term: &Value| Term::read(&term["podAffinityTerm"], wishes.namespace);
            terms
                .iter()
                .map(move |term| (read(term), term["weight"].as_i64().unwrap_or(0).saturating_mul(*sign)))
        })
        .collect();
    for (_, node, place) in picture.places().take_while(|_| !terms.is_empty()) {
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
        let here = |(key, value): &Domain| node.metadata.labels.get(key) == Some(value);
        weights
            .iter()
            .filter(|(domain, _)| here(domain))
            .fold(0_i64, |sum, (_, weight)| sum.saturating_add(*weight))
    };
    picture.places().map(|(_, node, _)| of_node(node)).collect()
}
