//! How much of a list is told at once. The document knows no pages; a platform of thousands of nodes cannot do without.

use fleet::Page;
use schemars::JsonSchema;
use serde::Serialize;

use crate::call::Call;
use crate::problem::Problem;

/// What may stand in the query of a list of the cluster's.
pub const OF_CLUSTER: &[&str] = &["token", "limit", "continue", "kubeConfig", "kubeconfig"];
/// Of a list of namespaces'.
pub const OF_NAMESPACES: &[&str] = &["token", "namespace", "limit", "continue", "kubeConfig", "kubeconfig"];

/// So many rows where nobody says otherwise: more than any tenant has, and a screen that nobody reads to its end.
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

/// The page that the query asks for.
pub fn page<B>(call: &Call<B>) -> Result<Page<'_>, Problem> {
    let limit = limit(call, ROWS, MOST)?;
    Ok(Page { after: call.said("continue"), limit })
}

/// `limit` in the query: at least one, and never more than can be told at once.
pub fn limit<B>(call: &Call<B>, usual: usize, most: usize) -> Result<usize, Problem> {
    match call.number("limit")? {
        None => Ok(usual),
        Some(0) => Err(Problem::invalid("`limit` in the query is at least 1")),
        Some(limit) => Ok(most.min(limit)),
    }
}
