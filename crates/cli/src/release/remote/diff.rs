//! `longshore diff` on a platform: between revisions, with a planned upgrade, or with live objects.

use serde_json::Value;

use super::deploy::{changed_values, shortage_lines};
use super::{RemoteReleases, chart, query, str_at};
use crate::helm::CommandResult;
use crate::platform::output::escape_control;
use crate::release::diff::{DiffArgs, colorize};
use crate::release::output::encode;
use crate::release::target::reject_cluster_only_flags;

pub async fn run(args: &DiffArgs, platform: &RemoteReleases) -> CommandResult {
    let release = platform.release(&args.name).await?;
    let found = if let Some(chart) = &args.with {
        reject_cluster_only_flags(&[(args.from.is_some(), "a revision beside --with")])?;
        let mut body = changed_values(&args.values, &args.old_values)?;
        body["chart"] = chart::chart_source(platform, chart, &args.remote).await?;
        let plan = release.post("/plan", &body).await?;
        eprint!("{}", shortage_lines(&plan));
        plan
    } else if args.live.0 {
        release.get("/drift").await?
    } else {
        let revision = |number: Option<i64>| number.map(|number| number.to_string());
        let ends = query(&[("from", revision(args.from)), ("to", revision(args.to))]);
        release.get(&format!("/diff{ends}")).await?
    };
    encode(args.output.output, &found["differences"]).unwrap_or_else(|| Ok(render_diff(&found).into_bytes()))
}

fn render_diff(found: &Value) -> String {
    // Escaped line by line, because the text contains content of charts.
    let lines = str_at(found, "/text").lines().map(|line| escape_control(&line.replace('\t', "    ")) + "\n");
    colorize(&lines.collect::<String>())
}
