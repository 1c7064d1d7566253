//! `longshore test`: runs the test hooks of a release.

use clap::{ArgAction, Args};
use helm_engine::HookEvent;
use helm_release::actions::{ActionOptions, Test};
use helm_release::queries::get;
use helm_release::{Error, Record};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::LogParams;
use std::time::Duration;

use super::connect::{ClusterConnection, ClusterTarget, connect};
use super::flags::{Format, duration};
use super::progress::StderrProgress;
use super::show::{ShowOptions, release};
use super::target::CommandTargetArgs;
use crate::helm::flags::{Switch, switch};
use crate::helm::{CommandError, CommandResult};

#[derive(Clone, Debug, Args)]
pub struct TestArgs {
    /// Name of the release
    pub name: String,
    /// Run only this test (`name=TEST`), or all other tests (`!name=TEST`)
    #[arg(long, value_delimiter = ',', action = ArgAction::Append)]
    pub filter: Vec<String>,
    /// Print the logs of the test pods
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub logs: Switch,
    /// Timeout of each test
    #[arg(long, value_parser = duration, default_value = "5m0s", value_name = "DURATION")]
    pub timeout: Duration,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

impl TestArgs {
    /// Names of tests to run (all if empty) and to skip.
    pub fn selected_and_skipped(&self) -> (Vec<String>, Vec<String>) {
        let (mut only, mut except) = (Vec::new(), Vec::new());
        for filter in &self.filter {
            let (no, rest) = match filter.strip_prefix('!') {
                Some(rest) => (true, rest.trim_start()),
                None => (false, filter.as_str()),
            };
            // Helm ignores other attributes too.
            let Some(name) = rest.strip_prefix("name=") else { continue };
            match name.strip_prefix('!') {
                Some(name) => except.push(name.to_owned()),
                None if no => except.push(name.to_owned()),
                None => only.push(name.to_owned()),
            }
        }
        (only, except)
    }
}

pub async fn run(args: &TestArgs, at: &ClusterTarget) -> CommandResult {
    let reached = connect(at).await?;
    let helm = reached.helm().await?;
    let progress = StderrProgress::new();
    let (only, except) = args.selected_and_skipped();
    let ask = Test {
        name: args.name.clone(),
        namespace: reached.namespace.clone(),
        only,
        except,
        options: ActionOptions { timeout: args.timeout, ..ActionOptions::new(&progress) },
    };
    let (record, why) = match Box::pin(helm.test(&ask)).await {
        Ok(record) => (record, None),
        Err(error @ (Error::InvalidName(_) | Error::NotFound | Error::Pending | Error::Lock(_))) => {
            return Err(error.to_string().into());
        }
        // The results are shown although a test failed.
        Err(error) => {
            let stored =
                get(&reached.storage(), &args.name, None).await.map_err(|other| other.to_string())?;
            (stored.record, Some(error.to_string()))
        }
    };
    let mut output =
        release(&record, Format::Table, ShowOptions { hide_notes: true, ..ShowOptions::default() })?;
    let mut why = why;
    if args.logs.0 {
        match logs(&reached, &record).await {
            Ok(said) => output.extend_from_slice(&said),
            Err(error) => why = Some(why.map_or_else(|| error.clone(), |why| format!("{why}\n{error}"))),
        }
    }
    match why {
        None => Ok(output),
        Some(why) => Err(CommandError::with_output(output, why)),
    }
}

async fn logs(reached: &ClusterConnection, record: &Record) -> Result<Vec<u8>, String> {
    let pods: Api<Pod> = Api::namespaced(reached.client.clone(), &reached.namespace);
    let mut said = b"\n".to_vec();
    for hook in record.hooks.iter().filter(|hook| hook.runs_at(HookEvent::Test)) {
        let name = &hook.name;
        let text = pods
            .logs(name, &LogParams::default())
            .await
            .map_err(|error| format!("unable to get pod logs for {name}: {error}"))?;
        said.extend_from_slice(format!("POD LOGS: {name}\n{text}\n").as_bytes());
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_selects_or_excludes_tests() {
        let filter = ["name=a", "!name=b", "! name=c", "name=!d", "colour=red"].map(str::to_owned).to_vec();
        let args = TestArgs {
            name: "web".to_owned(),
            filter,
            logs: Switch(false),
            timeout: Duration::ZERO,
            place: CommandTargetArgs::default(),
        };
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(args.selected_and_skipped(), (names(&["a"]), names(&["b", "c", "d"])));
    }
}
