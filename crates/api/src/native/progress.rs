//! How far an account is prepared, told as it happens.

use domain::Actor;
use domain::ids::UserId;
use futures::stream;
use kube_types::user::conditions::READY;
use schemars::JsonSchema;
use serde::Serialize;
use tenancy::Tenancy;

use crate::answer::Events;
use crate::call::Call;
use crate::problem::Problem;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Progress")]
pub struct ProgressView {
    conditions: Vec<ConditionView>,
    /// The last word: nothing more follows.
    ready: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Condition")]
pub struct ConditionView {
    r#type: String,
    /// True, False or Unknown.
    status: String,
    reason: String,
    message: String,
}

fn look(tenancy: &Tenancy, actor: &Actor, id: &UserId) -> Result<ProgressView, tenancy::Error> {
    let conditions = tenancy.progress(actor, id)?.into_iter();
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

/// `GET accounts/{user}/progress`: at once, at every change, and until it is ready.
pub async fn follow(call: Call) -> Result<Events<ProgressView>, Problem> {
    let (actor, id, tenancy) = (call.actor()?.clone(), call.user()?, call.api.tenancy.clone());
    look(&tenancy, &actor, &id)?;
    let stream = stream::unfold(None::<ProgressView>, move |told| {
        let (tenancy, actor, id) = (tenancy.clone(), actor.clone(), id.clone());
        async move {
            if told.as_ref().is_some_and(|told| told.ready) {
                return None;
            }
            // An account that is gone ends it too.
            let news = |_: &tenancy::Directory| look(&tenancy, &actor, &id).ok() != told;
            tenancy.directory().until(news).await;
            let now = look(&tenancy, &actor, &id).ok()?;
            Some((now.clone(), Some(now)))
        }
    });
    Ok(Events::new("progress", stream))
}
