//! `helm`: the Helm engine against Helm 4 and Helm 3, on the corpus ([`corpus`]) and on generated charts ([`umbrella`],
//! [`index`]). Programs run one at a time ([`cost`]) in turns: Longshore, Helm 4, Helm 3. Rows and goals are
//! [`rows::ROWS`]; [`cached`] is measured inside this process.

mod cached;
mod corpus;
pub mod cost;
pub mod index;
mod rows;
mod umbrella;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::RunArgs;
use crate::report;

#[derive(Args)]
pub struct HelmArgs {
    #[command(flatten)]
    run: RunArgs,
    /// Path of Helm 4, to which the goals refer
    #[arg(long)]
    helm4: Option<PathBuf>,
    #[arg(long)]
    helm3: Option<PathBuf>,
    /// Directory with `charts/dev`
    #[arg(long)]
    corpus: PathBuf,
}

pub fn bench(args: HelmArgs) -> Result<()> {
    let run = args.run;
    let rows = rows::select_rows(&run.only)?;
    let bench = rows::HelmBench::new(run.longshore, args.helm4, args.helm3, &args.corpus, &run.folder)?;
    let measured = bench.measure(&rows, run.rounds);
    report::publish("helm", &measured, rows::COLUMNS, run.rounds, &run.output)
}
