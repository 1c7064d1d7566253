//! `GET /nodepools`

use k8s_openapi::api::core::v1::Taint;
use schemars::JsonSchema;
use serde::Serialize;

use super::Pairs;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoolList {
    pub items: Vec<PoolRow>,
    /// Whether the cluster serves node pools.
    pub available: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PoolRow {
    pub name: String,
    /// `Edge`, `Cloud`, or empty.
    #[serde(rename = "type")]
    pub pool_type: String,
    pub node_status: Members,
    pub create_time: String,
    /// `Deleting`, `Empty`, `Ready`, `Degraded` or `NotReady`.
    pub status: &'static str,
    /// Operating systems of the members, comma-separated.
    pub os: String,
    /// Names of the members that are visible to the caller.
    pub nodes: Vec<String>,
    /// Tenant that owns the pool; empty if it is shared.
    pub tenant: String,
    /// Labels that members get.
    pub labels: Pairs,
    pub annotations: Pairs,
    pub taints: Vec<Taint>,
    pub host_network: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Members {
    pub total_num: i64,
    pub healthy_num: i64,
}
