//! `cargo xtask <command>`: development commands of the project.
//!
//! Modules:
//! - [`up`], [`test`]: run the platform, run its tests
//! - [`tools`], [`devcluster`], [`parity`]: external programs for `test --real`
//! - [`bench`], [`codegen`], [`same_code`], [`tidy`], [`ci`]: maintenance
//! - [`project`], [`stamp`]: shared helpers
#![expect(clippy::print_stdout, reason = "these are commands, and this is their output")]

mod up;

mod devcluster;
mod parity;
mod test;
mod tools;

mod bench;
mod ci;
mod codegen;
mod same_code;
mod tidy;

mod project;
mod stamp;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use project::Project;

/// Commands for working on Longshore
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build Longshore and run it on the embedded cluster, in the foreground
    Up(up::UpArgs),
    /// Read the output of the server for `up`
    #[command(hide = true)]
    ForwardOutput(up::terminal::ForwardArgs),
    /// Run every test that needs only this machine
    Test(test::TestArgs),
    /// A real Kubernetes on this machine
    #[command(subcommand)]
    Devcluster(devcluster::DevclusterCommand),
    /// Measure something
    Bench(bench::BenchArgs),
    /// Write the generated files anew (needs Go; minutes)
    Codegen,
    /// Check what people forget
    Tidy,
    /// Compare two revisions: fail unless only names (or, with --prose, texts) differ
    SameCode(same_code::SameCodeArgs),
    /// Formatting, lints and tidy
    Ci,
}

fn main() -> ExitCode {
    let project = Project::current();
    let done = match Xtask::parse().command {
        Command::Up(args) => up::up(&project, &args),
        Command::ForwardOutput(args) => up::terminal::forward_output(&project, &args),
        Command::Test(args) => test::test(&project, &args),
        Command::Devcluster(command) => devcluster::devcluster(&project, &command),
        Command::Bench(args) => bench::bench(&project, &args),
        Command::Codegen => codegen::codegen(&project),
        Command::Tidy => tidy::tidy(&project),
        Command::SameCode(args) => same_code::same_code(&project, &args),
        Command::Ci => ci::ci(&project),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
