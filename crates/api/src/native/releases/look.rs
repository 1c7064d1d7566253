//! Read-only views of a release. Sensitive values are masked.

use releases::acts::compare::{Comparison, Of};
use releases::acts::listen::{AT_ONCE, LogLine};
use releases::acts::logs::{LogView, Which};
use releases::acts::resources::ResourcesView;
use releases::acts::view::{RevisionView, ValuesView};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::named;
use crate::answer::{Answer, Events, List, Maybe};
use crate::call::Call;
use crate::problem::Problem;

/// The objects of a revision, as they were written.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Manifest {
    objects: Vec<Value>,
    /// What runs before and after.
    hooks: Vec<Value>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Notes {
    notes: String,
}

/// `GET …/history`
pub async fn history(call: Call) -> Result<Answer<List<RevisionView>>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let revisions = call.api.releases.history(actor, namespace, name).await?;
    Ok(call.list(revisions))
}

/// `GET …/values`
pub async fn values(call: Call) -> Result<Answer<ValuesView>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let (revision, all) = (call.number("revision")?, call.asks("all")?);
    Ok(Answer::new(call.api.releases.values(actor, namespace, name, revision, all).await?))
}

/// `GET …/manifest`
pub async fn manifest(call: Call) -> Result<Answer<Manifest>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let revision = call.number("revision")?;
    let objects = call.api.releases.manifest(actor, namespace, name, revision).await?;
    let hooks = call.api.releases.hooks(actor, namespace, name, revision).await?;
    Ok(Answer::new(Manifest { objects, hooks }))
}

/// `GET …/notes`
pub async fn notes(call: Call) -> Result<Answer<Notes>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let notes = call.api.releases.notes(actor, namespace, name, call.number("revision")?).await?;
    Ok(Answer::new(Notes { notes }))
}

/// `GET …/diff`
pub async fn diff(call: Call) -> Result<Answer<Comparison>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let of = match call.said("of") {
        None | Some("manifest") => Of::Manifest,
        Some("values") => Of::Values,
        Some(_) => return Err(Problem::invalid("`of` in the query is manifest or values")),
    };
    let (from, to) = (call.number("from")?, call.number("to")?);
    Ok(Answer::new(call.api.releases.compare(actor, namespace, name, (from, to), of).await?))
}

/// `GET …/drift`
pub async fn drift(call: Call) -> Result<Answer<Comparison>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    Ok(Answer::new(call.api.releases.drift(actor, namespace, name).await?))
}

/// Query parameters of the logs.
pub const OF_LOGS: &[&str] =
    &["pod", "container", "selector", "tail", "since", "previous", "timestamps", "follow", "max"];

/// `GET …/logs`: the current log lines, or with `follow` a stream that includes new ones.
pub async fn logs(call: Call) -> Result<Maybe<List<LogView>, LogLine>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    let owned = |name: &str| call.said(name).map(str::to_owned);
    let positive = |name: &str, least: i64| match call.number(name)? {
        Some(number) if number < least => {
            Err(Problem::invalid(format!("`{name}` in the query is at least {least}")))
        }
        number => Ok(number),
    };
    let which = Which {
        pod: owned("pod"),
        container: owned("container"),
        selector: owned("selector"),
        tail: positive("tail", 0)?,
        since: positive("since", 1)?,
        previous: call.asks("previous")?,
        timestamps: call.asks("timestamps")?,
    };
    let max = call.number("max")?;
    if call.asks("follow")? {
        let max = max.unwrap_or(AT_ONCE);
        let lines = call.api.releases.listen(actor, namespace, name, &which, max).await?;
        return Ok(Maybe::Followed(Events::new("log", lines)));
    }
    if max.is_some() {
        return Err(Problem::invalid("`max` in the query goes with `follow`"));
    }
    let logs = call.api.releases.logs(actor, namespace, name, &which).await?;
    Ok(Maybe::Now(call.list(logs)))
}

/// `GET …/resources`
pub async fn resources(call: Call) -> Result<Answer<ResourcesView>, Problem> {
    let (actor, (namespace, name)) = (call.actor()?, named(&call)?);
    Ok(Answer::new(call.api.releases.resources(actor, namespace, name).await?))
}
