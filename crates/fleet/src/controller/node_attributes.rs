//! Labels, annotations and taints of a node, with the record of what its pool applied.
//!
//! The record is in OpenYurt's annotation with OpenYurt's keys, extended by the previous values. A node that leaves its
//! pool is restored to its previous state, except for attributes that were changed by others in the meantime: these
//! stay.
//!
//! Invariant: the record never adds or removes the labels and taints of a node's tenant, even if another user wrote the record.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Taint;
use kube_types::well_known::{POOL, PREVIOUS_POOL_ATTRIBUTES, TENANT};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::node::{self, Node};
use crate::partial_object::PartialObject;
use crate::pool_attributes::{HOST_NETWORK, PoolAttributes, is_reserved};

/// Labels, annotations and taints of a node, with the pool's changes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct NodeAttributes {
    pub labels: BTreeMap<String, String>,
    /// Without the record itself.
    pub annotations: BTreeMap<String, String>,
    pub taints: Vec<Taint>,
    pub applied: AppliedAttributes,
}

/// Record of a pool's changes to a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AppliedAttributes {
    /// Attributes that the pool applied.
    #[serde(flatten)]
    pub given: Part,
    /// Previous values of these attributes.
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

impl AppliedAttributes {
    /// Removes entries that no pool can have caused.
    fn without_reserved(mut self) -> Self {
        // The controller sets the pool's label and the host network label; their previous values are not restored.
        self.given.retain_keys(|key| !is_reserved(key) || key == POOL || key == HOST_NETWORK);
        self.before.retain_keys(|key| !is_reserved(key));
        self
    }
}

impl Part {
    fn retain_keys(&mut self, allowed: impl Fn(&str) -> bool) {
        self.labels.retain(|key, _| allowed(key));
        self.annotations.retain(|key, _| allowed(key));
        self.taints.retain(|taint| allowed(&taint.key));
    }

    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty() && self.taints.is_empty()
    }
}

impl NodeAttributes {
    /// From the cached node.
    pub fn from_cached(node: &Arc<Node>) -> Self {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        Self::from_parts(
            node.labels.iter().map(owned).collect(),
            node.annotations.iter().map(owned).collect(),
            node.taints.to_vec(),
        )
    }

    pub fn from_object(object: &node::NodeObject) -> Self {
        let PartialObject { metadata, spec, .. } = object;
        let pairs = |pairs: &Option<BTreeMap<String, String>>| pairs.clone().unwrap_or_default();
        Self::from_parts(pairs(&metadata.labels), pairs(&metadata.annotations), spec.taints.clone())
    }

    fn from_parts(
        labels: BTreeMap<String, String>,
        mut annotations: BTreeMap<String, String>,
        taints: Vec<Taint>,
    ) -> Self {
        // An unreadable record is ignored and overwritten.
        let memory = annotations
            .remove(PREVIOUS_POOL_ATTRIBUTES)
            .and_then(|text| serde_json::from_str::<AppliedAttributes>(&text).ok());
        Self { labels, annotations, taints, applied: memory.unwrap_or_default().without_reserved() }
    }

    pub fn tenant(&self) -> Option<&str> {
        self.labels.get(TENANT).map(String::as_str).filter(|tenant| !tenant.is_empty())
    }

    /// The attributes without the pool. Values changed after the pool applied its own are kept.
    #[must_use]
    pub fn without_pool(&self) -> Self {
        let AppliedAttributes { given, before } = &self.applied;
        let mut bare = Self { applied: AppliedAttributes::default(), ..self.clone() };
        restore_values(&mut bare.labels, &given.labels, &before.labels);
        restore_values(&mut bare.annotations, &given.annotations, &before.annotations);
        bare.taints.retain(|taint| !given.taints.iter().any(|given| is_equal_taint(given, taint)));
        for taint in &before.taints {
            let taken = given.taints.iter().any(|given| {
                same_key_and_effect(given, taint)
                    && self.taints.iter().any(|worn| is_equal_taint(worn, given))
            });
            if taken {
                bare.taints.push(taint.clone());
            }
        }
        bare
    }

    /// Applies a pool's attributes and records the previous values.
    #[must_use]
    pub fn with_pool(mut self, attributes: PoolAttributes) -> Self {
        let PoolAttributes { labels, annotations, taints } = attributes;
        let before = Part {
            labels: apply_values(&mut self.labels, &labels),
            annotations: apply_values(&mut self.annotations, &annotations),
            taints: self
                .taints
                .extract_if(.., |worn| taints.iter().any(|given| same_key_and_effect(given, worn)))
                .collect(),
        };
        self.taints.extend(taints.iter().cloned());
        self.applied =
            AppliedAttributes { given: Part { labels, annotations, taints }, before }.without_reserved();
        self
    }

    /// Whether both are equal in Kubernetes' sense: taints are unordered.
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.labels == other.labels
            && self.annotations == other.annotations
            && self.applied == other.applied
            && self.taints.len() == other.taints.len()
            && self.taints.iter().all(|taint| other.taints.iter().any(|other| is_equal_taint(taint, other)))
    }

    /// Merge patch to `wanted`, with a precondition on the resourceVersion.
    pub fn patch(&self, wanted: &Self, version: Option<&str>) -> Value {
        let mut metadata = Map::new();
        let mut annotations = merge_patch(&self.annotations, &wanted.annotations);
        if self.applied != wanted.applied {
            let memory = if wanted.applied == AppliedAttributes::default() {
                Value::Null
            } else {
                serde_json::to_string(&wanted.applied).expect("a memory is texts and nothing else").into()
            };
            annotations.insert(PREVIOUS_POOL_ATTRIBUTES.to_owned(), memory);
        }
        metadata.insert("labels".to_owned(), merge_patch(&self.labels, &wanted.labels).into());
        metadata.insert("annotations".to_owned(), annotations.into());
        metadata.insert("resourceVersion".to_owned(), version.into());
        let mut patch = json!({ "metadata": metadata });
        if self.taints != wanted.taints {
            patch["spec"] = json!({"taints": wanted.taints});
        }
        patch
    }
}

fn restore_values(
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

/// Applies attributes and returns the previous values.
fn apply_values(
    worn: &mut BTreeMap<String, String>,
    given: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let before =
        given.iter().filter_map(|(key, value)| Some((key.clone(), worn.insert(key.clone(), value.clone())?)));
    before.collect()
}

fn merge_patch(now: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> Map<String, Value> {
    let gone = now.keys().filter(|key| !wanted.contains_key(*key)).map(|key| (key.clone(), Value::Null));
    let new = wanted.iter().filter(|(key, value)| now.get(*key) != Some(value));
    gone.chain(new.map(|(key, value)| (key.clone(), value.as_str().into()))).collect()
}

/// A node has at most one taint per key and effect.
fn same_key_and_effect(one: &Taint, other: &Taint) -> bool {
    (&one.key, &one.effect) == (&other.key, &other.effect)
}

/// Equality of taints without their time.
fn is_equal_taint(one: &Taint, other: &Taint) -> bool {
    same_key_and_effect(one, other)
        && one.value.as_deref().unwrap_or_default() == other.value.as_deref().unwrap_or_default()
}
