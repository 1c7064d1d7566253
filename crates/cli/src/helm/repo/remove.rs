//! `longshore repo remove`

use clap::{ArgAction, Args};
use helm_template::go::quote;

use super::super::repositories::RepoPathsArgs;
use super::super::{CommandError, CommandResult};

#[derive(Clone, Debug, Args)]
pub struct RepoRemoveArgs {
    /// Names of the repositories
    #[arg(value_name = "REPO", required = true, action = ArgAction::Append)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub places: RepoPathsArgs,
}

pub fn run(args: &RepoRemoveArgs) -> CommandResult {
    let places = args.places.resolve()?;
    if places.read()?.repositories.is_empty() {
        return Err("no repositories configured".into());
    }
    let mut said = String::new();
    for name in &args.names {
        let removed = places.update(|repositories| {
            let before = repositories.repositories.len();
            repositories.repositories.retain(|entry| entry.name != *name);
            if repositories.repositories.len() == before {
                return Err(format!("no repo named {} found", quote(name)));
            }
            Ok(())
        });
        let removed = removed.and_then(|()| places.remove_index(name));
        if let Err(why) = removed {
            return Err(CommandError::with_output(said, why));
        }
        said.push_str(&quote(name));
        said.push_str(" has been removed from your repositories\n");
    }
    Ok(said.into_bytes())
}
