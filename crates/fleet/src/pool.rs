//! Cached pools and their rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_types::node_pool::{NodePoolSpec, NodePoolStatus};
use kube_types::well_known::TENANT;

use crate::node::Node;
use crate::partial_object::{PartialObject, format_time, unix_seconds};
use crate::rows::{Members, PoolRow};

/// A `NodePool` of any supported version from the API server.
pub(crate) type PoolObject = PartialObject<NodePoolSpec, Option<NodePoolStatus>>;

/// A cached pool. There are few, so the complete spec is kept.
#[derive(Debug, PartialEq)]
pub(crate) struct Pool {
    pub name: Arc<str>,
    created: Option<i64>,
    /// Owning tenant.
    pub tenant: Option<Arc<str>>,
    pub is_deleting: bool,
    pub spec: NodePoolSpec,
    /// `None` before the first status update.
    pub status: Option<NodePoolStatus>,
}

impl Pool {
    pub fn from_object(object: PoolObject) -> Self {
        let PartialObject { metadata, spec, status } = object;
        let tenant = metadata.labels.as_ref().and_then(|labels| labels.get(TENANT));
        Self {
            name: metadata.name.as_deref().unwrap_or_default().into(),
            created: unix_seconds(metadata.creation_timestamp.as_ref()),
            tenant: tenant.filter(|tenant| !tenant.is_empty()).map(|tenant| tenant.as_str().into()),
            is_deleting: metadata.deletion_timestamp.is_some(),
            spec,
            status,
        }
    }

    /// Fields that affect nodes: attributes and membership.
    pub fn node_relevant_fields(&self) -> (&NodePoolSpec, Option<&str>, bool) {
        (&self.spec, self.tenant.as_deref(), self.is_deleting)
    }

    /// The row with its visible members. With `all_visible`, these are all members, and the numbers in status are used.
    pub fn row(&self, members: &[Arc<Node>], all_visible: bool) -> PoolRow {
        let counted = Members {
            total_num: to_i64(members.len()),
            healthy_num: to_i64(members.iter().filter(|node| node.is_ready()).count()),
        };
        let node_status = match &self.status {
            Some(status) if all_visible => Members {
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
            create_time: format_time(self.created),
            status: status(self.is_deleting, node_status),
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

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
