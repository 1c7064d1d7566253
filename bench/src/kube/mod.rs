//! `kube`: the embedded Kubernetes API against kube-apiserver.
//!
//! Both run in turns for several rounds; the median counts. Rows and goals are [`rows::ROWS`].
//!
//! Modules:
//! - [`server`]: the two servers
//! - [`load`], [`watch`], [`idle`]: workloads
//! - [`client`], [`objects`]: requests, the same for both servers
//!
//! [`crate::process`] measures CPU time and memory.

mod rows;

mod idle;
mod load;
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
    /// Path of a program that runs etcd or kube-apiserver, selected by its first argument
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
