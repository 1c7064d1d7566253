//! `longshore diff`: differences between revisions, or with a planned upgrade or live objects.

use std::io::IsTerminal as _;
use std::sync::Arc;

use clap::Args;
use helm_release::Record;
use helm_release::actions::{DryRun, Upgrade};
use helm_release::queries::get;
use kube_apply::{Object, Ownership, Target, diff, drift};
use serde_json::{Value, json};

use super::chart::{PROFILE, load};
use super::connect::{ClusterConnection, ClusterTarget, connect};
use super::flags::{OutputArg, WaitArgs, WriteArgs};
use super::output::encode;
use super::progress::StderrProgress;
use super::target::CommandTargetArgs;
use super::upgrade::PreviousValuesArgs;
use crate::helm::CommandResult;
use crate::helm::flags::{Switch, ValuesArgs, switch};
use crate::helm::remote::RemoteArgs;

#[derive(Clone, Debug, Args)]
#[command(disable_version_flag = true)]
pub struct DiffArgs {
    /// Name of the release
    pub name: String,
    /// Revision to compare from [default: the one before the last]
    pub from: Option<i64>,
    /// Revision to compare to [default: the last]
    pub to: Option<i64>,
    /// Compare with an upgrade to this chart
    #[arg(long, value_name = "CHART", conflicts_with = "to")]
    pub with: Option<String>,
    /// Compare with live objects: shows changes made by other clients
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true, conflicts_with_all = ["from", "to", "with"])]
    pub live: Switch,
    #[command(flatten)]
    pub values: ValuesArgs,
    #[command(flatten)]
    pub old_values: PreviousValuesArgs,
    #[command(flatten)]
    pub remote: RemoteArgs,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

pub async fn run(args: &DiffArgs, at: &ClusterTarget) -> CommandResult {
    let reached = connect(at).await?;
    if args.live.0 {
        return diff_live(args, &reached).await;
    }
    let (before, after) = if let Some(chart) = &args.with {
        (load_revision(&reached, &args.name, args.from).await?, planned_record(&reached, args, chart).await?)
    } else {
        let after = load_revision(&reached, &args.name, args.to).await?;
        let from = args.from.unwrap_or(after.version - 1);
        if from < 1 {
            let why = format!("release {} has only one revision: nothing to compare with", args.name);
            return Err(why.into());
        }
        (load_revision(&reached, &args.name, Some(from)).await?, after)
    };
    let differences = diff::diff(&objects(&before)?, &objects(&after)?, &[]);
    let shown: Vec<Value> = differences
        .iter()
        .map(|found| {
            json!({
                "kind": found.id.kind, "namespace": found.id.namespace, "name": found.id.name,
                "source": found.source, "what": found.kind, "changes": found.changes,
            })
        })
        .collect();
    encode(args.output.output, &shown.into())
        .unwrap_or_else(|| Ok(colorize(&diff::unified_text(&differences)).into_bytes()))
}

/// Prints changes made by other clients to live objects.
async fn diff_live(args: &DiffArgs, reached: &ClusterConnection) -> CommandResult {
    let record = load_revision(reached, &args.name, None).await?;
    let objects = Object::parse_all(&record.manifest).map_err(|error| error.to_string())?;
    let helm = reached.helm().await?;
    let namespace = reached.namespace.clone();
    let owner = Ownership { release: args.name.clone(), namespace: namespace.clone(), take_ownership: false };
    let target = Target::new(helm.objects, helm.discovery, namespace);
    let found = drift::find(&target, &objects, &owner, &|_| Vec::new(), &[]).await;
    let found =
        found.map_err(|failures| failures.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
    let shown: Vec<Value> = found
        .iter()
        .map(|found| {
            let what = if found.changes.is_some() { "changed" } else { "removed" };
            json!({
                "kind": found.id.kind, "namespace": found.id.namespace, "name": found.id.name,
                "what": what, "changes": found.changes,
            })
        })
        .collect();
    encode(args.output.output, &shown.into())
        .unwrap_or_else(|| Ok(colorize(&drift::describe_all(&found)).into_bytes()))
}

async fn load_revision(
    reached: &ClusterConnection,
    name: &str,
    revision: Option<i64>,
) -> Result<Record, String> {
    get(&reached.storage(), name, revision)
        .await
        .map(|stored| stored.record)
        .map_err(|error| error.to_string())
}

/// The record that an upgrade would create.
async fn planned_record(reached: &ClusterConnection, args: &DiffArgs, chart: &str) -> Result<Record, String> {
    let chart = load(chart, &args.remote).await?;
    let values = args.values.read(PROFILE)?;
    let progress = StderrProgress::new();
    let mut run = WriteArgs::default().action_options(&WaitArgs::default(), &progress);
    run.dry_run = DryRun::Server;
    let ask = Upgrade {
        name: args.name.clone(),
        namespace: reached.namespace.clone(),
        chart,
        values: Arc::new(values),
        values_policy: args.old_values.values_policy(),
        labels: std::collections::BTreeMap::new(),
        install: false,
        create_namespace: false,
        skip_crds: false,
        skip_schema: false,
        subchart_notes: false,
        atomic: false,
        cleanup_on_fail: false,
        options: run,
    };
    reached.helm().await?.upgrade(&ask).await.map_err(|error| error.to_string())
}

/// Objects of the manifest and of the hooks.
fn objects(record: &Record) -> Result<Vec<Object>, String> {
    let mut objects = Object::parse_all(&record.manifest).map_err(|error| error.to_string())?;
    for hook in &record.hooks {
        objects.extend(Object::parse_all(&hook.manifest).map_err(|error| error.to_string())?);
    }
    Ok(objects)
}

/// Colours removed and added lines, on a terminal unless `NO_COLOR` is set.
pub fn colorize(text: &str) -> String {
    let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if plain || !std::io::stdout().is_terminal() {
        return text.to_owned();
    }
    let paint = |line: &str| match line.as_bytes().first() {
        Some(b'+') => format!("\x1b[32m{line}\x1b[0m\n"),
        Some(b'-') => format!("\x1b[31m{line}\x1b[0m\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(paint).collect()
}
