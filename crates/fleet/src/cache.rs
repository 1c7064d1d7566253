//! Cached objects with derived sums and counts. Pure: no I/O, no clock.
//!
//! Invariant: every sum and count equals its recomputation from the objects. An update takes time independent of the
//! number of objects.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::job::{CronJob, Job};
use crate::metadata::ObjectHeader;
use crate::node::Node;
use crate::pod::Pod;
use crate::pool::Pool;
use crate::resources::{MeasuredUsage, NodeAllocation};
use crate::workload::Workload;

/// All cached state.
#[derive(Default)]
pub(crate) struct FleetCache {
    pub nodes: NodeTable,
    /// By tenant; nodes without a tenant are not included.
    pub tenants: HashMap<Arc<str>, NodeTable>,
    /// By node name; the node itself may not be cached.
    pub allocations: HashMap<Arc<str>, NodeAllocation>,
    /// By node name.
    pub usage: HashMap<Box<str>, MeasuredUsage>,
    /// `None` while the cluster has no pools or they have not been listed.
    pub pools: Option<BTreeMap<Arc<str>, Arc<Pool>>>,
    pub pods: ObjectTable<Pod>,
    pub deployments: ObjectTable<Workload>,
    pub stateful_sets: ObjectTable<Workload>,
    pub daemon_sets: ObjectTable<Workload>,
    pub jobs: ObjectTable<Job>,
    pub cron_jobs: ObjectTable<CronJob>,
}

/// Total and healthy number of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HealthCount {
    pub total: u64,
    pub healthy: u64,
}

impl HealthCount {
    fn add(&mut self, healthy: bool) {
        self.total += 1;
        self.healthy += u64::from(healthy);
    }

    fn subtract(&mut self, healthy: bool) {
        self.total -= 1;
        self.healthy -= u64::from(healthy);
    }

    pub fn plus(self, other: Self) -> Self {
        Self { total: self.total + other.total, healthy: self.healthy + other.healthy }
    }
}

/// Nodes by name.
#[derive(Default)]
pub(crate) struct NodeTable {
    pub by_name: BTreeMap<Arc<str>, Arc<Node>>,
    pub count: HealthCount,
}

impl NodeTable {
    fn put(&mut self, node: &Arc<Node>) {
        self.remove(&node.name);
        self.by_name.insert(node.name.clone(), node.clone());
        self.count.add(node.is_ready());
    }

    fn remove(&mut self, name: &str) {
        if let Some(node) = self.by_name.remove(name) {
            self.count.subtract(node.is_ready());
        }
    }
}

impl FleetCache {
    pub fn put_node(&mut self, node: &Arc<Node>) {
        self.remove_node(&node.name);
        self.nodes.put(node);
        if let Some(tenant) = &node.tenant {
            self.tenants.entry(tenant.clone()).or_default().put(node);
        }
    }

    pub fn remove_node(&mut self, name: &str) {
        let tenant = self.nodes.by_name.get(name).and_then(|node| node.tenant.clone());
        self.nodes.remove(name);
        if let Some(tenant) = tenant
            && let Some(nodes) = self.tenants.get_mut(&tenant)
        {
            nodes.remove(name);
            if nodes.by_name.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
    }

    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        if let Some((node, takes, running)) = pod.allocation() {
            self.allocations.entry(node.clone()).or_default().add(takes, running);
        }
        if let Some(before) = self.pods.put(pod) {
            self.subtract_pod(&before);
        }
    }

    pub fn remove_pod(&mut self, namespace: &str, name: &str) {
        if let Some(before) = self.pods.remove(namespace, name) {
            self.subtract_pod(&before);
        }
    }

    fn subtract_pod(&mut self, pod: &Pod) {
        let Some((node, takes, running)) = pod.allocation() else { return };
        if let Some(load) = self.allocations.get_mut(node) {
            load.subtract(takes, running);
            if load.pods == 0 {
                self.allocations.remove(node);
            }
        }
    }
}

/// A namespaced object.
pub(crate) trait CachedObject {
    fn head(&self) -> &ObjectHeader;
    fn is_healthy(&self) -> bool;
}

macro_rules! kept {
    ($($kind:ty: $healthy:expr;)*) => {
        $(impl CachedObject for $kind {
            fn head(&self) -> &ObjectHeader {
                &self.head
            }

            fn is_healthy(&self) -> bool {
                $healthy(self)
            }
        })*
    };
}

kept! {
    Pod: Pod::is_healthy;
    Workload: Workload::is_healthy;
    Job: Job::is_healthy;
    CronJob: |_: &CronJob| true;
}

/// Objects of one kind by namespace and name.
pub(crate) struct ObjectTable<T> {
    namespaces: HashMap<Arc<str>, NamespaceObjects<T>>,
    count: HealthCount,
}

struct NamespaceObjects<T> {
    objects: BTreeSet<ByName<T>>,
    count: HealthCount,
}

impl<T> Default for ObjectTable<T> {
    fn default() -> Self {
        Self { namespaces: HashMap::new(), count: HealthCount::default() }
    }
}

impl<T: CachedObject> ObjectTable<T> {
    /// Inserts an object and returns the previous one of its name.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let head = object.head();
        let before = self.remove(&head.namespace, &head.name);
        let space = self.namespaces.entry(head.namespace.clone());
        let space = space
            .or_insert_with(|| NamespaceObjects { objects: BTreeSet::new(), count: HealthCount::default() });
        let healthy = object.is_healthy();
        self.count.add(healthy);
        space.count.add(healthy);
        space.objects.insert(ByName(object));
        before
    }

    /// Removes and returns an object.
    pub fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let space = self.namespaces.get_mut(namespace)?;
        let ByName(before) = space.objects.take(name)?;
        let healthy = before.is_healthy();
        self.count.subtract(healthy);
        space.count.subtract(healthy);
        if space.objects.is_empty() {
            self.namespaces.remove(namespace);
        }
        Some(before)
    }

    pub fn count(&self) -> HealthCount {
        self.count
    }

    pub fn count_in(&self, namespace: &str) -> HealthCount {
        self.namespaces.get(namespace).map(|space| space.count).unwrap_or_default()
    }

    /// Objects of a namespace after a name, sorted by name.
    pub fn list_after(&self, namespace: &str, name: Option<&str>) -> impl Iterator<Item = &Arc<T>> {
        let from = name.map_or(Unbounded, Excluded);
        let space = self.namespaces.get(namespace).into_iter();
        space
            .flat_map(move |space| space.objects.range::<str, _>((from, Unbounded)))
            .map(|ByName(object)| object)
    }

    /// Namespaces with objects, unsorted.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(|name| &**name)
    }
}

/// Compared and found by name.
struct ByName<T>(Arc<T>);

impl<T: CachedObject> ByName<T> {
    fn name(&self) -> &str {
        &self.0.head().name
    }
}

impl<T: CachedObject> Borrow<str> for ByName<T> {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl<T: CachedObject> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl<T: CachedObject> Eq for ByName<T> {}

impl<T: CachedObject> PartialOrd for ByName<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: CachedObject> Ord for ByName<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

#[cfg(test)]
mod tests;
