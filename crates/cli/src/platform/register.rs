//! `longshore register`, and the part shared with `longshore user create`.

use clap::Args;
use serde_json::{Value, json};

use super::access::{Access, Target};
use super::client::Client;
use super::output::{Format, OutputArgs, Said, Show, cell};
use super::prompt::secret_from;
use super::{Failure, World, user};

#[derive(Debug, Args)]
pub struct RegisterArgs {
    #[command(flatten)]
    pub person: PersonArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub target: Target,
}

/// Fields of a new account.
#[derive(Debug, Args)]
pub struct PersonArgs {
    /// E-mail address
    #[arg(long)]
    pub email: String,
    /// Phone number
    #[arg(long)]
    pub phone: String,
    /// Where they work
    #[arg(long)]
    pub organization: String,
    /// Read a password from standard input; without one the account's token is the way in
    #[arg(long)]
    pub password_stdin: bool,
}

/// `longshore register`
pub async fn run(args: &RegisterArgs, world: &mut World) -> Result<Said, Failure> {
    let access = world.access(&args.target)?;
    let client = Client::new(&Access { token: None, ..access })?;
    make(&client, &args.person, args.output, world).await
}

/// Creates the account and prints its token, which is shown only once.
pub async fn make(
    client: &Client,
    person: &PersonArgs,
    output: OutputArgs,
    world: &mut World,
) -> Result<Said, Failure> {
    let PersonArgs { email, phone, organization, password_stdin } = person;
    let mut body = json!({"email": email, "phone": phone, "organization": organization});
    if *password_stdin {
        body["password"] = secret_from(&mut world.stdin)?.expose().into();
    }
    let made = client.post("users", &body).await?;
    let said = match output.output {
        Some(Format::Json | Format::Yaml | Format::Name) => user::USERS.one(&made, output, world.now())?,
        None | Some(Format::Wide) => {
            let part = |place: &str| cell(&made, place, Show::Text, world.now());
            let said = Said::line(part("/token")).note(format!(
                "{} is made. The line above is its token: it is told this once; keep it.",
                user::USERS.reference(&part("/id"))
            ));
            let how = if *password_stdin { "" } else { " --token-stdin" };
            said.note(format!("Sign in with `longshore login {} --account {email}{how}`.", client.server()))
        }
    };
    Ok(match made["ready"] {
        Value::Bool(false) => said.note("It is not ready yet: its namespace is still being made."),
        _ => said,
    })
}
