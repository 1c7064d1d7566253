//! Storage budgets: how many bytes the objects of one group of namespaces may take.
//!
//! A Namespace joins a group by the value of a label. All objects in it belong to that group, whatever their own labels say. A
//! cluster-scoped object, and one in a namespace without the label, belongs to the group that its own label names, if any.
//!
//! [`Usage`] is part of the store's state: it is counted from all objects when the store opens, and changed by each published
//! event. The sequencer is its only reader on the way of a write ([`Usage::growth`], [`Pending`]); it decides transactions one
//! after the other, so writes at the same time cannot exceed a budget together. The cost of a write does not depend on the
//! number of objects.
//!
//! Invariant: the totals equal a count over all stored objects by [`Object::bytes`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::{Event, EventKind, Key, Object, Shared};

const NAMESPACES: &str = "namespaces";
/// The most that a write with [`Allowance::Small`] may grow by.
const SMALL_GROWTH: u64 = 16 << 10;
/// Small new objects of the cluster's own may exceed a budget by this part of it: a Lease, an Event, a record.
const RESERVE_DIVISOR: u64 = 8;

/// A limit of stored bytes for each group of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageBudget {
    /// The label whose value names the group.
    pub label: String,
    /// Bytes of one group.
    pub limit: u64,
}

/// How far a write may go beyond the budget. A write that does not grow its group is never refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allowance {
    /// Counted, never refused: deletions, status, the store's own maintenance.
    #[default]
    Unlimited,
    /// Small updates are not refused, and small new objects may use a reserve of an eighth of the budget.
    Small,
    Nothing,
}

/// A refused write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverBudget {
    pub group: Box<str>,
    pub used: u64,
    pub requested: u64,
    pub limit: u64,
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, used, requested, limit } = self;
        write!(
            f,
            "exceeded storage budget of {group:?}: used {used} bytes, requested {requested}, limit {limit}"
        )
    }
}

/// The stored bytes of all groups.
#[derive(Debug)]
pub(super) struct Usage {
    budget: StorageBudget,
    groups: HashMap<Box<str>, u64>,
    namespaces: HashMap<Box<str>, NamespaceUsage>,
    refusals: AtomicU64,
}

/// The stored bytes of one namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct NamespaceUsage {
    /// The label's value on the Namespace.
    group: Option<Box<str>>,
    total: u64,
    /// By the label's value on the objects.
    labelled: HashMap<Box<str>, u64>,
}

/// By how much a transaction changes a group.
#[derive(Debug)]
pub(super) struct Growth<'a> {
    group: &'a str,
    bytes: i64,
    creates: bool,
}

impl Usage {
    pub fn new(budget: StorageBudget) -> Self {
        Self { budget, groups: HashMap::new(), namespaces: HashMap::new(), refusals: AtomicU64::default() }
    }

    /// Counts one change of the state.
    pub fn record(&mut self, key: &Key, previous: Option<&Object>, object: Option<&Object>) {
        if let Some(previous) = previous {
            self.add(key, previous, false);
        }
        if let Some(object) = object {
            self.add(key, object, true);
        }
        if key.storage.as_ref() == NAMESPACES {
            let group = object.and_then(|object| label(&self.budget, object)).map(Into::into);
            self.regroup(&key.name, group);
        }
        if self.namespaces.get(&key.namespace).is_some_and(NamespaceUsage::is_empty) {
            self.namespaces.remove(&key.namespace);
        }
    }

    fn add(&mut self, key: &Key, object: &Object, is_added: bool) {
        let bytes = object.bytes.len() as u64;
        let label = label(&self.budget, object);
        let mut group = label;
        if !key.namespace.is_empty() {
            if !self.namespaces.contains_key(&key.namespace) {
                self.namespaces.insert(key.namespace.clone(), NamespaceUsage::default());
            }
            let namespace =
                self.namespaces.get_mut(&key.namespace).expect("it was inserted where it was missing");
            namespace.total = sum(namespace.total, bytes, is_added);
            if let Some(label) = label {
                change(&mut namespace.labelled, label, bytes, is_added);
            }
            group = namespace.group.as_deref().or(label);
        }
        if let Some(group) = group {
            change(&mut self.groups, group, bytes, is_added);
        }
    }

    /// Moves what a namespace holds to another group.
    fn regroup(&mut self, name: &str, group: Option<Box<str>>) {
        if self.namespaces.get(name).and_then(|namespace| namespace.group.as_ref()) == group.as_ref() {
            return;
        }
        let namespace = self.namespaces.entry(name.into()).or_default();
        namespace.count(&mut self.groups, false);
        namespace.group = group;
        namespace.count(&mut self.groups, true);
        if namespace.is_empty() {
            self.namespaces.remove(name);
        }
    }

    /// The group of an object.
    fn group<'a>(&'a self, key: &Key, object: &'a Object) -> Option<&'a str> {
        let namespace = self.namespaces.get(&key.namespace);
        let group = namespace.and_then(|namespace| namespace.group.as_deref());
        group.or_else(|| label(&self.budget, object))
    }

    /// By how much each group changes with these events. A namespace counts to the group that it has before them.
    pub fn growth<'a>(&'a self, events: impl Iterator<Item = (&'a Key, &'a Event)>) -> Vec<Growth<'a>> {
        let mut changes: Vec<Growth<'a>> = Vec::new();
        let mut add = |group: Option<&'a str>, bytes: i64, creates: bool| {
            let Some(group) = group else { return };
            match changes.iter_mut().find(|change| change.group == group) {
                Some(change) => {
                    change.bytes = change.bytes.saturating_add(bytes);
                    change.creates |= creates;
                }
                None => changes.push(Growth { group, bytes, creates }),
            }
        };
        for (key, event) in events {
            if let Some(previous) = event.previous.as_deref() {
                add(self.group(key, previous), -signed(previous), false);
            }
            if event.kind != EventKind::Deleted {
                let is_new = event.kind == EventKind::Added;
                add(self.group(key, &event.object), signed(&event.object), is_new);
            }
        }
        changes
    }

    /// The bytes of a group.
    pub fn of(&self, group: &str) -> u64 {
        self.groups.get(group).copied().unwrap_or_default()
    }

    fn largest(&self) -> u64 {
        self.groups.values().copied().max().unwrap_or_default()
    }

    fn check(&self, growth: &Growth<'_>, pending: i64, allowance: Allowance) -> Result<(), OverBudget> {
        let requested = u64::try_from(growth.bytes).unwrap_or_default();
        if requested == 0 || allowance == Allowance::Unlimited {
            return Ok(());
        }
        let limit = self.budget.limit;
        let used = self.of(growth.group).saturating_add_signed(pending);
        let is_small = allowance == Allowance::Small && requested <= SMALL_GROWTH;
        if is_small && !growth.creates {
            return Ok(());
        }
        let most = if is_small { limit.saturating_add(limit / RESERVE_DIVISOR) } else { limit };
        if used.saturating_add(requested) <= most {
            return Ok(());
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Err(OverBudget { group: growth.group.into(), used, requested, limit })
    }
}

impl NamespaceUsage {
    fn is_empty(&self) -> bool {
        self.group.is_none() && self.total == 0 && self.labelled.is_empty()
    }

    /// Adds all that the namespace holds to the groups it belongs to, or takes it away.
    fn count(&self, groups: &mut HashMap<Box<str>, u64>, is_added: bool) {
        match &self.group {
            Some(group) => change(groups, group, self.total, is_added),
            None => {
                for (group, bytes) in &self.labelled {
                    change(groups, group, *bytes, is_added);
                }
            }
        }
    }
}

/// The admitted growth of transactions that are not published yet.
#[derive(Debug, Default)]
pub(super) struct Pending(HashMap<Box<str>, i64>);

impl Pending {
    /// Whether a transaction fits. It is not counted before [`Self::add`].
    pub fn check(
        &self,
        usage: &Usage,
        growth: &[Growth<'_>],
        allowance: Allowance,
    ) -> Result<(), OverBudget> {
        let pending = |group: &str| self.0.get(group).copied().unwrap_or_default();
        growth.iter().try_for_each(|growth| usage.check(growth, pending(growth.group), allowance))
    }

    pub fn add(&mut self, growth: &[Growth<'_>]) {
        for Growth { group, bytes, .. } in growth {
            match self.0.get_mut(*group) {
                Some(pending) => *pending = pending.saturating_add(*bytes),
                None => {
                    self.0.insert((*group).into(), *bytes);
                }
            }
        }
    }
}

/// The group that an object's own label names.
fn label<'a>(budget: &StorageBudget, object: &'a Object) -> Option<&'a str> {
    object.label(&budget.label).filter(|value| !value.is_empty())
}

fn signed(object: &Object) -> i64 {
    i64::try_from(object.bytes.len()).unwrap_or(i64::MAX)
}

fn sum(total: u64, bytes: u64, is_added: bool) -> u64 {
    if is_added { total.saturating_add(bytes) } else { total.saturating_sub(bytes) }
}

/// Changes one total; one that reaches zero is removed.
fn change(totals: &mut HashMap<Box<str>, u64>, name: &str, bytes: u64, is_added: bool) {
    let total = sum(totals.get(name).copied().unwrap_or_default(), bytes, is_added);
    if total == 0 {
        totals.remove(name);
    } else if let Some(known) = totals.get_mut(name) {
        *known = total;
    } else {
        totals.insert(name.into(), total);
    }
}

/// Reads the budgets at each scrape. Groups have no label: tenants could multiply the series.
#[derive(Clone)]
pub struct StorageCollector(pub(super) Arc<Shared>);

impl fmt::Debug for StorageCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageCollector").finish_non_exhaustive()
    }
}

impl Collector for StorageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let state = self.0.state.read();
        let Some(usage) = state.usage() else { return Ok(()) };
        let (refusals, largest) = (usage.refusals.load(Ordering::Relaxed), usage.largest());
        drop(state);
        let help = "Writes refused because a storage budget was exceeded";
        let name = "kube_embedded_storage_budget_refusals";
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(refusals).encode(counter)?;
        let help = "Stored bytes of the largest group of namespaces";
        let name = "kube_embedded_storage_budget_largest_bytes";
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(largest).unwrap_or(i64::MAX)).encode(gauge)
    }
}

#[cfg(test)]
mod tests;
