//! `longshore repo update`

use std::fmt::Write;

use clap::{ArgAction, Args};
use helm_template::go::quote;
use helm_template::profile::Profile;

use super::super::repositories::{RepoPaths, RepoPathsArgs, RepositoryEntry};
use super::super::{CommandError, CommandResult, remote};

#[derive(Clone, Debug, Args)]
pub struct RepoUpdateArgs {
    /// Names of the repositories [default: all]
    #[arg(value_name = "REPO", action = ArgAction::Append)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub places: RepoPathsArgs,
}

pub fn run(args: &RepoUpdateArgs) -> CommandResult {
    let places = args.places.resolve()?;
    let repositories = places.read()?;
    if repositories.repositories.is_empty() {
        return Err("no repositories found. You must add one before updating".into());
    }
    if let Some(unknown) = args.names.iter().find(|name| repositories.get(name).is_none()) {
        return Err(format!("no repositories found matching '{unknown}'.  Nothing will be updated").into());
    }
    let mut said = "Hang tight while we grab the latest from your chart repositories...\n".to_owned();
    let mut failed = Vec::new();
    let asked = repositories.repositories.iter();
    for entry in asked.filter(|entry| args.names.is_empty() || args.names.contains(&entry.name)) {
        let name = quote(&entry.name);
        // Writing to a String cannot fail.
        let _ = match update(&places, entry) {
            Ok(()) => writeln!(said, "...Successfully got an update from the {name} chart repository"),
            Err(why) => {
                failed.push(entry.url.as_str());
                writeln!(
                    said,
                    "...Unable to get an update from the {name} chart repository ({}):\n\t{why}",
                    entry.url
                )
            }
        };
    }
    if failed.is_empty() {
        said.push_str("Update Complete. ⎈Happy Helming!⎈\n");
        return Ok(said.into_bytes());
    }
    let why = format!("failed to update the following repositories: [{}]", failed.join(" "));
    Err(CommandError::with_output(said, why))
}

fn update(places: &RepoPaths, entry: &RepositoryEntry) -> Result<(), String> {
    let (text, index) = remote::download(&entry.repository()?, Profile::default())?;
    places.save_index(&entry.name, &text, &index)
}
