//! `longshore register`, and the part shared with `longshore user create`.

use clap::Args;
use serde_json::{Value, json};

use super::access::{PlatformAccess, PlatformArgs};
use super::client::Client;
use super::output::{CellFormat, CommandOutput, Format, OutputArgs, format_cell};
use super::prompt::read_secret;
use super::{CommandEnv, PlatformError, user};

#[derive(Debug, Args)]
pub struct RegisterArgs {
    #[command(flatten)]
    pub person: AccountArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub target: PlatformArgs,
}

/// Fields of a new account.
#[derive(Debug, Args)]
pub struct AccountArgs {
    /// E-mail address
    #[arg(long)]
    pub email: String,
    /// Phone number
    #[arg(long)]
    pub phone: String,
    /// Organization
    #[arg(long)]
    pub organization: String,
    /// Read the password from standard input; an account without a password signs in with its token
    #[arg(long)]
    pub password_stdin: bool,
}

/// `longshore register`
pub async fn run(args: &RegisterArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let access = world.access(&args.target)?;
    let client = Client::new(&PlatformAccess { token: None, ..access })?;
    create_account(&client, &args.person, args.output, world).await
}

/// Creates the account and prints its token, which is shown only once.
pub async fn create_account(
    client: &Client,
    person: &AccountArgs,
    output: OutputArgs,
    world: &mut CommandEnv,
) -> Result<CommandOutput, PlatformError> {
    let AccountArgs { email, phone, organization, password_stdin } = person;
    let mut body = json!({"email": email, "phone": phone, "organization": organization});
    if *password_stdin {
        body["password"] = read_secret(&mut world.stdin)?.expose().into();
    }
    let made = client.post("users", &body).await?;
    let said = match output.output {
        Some(Format::Json | Format::Yaml | Format::Name) => {
            user::USERS.print_object(&made, output, world.now())?
        }
        None | Some(Format::Wide) => {
            let part = |place: &str| format_cell(&made, place, CellFormat::Text, world.now());
            let said = CommandOutput::from_line(part("/token")).with_note(format!(
                "{} created. The line above is its token. Store it: it is not shown again.",
                user::USERS.reference(&part("/id"))
            ));
            let how = if *password_stdin { "" } else { " --token-stdin" };
            said.with_note(format!(
                "Sign in with `longshore login {} --account {email}{how}`.",
                client.server()
            ))
        }
    };
    Ok(match made["ready"] {
        Value::Bool(false) => {
            said.with_note("The account is not ready yet: its namespace is still being created.")
        }
        _ => said,
    })
}
