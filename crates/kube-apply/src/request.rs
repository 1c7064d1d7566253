//! API calls on one object, retried while the API server is busy.
//!
//! All writes use the field manager `helm`, so that Helm 4 recognises its fields.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::params::ValidationDirective;
use kube_access::timeout::is_unreachable;
use kube_access::verb::declare;
use serde_json::Value;
use tokio::time::sleep;

use crate::target::ResolvedObject;

/// Field manager of all chart objects.
pub(crate) const FIELD_MANAGER: &str = "helm";

/// Delays between attempts. A server that stays busy longer is an error.
const RETRY_DELAYS: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
];
/// Upper bound of a delay that the server requests.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(5);

type Result<T> = std::result::Result<T, kube::Error>;

/// Options of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteMode {
    pub dry_run: bool,
    pub validate: bool,
}

/// Reads the object.
pub(crate) async fn get(client: &Client, placed: &ResolvedObject) -> Result<Option<Value>> {
    let name = placed.object.name();
    with_retries(|| async {
        let request = placed.request().get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        ignore_not_found(client.request(declare(request, "get")).await)
    })
    .await
}

/// Reads the metadata of the object.
pub(crate) async fn get_metadata(client: &Client, placed: &ResolvedObject) -> Result<Option<Value>> {
    let name = placed.object.name();
    with_retries(|| async {
        let request =
            placed.request().get_metadata(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        ignore_not_found(client.request(declare(request, "get_metadata")).await)
    })
    .await
}

/// Creates the object. Retried only if the server certainly rejected the call: a second attempt after a success would
/// fail with `AlreadyExists`.
pub(crate) async fn create(client: &Client, placed: &ResolvedObject, mode: WriteMode) -> Result<Value> {
    let body = to_json_bytes(placed.object.value())?;
    let params = PostParams { dry_run: mode.dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
    retry(was_not_executed, || async {
        let mut request =
            placed.request().create(&params, body.clone()).map_err(kube::Error::BuildRequest)?;
        if mode.validate {
            enable_strict_validation(&mut request);
        }
        client.request(declare(request, "create")).await
    })
    .await
}

/// Replaces the object. `value` carries the `resourceVersion` to replace.
pub(crate) async fn replace(
    client: &Client,
    placed: &ResolvedObject,
    value: &Value,
    mode: WriteMode,
) -> Result<Value> {
    let params = PostParams { dry_run: mode.dry_run, field_manager: Some(FIELD_MANAGER.to_owned()) };
    let mut request = placed
        .request()
        .replace(placed.object.name(), &params, to_json_bytes(value)?)
        .map_err(kube::Error::BuildRequest)?;
    if mode.validate {
        enable_strict_validation(&mut request);
    }
    client.request(declare(request, "replace")).await
}

/// Applies the object (server-side apply).
pub(crate) async fn apply(
    client: &Client,
    placed: &ResolvedObject,
    force: bool,
    mode: WriteMode,
) -> Result<Value> {
    let params = PatchParams { force, ..patch_params(mode) };
    with_retries(|| async { patch(client, placed, &params, &Patch::Apply(placed.object.value())).await })
        .await
}

/// Sends a merge patch. Not retried: a patch with a `resourceVersion` must be computed again.
pub(crate) async fn merge(
    client: &Client,
    placed: &ResolvedObject,
    fields: &Value,
    mode: WriteMode,
) -> Result<Value> {
    patch(client, placed, &patch_params(mode), &Patch::Merge(fields)).await
}

fn patch_params(mode: WriteMode) -> PatchParams {
    PatchParams {
        dry_run: mode.dry_run,
        field_manager: Some(FIELD_MANAGER.to_owned()),
        field_validation: mode.validate.then_some(ValidationDirective::Strict),
        ..PatchParams::default()
    }
}

async fn patch(
    client: &Client,
    placed: &ResolvedObject,
    params: &PatchParams,
    patch: &Patch<&Value>,
) -> Result<Value> {
    let request =
        placed.request().patch(placed.object.name(), params, patch).map_err(kube::Error::BuildRequest)?;
    client.request(declare(request, "patch")).await
}

/// Deletes exactly this object. Returns whether it existed.
pub(crate) async fn delete(
    client: &Client,
    placed: &ResolvedObject,
    uid: Option<String>,
    propagation: PropagationPolicy,
    dry_run: bool,
) -> Result<bool> {
    let preconditions = uid.map(|uid| Preconditions { uid: Some(uid), resource_version: None });
    let params = DeleteParams {
        dry_run,
        propagation_policy: Some(propagation),
        preconditions,
        ..DeleteParams::default()
    };
    let deleted = with_retries(|| async {
        let request =
            placed.request().delete(placed.object.name(), &params).map_err(kube::Error::BuildRequest)?;
        ignore_not_found(client.request::<Value>(declare(request, "delete")).await)
    });
    Ok(deleted.await?.is_some())
}

fn to_json_bytes(value: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(kube::Error::SerdeError)
}

fn ignore_not_found(answer: Result<Value>) -> Result<Option<Value>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// `kube` does not support field validation in these calls.
fn enable_strict_validation(request: &mut http::Request<Vec<u8>>) {
    let joint = if request.uri().query().is_some() { '&' } else { '?' };
    let asked = format!("{}{joint}fieldValidation=Strict", request.uri());
    *request.uri_mut() = asked.parse().expect("an address with one more parameter is an address");
}

/// Retries an idempotent call, also after an unknown outcome.
async fn with_retries<T, F: Future<Output = Result<T>>>(call: impl FnMut() -> F) -> Result<T> {
    retry(|error| was_not_executed(error) || is_server_failure(error), call).await
}

async fn retry<T, F: Future<Output = Result<T>>>(
    should_retry: impl Fn(&kube::Error) -> bool,
    mut call: impl FnMut() -> F,
) -> Result<T> {
    for pause in RETRY_DELAYS {
        match call().await {
            Err(error) if should_retry(&error) => sleep(retry_after(&error).unwrap_or(pause)).await,
            answer => return answer,
        }
    }
    call().await
}

/// Whether the call was certainly not executed: rejected by rate limiting, or by a quota that changed concurrently.
fn was_not_executed(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || is_modified_conflict(error),
        _ => false,
    }
}

/// Whether another client changed the object concurrently. A conflict of field managers is not included.
pub(crate) fn is_modified_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 409 && status.message.contains("the object has been modified"))
}

pub(crate) fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

pub(crate) fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_forbidden())
}

fn is_server_failure(error: &kube::Error) -> bool {
    is_unreachable(error) || matches!(error, kube::Error::Api(status) if status.code == 500)
}

fn retry_after(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref().map(|details| details.retry_after_seconds)?;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)).min(MAX_RETRY_AFTER))
}

/// Maximum concurrent calls.
const MAX_CONCURRENT: usize = 8;

/// Runs all calls with bounded concurrency and returns their results in order.
///
/// Boxed, because the compiler cannot prove a stream of borrowing futures `Send`.
pub(crate) async fn run_all<T>(calls: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(calls).buffered(MAX_CONCURRENT).collect().await
}

#[cfg(test)]
mod tests;
