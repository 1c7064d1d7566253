//! Paging of lists. The console's API document has no pages, but clusters with thousands of nodes need them.

use fleet::Page;
use schemars::JsonSchema;
use serde::Serialize;

use crate::problem::Problem;
use crate::request::ApiRequest;

/// Query parameters of lists of cluster-scoped objects.
pub const CLUSTER_SCOPED_QUERY: &[&str] = &["token", "limit", "continue", "kubeConfig", "kubeconfig"];
/// Query parameters of lists of namespaced objects.
pub const NAMESPACED_QUERY: &[&str] =
    &["token", "namespace", "limit", "continue", "kubeConfig", "kubeconfig"];

/// Default page size: more rows than any tenant has.
const DEFAULT_LIMIT: usize = 500;
const MAX_LIMIT: usize = 5_000;

/// Rows sorted by name; rows of several namespaces by namespace and name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Console{T}List")]
pub struct ConsoleList<T> {
    pub items: Vec<T>,
    /// Continue token of the next page; empty on the last page.
    pub r#continue: String,
}

/// The page that the query selects.
pub fn page_from_query<B>(call: &ApiRequest<B>) -> Result<Page<'_>, Problem> {
    let limit = limit_param(call, DEFAULT_LIMIT, MAX_LIMIT)?;
    Ok(Page { after: call.query_param("continue"), limit })
}

/// `limit` in the query: at least 1, and capped at `most`.
pub fn limit_param<B>(call: &ApiRequest<B>, usual: usize, most: usize) -> Result<usize, Problem> {
    match call.number_param("limit")? {
        None => Ok(usual),
        Some(0) => Err(Problem::invalid("query parameter `limit` must be at least 1")),
        Some(limit) => Ok(most.min(limit)),
    }
}
