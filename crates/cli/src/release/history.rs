//! `longshore history`: the revisions of a release.

use clap::Args;
use helm_release::queries::{RevisionSummary, history};
use serde_json::{Value, json};

use super::connect::{ClusterTarget, connect};
use super::flags::OutputArg;
use super::list::chart_label;
use super::output::{encode, format_ansic};
use super::target::CommandTargetArgs;
use crate::helm::flags::{Switch, switch};
use crate::helm::{CommandResult, table};

#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Name of the release
    pub name: String,
    /// Maximum number of revisions
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    pub max: usize,
    /// Show which revision a rollback restored
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub show_rollback_revision: Switch,
    #[command(flatten)]
    pub output: OutputArg,
    #[command(flatten)]
    pub place: CommandTargetArgs,
}

pub async fn run(args: &HistoryArgs, at: &ClusterTarget) -> CommandResult {
    let reached = connect(at).await?;
    let found = history(&reached.storage(), &args.name, args.max).await.map_err(|error| error.to_string())?;
    let rows: Vec<Value> = found.iter().map(revision_json).collect();
    encode(args.output.output, &rows.into())
        .unwrap_or_else(|| Ok(render_table(&found, args.show_rollback_revision.0).into_bytes()))
}

fn revision_json(revision: &RevisionSummary) -> Value {
    let mut element = json!({
        "revision": revision.revision,
        "status": revision.status.as_str(),
        "chart": chart_label(revision),
        "app_version": revision.app_version,
        "description": revision.description,
    });
    if revision.updated.timestamp().is_some() {
        element["updated"] = revision.updated.to_string().into();
    }
    if revision.rollback_revision != 0 {
        element["rollback_revision"] = revision.rollback_revision.into();
    }
    element
}

fn render_table(found: &[RevisionSummary], with_rollback: bool) -> String {
    let rollback = |revision: &RevisionSummary| match revision.rollback_revision {
        0 => String::new(),
        revision => revision.to_string(),
    };
    let cells = found.iter().map(|revision| {
        [
            revision.revision.to_string(),
            format_ansic(revision.updated),
            revision.status.to_string(),
            chart_label(revision),
            revision.app_version.clone(),
            rollback(revision),
            revision.description.clone(),
        ]
    });
    let headers = ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "ROLLBACK", "DESCRIPTION"]
        .map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(headers).chain(cells).collect();
    if with_rollback {
        return table::render_table(&rows, 80);
    }
    let rows: Vec<[String; 6]> = rows.into_iter().map(|[a, b, c, d, e, _, g]| [a, b, c, d, e, g]).collect();
    table::render_table(&rows, 80)
}
