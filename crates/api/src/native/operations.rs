//! Progress of asynchronous operations on releases.

use futures::stream;
use releases::service::operation::OperationView;

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{EventStream, JsonResponse};

/// `GET operations/{operation}`
pub async fn get(call: ApiRequest) -> Result<JsonResponse<OperationView>, Problem> {
    let id = call.params.get("operation");
    Ok(JsonResponse::new(call.api.releases.operation(call.actor()?, id).await?))
}

/// `GET operations/{operation}/progress`: the current state, then an event per change until the operation ends.
pub async fn watch(call: ApiRequest) -> Result<EventStream<OperationView>, Problem> {
    let (actor, id) = (call.actor()?.clone(), call.params.get("operation").to_owned());
    let releases = call.api.releases.clone();
    releases.operation(&actor, &id).await?;
    let changes = releases.watch_changes();
    let stream = stream::unfold((None::<OperationView>, changes), move |(told, mut changes)| {
        let (releases, actor, id) = (releases.clone(), actor.clone(), id.clone());
        async move {
            if told.as_ref().is_some_and(|told| told.state.is_final()) {
                return None;
            }
            loop {
                // Mark before reading: a change after the read then wakes the loop.
                changes.mark_unchanged();
                // The stream ends when the release is deleted.
                let now = releases.operation(&actor, &id).await.ok()?;
                if told.as_ref() != Some(&now) {
                    return Some((now.clone(), (Some(now), changes)));
                }
                changes.changed().await.ok()?;
            }
        }
    });
    Ok(EventStream::new("operation", stream))
}
