//! `GET /clusterEvents`: Kubernetes events in the caller's namespaces and of the caller's nodes.

use fleet::events::{DEFAULT_PAGE_SIZE, EventCursor, EventList, EventQuery, MAX_PAGE_SIZE};
use jiff::Timestamp;

use super::paging::limit_param;
use super::visibility::CallerVisibility;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

/// Accepted query parameters.
pub const QUERY: &[&str] =
    &["token", "namespace", "limit", "type", "kind", "name", "since", "continue", "kubeConfig", "kubeconfig"];

/// Events, newest first.
pub async fn list(call: ApiRequest) -> Result<JsonResponse<EventList>, Problem> {
    let (sight, wish) = (CallerVisibility::for_all(&call)?, event_query(&call)?);
    Ok(JsonResponse::new(call.api.fleet.events(call.actor()?, sight.visibility(), &wish).await?))
}

fn event_query(call: &ApiRequest) -> Result<EventQuery, Problem> {
    let event_type = match call.query_param("type") {
        None | Some("Normal" | "Warning") => call.query_param("type").map(str::to_owned),
        Some(_) => return Err(Problem::invalid("query parameter `type` must be Normal or Warning")),
    };
    let time = |text: &str| {
        text.parse::<Timestamp>()
            .map_err(|_| Problem::invalid("query parameter `since` must be an RFC 3339 time"))
    };
    Ok(EventQuery {
        limit: Some(limit_param(call, DEFAULT_PAGE_SIZE, MAX_PAGE_SIZE)?),
        event_type,
        kind: call.query_param("kind").map(str::to_owned),
        name: call.query_param("name").map(str::to_owned),
        since: call.query_param("since").map(time).transpose()?,
        after: call.query_param("continue").map(EventCursor::parse).transpose()?,
    })
}
