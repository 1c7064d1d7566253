//! `kube`: the embedded Kubernetes API ([`server`] starts it, and Kubernetes' own beside it) under the work of [`load`],
//! [`watch`] and [`rest`], by turns: one turn ours, one turn the peer's, several rounds, the median counts. The rows and
//! their goals are the table [`rows::ROWS`]. [`client`] asks both servers, with the same [`objects`]; [`process`] reads
//! what they cost.

mod rows;

mod load;
mod rest;
mod watch;

mod client;
mod objects;
mod process;
mod server;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::report::{self, Measured};
use rows::{COLUMNS, ROWS, Sides};

#[derive(Args)]
pub struct KubeArgs {
    /// The program of ours, built with optimisations
    #[arg(long)]
    longshore: PathBuf,
    /// A program that is etcd or kube-apiserver, as its first argument says
    #[arg(long)]
    control_plane: Option<PathBuf>,
    /// Where servers keep their files while they are measured
    #[arg(long)]
    folder: PathBuf,
    /// Where the figures go
    #[arg(long)]
    output: PathBuf,
    /// Measure these rows only
    #[arg(long)]
    only: Vec<String>,
    /// How many turns each server has in each row
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

#[tokio::main]
pub async fn bench(args: KubeArgs) -> Result<()> {
    if let Some(unknown) = args.only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{unknown}`; there are {}", known.join(", "));
    }
    let sides = Sides::new(args.longshore, args.control_plane, &args.folder)?;
    let rounds = args.rounds.max(1);
    let measured: Measured = rows::measure(sides, &args.only, rounds).await?;
    report::publish("kube", &measured, COLUMNS, rounds, &args.output)
}
