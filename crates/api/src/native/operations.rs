//! Progress of asynchronous operations on releases.

use futures::stream;
use releases::acts::operation::OperationView;

use crate::answer::{Answer, Events};
use crate::call::Call;
use crate::problem::Problem;

/// `GET operations/{operation}`
pub async fn show(call: Call) -> Result<Answer<OperationView>, Problem> {
    let id = call.params.get("operation");
    Ok(Answer::new(call.api.releases.operation(call.actor()?, id).await?))
}

/// `GET operations/{operation}/progress`: the current state, then an event per change until the operation ends.
pub async fn follow(call: Call) -> Result<Events<OperationView>, Problem> {
    let (actor, id) = (call.actor()?.clone(), call.params.get("operation").to_owned());
    let releases = call.api.releases.clone();
    releases.operation(&actor, &id).await?;
    let changes = releases.changes();
    let stream = stream::unfold((None::<OperationView>, changes), move |(told, mut changes)| {
        let (releases, actor, id) = (releases.clone(), actor.clone(), id.clone());
        async move {
            if told.as_ref().is_some_and(|told| told.state.is_over()) {
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
    Ok(Events::new("operation", stream))
}
