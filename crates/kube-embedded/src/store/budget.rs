//! Storage budgets: limits of the stored bytes of each group of namespaces, and of all groups together.
//!
//! A Namespace joins a group by the value of a label, the first of several that it has. All objects in it belong to that group,
//! regardless of their own labels. A cluster-scoped object, and an object in a namespace without the label, belongs to the group that
//! its own label names, if any.
//!
//! [`StorageUsage`] is part of the store's state: it is counted from all objects when the store opens, and updated by each published
//! event. On the write path the sequencer is its only reader ([`StorageUsage::growth`], [`PendingGrowth`]); it decides transactions one
//! after the other, so concurrent writes cannot exceed a budget together. The cost of a write does not depend on the
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
use prometheus_client::registry::Registry;

use super::{Event, EventKind, Key, Object, Shared};

const NAMESPACES: &str = "namespaces";
/// Growth up to which an update with [`Allowance::Small`] is not refused.
const SMALL_GROWTH: u64 = 16 << 10;
/// Small new objects of the cluster itself (a Lease, an Event, a record) may exceed a budget by this fraction of it.
const RESERVE_DIVISOR: u64 = 8;
/// A group below this fraction of its budget may use the last of the capacity, so that a few large groups do not block all others.
const SMALL_GROUP_DIVISOR: u64 = 16;

/// Limits of stored bytes for groups of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorageBudget {
    /// The labels whose value names the group. The first one that is set on an object counts.
    pub labels: Vec<String>,
    /// Bytes of one group.
    pub limit: u64,
    /// Bytes of all groups together.
    pub capacity: u64,
}

/// How far a write may go beyond the budget. A write that does not grow its group is never refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Allowance {
    /// Counted, never refused: deletions, status, the store's own maintenance.
    #[default]
    Unlimited,
    /// Small updates are not refused, and small new objects may use a reserve of an eighth of the budget and of the capacity.
    Small,
    Strict,
}

/// A refused write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverBudget {
    Group {
        group: Box<str>,
        used: u64,
        requested: u64,
        limit: u64,
    },
    /// Does not reveal the usage of other groups.
    Capacity {
        requested: u64,
        capacity: u64,
    },
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group { group, used, requested, limit } => write!(
                f,
                "exceeded storage budget of {group:?}: used {used} bytes, requested {requested}, limit {limit}"
            ),
            Self::Capacity { requested, capacity } => write!(
                f,
                "exceeded storage capacity of all tenants together: requested {requested} bytes, capacity {capacity}"
            ),
        }
    }
}

/// The stored bytes of all groups.
#[derive(Debug)]
pub(super) struct StorageUsage {
    budget: StorageBudget,
    groups: Groups,
    namespaces: HashMap<Box<str>, NamespaceUsage>,
    refusals: AtomicU64,
}

/// The stored bytes of each group, and of all together.
#[derive(Debug, Default)]
struct Groups {
    bytes: HashMap<Box<str>, u64>,
    total: u64,
}

/// The stored bytes of one namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct NamespaceUsage {
    /// The group named by the Namespace's label.
    group: Option<Box<str>>,
    total: u64,
    /// Bytes by the group that the objects' own labels name.
    bytes_by_label: HashMap<Box<str>, u64>,
}

/// The growth of one group by a transaction.
#[derive(Debug)]
pub(super) struct Growth<'a> {
    group: &'a str,
    bytes: i64,
    creates: bool,
}

impl StorageUsage {
    pub fn new(budget: StorageBudget) -> Self {
        Self { budget, groups: Groups::default(), namespaces: HashMap::new(), refusals: AtomicU64::default() }
    }

    /// Updates the totals by one change.
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
            namespace.total = adjusted(namespace.total, bytes, is_added);
            if let Some(label) = label {
                change(&mut namespace.bytes_by_label, label, bytes, is_added);
            }
            group = namespace.group.as_deref().or(label);
        }
        if let Some(group) = group {
            self.groups.adjust(group, bytes, is_added);
        }
    }

    /// Moves the bytes of a namespace to another group.
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

    /// Returns the group of an object.
    fn group<'a>(&'a self, key: &Key, object: &'a Object) -> Option<&'a str> {
        let namespace = self.namespaces.get(&key.namespace);
        let group = namespace.and_then(|namespace| namespace.group.as_deref());
        group.or_else(|| label(&self.budget, object))
    }

    /// Returns the growth of each group by these events. A namespace counts to the group that it had before them.
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
                add(self.group(key, previous), -signed_size(previous), false);
            }
            if event.kind != EventKind::Deleted {
                let is_new = event.kind == EventKind::Added;
                add(self.group(key, &event.object), signed_size(&event.object), is_new);
            }
        }
        changes
    }

    /// The bytes of a group.
    pub fn group_bytes(&self, group: &str) -> u64 {
        self.groups.bytes.get(group).copied().unwrap_or_default()
    }

    fn largest(&self) -> u64 {
        self.groups.bytes.values().copied().max().unwrap_or_default()
    }

    fn check(&self, growth: &Growth<'_>, pending: i64, allowance: Allowance) -> Result<(), OverBudget> {
        let requested = u64::try_from(growth.bytes).unwrap_or_default();
        if is_exempt(requested, growth.creates, allowance) {
            return Ok(());
        }
        let limit = self.budget.limit;
        let used = self.group_bytes(growth.group).saturating_add_signed(pending);
        let most = if is_small(requested, allowance) { with_reserve(limit) } else { limit };
        if used.saturating_add(requested) <= most {
            return Ok(());
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Err(OverBudget::Group { group: growth.group.into(), used, requested, limit })
    }

    fn check_capacity(
        &self,
        growth: &[Growth<'_>],
        pending: &PendingGrowth,
        allowance: Allowance,
    ) -> Result<(), OverBudget> {
        let requested = growth.iter().fold(0_i64, |sum, growth| sum.saturating_add(growth.bytes));
        let requested = u64::try_from(requested).unwrap_or_default();
        if is_exempt(requested, growth.iter().any(|growth| growth.creates), allowance) {
            return Ok(());
        }
        let StorageBudget { limit, capacity, .. } = self.budget;
        let is_small_group = |growth: &Growth<'_>| {
            let used =
                self.group_bytes(growth.group).saturating_add_signed(pending.group_growth(growth.group));
            used.saturating_add_signed(growth.bytes) <= limit / SMALL_GROUP_DIVISOR
        };
        let most = if is_small(requested, allowance) {
            with_reserve(capacity)
        } else if growth.iter().filter(|growth| growth.bytes > 0).all(is_small_group) {
            capacity
        } else {
            capacity.saturating_sub(capacity / RESERVE_DIVISOR)
        };
        let used = self.groups.total.saturating_add_signed(pending.total);
        if used.saturating_add(requested) <= most {
            return Ok(());
        }
        self.refusals.fetch_add(1, Ordering::Relaxed);
        Err(OverBudget::Capacity { requested, capacity })
    }
}

/// Whether a write is counted without a check.
fn is_exempt(requested: u64, creates: bool, allowance: Allowance) -> bool {
    requested == 0 || allowance == Allowance::Unlimited || (is_small(requested, allowance) && !creates)
}

fn is_small(requested: u64, allowance: Allowance) -> bool {
    allowance == Allowance::Small && requested <= SMALL_GROWTH
}

fn with_reserve(limit: u64) -> u64 {
    limit.saturating_add(limit / RESERVE_DIVISOR)
}

impl Groups {
    fn adjust(&mut self, group: &str, bytes: u64, is_added: bool) {
        self.total = adjusted(self.total, bytes, is_added);
        change(&mut self.bytes, group, bytes, is_added);
    }
}

impl NamespaceUsage {
    fn is_empty(&self) -> bool {
        self.group.is_none() && self.total == 0 && self.bytes_by_label.is_empty()
    }

    /// Adds the bytes of a namespace to its groups, or subtracts them.
    fn count(&self, groups: &mut Groups, is_added: bool) {
        match &self.group {
            Some(group) => groups.adjust(group, self.total, is_added),
            None => {
                for (group, bytes) in &self.bytes_by_label {
                    groups.adjust(group, *bytes, is_added);
                }
            }
        }
    }
}

/// The admitted growth of transactions that are not published yet.
#[derive(Debug, Default)]
pub(super) struct PendingGrowth {
    groups: HashMap<Box<str>, i64>,
    total: i64,
}

impl PendingGrowth {
    /// Checks whether a transaction fits. [`Self::add`] counts it.
    pub fn check(
        &self,
        usage: &StorageUsage,
        growth: &[Growth<'_>],
        allowance: Allowance,
    ) -> Result<(), OverBudget> {
        growth
            .iter()
            .try_for_each(|growth| usage.check(growth, self.group_growth(growth.group), allowance))?;
        usage.check_capacity(growth, self, allowance)
    }

    pub fn add(&mut self, growth: &[Growth<'_>]) {
        for Growth { group, bytes, .. } in growth {
            self.total = self.total.saturating_add(*bytes);
            match self.groups.get_mut(*group) {
                Some(pending) => *pending = pending.saturating_add(*bytes),
                None => {
                    self.groups.insert((*group).into(), *bytes);
                }
            }
        }
    }

    fn group_growth(&self, group: &str) -> i64 {
        self.groups.get(group).copied().unwrap_or_default()
    }
}

/// Returns the group that an object's own labels name.
fn label<'a>(budget: &StorageBudget, object: &'a Object) -> Option<&'a str> {
    let mut values = budget.labels.iter().filter_map(|label| object.label(label));
    values.find(|value| !value.is_empty())
}

fn signed_size(object: &Object) -> i64 {
    i64::try_from(object.bytes.len()).unwrap_or(i64::MAX)
}

fn adjusted(total: u64, bytes: u64, is_added: bool) -> u64 {
    if is_added { total.saturating_add(bytes) } else { total.saturating_sub(bytes) }
}

/// Updates one total; a total of zero is removed.
fn change(totals: &mut HashMap<Box<str>, u64>, name: &str, bytes: u64, is_added: bool) {
    let total = adjusted(totals.get(name).copied().unwrap_or_default(), bytes, is_added);
    if total == 0 {
        totals.remove(name);
    } else if let Some(known) = totals.get_mut(name) {
        *known = total;
    } else {
        totals.insert(name.into(), total);
    }
}

/// Metrics collector: reads the budgets at each scrape. Groups are not a label: tenants could multiply the series.
#[derive(Clone)]
pub struct StorageCollector(pub(super) Arc<Shared>);

impl fmt::Debug for StorageCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageCollector").finish_non_exhaustive()
    }
}

impl StorageCollector {
    /// Registers the metrics of the store.
    pub fn register(&self, shown: &mut Registry) {
        shown.register_collector(Box::new(self.clone()));
        self.0.durations.register(shown);
    }
}

impl Collector for StorageCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let state = self.0.state.read();
        let Some(usage) = state.usage() else { return Ok(()) };
        let (refusals, largest) = (usage.refusals.load(Ordering::Relaxed), usage.largest());
        let total = usage.groups.total;
        drop(state);
        let help = "Writes refused because a storage budget or the storage capacity was exceeded";
        let name = "kube_embedded_storage_budget_refusals";
        let counter = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(refusals).encode(counter)?;
        let help = "Stored bytes of the largest group of namespaces";
        let name = "kube_embedded_storage_budget_largest_bytes";
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(largest).unwrap_or(i64::MAX)).encode(gauge)?;
        let help = "Stored bytes of all groups of namespaces";
        let name = "kube_embedded_storage_budget_used_bytes";
        let gauge = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(i64::try_from(total).unwrap_or(i64::MAX)).encode(gauge)
    }
}

#[cfg(test)]
mod tests;
