//! `GET /nodepools`

use k8s_openapi::api::core::v1::Taint;
use schemars::JsonSchema;
use serde::Serialize;

use super::Pairs;

#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PoolList {
    pub items: Vec<PoolRow>,
    /// Whether the cluster knows pools at all.
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
    /// Of its members, joined by commas.
    pub os: String,
    /// The names of its members, of those that the caller may see.
    pub nodes: Vec<String>,
    /// Whose it is; empty: nobody's in particular.
    pub tenant: String,
    /// What its members get.
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
