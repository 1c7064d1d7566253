//! Actions on a release other than changing its spec.

use std::time::Duration;

use kube_apply::NoProgress;
use releases::service::immediate_actions::{TestOptions, TestReport};
use releases::service::plan::Plan;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::body::{ReleaseBody, UpdateReleaseRequest};
use super::response::{self, ReleaseResponse};
use super::{AS_ADMINISTRATOR_PARAM, namespace_and_name, preconditions};
use crate::body::JsonBody;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;

/// Timeout of the response to a test run, which is sent when all tests have run. Each test has its own timeout.
pub const TEST_TIMEOUT: Duration = Duration::from_hours(1);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RollbackRequest {
    /// Helm revision to roll back to.
    revision: i64,
}

/// Restarted workloads.
#[derive(Debug, Serialize, JsonSchema)]
pub struct RestartResponse {
    workloads: Vec<String>,
}

/// `POST …/rollback`
pub async fn rollback(
    call: ApiRequest<JsonBody<RollbackRequest>>,
) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name), revision) =
        (call.actor()?, namespace_and_name(&call)?, call.body.0.revision);
    let asked = preconditions(&call)?;
    response::release_response(
        &call,
        call.api.releases.rollback(actor, namespace, name, revision, asked).await?,
    )
}

/// `POST …/plan`: previews an update, or the creation of a release.
pub async fn plan(
    call: ApiRequest<ReleaseBody<UpdateReleaseRequest>>,
) -> Result<JsonResponse<Plan>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let changes = call.body.0.to_release_update()?;
    Ok(JsonResponse::new(
        call.api
            .releases
            .plan(actor, namespace, name, changes, call.bool_param(AS_ADMINISTRATOR_PARAM)?)
            .await?,
    ))
}

/// `POST …/pause`
pub async fn pause(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    response::release_response(
        &call,
        call.api.releases.pause(actor, namespace, name, call.preconditions()).await?,
    )
}

/// `POST …/recover`
pub async fn recover(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    response::release_response(
        &call,
        call.api.releases.recover(actor, namespace, name, call.preconditions()).await?,
    )
}

/// `POST …/suspend`
pub async fn suspend(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    response::release_response(
        &call,
        call.api.releases.suspend(actor, namespace, name, call.preconditions()).await?,
    )
}

/// `POST …/resume`
pub async fn resume(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    response::release_response(
        &call,
        call.api.releases.resume(actor, namespace, name, call.preconditions()).await?,
    )
}

/// `POST …/retry`
pub async fn retry(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    response::release_response(
        &call,
        call.api.releases.retry(actor, namespace, name, call.preconditions()).await?,
    )
}

/// `POST …/adopt`
pub async fn adopt(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    response::release_response(&call, call.api.releases.adopt(actor, namespace, name).await?)
}

/// `POST …/restart`
pub async fn restart(call: ApiRequest) -> Result<JsonResponse<RestartResponse>, Problem> {
    let (actor, (namespace, name), rolling) =
        (call.actor()?, namespace_and_name(&call)?, call.bool_param("rolling")?);
    let workloads = call.api.releases.restart(actor, namespace, name, rolling).await?;
    Ok(JsonResponse::new(RestartResponse { workloads }))
}

/// `POST …/test`: failed tests are a successful response.
pub async fn test(call: ApiRequest) -> Result<JsonResponse<TestReport>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let names = |word: &str| {
        let said = call.query_param(word).unwrap_or_default().split(',').map(str::trim);
        said.filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let which = TestOptions {
        only: names("only"),
        except: names("except"),
        logs: call.bool_param("logs")?,
        timeout: call.duration_param("timeout", TEST_TIMEOUT)?,
    };
    Ok(JsonResponse::new(call.api.releases.test(actor, namespace, name, which, &NoProgress).await?))
}
