//! What a node wears of what pools have a say in, and what is remembered of it.
//!
//! What a pool put on a node is remembered on the node, in OpenYurt's annotation and under OpenYurt's keys; beside them, what was there
//! before it. So a node that leaves its pool is as it was, but for what somebody changed meanwhile: that stays.
//!
//! Always true: what says whose a node is neither comes nor goes by what is remembered, whoever wrote that.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use kube_types::marks::{POOL, PREVIOUS, TENANT};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::attributes::{Attributes, HOST_NETWORK, is_reserved};
use crate::node::{self, Node};
use crate::seen::Seen;

/// Labels, annotations and taints of a node, with what pools did to them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Worn {
    pub labels: BTreeMap<String, String>,
    /// Without what is remembered.
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub memory: Memory,
}

/// What is remembered on a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Memory {
    /// What the pool put there.
    #[serde(flatten)]
    pub given: Part,
    /// What was there under the same names.
    #[serde(skip_serializing_if = "Part::is_empty")]
    pub before: Part,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

impl Memory {
    /// The same without what no pool can have done.
    fn of_pools(mut self) -> Self {
        // Which pool it is in is ours to say, and its network follows from that; what was there before is not brought back.
        self.given.keep(|key| !is_reserved(key) || key == POOL || key == HOST_NETWORK);
        self.before.keep(|key| !is_reserved(key));
        self
    }
}

impl Part {
    fn keep(&mut self, allowed: impl Fn(&str) -> bool) {
        self.labels.retain(|key, _| allowed(key));
        self.annotations.retain(|key, _| allowed(key));
        self.taints.retain(|taint| allowed(&taint.key));
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.taints.is_empty()
    }
}

impl Worn {
    /// As far as it is kept.
    pub fn kept(node: &Arc<Node>) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self::of(
            node.labels.iter().map(owned).collect(),
            node.annotations.iter().map(owned).collect(),
            node.taints.to_vec(),
        )
    }

    pub fn told(told: &node::Told) -> Self {
        let Seen { metadata, spec, .. } = told;
        let pairs = |pairs: &Option<BTreeMap<String, String>>| pairs.clone().unwrap_or_default();
        Self::of(pairs(&metadata.labels), pairs(&metadata.annotations), spec.taints.clone())
    }

    fn of(
        labels: BTreeMap<String, String>,
        mut annotations: BTreeMap<String, String>,
        taints: Vec<Taint>,
    ) -> Self {
        // What cannot be read is nobody's memory, and is written over.
        let memory = annotations.remove(PREVIOUS).and_then(|text| serde_json::from_str::<Memory>(&text).ok());
        Self { labels, annotations, taints, memory: memory.unwrap_or_default().of_pools() }
    }

    pub fn tenant(&self) -> Option<&str> {
        self.labels.get(TENANT).map(String::as_str).filter(|tenant| !tenant.is_empty())
    }

    /// The node as it would be without a pool. What somebody changed after the pool is theirs.
    #[must_use]
    pub fn bare(&self) -> Self {
        let Memory { given, before } = &self.memory;
        let mut bare = Self { memory: Memory::default(), ..self.clone() };
        take_off(&mut bare.labels, &given.labels, &before.labels);
        take_off(&mut bare.annotations, &given.annotations, &before.annotations);
        bare.taints.retain(|taint| !given.taints.iter().any(|given| alike(given, taint)));
        for taint in &before.taints {
            let taken = given
                .taints
                .iter()
                .any(|given| same_place(given, taint) && self.taints.iter().any(|worn| alike(worn, given)));
            if taken {
                bare.taints.push(taint.clone());
            }
        }
        bare
    }

    /// The same with what a pool gives put on it.
    #[must_use]
    pub fn with(mut self, attributes: Attributes) -> Self {
        let Attributes { labels, annotations, taints } = attributes;
        let before = Part {
            labels: put_on(&mut self.labels, &labels),
            annotations: put_on(&mut self.annotations, &annotations),
            taints: self
                .taints
                .extract_if(.., |worn| taints.iter().any(|given| same_place(given, worn)))
                .collect(),
        };
        self.taints.extend(taints.iter().cloned());
        self.memory = Memory { given: Part { labels, annotations, taints }, before }.of_pools();
        self
    }

    /// Whether both are the same to Kubernetes: taints have no order.
    pub fn is_like(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.annotations == other.annotations
            && self.memory == other.memory
            && self.taints.len() == other.taints.len()
            && self.taints.iter().all(|taint| other.taints.iter().any(|other| alike(taint, other)))
    }

    /// From this to the other, as a merge patch that holds only for the version that was seen.
    pub fn patch(&self, wanted: &Self, version: Option<&str>) -> Value {
        let mut metadata = Map::new();
        let mut annotations = differences(&self.annotations, &wanted.annotations);
        if self.memory != wanted.memory {
            let memory = if wanted.memory == Memory::default() {
                Value::Null
            } else {
                serde_json::to_string(&wanted.memory).expect("a memory is texts and nothing else").into()
            };
            annotations.insert(PREVIOUS.to_owned(), memory);
        }
        metadata.insert("labels".to_owned(), differences(&self.labels, &wanted.labels).into());
        metadata.insert("annotations".to_owned(), annotations.into());
        metadata.insert("resourceVersion".to_owned(), version.into());
        let mut patch = json!({ "metadata": metadata });
        if self.taints != wanted.taints {
            patch["spec"] = json!({"taints": wanted.taints});
        }
        patch
    }
}

fn take_off(
    worn: &mut BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
    before: &BTreeMap<String, String>,
) {
    for (key, value) in given {
        if worn.get(key) == Some(value) {
            match before.get(key) {
                Some(before) => drop(worn.insert(key.clone(), before.clone())),
                None => drop(worn.remove(key)),
            }
        }
    }
}

/// What was there before.
fn put_on(worn: &mut BTreeMap<String, String>, given: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let before =
        given.iter().filter_map(|(key, value)| Some((key.clone(), worn.insert(key.clone(), value.clone())?)));
    before.collect()
}

fn differences(now: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> Map<String, Value> {
    let gone = now.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let new = wanted.iter().filter(|(key, value)| now.get(*key) != Some(value));
    gone.chain(new.map(|(key, value)| (key.clone(), value.as_str().into()))).collect()
}

/// A node has at most one taint of each key and effect.
fn same_place(one: &Taint, other: &Taint) -> bool {
    (&one.key, &one.effect) == (&other.key, &other.effect)
}

/// When it was put there does not matter.
fn alike(one: &Taint, other: &Taint) -> bool {
    same_place(one, other)
        && one.value.as_deref().unwrap_or_default() == other.value.as_deref().unwrap_or_default()
}
