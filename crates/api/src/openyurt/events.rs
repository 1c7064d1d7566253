//! `GET /clusterEvents`: Kubernetes events in the caller's namespaces and of the caller's nodes.

use fleet::events::{Cursor, EventList, EventWish, MOST, USUAL};
use jiff::Timestamp;

use super::page::limit;
use super::sight::Sight;
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;

/// Accepted query parameters.
pub const QUERY: &[&str] =
    &["token", "namespace", "limit", "type", "kind", "name", "since", "continue", "kubeConfig", "kubeconfig"];

/// Events, newest first.
pub async fn list(call: Call) -> Result<Answer<EventList>, Problem> {
    let (sight, wish) = (Sight::of_all(&call)?, wish(&call)?);
    Ok(Answer::new(call.api.fleet.events(call.actor()?, sight.whose(), &wish).await?))
}

fn wish(call: &Call) -> Result<EventWish, Problem> {
    let event_type = match call.said("type") {
        None | Some("Normal" | "Warning") => call.said("type").map(str::to_owned),
        Some(_) => return Err(Problem::invalid("`type` in the query is Normal or Warning")),
    };
    let time = |text: &str| {
        text.parse::<Timestamp>().map_err(|_| Problem::invalid("`since` in the query is a time of RFC 3339"))
    };
    Ok(EventWish {
        limit: Some(limit(call, USUAL, MOST)?),
        event_type,
        kind: call.said("kind").map(str::to_owned),
        name: call.said("name").map(str::to_owned),
        since: call.said("since").map(time).transpose()?,
        after: call.said("continue").map(Cursor::parse).transpose()?,
    })
}
