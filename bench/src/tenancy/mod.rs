//! `tenancy`: people and workspaces on one server. There is no peer: the goals are limits.
//!
//! Two clusters: the server's own embedded one, for what a person waits for ([`waiting`]), and one in this process that the
//! server reaches by its kubeconfig, so that what it holds itself can be told from what its cluster holds ([`many`]). [`crate::door`]
//! asks the server as people do.

mod many;
mod waiting;

use anyhow::Result;
use clap::Args;

use crate::RunArgs;
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};

/// How many there are when what many cost is measured.
pub const USERS: usize = 2_000;
pub const WORKSPACES: usize = 500;

#[derive(Args)]
pub struct TenancyArgs {
    #[command(flatten)]
    run: RunArgs,
}

const COLUMNS: &[Column] =
    &[("work", report::work), ("ours", report::ours), ("goal", report::goal), ("result", report::result)];

#[tokio::main]
pub async fn bench(args: TenancyArgs) -> Result<()> {
    let run = args.run;
    std::fs::create_dir_all(&run.folder)?;
    let mut lines = waiting::measure(&run.longshore, &run.folder, run.rounds).await?;
    lines.extend(many::measure(&run.longshore, &run.folder, run.rounds).await?);
    let measured = Measured { lines, failed: Vec::new() };
    report::publish("tenancy", &measured, COLUMNS, run.rounds, &run.output)
}

/// A line of the table; there is at least one sample.
fn line(name: &'static str, work: &'static str, unit: Unit, goal: Goal, values: &[f64]) -> Option<Line> {
    let samples: Vec<Sample> = values.iter().map(|value| Sample { value: *value, wall: None }).collect();
    Some(Line { name, work, unit, goal, ours: Figures::of(&samples)?, peer: None, other: None })
}
