//! Releases: create, read, update, delete.
//!
//! Modules:
//! - [`response`]: the release on the wire
//! - [`body`]: request bodies
//! - [`list`], lists
//! - [`actions`]: actions on a release
//! - [`get`]: read-only views

pub mod actions;
pub mod body;
pub mod get;
pub mod list;
pub mod response;

use axum::http::StatusCode;
use releases::service::force_delete::ForceDeleteResult;
use releases::service::update::DeleteOptions;
use releases::service::{HOST_CLUSTER, RequestPreconditions};

use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::JsonResponse;
use crate::routes::ROOT;
use body::{CreateReleaseRequest, ReleaseBody, UpdateReleaseRequest};
use response::ReleaseResponse;

/// Query parameter that forces a deletion whatever blocks it.
pub const FORCE_PARAM: &str = "force";

/// Query parameter by which an administrator of the platform applies its own rights to one version of a release.
pub const AS_ADMINISTRATOR_PARAM: &str = "asAdministrator";

/// Preconditions from the headers, with the `asAdministrator` parameter.
fn preconditions<B>(call: &ApiRequest<B>) -> Result<RequestPreconditions<'_>, Problem> {
    Ok(RequestPreconditions {
        as_administrator: call.bool_param(AS_ADMINISTRATOR_PARAM)?,
        ..call.preconditions()
    })
}

/// Namespace and name from the path. There is only one cluster so far.
fn namespace_and_name<B>(call: &ApiRequest<B>) -> Result<(&str, &str), Problem> {
    let cluster = call.params.get("cluster");
    if cluster != HOST_CLUSTER {
        return Err(Problem::not_found("cluster", cluster));
    }
    Ok((call.params.get("namespace"), call.params.get("release")))
}

/// `POST releases`
pub async fn create(
    call: ApiRequest<ReleaseBody<CreateReleaseRequest>>,
) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let actor = call.actor()?;
    let (source, mut install_request) = call.body.0.to_install_request()?;
    install_request.idempotency_key.clone_from(&call.idempotency_key);
    install_request.as_administrator = call.bool_param(AS_ADMINISTRATOR_PARAM)?;
    let key = format!("{HOST_CLUSTER}/{}/{}", install_request.namespace, install_request.name);
    let made = call.api.releases.install(actor, &source, install_request).await?;
    Ok(response::release_response(&call, made)?
        .location(&format!("{ROOT}/releases/{key}"))
        .audit_object(&key))
}

/// `GET releases/{cluster}/{namespace}/{release}`
pub async fn get_release(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (namespace, name) = namespace_and_name(&call)?;
    response::release_response(&call, call.api.releases.get(call.actor()?, namespace, name).await?)
}

/// `PATCH releases/{cluster}/{namespace}/{release}`: absent fields keep their value.
pub async fn update(
    call: ApiRequest<ReleaseBody<UpdateReleaseRequest>>,
) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let changes = call.body.0.to_release_update()?;
    let asked = preconditions(&call)?;
    response::release_response(
        &call,
        call.api.releases.upgrade(actor, namespace, name, changes, asked).await?,
    )
}

/// `DELETE releases/{cluster}/{namespace}/{release}`: uninstalls the release and then deletes it. `force` ignores whatever blocks the
/// deletion. The response lists objects that stay because an administrator wrote them.
pub async fn delete(call: ApiRequest) -> Result<JsonResponse<ReleaseResponse>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let options = DeleteOptions {
        delete_claims: call.bool_param("claims")?,
        as_administrator: call.bool_param(AS_ADMINISTRATOR_PARAM)?,
        if_match: call.if_match.as_deref(),
    };
    if call.bool_param(FORCE_PARAM)? {
        let ForceDeleteResult { release, orphans: left } =
            call.api.releases.force_delete(actor, namespace, name, options).await?;
        let status = if left.is_some() { StatusCode::OK } else { StatusCode::ACCEPTED };
        return Ok(response::release_response_with_orphans(&call, release, left)?.with_status(status));
    }
    let ForceDeleteResult { release, orphans: left } =
        call.api.releases.delete(actor, namespace, name, options).await?;
    Ok(response::release_response_with_orphans(&call, release, left)?.with_status(StatusCode::ACCEPTED))
}
