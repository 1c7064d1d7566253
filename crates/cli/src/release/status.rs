//! `longshore status`: status of a release with its objects.

use clap::Args;
use helm_release::queries::get;
use serde_json::Value;

use super::connect::{ClusterTarget, connect};
use super::flags::{Format, OutputArg};
use super::output::encode;
use super::resources;
use super::show::{self, ShowOptions, release};
use super::target::{CommandTargetArgs, platform_required};
use crate::helm::CommandResult;
use crate::helm::flags::{Switch, switch};

#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    /// Name of the release
    pub name: String,
    /// Revision [default: the last]
    #[arg(long, value_name = "NUMBER", default_value_t = 0, hide_default_value = true)]
    pub revision: i64,
    /// Print the status again after each change (platform only)
    #[arg(short, long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub watch: Switch,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

pub async fn run(args: &StatusArgs, at: &ClusterTarget) -> CommandResult {
    if args.watch.0 {
        return Err(platform_required("status --watch"));
    }
    let reached = connect(at).await?;
    let revision = (args.revision != 0).then_some(args.revision);
    let stored = get(&reached.storage(), &args.name, revision).await.map_err(|error| error.to_string())?;
    let mut record = stored.record;
    // The chart's content is available from `get`.
    record.chart = helm_release::record::ChartRecord::default();
    let helm = reached.helm().await?;
    let format = args.output.output;
    let found = resources::collect(&helm, &record, format == Format::Table).await?;
    if format == Format::Table {
        let tables = resources::tables(&found);
        return release(&record, format, ShowOptions { resources: Some(&tables), ..ShowOptions::default() });
    }
    let mut shown = show::to_json(&record)?;
    if !found.is_empty() {
        let groups = found.into_iter().map(|group| (group.title, Value::Array(group.objects)));
        shown["info"]["resources"] = Value::Object(groups.collect());
    }
    encode(format, &shown).unwrap_or_else(|| Ok(Vec::new()))
}
