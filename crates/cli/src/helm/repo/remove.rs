//! `longshore repo remove`

use clap::{ArgAction, Args};
use helm_template::go::quote;

use super::super::repositories::PlacesArgs;
use super::super::{Outcome, Refusal};

#[derive(Clone, Debug, Args)]
pub struct RemoveArgs {
    /// Those to remove
    #[arg(value_name = "REPO", required = true, action = ArgAction::Append)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub places: PlacesArgs,
}

pub fn run(args: &RemoveArgs) -> Outcome {
    let places = args.places.find()?;
    if places.read()?.repositories.is_empty() {
        return Err("no repositories configured".into());
    }
    let mut said = String::new();
    for name in &args.names {
        let removed = places.change(|repositories| {
            let before = repositories.repositories.len();
            repositories.repositories.retain(|entry| entry.name != *name);
            if repositories.repositories.len() == before {
                return Err(format!("no repo named {} found", quote(name)));
            }
            Ok(())
        });
        let removed = removed.and_then(|()| places.forget_index(name));
        if let Err(why) = removed {
            return Err(Refusal::after(said, why));
        }
        said.push_str(&quote(name));
        said.push_str(" has been removed from your repositories\n");
    }
    Ok(said.into_bytes())
}
