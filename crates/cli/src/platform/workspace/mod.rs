//! `longshore workspace`: workspaces and their namespaces.
//!
//! Modules: [`members`] for members and invitations, [`quota`] for quota.

pub mod members;
pub mod quota;

use clap::{Args, Subcommand};
use serde_json::json;

use super::access::PlatformArgs;
use super::client::{Client, encode_segment};
use super::output::{CellFormat, CommandOutput, OutputArgs, ResourcePrinter};
use super::{CommandEnv, PlatformError};

#[derive(Debug, Args)]
pub struct WorkspaceArgs {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub target: PlatformArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create a workspace with you as its administrator
    Create {
        /// Name of the workspace and of its first namespace: lower-case letters, digits and dashes
        name: String,
        /// Display name
        #[arg(long, value_name = "TEXT")]
        display_name: Option<String>,
        /// Reuse the retired name of another owner, with all permissions still granted to it (platform administrators
        /// only)
        #[arg(long)]
        reissue_name: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the workspaces that you are a member of
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
    /// Change the display name of a workspace
    Rename {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// New display name; the name itself cannot be changed
        display_name: String,
    },
    #[command(flatten)]
    Members(members::Command),
    /// Show or set the quota of a workspace
    Quota(quota::QuotaArgs),
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
        /// Suffix of the name: `test` creates WORKSPACE-test
        word: String,
        /// Share of the workspace's quota, such as requests.cpu=1; may be repeated
        #[arg(long = "share", value_name = "NAME=AMOUNT", value_parser = quota::amount)]
        share: Vec<(String, String)>,
        /// Reuse the retired name of another owner, with all permissions still granted to it (platform administrators
        /// only)
        #[arg(long)]
        reissue_name: bool,
    },
    /// Delete a namespace of a workspace and everything in it
    RemoveNamespace {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Full name of the namespace
        namespace: String,
        /// Confirm the deletion
        #[arg(long)]
        yes: bool,
    },
    /// Delete a workspace and everything in it after a day; `restore` cancels it until then
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Delete immediately
        #[arg(long, requires = "yes")]
        now: bool,
        /// Confirm the deletion
        #[arg(long)]
        yes: bool,
    },
    /// Cancel the deletion of a workspace
    Restore {
        #[command(flatten)]
        workspace: WorkspaceArg,
    },
}

#[derive(Clone, Debug, Args)]
pub struct WorkspaceArg {
    /// Name of the workspace
    pub workspace: String,
}

impl WorkspaceArg {
    fn path(&self) -> String {
        format!("workspaces/{}", encode_segment(&self.workspace))
    }

    fn reference(&self) -> String {
        WORKSPACES.reference(&self.workspace)
    }
}

const WORKSPACES: ResourcePrinter = ResourcePrinter {
    singular: "workspace",
    plural: "workspaces",
    name_pointer: "/name",
    columns: &[
        ("NAME", "/name", CellFormat::Text, false),
        ("DISPLAY-NAME", "/displayName", CellFormat::Text, false),
        ("ROLE", "/role", CellFormat::Text, false),
        ("MEMBERS", "/members", CellFormat::Text, false),
        ("NAMESPACES", "/namespaces", CellFormat::EachItem("/name"), false),
        ("READY", "/ready", CellFormat::Text, false),
        ("REMOVED", "/removeAfter", CellFormat::Age, true),
        ("QUOTA", "/quota", CellFormat::Pairs, true),
        ("AGE", "/created", CellFormat::Age, false),
    ],
};

const NAMESPACES: ResourcePrinter = ResourcePrinter {
    singular: "namespace",
    plural: "namespaces",
    name_pointer: "/name",
    columns: &[("NAME", "/name", CellFormat::Text, false), ("SHARE", "/share", CellFormat::Pairs, false)],
};

pub async fn run(args: &WorkspaceArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let client = world.client(&args.target)?;
    let now = world.now();
    match &args.command {
        Command::Create { name, display_name, reissue_name, output } => {
            let mut body = json!({"name": name});
            if *reissue_name {
                body["reissue"] = true.into();
            }
            if let Some(display_name) = display_name {
                body["displayName"] = display_name.as_str().into();
            }
            WORKSPACES.print_result(&client.post("workspaces", &body).await?, "created", *output, now)
        }
        Command::List { output } => WORKSPACES.print_list(&client.get("workspaces").await?, *output, now),
        Command::Get { workspace, output } => {
            WORKSPACES.print_object(&client.get(&workspace.path()).await?, *output, now)
        }
        Command::Rename { workspace, display_name } => {
            client.patch(&workspace.path(), &json!({"displayName": display_name})).await?;
            Ok(CommandOutput::from_line(format!("{} renamed", workspace.reference())))
        }
        Command::Members(command) => members::run(command, &client, now).await,
        Command::Quota(args) => quota::run(args, &client).await,
        Command::Namespaces { workspace, output } => {
            let found = client.get(&workspace.path()).await?;
            NAMESPACES.print_list(&json!({"items": found["namespaces"]}), *output, now)
        }
        Command::AddNamespace { workspace, word, share, reissue_name } => {
            let mut body = json!({"name": word, "share": quota::unique_amounts(share)?});
            if *reissue_name {
                body["reissue"] = true.into();
            }
            client.post(&format!("{}/namespaces", workspace.path()), &body).await?;
            let name = format!("{}-{word}", workspace.workspace);
            Ok(CommandOutput::from_line(format!(
                "{} added to {}",
                NAMESPACES.reference(&name),
                workspace.reference()
            )))
        }
        Command::RemoveNamespace { workspace, namespace, yes } => {
            if !yes {
                return Err(PlatformError::Usage(
                    "this deletes the namespace and everything in it: confirm with --yes".to_owned(),
                ));
            }
            client.delete(&format!("{}/namespaces/{}", workspace.path(), encode_segment(namespace))).await?;
            Ok(CommandOutput::from_line(format!("{} removed", NAMESPACES.reference(namespace))))
        }
        Command::Delete { workspace, now: at_once, yes: _ } => delete(&client, workspace, *at_once).await,
        Command::Restore { workspace } => {
            client.post(&format!("{}/restore", workspace.path()), &json!({})).await?;
            Ok(CommandOutput::from_line(format!("{} restored", workspace.reference())))
        }
    }
}

async fn delete(
    client: &Client,
    workspace: &WorkspaceArg,
    at_once: bool,
) -> Result<CommandOutput, PlatformError> {
    let path = workspace.path();
    client.delete(&if at_once { format!("{path}?now=true") } else { path }).await?;
    let reference = workspace.reference();
    if at_once {
        return Ok(CommandOutput::from_line(format!("{reference} deleted")));
    }
    let name = &workspace.workspace;
    Ok(CommandOutput::from_line(format!("{reference} will be deleted"))
        .with_note(format!("until then it can be restored with `longshore workspace restore {name}`")))
}
