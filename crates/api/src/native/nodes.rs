//! Nodes of accounts.

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::NoContent;

/// `DELETE nodes/{node}`
pub async fn remove(call: ApiRequest) -> Result<NoContent, Problem> {
    call.api.tenancy.remove_node(call.actor()?, call.params.get("node")).await?;
    Ok(NoContent::default())
}
