//! `longshore dependency`: lists and builds the dependencies of charts.
//!
//! Only local charts are supported: those in `charts/` and those at `file://` URLs.

pub mod build;
mod list;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CommandResult;
use super::flags::HelmArg;

#[derive(Clone, Debug, Args)]
pub struct DependencyArgs {
    #[command(subcommand)]
    pub command: DependencyCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum DependencyCommand {
    /// List the dependencies of a chart and their status
    #[command(visible_alias = "ls")]
    List(DependencyListArgs),
    /// Rebuild `charts/` from `Chart.lock`, or from `Chart.yaml` if there is no lock file
    Build(DependencyBuildArgs),
}

#[derive(Clone, Debug, Args)]
pub struct DependencyListArgs {
    /// Directory or archive of the chart
    #[arg(value_name = "CHART", default_value = ".")]
    pub chart: PathBuf,
    #[command(flatten)]
    pub helm: HelmArg,
    /// Maximum column width
    #[arg(long, value_name = "WIDTH", default_value_t = 80)]
    pub max_col_width: usize,
}

#[derive(Clone, Debug, Args)]
pub struct DependencyBuildArgs {
    /// Directory of the chart
    #[arg(value_name = "CHART", default_value = ".")]
    pub chart: PathBuf,
    #[command(flatten)]
    pub helm: HelmArg,
}

pub fn run(args: &DependencyArgs) -> CommandResult {
    match &args.command {
        DependencyCommand::List(args) => list::run(args),
        DependencyCommand::Build(args) => build::run(args),
    }
}
