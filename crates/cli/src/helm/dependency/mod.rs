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
    /// List what a chart depends on, and whether it is there
    #[command(visible_alias = "ls")]
    List(DependencyListArgs),
    /// Fill `charts/` with what `Chart.lock` names; without a lock, with what `Chart.yaml` asks for
    Build(DependencyBuildArgs),
}

#[derive(Clone, Debug, Args)]
pub struct DependencyListArgs {
    /// The chart: a folder or an archive
    #[arg(value_name = "CHART", default_value = ".")]
    pub chart: PathBuf,
    #[command(flatten)]
    pub helm: HelmArg,
    /// How wide a column may be
    #[arg(long, value_name = "WIDTH", default_value_t = 80)]
    pub max_col_width: usize,
}

#[derive(Clone, Debug, Args)]
pub struct DependencyBuildArgs {
    /// The chart's folder
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
