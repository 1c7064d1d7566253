//! Views: rows for a caller, from the cache.
//!
//! Invariants: no API call is made, and only visible objects are shown. The cache is locked only while objects are
//! looked up; rows are created afterwards.
//!
//! See also: [`crate::page`] for paginated lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::amounts::{Load, Used};
use crate::feeds::Kind;
use crate::node::Node;
use crate::pool::Pool;
use crate::rows::{KindStatus, NodeRow, Overview, PoolList};
use crate::state::{Count, Kept, Nodes, State, Table};
use crate::{Fleet, Namespaces, Whose};

/// View of the fleet, restricted by the caller's visibility.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    pub(crate) fleet: &'a Fleet,
    pub(crate) whose: Whose<'a>,
}

impl Look<'_> {
    /// `GET /clusterOverview`
    pub fn overview(&self) -> Overview {
        let state = self.fleet.0.state.read();
        let status = |kind: Kind, count: Count| {
            let ill = self.fleet.ill(kind);
            let Count { total, healthy } = if ill.is_some() { Count::default() } else { count };
            let status = ill.is_some().then_some(false);
            KindStatus { kind: kind.name(), total_num: total, healthy_num: healthy, status, info: ill }
        };
        Overview {
            cluster_status: vec![
                status(Kind::Pods, self.count(&state.pods)),
                status(Kind::Nodes, self.nodes_of(&state).map(|nodes| nodes.count).unwrap_or_default()),
                status(Kind::Deployments, self.count(&state.deployments)),
                status(Kind::StatefulSets, self.count(&state.stateful_sets)),
                status(Kind::Jobs, self.count(&state.jobs)),
            ],
        }
    }

    /// One node, if it is visible.
    pub fn node(&self, name: &str) -> Option<NodeRow> {
        let (node, load, used) = {
            let state = self.fleet.0.state.read();
            let node = self.nodes_of(&state)?.by_name.get(name)?;
            (node.clone(), load(&state, node), used(&state, node))
        };
        Some(node.row(&load, used))
    }

    /// `GET /nodepools`
    pub fn pools(&self) -> PoolList {
        let (pools, nodes) = {
            let state = self.fleet.0.state.read();
            let Some(pools) = &state.pools else { return PoolList { items: Vec::new(), available: false } };
            let pools: Vec<Arc<Pool>> = pools.values().cloned().collect();
            let nodes = self.nodes_of(&state).into_iter().flat_map(|nodes| nodes.by_name.values());
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
            let whole = self.whose.tenant.is_none_or(|tenant| pool.tenant.as_deref() == Some(tenant));
            (whole || !members.is_empty()).then(|| pool.row(members, whole))
        };
        PoolList { items: pools.iter().filter_map(row).collect(), available: true }
    }

    pub(crate) fn nodes_of<'s>(&self, state: &'s State) -> Option<&'s Nodes> {
        match self.whose.tenant {
            None => Some(&state.nodes),
            Some(tenant) => state.tenants.get(tenant),
        }
    }

    fn count<T: Kept>(&self, table: &Table<T>) -> Count {
        match self.whose.namespaces {
            Namespaces::All => table.count(),
            Namespaces::Of(names) => {
                names.iter().fold(Count::default(), |sum, name| sum.and(table.count_in(name)))
            }
        }
    }
}

pub(crate) fn load(state: &State, node: &Node) -> Load {
    state.loads.get(&node.name).copied().unwrap_or_default()
}

pub(crate) fn used(state: &State, node: &Node) -> Used {
    state.used.get(&*node.name).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests;
