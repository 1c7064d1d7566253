//! Read-only routes of the console: overview, nodes, pools and workloads, all from the cache.

use domain::ErrorKind;
use fleet::rows::{CronJobRow, JobRow, NodeRow, Overview, PodRow, PoolList, WorkloadRow};
use schemars::JsonSchema;
use serde::Serialize;

use super::paging::{ConsoleList, page_from_query};
use super::visibility::CallerVisibility;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

/// Query parameters of the overview.
pub const OVERVIEW_QUERY: &[&str] = &["token", "namespace", "kubeConfig", "kubeconfig"];
/// Query parameters of the list of pools.
pub const POOLS_QUERY: &[&str] = &["token", "kubeConfig", "kubeconfig"];

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleNodes")]
pub struct NodeListView {
    #[serde(rename = "allNodes")]
    rows: Vec<NodeRow>,
    /// Time of the response, in the console's format.
    create_time: String,
    /// Continue token of the next page; empty on the last page.
    r#continue: String,
}

/// `GET /clusterOverview`
pub async fn overview(call: ApiRequest) -> Result<JsonResponse<Overview>, Problem> {
    let overview = call.api.fleet.view(CallerVisibility::for_all(&call)?.visibility()).overview();
    if overview.all_failed() {
        return Err(Problem::new(
            ErrorKind::Unavailable,
            "unavailable",
            "the cluster's state is not available",
        ));
    }
    Ok(JsonResponse::new(overview))
}

/// `GET /nodes`
pub async fn nodes(call: ApiRequest) -> Result<JsonResponse<NodeListView>, Problem> {
    let (rows, rest) = call
        .api
        .fleet
        .view(CallerVisibility::for_nodes(&call)?.visibility())
        .nodes_page(page_from_query(&call)?);
    let create_time = call.api.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Ok(JsonResponse::new(NodeListView { rows, create_time, r#continue: rest }))
}

/// `GET /nodepools`
pub async fn pools(call: ApiRequest) -> Result<JsonResponse<PoolList>, Problem> {
    Ok(JsonResponse::new(call.api.fleet.view(CallerVisibility::for_nodes(&call)?.visibility()).pools()))
}

macro_rules! lists {
    ($($path:literal $name:ident: $row:ident by $page:ident;)*) => {
        $(#[doc = concat!("`GET ", $path, "`")]
        pub async fn $name(call: ApiRequest) -> Result<JsonResponse<ConsoleList<$row>>, Problem> {
            let (items, rest) = call.api.fleet.view(CallerVisibility::for_namespaces(&call)?.visibility()).$page(page_from_query(&call)?);
            Ok(JsonResponse::new(ConsoleList { items, r#continue: rest }))
        })*
    };
}

lists! {
    "/deployments"  deployments:  WorkloadRow by deployments_page;
    "/statefulsets" statefulsets: WorkloadRow by statefulsets_page;
    "/daemonsets"   daemonsets:   WorkloadRow by daemonsets_page;
    "/jobs"         jobs:         JobRow      by jobs_page;
    "/cronjobs"     cronjobs:     CronJobRow  by cronjobs_page;
    "/pods"         pods:         PodRow      by pods_page;
}
