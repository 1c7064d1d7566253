//! `longshore context`: selects a platform.

use clap::Subcommand;
use serde_json::{Value, json};

use super::contexts::{Context, Contexts};
use super::output::{Kind, OutputArgs, Said, Show};
use super::{Failure, World};

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

const CONTEXTS: Kind = Kind {
    word: "context",
    plural: "contexts: `longshore login SERVER` makes one",
    name: "/name",
    columns: &[
        ("CURRENT", "/current", Show::Text, false),
        ("NAME", "/name", Show::Text, false),
        ("SERVER", "/server", Show::Text, false),
        ("ACCOUNT", "/account", Show::Text, false),
        ("CA", "/ca", Show::Text, true),
    ],
};

pub fn run(command: &Command, world: &World) -> Result<Said, Failure> {
    let file = world.contexts_file()?;
    match command {
        Command::List { output } => CONTEXTS.list(&shown(&file.read()?), *output, world.now()),
        Command::Use { name } => {
            file.change(|contexts| contexts.make_current(name))?;
            Ok(Said::line(format!("context {name} is the current one")))
        }
        Command::Delete { name } => {
            let removed = file.change(|contexts| contexts.remove(name))?;
            let said = Said::line(format!("context {name} deleted"));
            Ok(match removed.token.as_ref().and_then(|token| token.token_id()) {
                Some(id) => {
                    said.note(format!("its token was not revoked: `longshore token revoke {id}` does that"))
                }
                None => said,
            })
        }
    }
}

/// Contexts without their tokens.
fn shown(contexts: &Contexts) -> Value {
    let current = contexts.current_context.as_deref();
    let items = contexts.contexts.iter().map(|context| {
        let Context { name, server, ca, account, token: _ } = context;
        let is_current = if current == Some(name) { "*" } else { "" };
        json!({"current": is_current, "name": name, "server": server, "ca": ca, "account": account})
    });
    json!({"items": items.collect::<Vec<_>>()})
}
