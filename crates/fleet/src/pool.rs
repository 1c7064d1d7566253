//! Cached pools and their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_types::marks::TENANT;
use kube_types::node_pool::{NodePoolSpec, NodePoolStatus};

use crate::node::Node;
use crate::rows::{Members, PoolRow};
use crate::seen::{Seen, seconds, time};

/// A `NodePool` of any supported version from the API server.
pub(crate) type Told = Seen<NodePoolSpec, Option<NodePoolStatus>>;

/// A cached pool. There are few, so the complete spec is kept.
#[derive(Debug, PartialEq)]
pub(crate) struct Pool {
    pub name: Arc<str>,
    created: Option<i64>,
    /// Owning tenant.
    pub tenant: Option<Arc<str>>,
    pub deleting: bool,
    pub spec: NodePoolSpec,
    /// `None` before the first status update.
    pub status: Option<NodePoolStatus>,
}

impl Pool {
    pub fn of(told: Told) -> Self {
        let Seen { metadata, spec, status } = told;
        let tenant = metadata.labels.as_ref().and_then(|labels| labels.get(TENANT));
        Self {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            created: seconds(metadata.creation_timestamp.as_ref()),
            tenant: tenant.filter(|tenant| !tenant.is_empty()).map(|tenant| tenant.as_str().into()),
            deleting: metadata.deletion_timestamp.is_some(),
            spec,
            status,
        }
    }

    /// Fields that affect nodes: attributes and membership.
    pub fn wants(&self) -> (&NodePoolSpec, Option<&str>, bool) {
        (&self.spec, self.tenant.as_deref(), self.deleting)
    }

    /// The row with its visible members. With `whole`, these are all members, and the numbers in status are used.
    pub fn row(&self, members: &[Arc<Node>], whole: bool) -> PoolRow {
        let counted = Members {
            total_num: number(members.len()),
            healthy_num: number(members.iter().filter(|node| node.is_ready()).count()),
        };
        let node_status = match &self.status {
            Some(status) if whole => Members {
                total_num: status.ready_node_num.saturating_add(status.unready_node_num),
                healthy_num: status.ready_node_num,
            },
            _ => counted,
        };
        let systems: BTreeSet<&str> = members.iter().filter_map(|node| node.os()).collect();
        PoolRow {
            name: self.name.as_ref().to_owned(),
            pool_type: self.spec.pool_type.clone(),
            node_status,
            create_time: time(self.created),
            status: status(self.deleting, node_status),
            os: systems.into_iter().collect::<Vec<_>>().join(","),
            nodes: members.iter().map(|node| node.name.as_ref().to_owned()).collect(),
            tenant: self.tenant.as_deref().unwrap_or_default().to_owned(),
            labels: self.spec.labels.clone(),
            annotations: self.spec.annotations.clone(),
            taints: self.spec.taints.clone(),
            host_network: self.spec.host_network,
        }
    }
}

fn status(deleting: bool, Members { total_num, healthy_num }: Members) -> &'static str {
    match (total_num, healthy_num) {
        _ if deleting => "Deleting",
        (..=0, _) => "Empty",
        (_, ..=0) => "NotReady",
        (total, healthy) if healthy >= total => "Ready",
        _ => "Degraded",
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
