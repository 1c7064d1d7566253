//! Members, invitations and roles of a workspace.

use clap::Subcommand;
use clap::builder::PossibleValuesParser;
use domain::roles::WorkspaceRole;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::WorkspaceArg;
use crate::platform::PlatformError;
use crate::platform::client::{Client, encode_segment};
use crate::platform::output::{CellFormat, CommandOutput, OutputArgs, ResourcePrinter, escape_control};

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Invite a user to a workspace
    Invite {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Account id, e-mail address or phone number; for the last two, a one-time code to pass on is printed
        who: String,
        /// Role of the new member
        #[arg(long, default_value = "developer", value_parser = roles())]
        role: String,
    },
    /// List your invitations, or all invitations of a workspace
    Invitations {
        /// Name of the workspace [default: your own invitations]
        workspace: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Revoke an invitation
    Withdraw {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Id of the invitation, as shown by `invitations WORKSPACE`; the invited address is stored as a digest only
        id: String,
    },
    /// Accept an invitation
    Accept {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// One-time code from the inviter; not required for an invitation to your account id
        #[arg(long)]
        code: Option<String>,
    },
    /// Decline an invitation
    Decline {
        #[command(flatten)]
        workspace: WorkspaceArg,
    },
    /// List the members of a workspace
    Members {
        #[command(flatten)]
        workspace: WorkspaceArg,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change the role of a member
    Role {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Account id of the member, as shown by `members`
        user: String,
        /// New role
        #[arg(value_parser = roles())]
        role: String,
    },
    /// Remove a member from a workspace
    RemoveMember {
        #[command(flatten)]
        workspace: WorkspaceArg,
        /// Account id of the member, as shown by `members`
        user: String,
        /// Keep RoleBindings for ServiceAccounts that the member may have created; deleted by default
        #[arg(long)]
        keep_bindings: bool,
    },
    /// Leave a workspace
    Leave {
        #[command(flatten)]
        workspace: WorkspaceArg,
    },
}

fn roles() -> PossibleValuesParser {
    PossibleValuesParser::new(WorkspaceRole::ALL.iter().map(|role| role.as_str()))
}

const MEMBERS: ResourcePrinter = ResourcePrinter {
    singular: "user",
    plural: "members",
    name_pointer: "/user",
    columns: &[
        ("USER", "/user", CellFormat::Text, false),
        ("ROLE", "/role", CellFormat::Text, false),
        ("EMAIL", "/email", CellFormat::Text, false),
        ("ORGANIZATION", "/organization", CellFormat::Text, true),
        ("DISABLED", "/disabled", CellFormat::Text, true),
    ],
};

/// The caller's invitations.
const OWN_INVITATIONS: ResourcePrinter = ResourcePrinter {
    singular: "workspace",
    plural: "invitations",
    name_pointer: "/workspace",
    columns: &[
        ("WORKSPACE", "/workspace", CellFormat::Text, false),
        ("DISPLAY-NAME", "/displayName", CellFormat::Text, false),
        ("ROLE", "/role", CellFormat::Text, false),
        ("EXPIRES", "/expires", CellFormat::Age, false),
    ],
};

/// Invitations of a workspace. The invited address is stored as a digest only.
const INVITATIONS: ResourcePrinter = ResourcePrinter {
    singular: "invitation",
    plural: "invitations",
    name_pointer: "/id",
    columns: &[
        ("ID", "/id", CellFormat::Text, false),
        ("ROLE", "/role", CellFormat::Text, false),
        ("BY", "/by", CellFormat::Text, false),
        ("EXPIRES", "/expires", CellFormat::Age, false),
    ],
};

pub async fn run(command: &Command, client: &Client, now: Timestamp) -> Result<CommandOutput, PlatformError> {
    let member = |workspace: &WorkspaceArg, user: &str| {
        format!("{}/members/{}", workspace.path(), encode_segment(user))
    };
    let invitation =
        |workspace: &WorkspaceArg| format!("invitations/{}", encode_segment(&workspace.workspace));
    match command {
        Command::Invite { workspace, who, role } => {
            let path = format!("{}/invitations", workspace.path());
            let made = client.post(&path, &json!({"to": who, "role": role})).await?;
            let invited = format!("invited {} to {} as {role}", escape_control(who), workspace.reference());
            Ok(CommandOutput::from_line(match made["code"].as_str() {
                Some(code) => format!(
                    "{invited}\nGive them this code, which is not shown again: {}\n\
                     They join by: longshore workspace accept {} --code CODE",
                    escape_control(code),
                    escape_control(&workspace.workspace)
                ),
                None => invited,
            }))
        }
        Command::Invitations { workspace: None, output } => {
            OWN_INVITATIONS.print_list(&client.get("invitations").await?, *output, now)
        }
        Command::Invitations { workspace: Some(workspace), output } => {
            let path = format!("workspaces/{}/invitations", encode_segment(workspace));
            INVITATIONS.print_list(&client.get(&path).await?, *output, now)
        }
        Command::Withdraw { workspace, id } => {
            client.delete(&format!("{}/invitations/{}", workspace.path(), encode_segment(id))).await?;
            Ok(CommandOutput::from_line(format!("revoked an invitation to {}", workspace.reference())))
        }
        Command::Accept { workspace, code } => {
            client.post(&invitation(workspace), &json!({"code": code})).await?;
            Ok(CommandOutput::from_line(format!("joined {}", workspace.reference())))
        }
        Command::Decline { workspace } => {
            client.delete(&invitation(workspace)).await?;
            Ok(CommandOutput::from_line(format!("declined {}", workspace.reference())))
        }
        Command::Members { workspace, output } => {
            MEMBERS.print_list(&client.get(&format!("{}/members", workspace.path())).await?, *output, now)
        }
        Command::Role { workspace, user, role } => {
            client.put(&member(workspace, user), &json!({"role": role})).await?;
            Ok(CommandOutput::from_line(format!(
                "{} is now {role} of {}",
                MEMBERS.reference(user),
                workspace.reference()
            )))
        }
        Command::RemoveMember { workspace, user, keep_bindings } => {
            let path = member(workspace, user);
            let path = if *keep_bindings { format!("{path}?keepBindings=true") } else { path };
            let removed = client.delete(&path).await?;
            let said = format!("{} removed from {}", MEMBERS.reference(user), workspace.reference());
            Ok(with_binding_notes(&removed, CommandOutput::from_line(said)))
        }
        Command::Leave { workspace } => {
            client.delete(&member(workspace, "me")).await?;
            Ok(CommandOutput::from_line(format!("left {}", workspace.reference())))
        }
    }
}

/// Lists the RoleBindings that a removed member may have created.
fn with_binding_notes(removed: &Value, said: CommandOutput) -> CommandOutput {
    let deleted = removed["bindingsDeleted"] == true;
    let text = |binding: &Value, field: &str| binding[field].as_str().unwrap_or_default().to_owned();
    let line = |binding: &Value| {
        let (namespace, name) = (text(binding, "namespace"), text(binding, "name"));
        format!("{namespace}/{name} ({})", text(binding, "role"))
    };
    let listed: Vec<String> = removed["bindings"].as_array().into_iter().flatten().map(line).collect();
    if listed.is_empty() {
        return said;
    }
    let what = if deleted { "deleted" } else { "kept" };
    said.with_note(format!("RoleBindings that the member may have created are {what}: {}", listed.join(", ")))
}
