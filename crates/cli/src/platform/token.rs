//! `longshore token`: API tokens.

use clap::{Args, Subcommand};
use domain::scopes::Scopes;
use serde_json::{Value, json};

use super::access::PlatformArgs;
use super::client::encode_segment;
use super::output::{CellFormat, CommandOutput, Format, OutputArgs, ResourcePrinter, format_cell};
use super::{CommandEnv, PlatformError};

#[derive(Debug, Args)]
pub struct TokenArgs {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub target: PlatformArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a token and print it; it is not shown again
    Create {
        /// Name of the token
        #[arg(long, default_value = "longshore token create")]
        name: String,
        /// Scope: all, read, tenancy, releases, store, hosts, nodes, platform or workspace:NAME; may be repeated
        #[arg(long = "scope", value_name = "SCOPE", default_value = "all", value_parser = scope, value_delimiter = ',')]
        scopes: Vec<String>,
        /// Lifetime in days, at most 365d
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
    /// Revoke a token immediately
    Revoke {
        /// Id of the token, as shown by `token list`: the part after `lsh_`
        id: String,
    },
}

const TOKENS: ResourcePrinter = ResourcePrinter {
    singular: "token",
    plural: "tokens",
    name_pointer: "/id",
    columns: &[
        ("ID", "/id", CellFormat::Text, false),
        ("NAME", "/name", CellFormat::Text, false),
        ("KIND", "/kind", CellFormat::Text, true),
        ("SCOPES", "/scopes", CellFormat::Text, false),
        ("LAST-USE", "/lastUse", CellFormat::Age, false),
        ("EXPIRES", "/expires", CellFormat::Age, false),
        ("AGE", "/created", CellFormat::Age, false),
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
    well.ok_or_else(|| "must be 1d to 365d".to_owned())
}

pub async fn run(args: &TokenArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let client = world.client(&args.target)?;
    match &args.command {
        Command::Create { name, scopes, expires, output } => {
            let made =
                client.post("tokens", &json!({"name": name, "scopes": scopes, "days": expires})).await?;
            print_created(&made, *output, world)
        }
        Command::List { output } => TOKENS.print_list(&client.get("tokens").await?, *output, world.now()),
        Command::Revoke { id } => {
            // Accepts a complete token in place of its id.
            let secret = super::secret::Secret::new(id.trim());
            let id = secret.token_id().unwrap_or(secret.expose());
            client.delete(&format!("tokens/{}", encode_segment(id))).await?;
            Ok(CommandOutput::from_line(format!("{} revoked", TOKENS.reference(id))))
        }
    }
}

/// Prints only the token to standard output, so that scripts can capture it.
fn print_created(
    made: &Value,
    output: OutputArgs,
    world: &CommandEnv,
) -> Result<CommandOutput, PlatformError> {
    match output.output {
        Some(Format::Json | Format::Yaml | Format::Name) => TOKENS.print_object(made, output, world.now()),
        None | Some(Format::Wide) => {
            let part = |place: &str, show: CellFormat| format_cell(made, place, show, world.now());
            Ok(CommandOutput::from_line(part("/token", CellFormat::Text)).with_note(format!(
                "{} is not shown again; it expires {}",
                TOKENS.reference(&part("/id", CellFormat::Text)),
                part("/expires", CellFormat::Age)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_days_and_scopes_are_validated() {
        assert_eq!(days("30d"), Ok(30));
        assert_eq!(days("365"), Ok(365));
        for wrong in ["", "0", "366d", "30h", "-1", "d"] {
            assert!(days(wrong).is_err(), "{wrong}");
        }
        assert!(scope("workspace:acme").is_ok());
        assert!(scope("everything").is_err());
    }
}
