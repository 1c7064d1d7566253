//! Cached objects with derived sums and counts. Pure: no I/O, no clock.
//!
//! Invariant: every sum and count equals its recomputation from the objects. An update takes time independent of the
//! number of objects.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use crate::amounts::{Load, Used};
use crate::job::{CronJob, Job};
use crate::named::Head;
use crate::node::Node;
use crate::pod::Pod;
use crate::pool::Pool;
use crate::workload::Workload;

/// All cached state.
#[derive(Default)]
pub(crate) struct State {
    pub nodes: Nodes,
    /// By tenant; nodes without a tenant are not included.
    pub tenants: HashMap<Arc<str>, Nodes>,
    /// By node name; the node itself may not be cached.
    pub loads: HashMap<Arc<str>, Load>,
    /// By node name.
    pub used: HashMap<Box<str>, Used>,
    /// `None` while the cluster has no pools or they have not been listed.
    pub pools: Option<BTreeMap<Arc<str>, Arc<Pool>>>,
    pub pods: Table<Pod>,
    pub deployments: Table<Workload>,
    pub stateful_sets: Table<Workload>,
    pub daemon_sets: Table<Workload>,
    pub jobs: Table<Job>,
    pub cron_jobs: Table<CronJob>,
}

/// Total and healthy number of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub total: u64,
    pub healthy: u64,
}

impl Count {
    fn add(&mut self, healthy: bool) {
        self.total += 1;
        self.healthy += u64::from(healthy);
    }

    fn take(&mut self, healthy: bool) {
        self.total -= 1;
        self.healthy -= u64::from(healthy);
    }

    pub fn and(self, other: Self) -> Self {
        Self { total: self.total + other.total, healthy: self.healthy + other.healthy }
    }
}

/// Nodes by name.
#[derive(Default)]
pub(crate) struct Nodes {
    pub by_name: BTreeMap<Arc<str>, Arc<Node>>,
    pub count: Count,
}

impl Nodes {
    fn put(&mut self, node: &Arc<Node>) {
        self.drop(&node.name);
        self.by_name.insert(node.name.clone(), node.clone());
        self.count.add(node.is_ready());
    }

    fn drop(&mut self, name: &str) {
        if let Some(node) = self.by_name.remove(name) {
            self.count.take(node.is_ready());
        }
    }
}

impl State {
    pub fn put_node(&mut self, node: &Arc<Node>) {
        self.drop_node(&node.name);
        self.nodes.put(node);
        if let Some(tenant) = &node.tenant {
            self.tenants.entry(tenant.clone()).or_default().put(node);
        }
    }

    pub fn drop_node(&mut self, name: &str) {
        let tenant = self.nodes.by_name.get(name).and_then(|node| node.tenant.clone());
        self.nodes.drop(name);
        if let Some(tenant) = tenant
            && let Some(nodes) = self.tenants.get_mut(&tenant)
        {
            nodes.drop(name);
            if nodes.by_name.is_empty() {
                self.tenants.remove(&tenant);
            }
        }
    }

    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        if let Some((node, takes, running)) = pod.load() {
            self.loads.entry(node.clone()).or_default().add(takes, running);
        }
        if let Some(before) = self.pods.put(pod) {
            self.unload(&before);
        }
    }

    pub fn drop_pod(&mut self, namespace: &str, name: &str) {
        if let Some(before) = self.pods.drop(namespace, name) {
            self.unload(&before);
        }
    }

    fn unload(&mut self, pod: &Pod) {
        let Some((node, takes, running)) = pod.load() else { return };
        if let Some(load) = self.loads.get_mut(node) {
            load.take(takes, running);
            if load.pods == 0 {
                self.loads.remove(node);
            }
        }
    }
}

/// A namespaced object.
pub(crate) trait Kept {
    fn head(&self) -> &Head;
    fn is_healthy(&self) -> bool;
}

macro_rules! kept {
    ($($kind:ty: $healthy:expr;)*) => {
        $(impl Kept for $kind {
            fn head(&self) -> &Head {
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
pub(crate) struct Table<T> {
    spaces: HashMap<Arc<str>, Space<T>>,
    count: Count,
}

struct Space<T> {
    objects: BTreeSet<ByName<T>>,
    count: Count,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { spaces: HashMap::new(), count: Count::default() }
    }
}

impl<T: Kept> Table<T> {
    /// Inserts an object and returns the previous one of its name.
    pub fn put(&mut self, object: Arc<T>) -> Option<Arc<T>> {
        let head = object.head();
        let before = self.drop(&head.namespace, &head.name);
        let space = self.spaces.entry(head.namespace.clone());
        let space = space.or_insert_with(|| Space { objects: BTreeSet::new(), count: Count::default() });
        let healthy = object.is_healthy();
        self.count.add(healthy);
        space.count.add(healthy);
        space.objects.insert(ByName(object));
        before
    }

    /// Removes and returns an object.
    pub fn drop(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let space = self.spaces.get_mut(namespace)?;
        let ByName(before) = space.objects.take(name)?;
        let healthy = before.is_healthy();
        self.count.take(healthy);
        space.count.take(healthy);
        if space.objects.is_empty() {
            self.spaces.remove(namespace);
        }
        Some(before)
    }

    pub fn count(&self) -> Count {
        self.count
    }

    pub fn count_in(&self, namespace: &str) -> Count {
        self.spaces.get(namespace).map(|space| space.count).unwrap_or_default()
    }

    /// Objects of a namespace after a name, sorted by name.
    pub fn after(&self, namespace: &str, name: Option<&str>) -> impl Iterator<Item = &Arc<T>> {
        let from = name.map_or(Unbounded, Excluded);
        let space = self.spaces.get(namespace).into_iter();
        space
            .flat_map(move |space| space.objects.range::<str, _>((from, Unbounded)))
            .map(|ByName(object)| object)
    }

    /// Namespaces with objects, unsorted.
    pub fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.spaces.keys().map(|name| &**name)
    }
}

/// Compared and found by name.
struct ByName<T>(Arc<T>);

impl<T: Kept> ByName<T> {
    fn name(&self) -> &str {
        &self.0.head().name
    }
}

impl<T: Kept> Borrow<str> for ByName<T> {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl<T: Kept> PartialEq for ByName<T> {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl<T: Kept> Eq for ByName<T> {}

impl<T: Kept> PartialOrd for ByName<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Kept> Ord for ByName<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

#[cfg(test)]
mod tests;
