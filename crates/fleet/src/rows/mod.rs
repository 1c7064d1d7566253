//! Response types of the console's routes, with the field names of its API document, including its misspellings, and
//! additional fields.
//!
//! Invariants: missing counters are 0, lists are never null, and unknown times are empty.
//!
//! See also: `crate::node`, `crate::pod`, `crate::workload` and `crate::pool` compute them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

pub mod nodes;
pub mod pools;
pub mod workloads;

pub use nodes::{Detail, NodeInfo, NodeRow, NodeStatus};
pub use pools::{Members, PoolList, PoolRow};
pub use workloads::{CronJobRow, Image, JobRow, Named, PodCounts, PodRow, Replicas, WorkloadRow};

/// Labels or annotations.
pub type Pairs = BTreeMap<String, String>;

/// `GET /clusterOverview`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overview {
    /// Counts of pods, nodes, deployments, statefulsets and jobs, in this order.
    pub cluster_status: Vec<KindStatus>,
}

/// Number of objects of a kind, total and healthy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KindStatus {
    pub kind: &'static str,
    pub total_num: u64,
    pub healthy_num: u64,
    /// False if the state of this kind is not available; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<bool>,
    /// Reason why the state is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub info: Option<String>,
}

impl Overview {
    /// Whether no kind is available.
    pub fn all_failed(&self) -> bool {
        self.cluster_status.iter().all(|kind| kind.status == Some(false))
    }
}
