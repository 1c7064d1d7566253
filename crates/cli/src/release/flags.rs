//! Arguments shared by several commands, as in Helm.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use helm_release::actions::{ActionOptions, ApplyMode, DryRun, WaitMode};
use helm_template::go::time;
use kube_apply::ProgressSink;

use super::target::platform_required;
use crate::helm::CommandError;
use crate::helm::flags::{Switch, switch};

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Table,
    Json,
    Yaml,
}

#[derive(Clone, Debug, Default, Args)]
pub struct OutputArg {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub output: Format,
}

/// Wait options.
#[derive(Clone, Debug, Default, Args)]
pub struct WaitArgs {
    /// Wait until all objects are ready, by the rules of Helm 4 (watcher) or Helm 3 (legacy) [default: wait for hooks
    /// only]
    #[arg(long, value_parser = wait, num_args = 0..=1, require_equals = true, default_missing_value = "watcher", value_name = "STRATEGY")]
    pub wait: Option<WaitMode>,
    /// Also wait until all Jobs are complete
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub wait_for_jobs: Switch,
    /// Timeout of each operation, such as one hook or the wait for objects
    #[arg(long, value_parser = duration, default_value = "5m0s", value_name = "DURATION")]
    pub timeout: Duration,
}

impl WaitArgs {
    /// Whether more than hooks is awaited.
    pub fn waits(&self) -> bool {
        !matches!(self.wait.unwrap_or_default(), WaitMode::HookOnly) || self.wait_for_jobs.0
    }
}

fn wait(text: &str) -> Result<WaitMode, String> {
    match text {
        "watcher" | "true" => Ok(WaitMode::Watcher),
        "legacy" => Ok(WaitMode::Legacy),
        "hookOnly" | "false" => Ok(WaitMode::HookOnly),
        _ => Err("invalid wait input. Valid inputs are hookOnly, watcher and legacy".to_owned()),
    }
}

/// Write options.
#[derive(Clone, Debug, Default, Args)]
pub struct WriteArgs {
    /// Simulate the operation: `client` without contacting the cluster, `server` with a server-side dry run
    #[arg(long, value_parser = dry_run, num_args = 0..=1, require_equals = true, default_missing_value = "client", value_name = "MODE")]
    pub dry_run: Option<DryRun>,
    /// Server-side apply (true), Helm 3's three-way merge (false), or the method of the previous revision (auto)
    #[arg(long, value_parser = server_side, num_args = 0..=1, require_equals = true, default_value = "auto", default_missing_value = "true", value_name = "MODE")]
    pub server_side: ServerSideArg,
    /// Delete and recreate objects that cannot be updated
    #[arg(long, visible_alias = "force", value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true, conflicts_with = "force_conflicts")]
    pub force_replace: Switch,
    /// Take over fields that other field managers own
    #[arg(long, action = ArgAction::SetTrue)]
    pub force_conflicts: bool,
    /// Skip hooks
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_hooks: Switch,
    /// Description of the revision
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
}

/// [`ApplyMode`] with a default that clap can print.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerSideArg(pub ApplyMode);

fn server_side(text: &str) -> Result<ServerSideArg, String> {
    match text {
        "true" => Ok(ServerSideArg(ApplyMode::ServerSide)),
        "false" => Ok(ServerSideArg(ApplyMode::ThreeWay)),
        "auto" => Ok(ServerSideArg(ApplyMode::Auto)),
        _ => Err("must be true, false or auto".to_owned()),
    }
}

fn dry_run(text: &str) -> Result<DryRun, String> {
    match text {
        "none" | "false" => Ok(DryRun::No),
        "client" | "true" => Ok(DryRun::Client),
        "server" => Ok(DryRun::Server),
        _ => Err("must be none, client or server".to_owned()),
    }
}

impl WriteArgs {
    pub fn action_options<'r>(&self, wait: &WaitArgs, tell: &'r dyn ProgressSink) -> ActionOptions<'r> {
        ActionOptions {
            hooks: !self.no_hooks.0,
            wait: wait.wait.unwrap_or_default(),
            wait_for_jobs: wait.wait_for_jobs.0,
            timeout: wait.timeout,
            dry_run: self.dry_run.unwrap_or_default(),
            apply_mode: self.server_side.0,
            force_replace: self.force_replace.0,
            force_conflicts: self.force_conflicts,
            description: self.description.clone().filter(|text| !text.is_empty()),
            ..ActionOptions::new(tell)
        }
    }

    pub fn is_dry(&self) -> bool {
        self.dry_run.unwrap_or_default() != DryRun::No
    }
}

/// Labels of a release.
#[derive(Clone, Debug, Default, Args)]
pub struct LabelsArg {
    /// Labels of the Helm record
    #[arg(short = 'l', long, value_name = "KEY=VALUE", value_delimiter = ',', value_parser = label, action = ArgAction::Append)]
    pub labels: Vec<(String, String)>,
}

impl LabelsArg {
    pub fn to_map(&self) -> BTreeMap<String, String> {
        self.labels.iter().cloned().collect()
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) =
        text.split_once('=').ok_or_else(|| format!("{text} must be formatted as key=value"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// Parses Go durations: `1h30m`, `0.5s`, `300ms`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let nanoseconds = time::Duration::parse(text)?.0;
    u64::try_from(nanoseconds)
        .map(Duration::from_nanos)
        .map_err(|_| "a duration must not be negative".to_owned())
}

/// Whether to use administrator permissions for objects that the release may not write.
#[derive(Clone, Debug, Default, Args)]
pub struct AdministratorArg {
    /// Use your platform administrator permissions once, for objects that the release may not write or delete (platform
    /// only)
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub as_administrator: Switch,
}

impl AdministratorArg {
    /// Value of the query parameter `asAdministrator`.
    pub fn query_value(&self) -> Option<String> {
        self.as_administrator.0.then(|| "true".to_owned())
    }

    /// Refuses the flag for clusters.
    pub fn reject_on_cluster(&self, command: &str) -> Result<(), CommandError> {
        if self.as_administrator.0 {
            Err(platform_required(&format!("{command} --as-administrator")))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_parses_go_syntax() {
        let table = [("5m0s", 300.0), ("1h30m", 5400.0), ("0.5s", 0.5), ("300ms", 0.3), ("0", 0.0)];
        for (text, seconds) in table {
            assert_eq!(duration(text), Ok(Duration::from_secs_f64(seconds)), "{text}");
        }
        for text in ["", "5", "m", "5x", "-1s", "1e9h", "5 m", "99999999999999999999h"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
