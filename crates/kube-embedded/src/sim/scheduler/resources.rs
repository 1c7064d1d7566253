//! Requests of pods and allocatable amounts of nodes, as integers.
//!
//! Sums are `i128`: each amount of an object fits `i64`, so no number of pods makes a sum saturate. A saturated sum
//! would stay wrong after pods are removed.

#![warn(clippy::arithmetic_side_effects)]

use std::collections::BTreeMap;

use domain::resources::resource_list::{self, ResourceField};
use serde_json::Value;

use crate::control::view::PodSpec;

/// Amounts assumed for containers without requests when nodes are scored: millicores and bytes.
const DEFAULT_CPU_REQUEST: i128 = 100;
const DEFAULT_MEMORY_REQUEST: i128 = 200 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    /// Millicores.
    pub cpu: i128,
    pub memory: i128,
    pub storage: i128,
    pub pods: i128,
    /// Huge pages and extended resources.
    pub extended: BTreeMap<String, i128>,
}

impl Resources {
    fn from_amounts(amounts: &resource_list::ResourceList) -> Self {
        let mut found = Self::default();
        for (name, amount) in amounts {
            match name.as_str() {
                "cpu" => found.cpu = amount.milli_value().into(),
                "memory" => found.memory = amount.value().into(),
                "ephemeral-storage" => found.storage = amount.value().into(),
                "pods" => found.pods = amount.value().into(),
                _ => drop(found.extended.insert(name.clone(), amount.value().into())),
            }
        }
        found
    }

    /// The amounts of a node's `allocatable`.
    pub fn from_node(allocatable: &Value) -> Self {
        Self::from_amounts(&resource_list::parse(allocatable))
    }

    /// The requests of a pod; the pod itself counts as one.
    pub fn from_pod(spec: &PodSpec) -> Self {
        let initial = spec.init_containers.iter().map(|c| (&c.resources, c.restart_policy == "Always"));
        let containers = spec.containers.iter().map(|container| &container.resources);
        let mut asked =
            resource_list::for_containers(containers, initial, &spec.resources, ResourceField::Requests);
        resource_list::add(&mut asked, &resource_list::parse(&spec.overhead));
        Self { pods: 1, ..Self::from_amounts(&asked) }
    }

    /// The amounts for scores, where containers without requests count with assumed amounts.
    pub fn nonzero_requests(&self, spec: &PodSpec) -> (i128, i128) {
        let silent = |name: &str| {
            let asks = |resources: &Value| !resources["requests"][name].is_null();
            let silent = spec.containers.iter().filter(|container| !asks(&container.resources)).count();
            i128::try_from(silent).unwrap_or(i128::MAX)
        };
        let more = |name: &str, each: i128| silent(name).saturating_mul(each);
        let memory = self.memory.saturating_add(more("memory", DEFAULT_MEMORY_REQUEST));
        (self.cpu.saturating_add(more("cpu", DEFAULT_CPU_REQUEST)), memory)
    }

    pub fn add(&mut self, more: &Self) {
        self.combine(more, i128::saturating_add);
    }

    pub fn subtract(&mut self, less: &Self) {
        self.combine(less, i128::saturating_sub);
    }

    fn combine(&mut self, by: &Self, how: impl Fn(i128, i128) -> i128) {
        self.cpu = how(self.cpu, by.cpu);
        self.memory = how(self.memory, by.memory);
        self.storage = how(self.storage, by.storage);
        self.pods = how(self.pods, by.pods);
        for (name, amount) in &by.extended {
            let sum = self.extended.entry(name.clone()).or_default();
            *sum = how(*sum, *amount);
        }
    }

    /// Returns the reasons why `asked` does not fit beside `taken`, as kube-scheduler words them.
    pub fn insufficient(&self, taken: &Self, asked: &Self) -> Vec<String> {
        let mut lacking = Vec::new();
        if taken.pods.saturating_add(asked.pods) > self.pods {
            lacking.push("Too many pods".to_owned());
        }
        let mut compare = |name: &str, has: i128, requested: i128, requests: i128| {
            if requests > 0 && requests > has.saturating_sub(requested) {
                lacking.push(format!("Insufficient {name}"));
            }
        };
        compare("cpu", self.cpu, taken.cpu, asked.cpu);
        compare("memory", self.memory, taken.memory, asked.memory);
        compare("ephemeral-storage", self.storage, taken.storage, asked.storage);
        for (name, amount) in &asked.extended {
            let of = |list: &Self| list.extended.get(name).copied().unwrap_or(0);
            compare(name, of(self), of(taken), *amount);
        }
        lacking
    }

    /// Whether even an empty node of this size would not fit the pod.
    pub fn never_fits(&self, asked: &Self) -> bool {
        let none = Self::default();
        let mut alone = asked.clone();
        alone.pods = 0;
        !self.insufficient(&none, &alone).is_empty()
    }
}
