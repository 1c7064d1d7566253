//! Paging of lists. The console's API document has no pages, but clusters with thousands of nodes need them.

use fleet::Page;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::problem::Problem;

/// Query parameters of lists of cluster-scoped objects.
pub const OF_CLUSTER: &[&str] = &["token", "limit", "continue", "kubeConfig", "kubeconfig"];
/// Query parameters of lists of namespaced objects.
pub const OF_NAMESPACES: &[&str] = &["token", "namespace", "limit", "continue", "kubeConfig", "kubeconfig"];

/// Default page size: more rows than any tenant has.
const ROWS: usize = 500;
const MOST: usize = 5_000;

/// Rows, by name; those of several namespaces, by namespace and name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Console{T}List")]
pub struct Rows<T> {
    pub items: Vec<T>,
    /// Where the next page begins, for the parameter of this name; empty on the last one.
    pub r#continue: String,
}

/// The page that the query selects.
pub fn page<B>(call: &Call<B>) -> Result<Page<'_>, Problem> {
    let limit = limit(call, ROWS, MOST)?;
    Ok(Page { after: call.said("continue"), limit })
}

/// `limit` in the query: at least 1, and capped at `most`.
pub fn limit<B>(call: &Call<B>, usual: usize, most: usize) -> Result<usize, Problem> {
    match call.number("limit")? {
        None => Ok(usual),
        Some(0) => Err(Problem::invalid("`limit` in the query is at least 1")),
        Some(limit) => Ok(most.min(limit)),
    }
}
