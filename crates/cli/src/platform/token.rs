//! `longshore token`: API tokens.

use clap::{Args, Subcommand};
use domain::scopes::Scopes;
use serde_json::{Value, json};

use super::access::Target;
use super::client::segment;
use super::output::{Format, Kind, OutputArgs, Said, Show, cell};
use super::{Failure, World};

#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a token and print it, this once
    Create {
        /// What to call it
        #[arg(long, default_value = "longshore token create")]
        name: String,
        /// What it is good for: all, read, tenancy, releases, store, hosts, nodes, platform, workspace:NAME; may be repeated
        #[arg(long = "scope", value_name = "SCOPE", default_value = "all", value_parser = scope, value_delimiter = ',')]
        scopes: Vec<String>,
        /// For how long, in days: 30d; at most 365d
        #[arg(long, value_name = "DAYS", default_value = "30d", value_parser = days)]
        expires: u32,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List your tokens
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Take a token's power away, at once
    Revoke {
        /// As `token list` shows it: the part after `lsh_`
        id: String,
    },
}

const TOKENS: Kind = Kind {
    word: "token",
    plural: "tokens",
    name: "/id",
    columns: &[
        ("ID", "/id", Show::Text, false),
        ("NAME", "/name", Show::Text, false),
        ("KIND", "/kind", Show::Text, true),
        ("SCOPES", "/scopes", Show::Text, false),
        ("LAST-USE", "/lastUse", Show::Age, false),
        ("EXPIRES", "/expires", Show::Age, false),
        ("AGE", "/created", Show::Age, false),
    ],
};

fn scope(word: &str) -> Result<String, String> {
    match Scopes::parse([word]) {
        Ok(_) => Ok(word.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Parses `30d` or `30`.
pub fn days(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('d').unwrap_or(text).parse().ok();
    let well = number.filter(|days| (1..=365).contains(days));
    well.ok_or_else(|| "1d to 365d".to_owned())
}

pub async fn run(args: &TokenArgs, world: &mut World) -> Result<Said, Failure> {
    let client = world.client(&args.target)?;
    match &args.command {
        Command::Create { name, scopes, expires, output } => {
            let made =
                client.post("tokens", &json!({"name": name, "scopes": scopes, "days": expires})).await?;
            created(&made, *output, world)
        }
        Command::List { output } => TOKENS.list(&client.get("tokens").await?, *output, world.now()),
        Command::Revoke { id } => {
            // Accepts a complete token in place of its id.
            let secret = super::secret::Secret::new(id.trim());
            let id = secret.token_id().unwrap_or(secret.expose());
            client.delete(&format!("tokens/{}", segment(id))).await?;
            Ok(Said::line(format!("{} revoked", TOKENS.reference(id))))
        }
    }
}

/// Prints only the token to standard output, so that scripts can capture it.
fn created(made: &Value, output: OutputArgs, world: &World) -> Result<Said, Failure> {
    match output.output {
        Some(Format::Json | Format::Yaml | Format::Name) => TOKENS.one(made, output, world.now()),
        None | Some(Format::Wide) => {
            let part = |place: &str, show: Show| cell(made, place, show, world.now());
            Ok(Said::line(part("/token", Show::Text)).note(format!(
                "{} is told this once; it ends {}",
                TOKENS.reference(&part("/id", Show::Text)),
                part("/expires", Show::Age)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_scopes_are_checked_before_anything_is_sent() {
        assert_eq!(days("30d"), Ok(30));
        assert_eq!(days("365"), Ok(365));
        for wrong in ["", "0", "366d", "30h", "-1", "d"] {
            assert!(days(wrong).is_err(), "{wrong}");
        }
        assert!(scope("workspace:acme").is_ok());
        assert!(scope("everything").is_err());
    }
}
