//! `longshore repo`: which repositories one uses, and making one.

mod add;
mod index;
mod list;
mod remove;
mod update;

use clap::{Args, Subcommand};

use super::Outcome;

#[derive(Clone, Debug, Args)]
pub struct RepoArgs {
    #[command(subcommand)]
    pub command: RepoCommand,
}

#[derive(Clone, Debug, Subcommand)]
pub enum RepoCommand {
    /// Add a chart repository
    Add(Box<add::AddArgs>),
    /// List chart repositories
    #[command(visible_alias = "ls")]
    List(list::ListArgs),
    /// Fetch anew what chart repositories have
    #[command(visible_alias = "up")]
    Update(update::UpdateArgs),
    /// Remove chart repositories
    #[command(visible_alias = "rm")]
    Remove(remove::RemoveArgs),
    /// Write the index of a folder of packed charts
    Index(index::IndexArgs),
}

pub fn run(args: &RepoArgs) -> Outcome {
    match &args.command {
        RepoCommand::Add(args) => add::run(args),
        RepoCommand::List(args) => list::run(args),
        RepoCommand::Update(args) => update::run(args),
        RepoCommand::Remove(args) => remove::run(args),
        RepoCommand::Index(args) => {
            index::index(args)?;
            Ok(Vec::new())
        }
    }
}
