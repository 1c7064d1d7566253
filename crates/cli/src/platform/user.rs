//! `longshore user`: accounts, for administrators and for the user's own.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use domain::roles::PlatformRole;
use serde_json::{Value, json};

use super::access::Target;
use super::client::{Client, segment};
use super::output::{Kind, OutputArgs, Said, Show, tame};
use super::prompt::secret_from;
use super::register::{self, PersonArgs};
use super::secret::Secret;
use super::{Failure, World};

#[derive(Debug, Args)]
pub struct UserArgs {
    #[command(subcommand)]
    pub command: Command,
    #[command(flatten)]
    pub target: Target,
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
    /// Make an account for somebody, and print its token, this once
    Create {
        #[command(flatten)]
        person: PersonArgs,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Change an account
    Update(UpdateArgs),
    /// Let nobody in with an account any more; nothing of it is removed
    Disable {
        #[command(flatten)]
        user: UserArg,
    },
    /// Undo `disable`
    Enable {
        #[command(flatten)]
        user: UserArg,
    },
    /// Change your own password, or give somebody else a new one
    #[command(visible_alias = "reset-password")]
    Password {
        /// Whose: an id or a name [default: your own]
        user: Option<String>,
        /// Read the new password from standard input instead of asking for it; for your own, the old one is the line before it
        #[arg(long)]
        password_stdin: bool,
    },
    /// End all sessions of an account
    Revoke {
        #[command(flatten)]
        user: UserArg,
    },
    /// Remove an account and everything in its personal workspace
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        user: UserArg,
        /// Yes, all of it
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub struct UserArg {
    /// Whose: an id or a name, as `user list -o wide` shows it; `me` is you
    pub user: String,
}

#[derive(Debug, Args)]
pub struct UpdateArgs {
    #[command(flatten)]
    pub user: UserArg,
    /// A new e-mail address
    #[arg(long)]
    pub email: Option<String>,
    /// Where they work
    #[arg(long)]
    pub organization: Option<String>,
    /// For how many days from its beginning it is good; 0: for ever
    #[arg(long, value_name = "DAYS")]
    pub valid_days: Option<u32>,
    /// How many nodes it may bring
    #[arg(long, value_name = "NUMBER")]
    pub max_nodes: Option<u32>,
    /// A role on the whole platform, in place of those it has; may be repeated
    #[arg(long = "platform-role", value_name = "ROLE", value_parser = platform_roles())]
    pub platform_roles: Vec<String>,
    /// Take its roles on the whole platform away
    #[arg(long, conflicts_with = "platform_roles")]
    pub no_platform_roles: bool,
    #[command(flatten)]
    pub output: OutputArgs,
}

fn platform_roles() -> PossibleValuesParser {
    PossibleValuesParser::new(PlatformRole::ALL.iter().map(|role| role.as_str()))
}

pub const USERS: Kind = Kind {
    word: "user",
    plural: "accounts",
    name: "/id",
    columns: &[
        ("ID", "/id", Show::Text, false),
        ("EMAIL", "/email", Show::Text, false),
        ("PHONE", "/phone", Show::Text, true),
        ("ORGANIZATION", "/organization", Show::Text, false),
        ("ROLES", "/platformRoles", Show::Text, false),
        ("DISABLED", "/disabled", Show::Text, false),
        ("READY", "/ready", Show::Text, false),
        ("EXPIRES", "/expires", Show::Age, true),
        ("NODES", "/nodes", Show::Text, true),
        ("MAX-NODES", "/maxNodes", Show::Text, true),
        ("NAME", "/name", Show::Text, true),
        ("AGE", "/created", Show::Age, false),
    ],
};

fn path(user: &str) -> String {
    format!("users/{}", segment(user))
}

pub async fn run(args: &UserArgs, world: &mut World) -> Result<Said, Failure> {
    let client = world.client(&args.target)?;
    let now = world.now();
    match &args.command {
        Command::List { output } => USERS.list(&client.get("users").await?, *output, now),
        Command::Get { user, output } => USERS.one(&client.get(&path(&user.user)).await?, *output, now),
        Command::Create { person, output } => register::make(&client, person, *output, world).await,
        Command::Update(args) => {
            let changed = client.patch(&path(&args.user.user), &update(args)?).await?;
            USERS.done(&changed, "updated", args.output, now)
        }
        Command::Disable { user } => switch(&client, &user.user, true).await,
        Command::Enable { user } => switch(&client, &user.user, false).await,
        Command::Password { user, password_stdin } => {
            password(&client, user.as_deref(), *password_stdin, world).await
        }
        Command::Revoke { user } => {
            let revoked = client.post(&format!("{}/revoke", path(&user.user)), &json!({})).await?;
            let said = format!("all credentials of {} are revoked", USERS.reference(&user.user));
            Ok(Said::line(match revoked["token"].as_str() {
                Some(token) => {
                    format!("{said}\nThe new login token, which is not shown again: {}", tame(token))
                }
                None => said,
            }))
        }
        Command::Delete { user, yes } => {
            if !yes {
                let why = "this removes the account and everything in its personal workspace: say --yes";
                return Err(Failure::Usage(why.to_owned()));
            }
            client.delete(&path(&user.user)).await?;
            Ok(Said::line(format!("{} deleted", USERS.reference(&user.user))))
        }
    }
}

/// Request body with the given fields only.
fn update(args: &UpdateArgs) -> Result<Value, Failure> {
    let UpdateArgs {
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
        Err(Failure::Usage("say what to change".to_owned()))
    } else {
        Ok(Value::Object(fields))
    }
}

async fn switch(client: &Client, user: &str, disabled: bool) -> Result<Said, Failure> {
    client.patch(&path(user), &json!({"disabled": disabled})).await?;
    let act = if disabled { "disabled" } else { "enabled" };
    Ok(Said::line(format!("{} {act}", USERS.reference(user))))
}

async fn password(
    client: &Client,
    user: Option<&str>,
    from_stdin: bool,
    world: &mut World,
) -> Result<Said, Failure> {
    let (old, new) = match (user, from_stdin) {
        (Some(_), true) => (None, secret_from(&mut world.stdin)?),
        (None, true) => two_lines(&secret_from(&mut world.stdin)?)?,
        (user, false) => {
            let terminal = &world.terminal;
            let old = if user.is_none() { Some(terminal.ask_secret("old password")?) } else { None };
            let new = terminal.ask_secret("new password")?;
            if terminal.ask_secret("new password again")? != new {
                return Err(Failure::Usage("the two are not the same; nothing was changed".to_owned()));
            }
            (old, new)
        }
    };
    let whose = user.unwrap_or("me");
    let mut body = json!({"new": new.expose()});
    if let Some(old) = old {
        body["old"] = old.expose().into();
    }
    client.post(&format!("{}/password", path(whose)), &body).await?;
    Ok(Said::line(match user {
        Some(user) => format!("{} has a new password", USERS.reference(user)),
        None => "your password is changed".to_owned(),
    }))
}

/// Splits the input into the old and the new password.
fn two_lines(text: &Secret) -> Result<(Option<Secret>, Secret), Failure> {
    match text.expose().split_once('\n') {
        Some((old, new)) => Ok((Some(Secret::new(old)), Secret::new(new))),
        None => Err(Failure::Usage("the old password comes first, on a line of its own".to_owned())),
    }
}
