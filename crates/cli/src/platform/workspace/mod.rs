//! `longshore workspace`: what people share, and who shares it.
//!
//! Here: the workspace itself, its namespaces and its quota. Who belongs to it: [`members`].

pub mod members;

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::access::Target;
use super::client::{Client, segment};
use super::output::{Format, Kind, OutputArgs, Said, Show};
use super::{Failure, World};

#[derive(Debug, Args)]
pub struct WorkspaceArgs {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a workspace, with you as its administrator
    Create {
        /// Its name, and that of its first namespace: small letters, digits, dashes
        name: String,
        /// What people call it
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the workspaces that you belong to
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show a workspace
    Get {
        #[command(flatten)]
        workspace: WorkspaceArg,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change what people call a workspace
    Rename {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// What people call it; its name stays
        display_name: String,
    },
    #[command(flatten)]
    Members(members::Command),
    /// Show what a workspace may use, or set it
    Quota {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// A limit in `ResourceQuota`'s words, such as requests.cpu=4; may be repeated; those not named go
        #[arg(long = "set", value_name = "NAME=AMOUNT", value_parser = limit)]
        limits: Vec<(String, String)>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List a workspace's namespaces
    #[command(visible_alias = "ns")]
    Namespaces {
        #[command(flatten)]
        workspace: WorkspaceArg,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Add a namespace to a workspace
    AddNamespace {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Its last part: `test` becomes WORKSPACE-test
        word: String,
        /// Its share of the workspace's quota, such as requests.cpu=1; may be repeated
        #[arg(long = "share", value_name = "NAME=AMOUNT", value_parser = limit)]
        share: Vec<(String, String)>,
    },
    /// Remove a namespace of a workspace, with everything in it
    RemoveNamespace {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Its whole name
        namespace: String,
        /// Yes, all of it
        #[arg(long)]
        yes: bool,
    },
    /// Remove a workspace after a day, with everything in it; until then `restore` brings it back
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// At once
        #[arg(long, requires = "yes")]
        now: bool,
        /// Yes, all of it
        #[arg(long)]
        yes: bool,
    },
    /// Undo `delete`
    Restore {
        #[command(flatten)]
        workspace: WorkspaceArg,
    },
}

#[derive(Clone, Debug, Args)]
pub struct WorkspaceArg {
    /// The workspace's name
    pub workspace: String,
}

impl WorkspaceArg {
    fn path(&self) -> String {
        format!("workspaces/{}", segment(&self.workspace))
    }

    fn reference(&self) -> String {
        WORKSPACES.reference(&self.workspace)
    }
}

const WORKSPACES: Kind = Kind {
    word: "workspace",
    plural: "workspaces",
    name: "/name",
    columns: &[
        ("NAME", "/name", Show::Text, false),
        ("DISPLAY-NAME", "/displayName", Show::Text, false),
        ("ROLE", "/role", Show::Text, false),
        ("MEMBERS", "/members", Show::Text, false),
        ("NAMESPACES", "/namespaces", Show::Each("/name"), false),
        ("READY", "/ready", Show::Text, false),
        ("REMOVED", "/removeAfter", Show::Age, true),
        ("QUOTA", "/quota", Show::Pairs, true),
        ("AGE", "/created", Show::Age, false),
    ],
};

const NAMESPACES: Kind = Kind {
    word: "namespace",
    plural: "namespaces",
    name: "/name",
    columns: &[("NAME", "/name", Show::Text, false), ("SHARE", "/share", Show::Pairs, false)],
};

fn limit(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, amount)) if !name.is_empty() && !amount.is_empty() => {
            Ok((name.to_owned(), amount.to_owned()))
        }
        _ => Err("a limit is NAME=AMOUNT, such as requests.cpu=4".to_owned()),
    }
}

/// The limits by name; one that is named twice is not meant.
fn limits(given: &[(String, String)]) -> Result<BTreeMap<&str, &str>, Failure> {
    let mut limits = BTreeMap::new();
    for (name, amount) in given {
        if limits.insert(name.as_str(), amount.as_str()).is_some() {
            return Err(Failure::Usage(format!("`{name}` is given twice")));
        }
    }
    Ok(limits)
}

pub async fn run(args: &WorkspaceArgs, world: &mut World) -> Result<Said, Failure> {
    let client = world.client(&args.target)?;
    let now = world.now();
    match &args.command {
        Command::Create { name, display_name, output } => {
            let mut body = json!({"name": name});
            if let Some(display_name) = display_name {
                body["displayName"] = display_name.as_str().into();
            }
            WORKSPACES.done(&client.post("workspaces", &body).await?, "created", *output, now)
        }
        Command::List { output } => WORKSPACES.list(&client.get("workspaces").await?, *output, now),
        Command::Get { workspace, output } => {
            WORKSPACES.one(&client.get(&workspace.path()).await?, *output, now)
        }
        Command::Rename { workspace, display_name } => {
            client.patch(&workspace.path(), &json!({"displayName": display_name})).await?;
            Ok(Said::line(format!("{} renamed", workspace.reference())))
        }
        Command::Members(command) => members::run(command, &client, now).await,
        Command::Quota { workspace, limits, output } => quota(&client, workspace, limits, *output).await,
        Command::Namespaces { workspace, output } => {
            let found = client.get(&workspace.path()).await?;
            NAMESPACES.list(&json!({"items": found["namespaces"]}), *output, now)
        }
        Command::AddNamespace { workspace, word, share } => {
            let body = json!({"name": word, "share": limits(share)?});
            client.post(&format!("{}/namespaces", workspace.path()), &body).await?;
            let name = format!("{}-{word}", workspace.workspace);
            Ok(Said::line(format!("{} added to {}", NAMESPACES.reference(&name), workspace.reference())))
        }
        Command::RemoveNamespace { workspace, namespace, yes } => {
            if !yes {
                return Err(Failure::Usage(
                    "this removes the namespace and everything in it: say --yes".to_owned(),
                ));
            }
            client.delete(&format!("{}/namespaces/{}", workspace.path(), segment(namespace))).await?;
            Ok(Said::line(format!("{} removed", NAMESPACES.reference(namespace))))
        }
        Command::Delete { workspace, now: at_once, yes: _ } => delete(&client, workspace, *at_once).await,
        Command::Restore { workspace } => {
            client.post(&format!("{}/restore", workspace.path()), &json!({})).await?;
            Ok(Said::line(format!("{} restored", workspace.reference())))
        }
    }
}

async fn delete(client: &Client, workspace: &WorkspaceArg, at_once: bool) -> Result<Said, Failure> {
    let path = workspace.path();
    client.delete(&if at_once { format!("{path}?now=true") } else { path }).await?;
    let reference = workspace.reference();
    if at_once {
        return Ok(Said::line(format!("{reference} deleted")));
    }
    let name = &workspace.workspace;
    Ok(Said::line(format!("{reference} will be removed"))
        .note(format!("until then `longshore workspace restore {name}` brings it back")))
}

/// What the workspace may use, a line each.
async fn quota(
    client: &Client,
    workspace: &WorkspaceArg,
    given: &[(String, String)],
    output: OutputArgs,
) -> Result<Said, Failure> {
    let path = format!("{}/quota", workspace.path());
    let answer = match limits(given)? {
        limits if limits.is_empty() => client.get(&path).await?,
        limits => client.put(&path, &json!({"quota": limits})).await?,
    };
    let out = match output.output {
        Some(Format::Json) => super::output::json(&answer)?,
        Some(Format::Yaml) => {
            serde_norway::to_string(&answer).map_err(|error| Failure::Print(error.to_string()))?
        }
        Some(Format::Name) => format!("{}\n", workspace.reference()),
        None | Some(Format::Wide) => picture(&answer),
    };
    Ok(Said { out, notes: Vec::new() })
}

fn picture(answer: &Value) -> String {
    let limits = answer["quota"].as_object().into_iter().flatten();
    let amount = |of: &str, name: &str| {
        let value = answer[of].get(name).unwrap_or(&Value::Null);
        super::output::cell(value, "", Show::Text, jiff::Timestamp::UNIX_EPOCH)
    };
    let titles = ["RESOURCE", "USED", "LIMIT"].map(str::to_owned).to_vec();
    let rows =
        limits.map(|(name, _)| vec![super::output::tame(name), amount("used", name), amount("quota", name)]);
    super::output::lines(&std::iter::once(titles).chain(rows).collect::<Vec<_>>())
}
