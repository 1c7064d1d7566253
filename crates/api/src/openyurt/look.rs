//! Read-only routes of the console: overview, nodes, pools and workloads, all from the cache.

use domain::Kind;
use fleet::rows::{CronJobRow, JobRow, NodeRow, Overview, PodRow, PoolList, WorkloadRow};
use schemars::JsonSchema;
use serde::Serialize;

use super::page::{Rows, page};
use super::sight::Sight;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// Query parameters of the overview.
pub const OF_OVERVIEW: &[&str] = &["token", "namespace", "kubeConfig", "kubeconfig"];
/// Query parameters of the list of pools.
pub const OF_POOLS: &[&str] = &["token", "kubeConfig", "kubeconfig"];

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleNodes")]
pub struct Nodes {
    #[serde(rename = "allNodes")]
    rows: Vec<NodeRow>,
    /// When this answer was made; the document has it here.
    create_time: String,
    /// Where the next page begins, for the parameter of this name; empty on the last one.
    r#continue: String,
}

/// `GET /clusterOverview`
pub async fn overview(call: Call) -> Result<Answer<Overview>, Problem> {
    let overview = call.api.fleet.look(Sight::of_all(&call)?.whose()).overview();
    if overview.all_failed() {
        return Err(Problem::new(Kind::Unavailable, "unavailable", "nothing is known of the cluster now"));
    }
    Ok(Answer::new(overview))
}

/// `GET /nodes`
pub async fn nodes(call: Call) -> Result<Answer<Nodes>, Problem> {
    let (rows, rest) = call.api.fleet.look(Sight::of_nodes(&call)?.whose()).nodes_page(page(&call)?);
    let create_time = call.api.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Ok(Answer::new(Nodes { rows, create_time, r#continue: rest }))
}

/// `GET /nodepools`
pub async fn pools(call: Call) -> Result<Answer<PoolList>, Problem> {
    Ok(Answer::new(call.api.fleet.look(Sight::of_nodes(&call)?.whose()).pools()))
}

macro_rules! lists {
    ($($path:literal $name:ident: $row:ident by $page:ident;)*) => {
        $(#[doc = concat!("`GET ", $path, "`")]
        pub async fn $name(call: Call) -> Result<Answer<Rows<$row>>, Problem> {
            let (items, rest) = call.api.fleet.look(Sight::of_namespaces(&call)?.whose()).$page(page(&call)?);
            Ok(Answer::new(Rows { items, r#continue: rest }))
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
