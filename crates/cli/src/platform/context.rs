//! `longshore context`: selects a platform.

use clap::Subcommand;
use serde_json::{Value, json};

use super::contexts::{Context, Contexts};
use super::output::{CellFormat, CommandOutput, OutputArgs, ResourcePrinter};
use super::{CommandEnv, PlatformError};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List contexts; `*` marks the current one
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Set the current context
    Use {
        /// Name of the context
        name: String,
    },
    /// Delete a context; its token stays valid
    #[command(visible_alias = "rm")]
    Delete {
        /// Name of the context
        name: String,
    },
}

const CONTEXTS: ResourcePrinter = ResourcePrinter {
    singular: "context",
    plural: "contexts; create one with `longshore login SERVER`",
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
            Ok(CommandOutput::from_line(format!("context {name} is now the current context")))
        }
        Command::Delete { name } => {
            let removed = file.update(|contexts| contexts.remove(name))?;
            let said = CommandOutput::from_line(format!("context {name} deleted"));
            Ok(match removed.token.as_ref().and_then(|token| token.token_id()) {
                Some(id) => said.with_note(format!(
                    "its token is still valid; revoke it with `longshore token revoke {id}`"
                )),
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
