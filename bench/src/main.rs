//! Benchmarks of Longshore against other programs, started by `cargo xtask bench`. Each has a module; [`process`] runs
//! servers, [`platform_server`] is the platform's client, and [`report`] prints results.
#![expect(clippy::print_stdout, reason = "the table is what this program is for")]
#![expect(clippy::cast_precision_loss, reason = "figures with three digits that matter")]

mod console;
mod helm;
mod kube;
mod releases;
mod tenancy;

mod platform_server;
mod process;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::RangedU64ValueParser;

/// The same allocator as the measured program, for measurements inside this process.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
enum Args {
    /// Compare the embedded Kubernetes API with etcd and kube-apiserver
    Kube(kube::KubeArgs),
    /// Compare the Helm engine with Helm 4 and Helm 3
    Helm(helm::HelmArgs),
    /// Compare many releases with `helm install`
    Releases(releases::ReleasesArgs),
    /// Measure many users and workspaces on one server
    Tenancy(tenancy::TenancyArgs),
    /// Measure the OpenYurt console's routes on a large cluster
    Console(console::ConsoleArgs),
    /// Watch a cluster with projections and print their memory use
    #[command(hide = true)]
    Held(console::cache_memory::HeldArgs),
    /// Run one program and print its resource usage
    #[command(hide = true)]
    Once(helm::cost::OnceArgs),
    /// Load a repository index and exit
    #[command(hide = true)]
    Index(helm::index::IndexArgs),
}

/// Arguments of every benchmark.
#[derive(clap::Args)]
struct RunArgs {
    /// Path of `longshore`, built with optimisations
    #[arg(long)]
    longshore: PathBuf,
    /// Directory for temporary files
    #[arg(long)]
    folder: PathBuf,
    /// JSON file for the results
    #[arg(long)]
    output: PathBuf,
    /// Rows to measure [default: all]
    #[arg(long)]
    only: Vec<String>,
    /// Number of runs of each side in each row
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    rounds: usize,
}

fn main() -> ExitCode {
    let done = match Args::parse() {
        Args::Kube(args) => kube::bench(args),
        Args::Helm(args) => helm::bench(args),
        Args::Releases(args) => releases::bench(args),
        Args::Tenancy(args) => tenancy::bench(args),
        Args::Console(args) => console::bench(args),
        Args::Held(args) => console::cache_memory::run(&args),
        Args::Once(args) => helm::cost::run(&args),
        Args::Index(args) => helm::index::run(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
