//! Views: rows for a caller, from the cache.
//!
//! Invariants: no API call is made, and only visible objects are shown. The cache is locked only while objects are
//! looked up; rows are created afterwards.
//!
//! See also: [`crate::page`] for paginated lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cache::{CachedObject, FleetCache, HealthCount, NodeTable, ObjectTable};
use crate::node::Node;
use crate::pool::Pool;
use crate::resources::{MeasuredUsage, NodeAllocation};
use crate::rows::{KindStatus, NodeRow, Overview, PoolList};
use crate::watches::WatchedKind;
use crate::{Fleet, Namespaces, Visibility};

/// View of the fleet, restricted by the caller's visibility.
#[derive(Clone, Copy)]
pub struct FleetView<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) visibility: Visibility<'a>,
}

impl Fleet {
    pub fn view<'a>(&'a self, visibility: Visibility<'a>) -> FleetView<'a> {
        FleetView { fleet: self, visibility }
    }
}

impl FleetView<'_> {
    /// `GET /clusterOverview`
    pub fn overview(&self) -> Overview {
        let state = self.fleet.0.cache.read();
        let status = |kind: WatchedKind, count: HealthCount| {
            let ill = self.fleet.unavailable_reason(kind);
            let HealthCount { total, healthy } = if ill.is_some() { HealthCount::default() } else { count };
            let status = ill.is_some().then_some(false);
            KindStatus { kind: kind.name(), total_num: total, healthy_num: healthy, status, info: ill }
        };
        Overview {
            cluster_status: vec![
                status(WatchedKind::Pods, self.count(&state.pods)),
                status(
                    WatchedKind::Nodes,
                    self.visible_nodes(&state).map(|nodes| nodes.count).unwrap_or_default(),
                ),
                status(WatchedKind::Deployments, self.count(&state.deployments)),
                status(WatchedKind::StatefulSets, self.count(&state.stateful_sets)),
                status(WatchedKind::Jobs, self.count(&state.jobs)),
            ],
        }
    }

    /// One node, if it is visible.
    pub fn node(&self, name: &str) -> Option<NodeRow> {
        let (node, load, used) = {
            let state = self.fleet.0.cache.read();
            let node = self.visible_nodes(&state)?.by_name.get(name)?;
            (node.clone(), node_allocation(&state, node), measured_usage(&state, node))
        };
        Some(node.row(&load, used))
    }

    /// `GET /nodepools`
    pub fn pools(&self) -> PoolList {
        let (pools, nodes) = {
            let state = self.fleet.0.cache.read();
            let Some(pools) = &state.pools else { return PoolList { items: Vec::new(), available: false } };
            let pools: Vec<Arc<Pool>> = pools.values().cloned().collect();
            let nodes = self.visible_nodes(&state).into_iter().flat_map(|nodes| nodes.by_name.values());
            (pools, nodes.cloned().collect::<Vec<_>>())
        };
        let mut members: BTreeMap<&str, Vec<Arc<Node>>> = BTreeMap::new();
        for node in &nodes {
            if let Some(pool) = node.pool() {
                members.entry(pool).or_default().push(node.clone());
            }
        }
        let row = |pool: &Arc<Pool>| {
            let members = members.get(&*pool.name).map(Vec::as_slice).unwrap_or_default();
            // Tenants see another owner's pool if it contains their nodes, and only these nodes.
            let whole = self.visibility.tenant.is_none_or(|tenant| pool.tenant.as_deref() == Some(tenant));
            (whole || !members.is_empty()).then(|| pool.row(members, whole))
        };
        PoolList { items: pools.iter().filter_map(row).collect(), available: true }
    }

    pub(crate) fn visible_nodes<'s>(&self, state: &'s FleetCache) -> Option<&'s NodeTable> {
        match self.visibility.tenant {
            None => Some(&state.nodes),
            Some(tenant) => state.tenants.get(tenant),
        }
    }

    fn count<T: CachedObject>(&self, table: &ObjectTable<T>) -> HealthCount {
        match self.visibility.namespaces {
            Namespaces::All => table.count(),
            Namespaces::Only(names) => {
                names.iter().fold(HealthCount::default(), |sum, name| sum.plus(table.count_in(name)))
            }
        }
    }
}

pub(crate) fn node_allocation(state: &FleetCache, node: &Node) -> NodeAllocation {
    state.allocations.get(&node.name).copied().unwrap_or_default()
}

pub(crate) fn measured_usage(state: &FleetCache, node: &Node) -> MeasuredUsage {
    state.usage.get(&*node.name).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
