//! Release commands on a platform, through its REST API.
//!
//! Modules:
//! - `chart`: chart sources in requests
//! - `deploy`: install and upgrade
//! - `actions`: other actions
//! - `follow`: waiting for operations
//! - `list`, `status`, `revisions`, `diff`, `logs`: reading

mod actions;
mod chart;
mod deploy;
mod diff;
mod follow;
mod list;
mod logs;
mod revisions;
mod status;

use std::sync::Arc;

use domain::clock::Clock;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::Value;

use super::Command;
use crate::helm::{CommandError, CommandResult};
use crate::platform::PlatformError;
use crate::platform::client::{Client, encode_segment};

/// A platform, with credentials.
pub struct RemoteReleases {
    client: Client,
    /// Namespace from the command line or the environment.
    namespace: Option<String>,
    clock: Arc<dyn Clock>,
}

/// A release by namespace and name; it may not exist.
struct ReleaseRef<'s> {
    platform: &'s RemoteReleases,
    namespace: String,
    name: String,
}

pub async fn run(command: &Command, platform: &RemoteReleases) -> CommandResult {
    match command {
        Command::Install(args) => deploy::install(args, platform).await,
        Command::Upgrade(args) => deploy::upgrade(args, platform).await,
        Command::Rollback(args) => actions::rollback(args, platform).await,
        Command::Uninstall(args) => actions::uninstall(args, platform).await,
        Command::List(args) => list::run(args, platform).await,
        Command::Status(args) => status::run(args, platform).await,
        Command::History(args) => revisions::history(args, platform).await,
        Command::Get(args) => revisions::get(args, platform).await,
        Command::Diff(args) => diff::run(args, platform).await,
        Command::Test(args) => actions::test(args, platform).await,
        Command::Pause(args) => actions::run_action("pause", args, platform).await,
        Command::Recover(args) => actions::run_action("recover", args, platform).await,
        Command::Suspend(args) => actions::suspend(args, platform).await,
        Command::Resume(args) => actions::run_action("resume", args, platform).await,
        Command::Retry(args) => actions::run_action("retry", args, platform).await,
        Command::Restart(args) => actions::restart(args, platform).await,
        Command::Adopt(args) => actions::run_action("adopt", args, platform).await,
        Command::Logs(args) => logs::run(args, platform).await,
    }
}

impl RemoteReleases {
    pub fn new(client: Client, namespace: Option<String>, clock: Arc<dyn Clock>) -> Self {
        Self { client, namespace, clock }
    }

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The given namespace, or the user's own.
    async fn namespace(&self) -> Result<String, CommandError> {
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
        Err(format!("you have no personal namespace on {server}: give --namespace").into())
    }

    async fn release(&self, name: &str) -> Result<ReleaseRef<'_>, CommandError> {
        Ok(ReleaseRef { platform: self, namespace: self.namespace().await?, name: name.to_owned() })
    }
}

impl ReleaseRef<'_> {
    fn path(&self, part: &str) -> String {
        format!("releases/host/{}/{}{part}", encode_segment(&self.namespace), encode_segment(&self.name))
    }

    async fn get(&self, part: &str) -> Result<Value, PlatformError> {
        self.platform.client.get(&self.path(part)).await
    }

    async fn post(&self, part: &str, body: &Value) -> Result<Value, PlatformError> {
        self.platform.client.post(&self.path(part), body).await
    }

    /// The release, or `None` if it does not exist.
    async fn get_opt(&self) -> Result<Option<Value>, PlatformError> {
        ignore_not_found(self.get("").await)
    }

    /// Command that shows the release's status.
    fn status_command(&self) -> String {
        format!("longshore status {} -n {}", self.name, self.namespace)
    }
}

/// Converts "not found" to `None`.
fn ignore_not_found(answer: Result<Value, PlatformError>) -> Result<Option<Value>, PlatformError> {
    match answer {
        Ok(found) => Ok(Some(found)),
        Err(PlatformError::Api(problem)) if problem.status == StatusCode::NOT_FOUND => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// String at a JSON pointer, or an empty one.
fn str_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn i64_at(value: &Value, place: &str) -> i64 {
    value.pointer(place).and_then(Value::as_i64).unwrap_or_default()
}

fn items<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value[name].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Query string of the pairs that have a value.
fn query(pairs: &[(&str, Option<String>)]) -> String {
    let pairs_with_value =
        pairs.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode_segment(value.as_ref()?))));
    let said: Vec<String> = pairs_with_value.collect();
    if said.is_empty() { String::new() } else { format!("?{}", said.join("&")) }
}
