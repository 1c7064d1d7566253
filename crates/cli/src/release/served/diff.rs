//! `longshore diff` on a platform: between revisions, with a planned upgrade, or with live objects.

use serde_json::Value;

use super::deploy::{changed_values, room};
use super::{Served, chart, query, text};
use crate::helm::Outcome;
use crate::platform::output::tame;
use crate::release::diff::{DiffArgs, coloured};
use crate::release::output::encoded;
use crate::release::place::needs_cluster;

pub async fn run(args: &DiffArgs, served: &Served) -> Outcome {
    let release = served.release(&args.name).await?;
    let found = if let Some(chart) = &args.with {
        needs_cluster(&[(args.from.is_some(), "a revision beside --with")])?;
        let mut body = changed_values(&args.values, &args.old_values)?;
        body["chart"] = chart::source(served, chart, &args.remote).await?;
        let plan = release.post("/plan", &body).await?;
        eprint!("{}", room(&plan));
        plan
    } else if args.live.0 {
        release.get("/drift").await?
    } else {
        let revision = |number: Option<i64>| number.map(|number| number.to_string());
        let ends = query(&[("from", revision(args.from)), ("to", revision(args.to))]);
        release.get(&format!("/diff{ends}")).await?
    };
    encoded(args.output.output, &found["differences"]).unwrap_or_else(|| Ok(printed(&found).into_bytes()))
}

fn printed(found: &Value) -> String {
    // Escaped line by line, because the text contains content of charts.
    let lines = text(found, "/text").lines().map(|line| tame(&line.replace('\t', "    ")) + "\n");
    coloured(&lines.collect::<String>())
}
