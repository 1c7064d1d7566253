//! `longshore context`: selects a platform.

use clap::Subcommand;
use serde_json::{Value, json};

use super::contexts::{Context, Contexts};
use super::output::{CellFormat, CommandOutput, OutputArgs, ResourcePrinter};
use super::{CommandEnv, PlatformError};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the platforms that are known here, the current one with a star
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Make one the current one
    Use {
        /// Its name
        name: String,
    },
    /// Forget one
    #[command(visible_alias = "rm")]
    Delete {
        /// Its name
        name: String,
    },
}

const CONTEXTS: ResourcePrinter = ResourcePrinter {
    singular: "context",
    plural: "contexts: `longshore login SERVER` makes one",
    name_pointer: "/name",
    columns: &[
        ("CURRENT", "/current", CellFormat::Text, false),
        ("NAME", "/name", CellFormat::Text, false),
        ("SERVER", "/server", CellFormat::Text, false),
        ("ACCOUNT", "/account", CellFormat::Text, false),
        ("CA", "/ca", CellFormat::Text, true),
    ],
};

pub fn run(command: &Command, world: &CommandEnv) -> Result<CommandOutput, PlatformError> {
    let file = world.contexts_file()?;
    match command {
        Command::List { output } => CONTEXTS.print_list(&without_tokens(&file.read()?), *output, world.now()),
        Command::Use { name } => {
            file.update(|contexts| contexts.set_current(name))?;
            Ok(CommandOutput::from_line(format!("context {name} is the current one")))
        }
        Command::Delete { name } => {
            let removed = file.update(|contexts| contexts.remove(name))?;
            let said = CommandOutput::from_line(format!("context {name} deleted"));
            Ok(match removed.token.as_ref().and_then(|token| token.token_id()) {
                Some(id) => said
                    .with_note(format!("its token was not revoked: `longshore token revoke {id}` does that")),
                None => said,
            })
        }
    }
}

/// Contexts without their tokens.
fn without_tokens(contexts: &Contexts) -> Value {
    let current = contexts.current_context.as_deref();
    let items = contexts.contexts.iter().map(|context| {
        let Context { name, server, ca, account, token: _ } = context;
        let is_current = if current == Some(name) { "*" } else { "" };
        json!({"current": is_current, "name": name, "server": server, "ca": ca, "account": account})
    });
    json!({"items": items.collect::<Vec<_>>()})
}
