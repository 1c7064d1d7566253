//! What there is: the overview, nodes, pools and workloads, out of what the server knows already.

use domain::Kind;
use domain::roles::Capability;
use fleet::rows::{CronJobRow, JobRow, NodeRow, Overview, PodRow, PoolList, WorkloadRow};
use fleet::{Look, Whose};
use schemars::JsonSchema;
use serde::Serialize;

use super::page::{Rows, page};
use super::sight::{self, Namespaces, Owner};
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// What may stand in the query of the overview.
pub const OF_OVERVIEW: &[&str] = &["token", "namespace", "kubeConfig", "kubeconfig"];
/// Of the list of pools.
pub const OF_POOLS: &[&str] = &["token", "kubeConfig", "kubeconfig"];

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ConsoleNodes")]
pub struct Nodes {
    all_nodes: Vec<NodeRow>,
    /// When this answer was made; the document has it here.
    create_time: String,
    /// Where the next page begins, for the parameter of this name; empty on the last one.
    r#continue: String,
}

/// Lets `see` look at what whoever asks may see.
fn seeing<T>(call: &Call, owner: &Owner, namespaces: &Namespaces, see: impl FnOnce(Look<'_>) -> T) -> T {
    let one;
    let tenant = match owner {
        Owner::Everybody => None,
        Owner::Tenant(id) => Some(id.as_str()),
    };
    let namespaces = match namespaces {
        Namespaces::All => fleet::Namespaces::All,
        Namespaces::One(name) => {
            one = [name.clone()];
            fleet::Namespaces::Of(&one)
        }
    };
    see(call.api.fleet.look(Whose { tenant, namespaces }))
}

/// Nobody's: for what has no namespace.
const NO_NAMESPACE: fn() -> Namespaces = || Namespaces::One(String::new());

/// `GET /clusterOverview`
pub async fn overview(call: Call) -> Result<Answer<Overview>, Problem> {
    let (actor, directory) = (call.actor()?, call.api.tenancy.directory());
    let namespaces = sight::namespaces(actor, directory, call.said("namespace"))?;
    // Who may not see nodes sees none of them, and the rest all the same.
    let owner = sight::owner(actor, directory, Capability::ReadNodes).unwrap_or(Owner::Tenant(String::new()));
    let overview = seeing(&call, &owner, &namespaces, |look| look.overview());
    if overview.all_failed() {
        return Err(Problem::new(Kind::Unavailable, "unavailable", "nothing is known of the cluster now"));
    }
    Ok(Answer::new(overview))
}

/// `GET /nodes`
pub async fn nodes(call: Call) -> Result<Answer<Nodes>, Problem> {
    let owner = sight::owner(call.actor()?, call.api.tenancy.directory(), Capability::ReadNodes)?;
    let page = page(&call)?;
    let (all_nodes, rest) = seeing(&call, &owner, &NO_NAMESPACE(), |look| look.nodes_page(page));
    let create_time = call.api.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    Ok(Answer::new(Nodes { all_nodes, create_time, r#continue: rest }))
}

/// `GET /nodepools`
pub async fn pools(call: Call) -> Result<Answer<PoolList>, Problem> {
    let owner = sight::owner(call.actor()?, call.api.tenancy.directory(), Capability::ReadNodes)?;
    Ok(Answer::new(seeing(&call, &owner, &NO_NAMESPACE(), |look| look.pools())))
}

macro_rules! lists {
    ($($path:literal $name:ident: $row:ident by $page:ident;)*) => {
        $(#[doc = concat!("`GET ", $path, "`")]
        pub async fn $name(call: Call) -> Result<Answer<Rows<$row>>, Problem> {
            let namespaces =
                sight::namespaces(call.actor()?, call.api.tenancy.directory(), call.said("namespace"))?;
            let page = page(&call)?;
            let nobody = Owner::Tenant(String::new());
            let (items, rest) = seeing(&call, &nobody, &namespaces, |look| look.$page(page));
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
