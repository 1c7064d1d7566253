//! What pods ask for and nodes have, in whole numbers.

use std::collections::BTreeMap;

use domain::resources::amounts::{self, Side};
use serde_json::Value;

use crate::control::view::PodSpec;

/// What a container that asks for nothing is taken to use when nodes are compared: thousandths of a CPU, and bytes.
const ASSUMED_CPU: i64 = 100;
const ASSUMED_MEMORY: i64 = 200 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Resources {
    /// Thousandths of a CPU.
    pub cpu: i64,
    pub memory: i64,
    pub storage: i64,
    pub pods: i64,
    /// Huge pages and what nodes advertise beyond the usual.
    pub others: BTreeMap<String, i64>,
}

impl Resources {
    fn of(amounts: &amounts::Amounts) -> Self {
        let mut found = Self::default();
        for (name, amount) in amounts {
            match name.as_str() {
                "cpu" => found.cpu = amount.milli_value(),
                "memory" => found.memory = amount.value(),
                "ephemeral-storage" => found.storage = amount.value(),
                "pods" => found.pods = amount.value(),
                _ => drop(found.others.insert(name.clone(), amount.value())),
            }
        }
        found
    }

    /// What a node's `allocatable` says.
    pub fn of_node(allocatable: &Value) -> Self {
        Self::of(&amounts::read(allocatable))
    }

    /// What a pod asks for, itself counted.
    pub fn of_pod(spec: &PodSpec) -> Self {
        let initial = spec.init_containers.iter().map(|c| (&c.resources, c.restart_policy == "Always"));
        let containers = spec.containers.iter().map(|container| &container.resources);
        let mut asked = amounts::of_containers(containers, initial, &spec.resources, Side::Requests);
        amounts::add(&mut asked, &amounts::read(&spec.overhead));
        Self { pods: 1, ..Self::of(&asked) }
    }

    /// The same for comparing nodes, where a container that asks for nothing counts, too.
    pub fn assumed_of_pod(&self, spec: &PodSpec) -> (i64, i64) {
        let silent = |name: &str| {
            let asks = |resources: &Value| !resources["requests"][name].is_null();
            let silent = spec.containers.iter().filter(|container| !asks(&container.resources)).count();
            i64::try_from(silent).unwrap_or(i64::MAX)
        };
        (self.cpu + silent("cpu") * ASSUMED_CPU, self.memory + silent("memory") * ASSUMED_MEMORY)
    }

    pub fn add(&mut self, more: &Self) {
        self.change(more, 1);
    }

    pub fn subtract(&mut self, less: &Self) {
        self.change(less, -1);
    }

    fn change(&mut self, by: &Self, sign: i64) {
        self.cpu += sign * by.cpu;
        self.memory += sign * by.memory;
        self.storage += sign * by.storage;
        self.pods += sign * by.pods;
        for (name, amount) in &by.others {
            *self.others.entry(name.clone()).or_default() += sign * amount;
        }
    }

    /// What of `asked` does not fit beside `taken`, in Kubernetes' words.
    pub fn lacks(&self, taken: &Self, asked: &Self) -> Vec<String> {
        let mut lacking = Vec::new();
        if taken.pods + asked.pods > self.pods {
            lacking.push("Too many pods".to_owned());
        }
        let mut compare = |name: &str, has: i64, taken: i64, asked: i64| {
            if asked > 0 && asked > has - taken {
                lacking.push(format!("Insufficient {name}"));
            }
        };
        compare("cpu", self.cpu, taken.cpu, asked.cpu);
        compare("memory", self.memory, taken.memory, asked.memory);
        compare("ephemeral-storage", self.storage, taken.storage, asked.storage);
        for (name, amount) in &asked.others {
            let of = |list: &Self| list.others.get(name).copied().unwrap_or(0);
            compare(name, of(self), of(taken), *amount);
        }
        lacking
    }

    /// An empty node of this size could not take it either.
    pub fn never_fits(&self, asked: &Self) -> bool {
        let none = Self::default();
        let mut alone = asked.clone();
        alone.pods = 0;
        !self.lacks(&none, &alone).is_empty()
    }
}
