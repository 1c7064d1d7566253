//! `tenancy`: many users and workspaces on one server. There is no peer; goals are limits.
//!
//! Two clusters are used: the server's embedded one for latency ([`registration`]), and one in this process that the server
//! reaches by kubeconfig, so that the server's memory is measured without its cluster's ([`scale`]). [`crate::platform_server`] is
//! the client.

mod registration;
mod scale;

use anyhow::Result;
use clap::Args;

use crate::RunArgs;
use crate::report::{self, Column, Figures, Goal, Line, Measured, Sample, Unit};

/// Number of users and workspaces for measurements of scale.
pub const USERS: usize = 2_000;
pub const WORKSPACES: usize = 500;

#[derive(Args)]
pub struct TenancyArgs {
    #[command(flatten)]
    run: RunArgs,
}

const COLUMNS: &[Column] = &[
    ("work", report::description),
    ("ours", report::ours),
    ("goal", report::goal),
    ("result", report::result),
];

#[tokio::main]
pub async fn bench(args: TenancyArgs) -> Result<()> {
    let run = args.run;
    std::fs::create_dir_all(&run.folder)?;
    let mut lines = registration::measure(&run.longshore, &run.folder, run.rounds).await?;
    lines.extend(scale::measure(&run.longshore, &run.folder, run.rounds).await?);
    let measured = Measured { lines, failures: Vec::new() };
    report::publish("tenancy", &measured, COLUMNS, run.rounds, &run.output)
}

/// A row of the table; `None` without samples.
fn result_line(
    name: &'static str,
    work: &'static str,
    unit: Unit,
    goal: Goal,
    values: &[f64],
) -> Option<Line> {
    let samples: Vec<Sample> = values.iter().map(|value| Sample { value: *value, wall: None }).collect();
    Some(Line {
        name,
        description: work,
        unit,
        goal,
        ours: Figures::from_samples(&samples)?,
        peer: None,
        second_peer: None,
    })
}
