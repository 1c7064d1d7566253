//! `longshore login`, `logout`, `whoami`.
//!
//! Signing in creates an API token for this machine, and only that is stored. Password and session end with the
//! command.

use clap::Args;
use http::header::SET_COOKIE;
use http::{HeaderMap, Method, StatusCode};
use serde_json::{Value, json};

use super::access::{Access, Target};
use super::client::{Client, Credentials, segment};
use super::contexts::{Context, Contexts};
use super::output::{Format, OutputArgs, Said, Show, cell, json, lines, tame, yaml};
use super::prompt::secret_from;
use super::secret::Secret;
use super::{Failure, World};

/// Lifetime of the machine's token in days.
const DAYS: u32 = 30;

#[derive(Debug, Args)]
pub struct LoginArgs {
    /// The platform's address, to be kept under its own name or that of --context
    #[arg(value_name = "SERVER", conflicts_with = "server")]
    pub address: Option<String>,
    /// Who: an e-mail address, a phone number, an id, or `admin`; asked for if not given
    #[arg(long)]
    pub account: Option<String>,
    /// Read the password from standard input instead of asking for it
    #[arg(long, conflicts_with = "token_stdin")]
    pub password_stdin: bool,
    /// Read a token from standard input instead of asking for a password
    #[arg(long)]
    pub token_stdin: bool,
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Args)]
pub struct LogoutArgs {
    #[command(flatten)]
    pub target: Target,
}

#[derive(Debug, Args)]
pub struct WhoamiArgs {
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub target: Target,
}

/// `longshore login`
pub async fn login(args: &LoginArgs, world: &mut World) -> Result<Said, Failure> {
    let file = world.contexts_file()?;
    let contexts = file.read()?;
    let (access, name) = platform(args, world, &contexts)?;
    let nobody = Client::new(&access)?;
    let credentials = credentials(args, world, &nobody).await?;
    let person = nobody.with(credentials.clone());
    let account = account(&person.get("session").await?);
    let (token, is_new) = token_for_machine(&person, credentials.clone(), &world.host).await?;

    let Access { server, ca, .. } = access;
    let context = Context {
        name: name.clone(),
        server: server.clone(),
        ca,
        account: Some(account.clone()),
        token: Some(token.clone()),
    };
    let kept = file.change(|contexts| {
        let before = contexts.get(&name).cloned();
        contexts.enter(context);
        Ok(before)
    });
    let mut said = Said::line(format!("signed in to {server} as {account}, context {name}"));
    if let Credentials::Session { .. } = credentials
        && let Err(failure) = person.delete("session").await
    {
        said = said.note(format!("the session could not be ended, and ends by itself: {failure}"));
    }
    let useless = match &kept {
        Ok(Some(Context { server: old, token: Some(before), .. })) if *old == server && *before != token => {
            before.clone()
        }
        Err(_) if is_new => token,
        _ => return kept.map(|_| said).map_err(Failure::from),
    };
    // Revokes the replaced token, or the new one if it could not be stored.
    if let Err(failure) = revoke(&nobody.with(Credentials::Token(useless.clone())), &useless).await {
        let id = useless.token_id().unwrap_or_default();
        said =
            said.note(format!("token {id}, which is of no more use here, could not be revoked: {failure}"));
    }
    kept.map(|_| said).map_err(Failure::from)
}

/// Creates a token for this machine. Returns it with whether it is new.
async fn token_for_machine(
    person: &Client,
    shown: Credentials,
    host: &str,
) -> Result<(Secret, bool), Failure> {
    let name: String = format!("longshore on {host}").chars().take(64).collect();
    let body = json!({"name": name, "scopes": ["all"], "days": DAYS});
    match (person.post("tokens", &body).await, shown) {
        (Ok(made), _) => Ok((Secret::new(text(&made, "/token", person)?), true)),
        // A scoped token cannot create others, so it is stored itself.
        (Err(Failure::Refused(problem)), Credentials::Token(token))
            if problem.status == StatusCode::FORBIDDEN =>
        {
            Ok((token, false))
        }
        (Err(failure), _) => Err(failure),
    }
}

/// The selected platform without credentials, and the name of its context.
fn platform(args: &LoginArgs, world: &World, contexts: &Contexts) -> Result<(Access, String), Failure> {
    let LoginArgs { address, target, .. } = args;
    let target = Target { server: address.clone().or_else(|| target.server.clone()), ..target.clone() };
    let known = world.known(contexts);
    // With both a server and a context name, the name is that of the new context.
    let named = target.context.as_ref().filter(|_| target.server.is_some());
    let (server, context) = match named {
        Some(name) => {
            let (server, _) = known.server(&Target { context: None, ..target.clone() })?;
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
                .map_err(|error| Failure::Certificates { file, why: error.to_string() })?,
        ),
        None => None,
    };
    let name = name.unwrap_or_else(|| server.short());
    Ok((Access { server, ca, token: None }, name))
}

/// Opens a session with a password, or uses the given token.
async fn credentials(args: &LoginArgs, world: &mut World, nobody: &Client) -> Result<Credentials, Failure> {
    let secret = match (args.password_stdin, args.token_stdin) {
        (false, false) => None,
        _ => Some(secret_from(&mut world.stdin)?),
    };
    if let (true, None, Some(token)) = (args.token_stdin, &args.account, &secret) {
        return Ok(Credentials::Token(token.clone()));
    }
    let account = match &args.account {
        Some(account) => account.clone(),
        None => world.terminal.ask("account (e-mail address, phone number, id, or admin)")?,
    };
    let secret = match secret {
        Some(secret) => secret,
        None => world.terminal.ask_secret("password")?,
    };
    let body = json!({"login": account, "secret": secret.expose()});
    let answer = nobody.send(Method::POST, "session", Some(&body)).await?;
    Ok(Credentials::Session {
        cookie: cookie(&answer.headers).ok_or_else(|| strange(nobody, "it gave no session"))?,
        csrf: Secret::new(text(&answer.body, "/csrf", nobody)?),
    })
}

/// `name=value` of the session cookie.
fn cookie(headers: &HeaderMap) -> Option<Secret> {
    let values = headers.get_all(SET_COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.filter_map(|value| value.split(';').next());
    pairs.map(str::trim).find(|pair| pair.starts_with("longshore_session=")).map(Secret::new)
}

fn strange(client: &Client, why: &str) -> Failure {
    Failure::Strange { server: client.server().clone(), why: why.to_owned() }
}

fn text(answer: &Value, place: &str, client: &Client) -> Result<String, Failure> {
    let found = answer.pointer(place).and_then(Value::as_str);
    found.map(str::to_owned).ok_or_else(|| strange(client, &format!("its answer has no `{}`", &place[1..])))
}

/// The user id, or the ServiceAccount's name.
fn account(session: &Value) -> String {
    let found = ["/user/id", "/serviceAccount"].iter().find_map(|place| session.pointer(place)?.as_str());
    tame(found.unwrap_or("somebody"))
}

/// Revokes a token, using the token itself. An unknown token counts as revoked.
async fn revoke(client: &Client, token: &Secret) -> Result<(), Failure> {
    let Some(id) = token.token_id() else { return Ok(()) };
    match client.delete(&format!("tokens/{}", segment(id))).await {
        Ok(_) | Err(Failure::Unknown { .. }) => Ok(()),
        Err(Failure::Refused(problem)) if problem.status == StatusCode::NOT_FOUND => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// `longshore logout`: the token is deleted locally only after it has been revoked.
pub async fn logout(args: &LogoutArgs, world: &mut World) -> Result<Said, Failure> {
    let file = world.contexts_file()?;
    let contexts = file.read()?;
    let (server, context) = world.known(&contexts).server(&args.target)?;
    let Some(Context { name, token: Some(token), ca, .. }) = context else {
        return Err(Failure::SignedOut { server });
    };
    let ca = args.target.ca.clone().or_else(|| ca.clone());
    let client = Client::new(&Access { server: server.clone(), ca, token: Some(token.clone()) })?;
    revoke(&client, token).await?;
    file.change(|contexts| {
        contexts.sign_out(name);
        Ok(())
    })?;
    Ok(Said::line(format!("signed out of {server}")))
}

/// `longshore whoami`
pub async fn whoami(args: &WhoamiArgs, world: &mut World) -> Result<Said, Failure> {
    let client = world.client(&args.target)?;
    let mut session = client.get("session").await?;
    // Only browsers use it.
    if let Some(fields) = session.as_object_mut() {
        fields.remove("csrf");
    }
    let out = match args.output.output {
        Some(Format::Json) => json(&session)?,
        Some(Format::Yaml) => yaml(&session)?,
        Some(Format::Name) => format!("user/{}\n", account(&session)),
        None | Some(Format::Wide) => picture(&session, &client, world),
    };
    Ok(Said { out, notes: Vec::new() })
}

fn picture(session: &Value, client: &Client, world: &World) -> String {
    let show = |place: &str, show: Show| cell(session, place, show, world.now());
    let workspaces = session["workspaces"].as_array().map(Vec::as_slice).unwrap_or_default();
    let workspaces = workspaces.iter().map(|workspace| {
        let part = |place: &str| cell(workspace, place, Show::Text, world.now());
        format!("{} ({})", part("/name"), part("/role"))
    });
    let workspaces: Vec<String> = workspaces.collect();
    let rows = [
        ("account", account(session)),
        ("e-mail", show("/user/email", Show::Text)),
        ("platform roles", show("/user/platformRoles", Show::Text)),
        ("member of", if workspaces.is_empty() { "-".to_owned() } else { workspaces.join(", ") }),
        ("token for", show("/scopes", Show::Text)),
        ("server", client.server().to_string()),
    ];
    lines(&rows.map(|(what, is)| vec![what.to_owned(), is]))
}
