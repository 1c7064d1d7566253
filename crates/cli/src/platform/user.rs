//! `longshore user`: accounts, for administrators and for the user's own.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use domain::roles::PlatformRole;
use serde_json::{Value, json};

use super::access::PlatformArgs;
use super::client::{Client, encode_segment};
use super::output::{CellFormat, CommandOutput, OutputArgs, ResourcePrinter, escape_control};
use super::prompt::read_secret;
use super::register::{self, AccountArgs};
use super::secret::Secret;
use super::{CommandEnv, PlatformError};

#[derive(Debug, Args)]
pub struct UserArgs {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub target: PlatformArgs,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// List all accounts
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Show an account
    Get {
        #[command(flatten)]
        user: UserArg,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Create an account and print its token, which is not shown again
    Create {
        #[command(flatten)]
        person: AccountArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Update an account
    Update(UpdateUserArgs),
    /// Disable an account; its data is kept
    Disable {
        #[command(flatten)]
        user: UserArg,
    },
    /// Enable a disabled account
    Enable {
        #[command(flatten)]
        user: UserArg,
    },
    /// Change your own password, or set that of another account
    #[command(visible_alias = "reset-password")]
    Password {
        /// Id or name of another account [default: your own]
        user: Option<String>,
        /// Read the new password from standard input; for your own account, the old one is on the first line
        #[arg(long)]
        password_stdin: bool,
    },
    /// Revoke all sessions, tokens and kubeconfigs of an account
    Revoke {
        #[command(flatten)]
        user: UserArg,
    },
    /// Delete an account and everything in its personal workspace
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        user: UserArg,
        /// Confirm the deletion
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct UserArg {
    /// Id or name of the account, as shown by `user list -o wide`, or `me`
    pub user: String,
}

#[derive(Debug, Args)]
pub struct UpdateUserArgs {
    #[command(flatten)]
    pub user: UserArg,
    /// New e-mail address
    #[arg(long)]
    pub email: Option<String>,
    /// Organization
    #[arg(long)]
    pub organization: Option<String>,
    /// Validity in days from the time when the account was first ready; 0 for no limit
    #[arg(long, value_name = "DAYS")]
    pub valid_days: Option<u32>,
    /// Maximum number of nodes
    #[arg(long, value_name = "NUMBER")]
    pub max_nodes: Option<u32>,
    /// Platform role, replacing the current ones; may be repeated
    #[arg(long = "platform-role", value_name = "ROLE", value_parser = platform_roles())]
    pub platform_roles: Vec<String>,
    /// Remove all platform roles
    #[arg(long, conflicts_with = "platform_roles")]
    pub no_platform_roles: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn platform_roles() -> PossibleValuesParser {
    PossibleValuesParser::new(PlatformRole::ALL.iter().map(|role| role.as_str()))
}

pub const USERS: ResourcePrinter = ResourcePrinter {
    singular: "user",
    plural: "accounts",
    name_pointer: "/id",
    columns: &[
        ("ID", "/id", CellFormat::Text, false),
        ("EMAIL", "/email", CellFormat::Text, false),
        ("PHONE", "/phone", CellFormat::Text, true),
        ("ORGANIZATION", "/organization", CellFormat::Text, false),
        ("ROLES", "/platformRoles", CellFormat::Text, false),
        ("DISABLED", "/disabled", CellFormat::Text, false),
        ("READY", "/ready", CellFormat::Text, false),
        ("EXPIRES", "/expires", CellFormat::Age, true),
        ("NODES", "/nodes", CellFormat::Text, true),
        ("MAX-NODES", "/maxNodes", CellFormat::Text, true),
        ("NAME", "/name", CellFormat::Text, true),
        ("AGE", "/created", CellFormat::Age, false),
    ],
};

fn user_path(user: &str) -> String {
    format!("users/{}", encode_segment(user))
}

pub async fn run(args: &UserArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let client = world.client(&args.target)?;
    let now = world.now();
    match &args.command {
        Command::List { output } => USERS.print_list(&client.get("users").await?, *output, now),
        Command::Get { user, output } => {
            USERS.print_object(&client.get(&user_path(&user.user)).await?, *output, now)
        }
        Command::Create { person, output } => register::create_account(&client, person, *output, world).await,
        Command::Update(args) => {
            let changed = client.patch(&user_path(&args.user.user), &update_body(args)?).await?;
            USERS.print_result(&changed, "updated", args.output, now)
        }
        Command::Disable { user } => set_disabled(&client, &user.user, true).await,
        Command::Enable { user } => set_disabled(&client, &user.user, false).await,
        Command::Password { user, password_stdin } => {
            change_password(&client, user.as_deref(), *password_stdin, world).await
        }
        Command::Revoke { user } => {
            let revoked = client.post(&format!("{}/revoke", user_path(&user.user)), &json!({})).await?;
            let said = format!("revoked all credentials of {}", USERS.reference(&user.user));
            Ok(CommandOutput::from_line(match revoked["token"].as_str() {
                Some(token) => {
                    format!(
                        "{said}\nThe new login token, which is not shown again: {}",
                        escape_control(token)
                    )
                }
                None => said,
            }))
        }
        Command::Delete { user, yes } => {
            if !yes {
                let why =
                    "this deletes the account and everything in its personal workspace: confirm with --yes";
                return Err(PlatformError::Usage(why.to_owned()));
            }
            client.delete(&user_path(&user.user)).await?;
            Ok(CommandOutput::from_line(format!("{} deleted", USERS.reference(&user.user))))
        }
    }
}

/// Request body with the given fields only.
fn update_body(args: &UpdateUserArgs) -> Result<Value, PlatformError> {
    let UpdateUserArgs {
        user: _,
        email,
        organization,
        valid_days,
        max_nodes,
        platform_roles,
        no_platform_roles,
        output: _,
    } = args;
    let roles = (*no_platform_roles || !platform_roles.is_empty()).then(|| json!(platform_roles));
    let fields = [
        ("email", email.as_ref().map(|email| json!(email))),
        ("organization", organization.as_ref().map(|organization| json!(organization))),
        ("validPeriod", valid_days.map(|days| json!(days))),
        ("maxNodeNum", max_nodes.map(|nodes| json!(nodes))),
        ("platformRoles", roles),
    ];
    let fields: serde_json::Map<String, Value> =
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
    if fields.is_empty() {
        Err(PlatformError::Usage("nothing to update: specify at least one option".to_owned()))
    } else {
        Ok(Value::Object(fields))
    }
}

async fn set_disabled(client: &Client, user: &str, disabled: bool) -> Result<CommandOutput, PlatformError> {
    client.patch(&user_path(user), &json!({"disabled": disabled})).await?;
    let act = if disabled { "disabled" } else { "enabled" };
    Ok(CommandOutput::from_line(format!("{} {act}", USERS.reference(user))))
}

async fn change_password(
    client: &Client,
    user: Option<&str>,
    from_stdin: bool,
    world: &mut CommandEnv,
) -> Result<CommandOutput, PlatformError> {
    let user = user.filter(|user| *user != "me");
    let (old, new) = match (user, from_stdin) {
        (Some(_), true) => (None, read_secret(&mut world.stdin)?),
        (None, true) => split_passwords(&read_secret(&mut world.stdin)?)?,
        (user, false) => {
            let terminal = &world.terminal;
            let old = if user.is_none() { Some(terminal.prompt_secret("old password")?) } else { None };
            let new = terminal.prompt_secret("new password")?;
            if terminal.prompt_secret("new password again")? != new {
                return Err(PlatformError::Usage(
                    "the passwords do not match; nothing was changed".to_owned(),
                ));
            }
            (old, new)
        }
    };
    let whose = user.unwrap_or("me");
    let mut body = json!({"new": new.expose()});
    if let Some(old) = old {
        body["old"] = old.expose().into();
    }
    client.post(&format!("{}/password", user_path(whose)), &body).await?;
    Ok(CommandOutput::from_line(match user {
        Some(user) => format!("password of {} was changed", USERS.reference(user)),
        None => "your password was changed".to_owned(),
    }))
}

/// Splits the input into the old and the new password.
fn split_passwords(text: &Secret) -> Result<(Option<Secret>, Secret), PlatformError> {
    match text.expose().split_once('\n') {
        Some((old, new)) => Ok((Some(Secret::new(old)), Secret::new(new))),
        None => Err(PlatformError::Usage(
            "standard input must have the old password on the first line and the new one on the second"
                .to_owned(),
        )),
    }
}
