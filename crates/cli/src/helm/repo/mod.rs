//! `longshore repo`: manages chart repositories.
//!
//! Repositories are those of the platform if the user is signed in (`served`), otherwise, or with `--local`, those of
//! this machine.

mod add;
mod index;
mod list;
mod remove;
pub mod served;
mod update;

use clap::{Args, Subcommand};

use super::Outcome;
use crate::platform::access::Target;
use crate::platform::client::Client;
use crate::platform::{Failure, World};

#[derive(Clone, Debug, Args)]
pub struct RepoArgs {
    #[command(subcommand)]
    pub command: RepoCommand,
    /// The repositories of this machine, even if one is signed in to a platform
    #[arg(long, global = true, conflicts_with_all = ["server", "context", "token"])]
    pub local: bool,
    #[command(flatten)]
    pub target: Target,
}

impl RepoArgs {
    /// The selected platform, or `None` for the repositories of this machine.
    pub fn platform(&self, world: &World) -> Result<Option<Client>, Failure> {
        let Target { server, ca: _, context, token } = &self.target;
        let said = server.is_some() || context.is_some() || token.is_some();
        let here = match &self.command {
            RepoCommand::Add(args) => args.places.is_said(),
            RepoCommand::List(args) => args.places.is_said(),
            RepoCommand::Update(args) => args.places.is_said(),
            RepoCommand::Remove(args) => args.places.is_said(),
            RepoCommand::Index(_) => true,
        };
        if self.local || here && !said {
            return Ok(None);
        }
        match world.client(&self.target) {
            Ok(client) => Ok(Some(client)),
            // Without a platform, the local repositories are used.
            Err(Failure::NoServer | Failure::SignedOut { .. }) if !said => Ok(None),
            Err(failure) => Err(failure),
        }
    }
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
