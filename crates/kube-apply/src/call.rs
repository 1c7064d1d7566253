//! One call about one object, repeated while the cluster is only busy.
//!
//! Everything is written under the name `helm`, so that Helm 4 finds its own fields.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::params::ValidationDirective;
use kube_access::patience::is_out_of_reach;
use kube_access::verb::declare;
use serde_json::Value;
use tokio::time::sleep;

use crate::target::Placed;

/// The field manager of everything that charts make.
pub(crate) const MANAGER: &str = "helm";

/// Between two attempts. A cluster that is busy for longer is left alone.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_secs(1),
];
/// The longest that a cluster can make us wait by asking for it.
const LONGEST: Duration = Duration::from_secs(5);

type Result<T> = std::result::Result<T, kube::Error>;

/// How a write is to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mode {
    pub dry_run: bool,
    pub validate: bool,
}

/// The object as it is.
pub(crate) async fn get(client: &Client, placed: &Placed) -> Result<Option<Value>> {
    let name = placed.object.name();
    patiently(|| async {
        let request = placed.request().get(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        absent_is_none(client.request(declare(request, "get")).await)
    })
    .await
}

/// What is to be known of the object without its content.
pub(crate) async fn get_metadata(client: &Client, placed: &Placed) -> Result<Option<Value>> {
    let name = placed.object.name();
    patiently(|| async {
        let request =
            placed.request().get_metadata(name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        absent_is_none(client.request(declare(request, "get_metadata")).await)
    })
    .await
}

/// Not repeated unless it surely has not been done: a second attempt would find the object there.
pub(crate) async fn create(client: &Client, placed: &Placed, mode: Mode) -> Result<Value> {
    let body = bytes(placed.object.value())?;
    let params = PostParams { dry_run: mode.dry_run, field_manager: Some(MANAGER.to_owned()) };
    repeat(is_undone, || async {
        let mut request =
            placed.request().create(&params, body.clone()).map_err(kube::Error::BuildRequest)?;
        if mode.validate {
            ask_for_validation(&mut request);
        }
        client.request(declare(request, "create")).await
    })
    .await
}

/// Replaces the object. `value` says which version it is meant to replace.
pub(crate) async fn replace(client: &Client, placed: &Placed, value: &Value, mode: Mode) -> Result<Value> {
    let params = PostParams { dry_run: mode.dry_run, field_manager: Some(MANAGER.to_owned()) };
    let mut request = placed
        .request()
        .replace(placed.object.name(), &params, bytes(value)?)
        .map_err(kube::Error::BuildRequest)?;
    if mode.validate {
        ask_for_validation(&mut request);
    }
    client.request(declare(request, "replace")).await
}

/// Applies the object: the cluster merges it into what is there.
pub(crate) async fn apply(client: &Client, placed: &Placed, force: bool, mode: Mode) -> Result<Value> {
    let params = PatchParams { force, ..patch_params(mode) };
    patiently(|| async { patch(client, placed, &params, &Patch::Apply(placed.object.value())).await }).await
}

/// Merges some fields into the object. Not repeated: a patch that names a version must be made anew.
pub(crate) async fn merge(client: &Client, placed: &Placed, fields: &Value, mode: Mode) -> Result<Value> {
    patch(client, placed, &patch_params(mode), &Patch::Merge(fields)).await
}

fn patch_params(mode: Mode) -> PatchParams {
    PatchParams {
        dry_run: mode.dry_run,
        field_manager: Some(MANAGER.to_owned()),
        field_validation: mode.validate.then_some(ValidationDirective::Strict),
        ..PatchParams::default()
    }
}

async fn patch(
    client: &Client,
    placed: &Placed,
    params: &PatchParams,
    patch: &Patch<&Value>,
) -> Result<Value> {
    let request =
        placed.request().patch(placed.object.name(), params, patch).map_err(kube::Error::BuildRequest)?;
    client.request(declare(request, "patch")).await
}

/// Deletes exactly this object. Whether there was one.
pub(crate) async fn delete(
    client: &Client,
    placed: &Placed,
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
    let deleted = patiently(|| async {
        let request =
            placed.request().delete(placed.object.name(), &params).map_err(kube::Error::BuildRequest)?;
        absent_is_none(client.request::<Value>(declare(request, "delete")).await)
    });
    Ok(deleted.await?.is_some())
}

fn bytes(value: &Value) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(kube::Error::SerdeError)
}

fn absent_is_none(answer: Result<Value>) -> Result<Option<Value>> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error),
    }
}

/// `kube` has no word for it in these calls.
fn ask_for_validation(request: &mut http::Request<Vec<u8>>) {
    let joint = if request.uri().query().is_some() { '&' } else { '?' };
    let asked = format!("{}{joint}fieldValidation=Strict", request.uri());
    *request.uri_mut() = asked.parse().expect("an address with one more parameter is an address");
}

/// A call that can be made again whatever became of it.
async fn patiently<T, F: Future<Output = Result<T>>>(call: impl FnMut() -> F) -> Result<T> {
    repeat(|error| is_undone(error) || is_broken(error), call).await
}

async fn repeat<T, F: Future<Output = Result<T>>>(
    worth: impl Fn(&kube::Error) -> bool,
    mut call: impl FnMut() -> F,
) -> Result<T> {
    for pause in PAUSES {
        match call().await {
            Err(error) if worth(&error) => sleep(asked_pause(&error).unwrap_or(pause)).await,
            answer => return answer,
        }
    }
    call().await
}

/// Turned away at the door, or by a quota that somebody else was writing at the same moment.
fn is_undone(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || is_stale(error),
        _ => false,
    }
}

/// Somebody else wrote meanwhile. (A conflict about who sets a field is none of these.)
pub(crate) fn is_stale(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status)
        if status.code == 409 && status.message.contains("the object has been modified"))
}

pub(crate) fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

fn is_broken(error: &kube::Error) -> bool {
    is_out_of_reach(error) || matches!(error, kube::Error::Api(status) if status.code == 500)
}

fn asked_pause(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref().map(|details| details.retry_after_seconds)?;
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)).min(LONGEST))
}

/// So many calls are under way at the same time.
const AT_ONCE: usize = 8;

/// Does all of these, several at the same time, and has their answers in their order.
///
/// Boxed, because the compiler does not see of a stream of borrowing futures that it may go from thread to thread.
pub(crate) async fn all<T>(calls: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    stream::iter(calls).buffered(AT_ONCE).collect().await
}

#[cfg(test)]
mod tests;
