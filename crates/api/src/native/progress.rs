//! Progress of account provisioning, as an event stream.

use domain::Actor;
use domain::ids::UserId;
use futures::stream;
use kube_types::user::conditions::READY;
use schemars::JsonSchema;
use serde::Serialize;
use tenancy::Tenancy;

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::EventStream;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Progress")]
pub struct ProgressView {
    conditions: Vec<ConditionView>,
    /// Whether the account is ready; no further event follows.
    ready: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Condition")]
pub struct ConditionView {
    r#type: String,
    /// Status: True, False or Unknown.
    status: String,
    reason: String,
    message: String,
}

async fn get_progress(tenancy: &Tenancy, actor: &Actor, id: &UserId) -> Result<ProgressView, tenancy::Error> {
    let conditions = tenancy.user_conditions(actor, id).await?.into_iter();
    let conditions: Vec<_> = conditions
        .map(|condition| ConditionView {
            r#type: condition.type_,
            status: condition.status,
            reason: condition.reason,
            message: condition.message,
        })
        .collect();
    let ready = conditions.iter().any(|condition| condition.r#type == READY && condition.status == "True");
    Ok(ProgressView { conditions, ready })
}

/// `GET accounts/{user}/progress`: the current state, then an event per change until the account is ready.
pub async fn watch(call: ApiRequest) -> Result<EventStream<ProgressView>, Problem> {
    let (actor, id, tenancy) = (call.actor()?.clone(), call.user()?, call.api.tenancy.clone());
    get_progress(&tenancy, &actor, &id).await?;
    let stream = stream::unfold(None::<ProgressView>, move |told| {
        let (tenancy, actor, id) = (tenancy.clone(), actor.clone(), id.clone());
        async move {
            if told.as_ref().is_some_and(|told| told.ready) {
                return None;
            }
            let version = |directory: &tenancy::Directory| Some(directory.account(&id)?.version.clone());
            loop {
                // Subscribe before reading: a change after the read then has another version and wakes the loop.
                let heard = version(tenancy.directory());
                // The stream ends when the account is deleted.
                let now = get_progress(&tenancy, &actor, &id).await.ok()?;
                if told.as_ref() != Some(&now) {
                    return Some((now.clone(), Some(now)));
                }
                tenancy.directory().wait_until(|directory| version(directory) != heard).await;
            }
        }
    });
    Ok(EventStream::new("progress", stream))
}
