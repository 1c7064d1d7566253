//! Read-only views of a release. Sensitive values are masked.

use releases::service::diff::{DiffSubject, RevisionDiff};
use releases::service::log_stream::{DEFAULT_FOLLOWED_CONTAINERS, LogLine};
use releases::service::logs::{LogQuery, LogView};
use releases::service::resources::ResourcesView;
use releases::service::view::{RevisionView, ValuesView};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::namespace_and_name;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{EventStream, JsonOrEvents, JsonResponse, ListResponse};

/// Manifest of a revision.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ManifestView {
    objects: Vec<Value>,
    /// Manifests of the hooks.
    hooks: Vec<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct NotesView {
    notes: String,
}

/// `GET …/history`
pub async fn history(call: ApiRequest) -> Result<JsonResponse<ListResponse<RevisionView>>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let revisions = call.api.releases.history(actor, namespace, name).await?;
    Ok(call.list(revisions))
}

/// `GET …/values`
pub async fn values(call: ApiRequest) -> Result<JsonResponse<ValuesView>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let (revision, all) = (call.number_param("revision")?, call.bool_param("all")?);
    Ok(JsonResponse::new(call.api.releases.values(actor, namespace, name, revision, all).await?))
}

/// `GET …/manifest`
pub async fn manifest(call: ApiRequest) -> Result<JsonResponse<ManifestView>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let revision = call.number_param("revision")?;
    let objects = call.api.releases.manifest(actor, namespace, name, revision).await?;
    let hooks = call.api.releases.hooks(actor, namespace, name, revision).await?;
    Ok(JsonResponse::new(ManifestView { objects, hooks }))
}

/// `GET …/notes`
pub async fn notes(call: ApiRequest) -> Result<JsonResponse<NotesView>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let notes = call.api.releases.notes(actor, namespace, name, call.number_param("revision")?).await?;
    Ok(JsonResponse::new(NotesView { notes }))
}

/// `GET …/diff`
pub async fn diff(call: ApiRequest) -> Result<JsonResponse<RevisionDiff>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let of = match call.query_param("of") {
        None | Some("manifest") => DiffSubject::Manifest,
        Some("values") => DiffSubject::Values,
        Some(_) => return Err(Problem::invalid("query parameter `of` must be manifest or values")),
    };
    let (from, to) = (call.number_param("from")?, call.number_param("to")?);
    Ok(JsonResponse::new(call.api.releases.diff_revisions(actor, namespace, name, (from, to), of).await?))
}

/// `GET …/drift`
pub async fn drift(call: ApiRequest) -> Result<JsonResponse<RevisionDiff>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    Ok(JsonResponse::new(call.api.releases.drift(actor, namespace, name).await?))
}

/// Query parameters of the logs.
pub const LOG_QUERY: &[&str] =
    &["pod", "container", "selector", "tail", "since", "previous", "timestamps", "follow", "max"];

/// `GET …/logs`: the current log lines, or with `follow` a stream that includes new ones.
pub async fn logs(call: ApiRequest) -> Result<JsonOrEvents<ListResponse<LogView>, LogLine>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    let owned = |name: &str| call.query_param(name).map(str::to_owned);
    let positive = |name: &str, least: i64| match call.number_param(name)? {
        Some(number) if number < least => {
            Err(Problem::invalid(format!("query parameter `{name}` must be at least {least}")))
        }
        number => Ok(number),
    };
    let which = LogQuery {
        pod: owned("pod"),
        container: owned("container"),
        selector: owned("selector"),
        tail_lines: positive("tail", 0)?,
        since_seconds: positive("since", 1)?,
        previous: call.bool_param("previous")?,
        timestamps: call.bool_param("timestamps")?,
    };
    let max = call.number_param("max")?;
    if call.bool_param("follow")? {
        let max = max.unwrap_or(DEFAULT_FOLLOWED_CONTAINERS);
        let lines = call.api.releases.stream_logs(actor, namespace, name, &which, max).await?;
        return Ok(JsonOrEvents::Events(EventStream::new("log", lines)));
    }
    if max.is_some() {
        return Err(Problem::invalid("query parameter `max` requires `follow`"));
    }
    let logs = call.api.releases.logs(actor, namespace, name, &which).await?;
    Ok(JsonOrEvents::Json(call.list(logs)))
}

/// `GET …/resources`
pub async fn resources(call: ApiRequest) -> Result<JsonResponse<ResourcesView>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, namespace_and_name(&call)?);
    Ok(JsonResponse::new(call.api.releases.resources(actor, namespace, name).await?))
}
