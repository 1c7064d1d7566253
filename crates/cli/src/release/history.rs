//! `longshore history`: the revisions of a release.

use clap::Args;
use helm_release::queries::{Summary, history};
use serde_json::{Value, json};

use super::connect::{At, reach};
use super::flags::OutputArg;
use super::list::chart;
use super::output::{ansic, encoded};
use super::place::PlaceArgs;
use crate::helm::flags::{Switch, switch};
use crate::helm::{Outcome, table};

#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// The release
    pub name: String,
    #[command(flatten)]
    pub place: PlaceArgs,
    /// At most so many
    #[arg(long, value_name = "NUMBER", default_value_t = 256)]
    pub max: usize,
    /// A column for what a revision went back to
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub show_rollback_revision: Switch,
    #[command(flatten)]
    pub output: OutputArg,
}

pub async fn run(args: &HistoryArgs, at: &At) -> Outcome {
    let reached = reach(at).await?;
    let found = history(&reached.storage(), &args.name, args.max).await.map_err(|error| error.to_string())?;
    let rows: Vec<Value> = found.iter().map(element).collect();
    encoded(args.output.output, &rows.into())
        .unwrap_or_else(|| Ok(printed(&found, args.show_rollback_revision.0).into_bytes()))
}

fn element(revision: &Summary) -> Value {
    let mut element = json!({
        "revision": revision.revision,
        "status": revision.status.as_str(),
        "chart": chart(revision),
        "app_version": revision.app_version,
        "description": revision.description,
    });
    if revision.updated.at().is_some() {
        element["updated"] = revision.updated.to_string().into();
    }
    if revision.rollback_revision != 0 {
        element["rollback_revision"] = revision.rollback_revision.into();
    }
    element
}

fn printed(found: &[Summary], with_rollback: bool) -> String {
    let rollback = |revision: &Summary| match revision.rollback_revision {
        0 => String::new(),
        revision => revision.to_string(),
    };
    let cells = found.iter().map(|revision| {
        [
            revision.revision.to_string(),
            ansic(revision.updated),
            revision.status.to_string(),
            chart(revision),
            revision.app_version.clone(),
            rollback(revision),
            revision.description.clone(),
        ]
    });
    let headers = ["REVISION", "UPDATED", "STATUS", "CHART", "APP VERSION", "ROLLBACK", "DESCRIPTION"]
        .map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(headers).chain(cells).collect();
    if with_rollback {
        return table::text(&rows, 80);
    }
    let rows: Vec<[String; 6]> = rows.into_iter().map(|[a, b, c, d, e, _, g]| [a, b, c, d, e, g]).collect();
    table::text(&rows, 80)
}
