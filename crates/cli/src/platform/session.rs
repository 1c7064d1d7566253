//! `longshore login`, `logout`, `whoami`.
//!
//! Signing in creates an API token for this machine, and only that is stored. Password and session end with the
//! command.

use clap::Args;
use http::header::SET_COOKIE;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::access::{PlatformAccess, PlatformArgs};
use super::client::{Client, Credentials, encode_segment};
use super::contexts::{Context, Contexts};
use super::output::{
    CellFormat, CommandOutput, Format, OutputArgs, align_columns, escape_control, format_cell, to_json,
    to_yaml,
};
use super::prompt::read_secret;
use super::secret::Secret;
use super::{CommandEnv, PlatformError};

/// Lifetime of the machine's token in days.
const TOKEN_LIFETIME_DAYS: u32 = 30;

#[derive(Debug, Args)]
pub struct LoginArgs {
    /// Address of the platform; the context is named after its host, or by --context
    #[arg(value_name = "SERVER", conflicts_with = "server")]
    pub address: Option<String>,
    /// Account: e-mail address, phone number, id, or `admin` [default: prompt]
    #[arg(long)]
    pub account: Option<String>,
    /// Read the password from standard input instead of prompting
    #[arg(long, conflicts_with = "token_stdin")]
    pub password_stdin: bool,
    /// Read a token from standard input instead of prompting for a password
    #[arg(long)]
    pub token_stdin: bool,
    #[command(flatten)]
    pub target: PlatformArgs,
}

#[derive(Debug, Args)]
pub struct LogoutArgs {
    #[command(flatten)]
    pub target: PlatformArgs,
}

#[derive(Debug, Args)]
pub struct WhoamiArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub target: PlatformArgs,
}

/// `longshore login`
pub async fn login(args: &LoginArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let file = world.contexts_file()?;
    let contexts = file.read()?;
    let (access, name) = select_platform(args, world, &contexts)?;
    let anonymous = Client::new(&access)?;
    let credentials = credentials(args, world, &anonymous).await?;
    let person = anonymous.with_credentials(credentials.clone());
    let account = account_name(&person.get("session").await?);
    let (token, is_new) = token_for_machine(&person, credentials.clone(), &world.host).await?;

    let PlatformAccess { server, ca, .. } = access;
    let context = Context {
        name: name.clone(),
        server: server.clone(),
        ca,
        account: Some(account.clone()),
        token: Some(token.clone()),
    };
    let kept = file.update(|contexts| {
        let before = contexts.get(&name).cloned();
        contexts.upsert_current(context);
        Ok(before)
    });
    let mut said = CommandOutput::from_line(format!("signed in to {server} as {account}, context {name}"));
    if let Credentials::Session { .. } = credentials
        && let Err(failure) = person.delete("session").await
    {
        said = said.with_note(format!("cannot end the temporary session, which will expire: {failure}"));
    }
    let obsolete = match &kept {
        Ok(Some(Context { server: old, token: Some(before), .. })) if *old == server && *before != token => {
            before.clone()
        }
        Err(_) if is_new => token,
        _ => return kept.map(|_| said).map_err(PlatformError::from),
    };
    // Revokes the replaced token, or the new one if it could not be stored.
    if let Err(failure) =
        revoke(&anonymous.with_credentials(Credentials::Token(obsolete.clone())), &obsolete).await
    {
        let id = obsolete.token_id().unwrap_or_default();
        said = said.with_note(format!("cannot revoke token {id}, which is no longer used: {failure}"));
    }
    kept.map(|_| said).map_err(PlatformError::from)
}

/// Creates a token for this machine. Returns it with whether it is new.
async fn token_for_machine(
    person: &Client,
    shown: Credentials,
    host: &str,
) -> Result<(Secret, bool), PlatformError> {
    let name: String = format!("longshore on {host}").chars().take(64).collect();
    let body = json!({"name": name, "scopes": ["all"], "days": TOKEN_LIFETIME_DAYS});
    match (person.post("tokens", &body).await, shown) {
        (Ok(made), _) => Ok((Secret::new(required_text(&made, "/token", person)?), true)),
        // A scoped token cannot create others, so it is stored itself.
        (Err(PlatformError::Api(problem)), Credentials::Token(token))
            if problem.status == StatusCode::FORBIDDEN =>
        {
            Ok((token, false))
        }
        (Err(failure), _) => Err(failure),
    }
}

/// The selected platform without credentials, and the name of its context.
fn select_platform(
    args: &LoginArgs,
    world: &CommandEnv,
    contexts: &Contexts,
) -> Result<(PlatformAccess, String), PlatformError> {
    let LoginArgs { address, target, .. } = args;
    let target = PlatformArgs { server: address.clone().or_else(|| target.server.clone()), ..target.clone() };
    let known = world.connection_sources(contexts);
    // With both a server and a context name, the name is that of the new context.
    let named = target.context.as_ref().filter(|_| target.server.is_some());
    let (server, context) = match named {
        Some(name) => {
            let (server, _) = known.server(&PlatformArgs { context: None, ..target.clone() })?;
            (server.clone(), contexts.get(name).filter(|context| context.server == server))
        }
        None => known.server(&target)?,
    };
    let name = named.cloned().or_else(|| context.map(|context| context.name.clone()));
    let ca = target.ca.or_else(|| context.and_then(|context| context.ca.clone()));
    // Made absolute, because later commands may run in another folder.
    let ca = match ca {
        Some(file) => Some(
            std::path::absolute(&file)
                .map_err(|error| PlatformError::CaFile { file, why: error.to_string() })?,
        ),
        None => None,
    };
    let name = name.unwrap_or_else(|| server.default_context_name());
    Ok((PlatformAccess { server, ca, token: None }, name))
}

/// Opens a session with a password, or uses the given token.
async fn credentials(
    args: &LoginArgs,
    world: &mut CommandEnv,
    nobody: &Client,
) -> Result<Credentials, PlatformError> {
    let secret = match (args.password_stdin, args.token_stdin) {
        (false, false) => None,
        _ => Some(read_secret(&mut world.stdin)?),
    };
    if let (true, None, Some(token)) = (args.token_stdin, &args.account, &secret) {
        return Ok(Credentials::Token(token.clone()));
    }
    let account = match &args.account {
        Some(account) => account.clone(),
        None => world.terminal.prompt("account (e-mail address, phone number, id, or admin)")?,
    };
    let secret = match secret {
        Some(secret) => secret,
        None => world.terminal.prompt_secret("password")?,
    };
    let body = json!({"login": account, "secret": secret.expose()});
    let answer = nobody.send(Method::POST, "session", Some(&body)).await?;
    Ok(Credentials::Session {
        cookie: cookie(&answer.headers)
            .ok_or_else(|| unexpected_response(nobody, "the response has no session cookie"))?,
        csrf: Secret::new(required_text(&answer.body, "/csrf", nobody)?),
    })
}

/// `name=value` of the session cookie.
fn cookie(headers: &HeaderMap) -> Option<Secret> {
    let values = headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.filter_map(|value| value.split(';').next());
    pairs.map(str::trim).find(|pair| pair.starts_with("longshore_session=")).map(Secret::new)
}

fn unexpected_response(client: &Client, why: &str) -> PlatformError {
    PlatformError::UnexpectedResponse { server: client.server().clone(), why: why.to_owned() }
}

fn required_text(answer: &Value, place: &str, client: &Client) -> Result<String, PlatformError> {
    let found = answer.pointer(place).and_then(Value::as_str);
    found
        .map(str::to_owned)
        .ok_or_else(|| unexpected_response(client, &format!("the response has no `{}`", &place[1..])))
}

/// The user id, or the ServiceAccount's name.
fn account_name(session: &Value) -> String {
    let found = ["/user/id", "/serviceAccount"].iter().find_map(|place| session.pointer(place)?.as_str());
    escape_control(found.unwrap_or("unknown user"))
}

/// Revokes a token, using the token itself. An unknown token counts as revoked.
async fn revoke(client: &Client, token: &Secret) -> Result<(), PlatformError> {
    let Some(id) = token.token_id() else { return Ok(()) };
    match client.delete(&format!("tokens/{}", encode_segment(id))).await {
        Ok(_) | Err(PlatformError::TokenRejected { .. }) => Ok(()),
        Err(PlatformError::Api(problem)) if problem.status == StatusCode::NOT_FOUND => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// `longshore logout`: the token is deleted locally only after it has been revoked.
pub async fn logout(args: &LogoutArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let file = world.contexts_file()?;
    let contexts = file.read()?;
    let (server, context) = world.connection_sources(&contexts).server(&args.target)?;
    let Some(Context { name, token: Some(token), ca, .. }) = context else {
        return Err(PlatformError::NotSignedIn { server });
    };
    let ca = args.target.ca.clone().or_else(|| ca.clone());
    let client = Client::new(&PlatformAccess { server: server.clone(), ca, token: Some(token.clone()) })?;
    revoke(&client, token).await?;
    file.update(|contexts| {
        contexts.sign_out(name);
        Ok(())
    })?;
    Ok(CommandOutput::from_line(format!("signed out of {server}")))
}

/// `longshore whoami`
pub async fn whoami(args: &WhoamiArgs, world: &mut CommandEnv) -> Result<CommandOutput, PlatformError> {
    let client = world.client(&args.target)?;
    let mut session = client.get("session").await?;
    // Only browsers use it.
    if let Some(fields) = session.as_object_mut() {
        fields.remove("csrf");
    }
    let out = match args.output.output {
        Some(Format::Json) => to_json(&session)?,
        Some(Format::Yaml) => to_yaml(&session)?,
        Some(Format::Name) => format!("user/{}\n", account_name(&session)),
        None | Some(Format::Wide) => render_session(&session, &client, world),
    };
    Ok(CommandOutput { stdout: out, notes: Vec::new() })
}

fn render_session(session: &Value, client: &Client, world: &CommandEnv) -> String {
    let show = |place: &str, show: CellFormat| format_cell(session, place, show, world.now());
    let workspaces = session["workspaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let workspaces = workspaces.iter().map(|workspace| {
        let part = |place: &str| format_cell(workspace, place, CellFormat::Text, world.now());
        format!("{} ({})", part("/name"), part("/role"))
    });
    let workspaces: Vec<String> = workspaces.collect();
    let rows = [
        ("account", account_name(session)),
        ("e-mail", show("/user/email", CellFormat::Text)),
        ("platform roles", show("/user/platformRoles", CellFormat::Text)),
        ("member of", if workspaces.is_empty() { "-".to_owned() } else { workspaces.join(", ") }),
        ("token for", show("/scopes", CellFormat::Text)),
        ("server", client.server().to_string()),
    ];
    align_columns(&rows.map(|(what, is)| vec![what.to_owned(), is]))
}
