//! Helm's commands on Longshore's engine, with Helm's flags, messages and exit codes.
//!
//! They need no server or cluster. Commands that fetch charts create their own runtime.

pub mod dependency;
pub mod flags;
pub mod lint;
pub(crate) mod locate;
pub mod package;
pub mod pull;
pub mod remote;
pub mod repo;
pub mod repositories;
mod save;
pub mod search;
pub mod show;
pub(crate) mod table;
pub mod template;
pub mod usage_errors;
pub mod values;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Subcommand;

/// Names of the Helm commands.
pub const COMMANDS: &[&str] = &[
    "template",
    "lint",
    "show",
    "inspect",
    "package",
    "dependency",
    "dep",
    "dependencies",
    "repo",
    "search",
    "pull",
    "fetch",
    "values",
];

/// Commands for charts.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Render chart templates locally, as Helm does
    Template(Box<template::TemplateArgs>),
    /// Check charts for problems
    Lint(Box<lint::LintArgs>),
    /// Show the contents of a chart
    #[command(visible_alias = "inspect")]
    Show(show::ShowArgs),
    /// Package charts into archives
    Package(package::PackageArgs),
    /// Manage the dependencies of a chart
    #[command(visible_aliases = ["dep", "dependencies"])]
    Dependency(dependency::DependencyArgs),
    /// Manage chart repositories
    Repo(repo::RepoArgs),
    /// Search for charts
    Search(search::SearchArgs),
    /// Download charts
    #[command(visible_alias = "fetch")]
    Pull(Box<pull::PullArgs>),
    /// Show the merged values of a chart and the source of each
    Values(Box<values::ShowValuesArgs>),
}

pub fn run(command: &Command) -> CommandResult {
    match command {
        Command::Template(args) => template::run(args),
        Command::Lint(args) => lint::run(args),
        Command::Show(args) => show::run(args),
        Command::Package(args) => package::run(args),
        Command::Dependency(args) => dependency::run(args),
        Command::Repo(args) => repo::run(args),
        Command::Search(args) => search::run(args),
        Command::Pull(args) => pull::run(args),
        Command::Values(args) => values::run(args),
    }
}

/// Result of a command: standard output, or Helm's error message.
pub type CommandResult = Result<Vec<u8>, CommandError>;

/// Error of a command.
#[derive(Debug)]
pub struct CommandError {
    /// Output to print although the command failed.
    pub output: Vec<u8>,
    pub message: String,
    /// Exit code: 1, or 130 if the command was interrupted.
    pub code: u8,
}

impl CommandError {
    /// Error after the given output was produced.
    pub fn with_output(output: impl Into<Vec<u8>>, why: impl Into<String>) -> Self {
        Self { output: output.into(), message: why.into(), code: 1 }
    }
}

impl<T: Into<String>> From<T> for CommandError {
    fn from(why: T) -> Self {
        Self::with_output(Vec::new(), why)
    }
}

impl From<crate::platform::PlatformError> for CommandError {
    fn from(failure: crate::platform::PlatformError) -> Self {
        Self::with_output(Vec::new(), failure.to_string())
    }
}

/// Prints the result of a command as Helm does.
pub fn finish(outcome: CommandResult) -> ExitCode {
    let (output, why, code) = match outcome {
        Ok(output) => (output, None, 1),
        Err(CommandError { output, message: why, code }) => (output, Some(why), code),
    };
    let written = match io::stdout().lock().write_all(&output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    };
    let why = why.or_else(|| written.err().map(|error| error.to_string()));
    match why {
        None => ExitCode::SUCCESS,
        Some(why) => {
            eprintln!("Error: {why}");
            ExitCode::from(code)
        }
    }
}
