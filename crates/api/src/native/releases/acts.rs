//! Actions on a release other than changing its spec.

use std::time::Duration;

use kube_apply::Silent;
use releases::acts::now::{Tested, Tests};
use releases::acts::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sent::{ChangedRelease, SentRelease};
use super::view::{self, ReleaseAnswer};
use super::{AS_ADMINISTRATOR, asked, named};
use crate::answer::Answer;
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::Sent;

/// Timeout of the response to a test run, which is sent when all tests have run. Each test has its own timeout.
pub const TESTED_WITHIN: Duration = Duration::from_hours(1);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WayBack {
    /// Helm's revision to go back to.
    revision: i64,
}

/// What was restarted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Restarted {
    workloads: Vec<String>,
}

/// `POST …/rollback`
pub async fn rollback(call: Call<Sent<WayBack>>) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name), revision) = (call.actor()?, named(&call)?, call.body.0.revision);
    let asked = asked(&call)?;
    view::answer(&call, call.api.releases.rollback(actor, namespace, name, revision, asked).await?)
}

/// `POST …/plan`: previews an update, or the creation of a release.
pub async fn plan(call: Call<SentRelease<ChangedRelease>>) -> Result<Answer<Plan>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let changes = call.body.0.read()?;
    Ok(Answer::new(
        call.api.releases.plan(actor, namespace, name, changes, call.asks(AS_ADMINISTRATOR)?).await?,
    ))
}

/// `POST …/pause`
pub async fn pause(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    view::answer(&call, call.api.releases.pause(actor, namespace, name, call.asked()).await?)
}

/// `POST …/recover`
pub async fn recover(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    view::answer(&call, call.api.releases.recover(actor, namespace, name, call.asked()).await?)
}

/// `POST …/suspend`
pub async fn suspend(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    view::answer(&call, call.api.releases.suspend(actor, namespace, name, call.asked()).await?)
}

/// `POST …/resume`
pub async fn resume(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    view::answer(&call, call.api.releases.resume(actor, namespace, name, call.asked()).await?)
}

/// `POST …/retry`
pub async fn retry(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    view::answer(&call, call.api.releases.retry(actor, namespace, name, call.asked()).await?)
}

/// `POST …/adopt`
pub async fn adopt(call: Call) -> Result<Answer<ReleaseAnswer>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    view::answer(&call, call.api.releases.adopt(actor, namespace, name).await?)
}

/// `POST …/restart`
pub async fn restart(call: Call) -> Result<Answer<Restarted>, Problem> {
    let (actor, (namespace, name), rolling) = (call.actor()?, named(&call)?, call.asks("rolling")?);
    let workloads = call.api.releases.restart(actor, namespace, name, rolling).await?;
    Ok(Answer::new(Restarted { workloads }))
}

/// `POST …/test`: failed tests are a successful response.
pub async fn test(call: Call) -> Result<Answer<Tested>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let names = |word: &str| {
        let said = call.said(word).unwrap_or_default().split(',').map(str::trim);
        said.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let which = Tests {
        only: names("only"),
        except: names("except"),
        logs: call.asks("logs")?,
        timeout: call.length("timeout", TESTED_WITHIN)?,
    };
    Ok(Answer::new(call.api.releases.test(actor, namespace, name, which, &Silent).await?))
}
