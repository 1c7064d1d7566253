//! `longshore repo`: manages chart repositories.
//!
//! If the user is signed in (`on_platform`), it manages the platform's repositories; otherwise, or with `--local`, the
//! repositories of this machine.

mod add;
mod index;
mod list;
pub mod on_platform;
mod remove;
mod update;

use clap::{Args, Subcommand};

use super::CommandResult;
use crate::platform::access::PlatformArgs;
use crate::platform::client::Client;
use crate::platform::{CommandEnv, PlatformError};

#[derive(Clone, Debug, Args)]
pub struct RepoArgs {
    #[command(subcommand)]
    pub command: RepoCommand,
    /// Use the repositories of this machine, even when signed in to a platform
    #[arg(long, global = true, conflicts_with_all = ["server", "context", "token"])]
    pub local: bool,
    #[command(flatten)]
    pub target: PlatformArgs,
}

impl RepoArgs {
    /// The selected platform, or `None` for the repositories of this machine.
    pub fn platform(&self, world: &CommandEnv) -> Result<Option<Client>, PlatformError> {
        let PlatformArgs { server, ca: _, context, token } = &self.target;
        let has_platform_flags = server.is_some() || context.is_some() || token.is_some();
        let here = match &self.command {
            RepoCommand::Add(args) => args.places.is_set(),
            RepoCommand::List(args) => args.places.is_set(),
            RepoCommand::Update(args) => args.places.is_set(),
            RepoCommand::Remove(args) => args.places.is_set(),
            RepoCommand::Index(_) => true,
        };
        if self.local || here && !has_platform_flags {
            return Ok(None);
        }
        match world.client(&self.target) {
            Ok(client) => Ok(Some(client)),
            // Without a platform, the local repositories are used.
            Err(PlatformError::NoServer | PlatformError::NotSignedIn { .. }) if !has_platform_flags => {
                Ok(None)
            }
            Err(failure) => Err(failure),
        }
    }
}

#[derive(Clone, Debug, Subcommand)]
pub enum RepoCommand {
    /// Add a chart repository
    Add(Box<add::RepoAddArgs>),
    /// List chart repositories
    #[command(visible_alias = "ls")]
    List(list::RepoListArgs),
    /// Update the indexes of chart repositories
    #[command(visible_alias = "up")]
    Update(update::RepoUpdateArgs),
    /// Remove chart repositories
    #[command(visible_alias = "rm")]
    Remove(remove::RepoRemoveArgs),
    /// Generate the index of a directory of chart archives
    Index(index::RepoIndexArgs),
}

pub fn run(args: &RepoArgs) -> CommandResult {
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
