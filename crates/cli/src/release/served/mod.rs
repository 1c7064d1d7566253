//! Release commands on a platform, through its REST API.
//!
//! Modules:
//! - `chart`: chart sources in requests
//! - `deploy`: install and upgrade
//! - `acts`: other actions
//! - `follow`: waiting for operations
//! - `list`, `status`, `look`, `diff`, `logs`: reading

mod acts;
mod chart;
mod deploy;
mod diff;
mod follow;
mod list;
mod logs;
mod look;
mod status;

use std::sync::Arc;

use domain::clock::Clock;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::Command;
use crate::helm::{Outcome, Refusal};
use crate::platform::Failure;
use crate::platform::client::{Client, segment};

/// A platform, with credentials.
pub struct Served {
    client: Client,
    /// Namespace from the command line or the environment.
    namespace: Option<String>,
    clock: Arc<dyn Clock>,
}

/// A release by namespace and name; it may not exist.
struct Release<'s> {
    served: &'s Served,
    namespace: String,
    name: String,
}

pub async fn run(command: &Command, served: &Served) -> Outcome {
    match command {
        Command::Install(args) => deploy::install(args, served).await,
        Command::Upgrade(args) => deploy::upgrade(args, served).await,
        Command::Rollback(args) => acts::rollback(args, served).await,
        Command::Uninstall(args) => acts::uninstall(args, served).await,
        Command::List(args) => list::run(args, served).await,
        Command::Status(args) => status::run(args, served).await,
        Command::History(args) => look::history(args, served).await,
        Command::Get(args) => look::get(args, served).await,
        Command::Diff(args) => diff::run(args, served).await,
        Command::Test(args) => acts::test(args, served).await,
        Command::Pause(args) => acts::change("pause", args, served).await,
        Command::Recover(args) => acts::change("recover", args, served).await,
        Command::Suspend(args) => acts::suspend(args, served).await,
        Command::Resume(args) => acts::change("resume", args, served).await,
        Command::Retry(args) => acts::change("retry", args, served).await,
        Command::Restart(args) => acts::restart(args, served).await,
        Command::Adopt(args) => acts::change("adopt", args, served).await,
        Command::Logs(args) => logs::run(args, served).await,
    }
}

impl Served {
    pub fn new(client: Client, namespace: Option<String>, clock: Arc<dyn Clock>) -> Self {
        Self { client, namespace, clock }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The given namespace, or the user's own.
    async fn namespace(&self) -> Result<String, Refusal> {
        if let Some(said) = &self.namespace {
            return Ok(said.clone());
        }
        let session = self.client.get("session").await?;
        let own = session["user"]["id"].as_str().unwrap_or_default();
        let workspaces = session["workspaces"].as_array().map(Vec::as_slice).unwrap_or_default();
        // A user's personal workspace and its first namespace are named by the user id.
        if !own.is_empty() && workspaces.iter().any(|workspace| workspace["name"] == own) {
            return Ok(own.to_owned());
        }
        let server = self.client.server();
        Err(format!("you have no namespace of your own on {server}: give --namespace").into())
    }

    async fn release(&self, name: &str) -> Result<Release<'_>, Refusal> {
        Ok(Release { served: self, namespace: self.namespace().await?, name: name.to_owned() })
    }
}

impl Release<'_> {
    fn path(&self, part: &str) -> String {
        format!("releases/host/{}/{}{part}", segment(&self.namespace), segment(&self.name))
    }

    async fn get(&self, part: &str) -> Result<Value, Failure> {
        self.served.client.get(&self.path(part)).await
    }

    async fn post(&self, part: &str, body: &Value) -> Result<Value, Failure> {
        self.served.client.post(&self.path(part), body).await
    }

    /// The release, or `None` if it does not exist.
    async fn if_there(&self) -> Result<Option<Value>, Failure> {
        absent(self.get("").await)
    }

    /// Command that shows the release's status.
    fn look_again(&self) -> String {
        format!("longshore status {} -n {}", self.name, self.namespace)
    }
}

/// Converts "not found" to `None`.
fn absent(answer: Result<Value, Failure>) -> Result<Option<Value>, Failure> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(Failure::Refused(problem)) if problem.status == StatusCode::NOT_FOUND => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// String at a JSON pointer, or an empty one.
fn text<'v>(value: &'v Value, place: &str) -> &'v str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

fn number(value: &Value, place: &str) -> i64 {
    value.pointer(place).and_then(Value::as_i64).unwrap_or_default()
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Query string of the pairs that have a value.
fn query(pairs: &[(&str, Option<String>)]) -> String {
    let said = pairs.iter().filter_map(|(name, value)| Some(format!("{name}={}", segment(value.as_ref()?))));
    let said: Vec<String> = said.collect();
    if said.is_empty() { String::new() } else { format!("?{}", said.join("&")) }
}
