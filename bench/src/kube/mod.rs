//! `kube`: the embedded Kubernetes API ([`server`] starts it, and Kubernetes' own beside it) under the work of [`load`],
//! [`watch`] and [`rest`], by turns: one turn ours, one turn the peer's, several rounds, the median counts. The rows and
//! their goals are the table [`rows::ROWS`]. [`client`] asks both servers, with the same [`objects`]; [`crate::process`] reads
//! what they cost.

mod rows;

mod load;
mod rest;
mod watch;

mod client;
mod objects;
mod server;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::Args;

use crate::RunArgs;
use crate::report::{self, Measured};
use rows::{COLUMNS, ROWS, Sides};

#[derive(Args)]
pub struct KubeArgs {
    #[command(flatten)]
    run: RunArgs,
    /// A program that is etcd or kube-apiserver, as its first argument says
    #[arg(long)]
    control_plane: Option<PathBuf>,
}

#[tokio::main]
pub async fn bench(args: KubeArgs) -> Result<()> {
    let run = args.run;
    if let Some(unknown) = run.only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{unknown}`; there are {}", known.join(", "));
    }
    let sides = Sides::new(run.longshore, args.control_plane, &run.folder)?;
    let measured: Measured = rows::measure(sides, &run.only, run.rounds).await?;
    report::publish("kube", &measured, COLUMNS, run.rounds, &run.output)
}
