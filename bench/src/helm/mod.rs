//! `helm`: the Helm engine beside Helm 4 and Helm 3, on the charts of the corpus ([`corpus`]) and on what is made here
//! ([`umbrella`], [`index`]). Programs are run one at a time ([`once`]), by turns: ours, Helm 4, Helm 3, and again. The
//! rows and their goals are the table [`rows::ROWS`]; [`cached`] is measured inside this process.

mod cached;
mod corpus;
pub mod index;
pub mod once;
mod rows;
mod umbrella;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;

use crate::report;

#[derive(Args)]
pub struct HelmArgs {
    /// The program of ours, built with optimisations
    #[arg(long)]
    longshore: PathBuf,
    /// Helm 4, which the goals are about
    #[arg(long)]
    helm4: Option<PathBuf>,
    #[arg(long)]
    helm3: Option<PathBuf>,
    /// The folder with `charts/dev`
    #[arg(long)]
    corpus: PathBuf,
    /// Where charts and indexes are made
    #[arg(long)]
    folder: PathBuf,
    /// Where the figures go
    #[arg(long)]
    output: PathBuf,
    /// Measure these rows only
    #[arg(long)]
    only: Vec<String>,
    /// How many turns each side has in each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn bench(args: HelmArgs) -> Result<()> {
    let rows = rows::asked(&args.only)?;
    let rounds = args.rounds.max(1);
    let bench = rows::Bench::new(args.longshore, args.helm4, args.helm3, &args.corpus, &args.folder)?;
    let measured = bench.measure(&rows, rounds);
    report::publish("helm", &measured, rows::COLUMNS, rounds, &args.output)
}
