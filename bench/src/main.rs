//! Benchmarks of Longshore beside its peers, started by `cargo xtask bench`.
//!
//! `kube`: the embedded Kubernetes API ([`server`] starts it, and Kubernetes' own beside it) under the work of
//! [`load`], [`watch`] and [`rest`], by turns: one turn ours, one turn the peer's, several rounds, the median counts. The
//! rows and their goals are the table [`rows::ROWS`]; [`report`] prints them. [`client`] asks both servers, with
//! the same [`objects`]; [`process`] reads what they cost.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::cast_precision_loss, reason = "figures with three digits that matter")]

mod rows;

mod load;
mod rest;
mod watch;

mod client;
mod objects;
mod process;
mod server;

mod report;

use std::path::PathBuf;
use std::process::ExitCode;
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;

use rows::{Measured, ROWS, Sides};

/// The embedded Kubernetes API beside etcd and kube-apiserver
#[derive(Parser)]
struct Args {
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
async fn main() -> ExitCode {
    match bench(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn bench(args: Args) -> Result<()> {
    if let Some(unknown) = args.only.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let known: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row `{unknown}`; there are {}", known.join(", "));
    }
    let sides = Sides::new(args.longshore, args.control_plane, &args.folder)?;
    let rounds = args.rounds.max(1);
    let Measured { lines, failed } = rows::measure(sides, &args.only, rounds).await?;
    let machine = machine()?;
    println!("\n{machine}; {rounds} rounds, medians\n\n{}", report::table(&lines));
    let document = serde_json::to_vec_pretty(&report::document(&lines, &machine, rounds))?;
    fs::write(&args.output, document).with_context(|| format!("cannot write {}", args.output.display()))?;
    ensure!(failed.is_empty(), "not measured:\n{}", failed.join("\n"));
    Ok(())
}

fn machine() -> Result<String> {
    let cores = thread::available_parallelism()?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kilobytes =
        memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB"));
    let kilobytes: f64 = kilobytes.context("cannot read the size of the memory")?.trim().parse()?;
    Ok(format!("{cores} cores, {:.0} GiB of memory", kilobytes / f64::from(1 << 20)))
}
