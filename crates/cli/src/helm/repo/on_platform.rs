//! `longshore repo` on a platform: repositories of a workspace or of all users.

use std::fmt::Write as _;
use std::path::Path;

use helm_template::go::quote;
use http::StatusCode;
use serde_json::{Value, json};

use super::add::RepoAddArgs;
use super::list::RepoListArgs;
use super::{RepoArgs, RepoCommand, index};
use crate::helm::table::{self, Form};
use crate::helm::{CommandError, CommandResult};
use crate::platform::PlatformError;
use crate::platform::client::{Client, encode_segment};
use crate::platform::output::escape_control;

pub async fn run(args: &RepoArgs, client: &Client) -> CommandResult {
    match &args.command {
        RepoCommand::Add(args) => add(args, client).await,
        RepoCommand::List(args) => list(args, client).await,
        RepoCommand::Update(args) => update(&args.names, client).await,
        RepoCommand::Remove(args) => remove(&args.names, client).await,
        RepoCommand::Index(args) => {
            index::index(args)?;
            Ok(Vec::new())
        }
    }
}

/// All visible repositories.
pub async fn list_repos(client: &Client) -> Result<Vec<Value>, PlatformError> {
    let answer = client.get("repos").await?;
    Ok(answer["items"].as_array().cloned().unwrap_or_default())
}

/// Finds a repository by its key, or by its name if it is unique.
pub fn find_repo<'r>(repos: &'r [Value], name: &str) -> Result<Option<&'r Value>, String> {
    if let Some(repo) = repos.iter().find(|repo| repo["key"] == name) {
        return Ok(Some(repo));
    }
    let named: Vec<&Value> = repos.iter().filter(|repo| repo["name"] == name).collect();
    match named[..] {
        [] => Ok(None),
        [repo] => Ok(Some(repo)),
        _ => {
            let keys: Vec<String> = named.iter().map(|repo| escape_control(repo_key(repo))).collect();
            Err(format!("repository name {} is ambiguous, use one of: {}", quote(name), keys.join(", ")))
        }
    }
}

pub fn repo_key(repo: &Value) -> &str {
    repo["key"].as_str().unwrap_or_default()
}

async fn add(args: &RepoAddArgs, client: &Client) -> CommandResult {
    let workspace = if let Some(workspace) = &args.workspace {
        workspace.clone()
    } else {
        let session = client.get("session").await?;
        session["user"]["id"].as_str().unwrap_or_default().to_owned()
    };
    let credentials = credentials(args)?;
    let mut body = json!({"name": args.name, "workspace": workspace, "url": args.url});
    if let Some(credentials) = &credentials {
        body["credentials"] = credentials.clone();
    }
    let known = list_repos(client).await?;
    let before = known.iter().find(|repo| repo["name"] == args.name && repo["workspace"] == workspace);
    let name = quote(&args.name);
    let unchecked = if args.no_check.0 { "?check=false" } else { "" };
    if let Some(before) = before {
        if !args.force_update.0 {
            if before["url"] == args.url && credentials.is_none() {
                return Ok(
                    format!("{name} already exists with the same configuration, skipping\n").into_bytes()
                );
            }
            let why =
                format!("repository name ({}) already exists, please specify a different name", args.name);
            return Err(why.into());
        }
        let change = json!({"url": args.url, "credentials": credentials.unwrap_or_else(|| json!({}))});
        client.patch(&format!("repos/{}{unchecked}", encode_segment(repo_key(before))), &change).await?;
    } else {
        client.post(&format!("repos{unchecked}"), &body).await?;
    }
    Ok(format!("{name} has been added to the repositories of {}\n", client.server()).into_bytes())
}

/// Credentials, if any were given.
fn credentials(args: &RepoAddArgs) -> Result<Option<Value>, String> {
    let login = args.login.clone().with_password_from_stdin(args.password_stdin.0)?;
    let file = |name: &str| match name {
        "" => Ok(String::new()),
        name => {
            std::fs::read_to_string(Path::new(name)).map_err(|error| format!("cannot read `{name}`: {error}"))
        }
    };
    let rows = [
        ("username", login.username.clone()),
        (
            "password",
            login.password.as_ref().map(|password| password.expose().to_owned()).unwrap_or_default(),
        ),
        ("ca", file(&login.ca_file)?),
        ("certificate", file(&login.cert_file)?),
        ("key", file(&login.key_file)?),
    ];
    let mut said: serde_json::Map<String, Value> = rows
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(name, text)| (name.to_owned(), text.into()))
        .collect();
    if login.insecure_skip_tls_verify.0 {
        said.insert("insecureSkipTLSVerify".to_owned(), true.into());
    }
    Ok((!said.is_empty()).then_some(Value::Object(said)))
}

async fn list(args: &RepoListArgs, client: &Client) -> CommandResult {
    let repos = list_repos(client).await?;
    if args.output != Form::Table {
        return Ok(table::encode_rows(&repos, args.output)?);
    }
    if repos.is_empty() {
        eprintln!("no repositories to show on {}", client.server());
        return Ok(Vec::new());
    }
    let head = (!args.no_headers.0).then(|| ["NAME".to_owned(), "URL".to_owned()]);
    let cells = repos.iter().map(|repo| {
        [escape_control(repo_key(repo)), escape_control(repo["url"].as_str().unwrap_or_default())]
    });
    Ok(table::render_table(&head.into_iter().chain(cells).collect::<Vec<_>>(), 0).into_bytes())
}

/// The platform reads a repository on demand. This checks that it can.
async fn update(names: &[String], client: &Client) -> CommandResult {
    let repos = list_repos(client).await?;
    let mut chosen = Vec::new();
    for name in names {
        chosen.push(find_repo(&repos, name)?.ok_or_else(|| not_found_message(name))?);
    }
    if names.is_empty() {
        chosen = repos.iter().collect();
    }
    let mut said = String::new();
    let mut failed = Vec::new();
    for repo in chosen {
        let name = quote(repo_key(repo));
        let read = client.get(&format!("repos/{}/charts", encode_segment(repo_key(repo)))).await;
        let _ = match read {
            Ok(_) => writeln!(said, "...Successfully got an update from the {name} chart repository"),
            Err(failure) => {
                failed.push(repo_key(repo));
                writeln!(said, "...Unable to get an update from the {name} chart repository:\n\t{failure}")
            }
        };
    }
    if failed.is_empty() {
        return Ok(said.into_bytes());
    }
    Err(CommandError::with_output(
        said,
        format!("failed to update the following repositories: [{}]", failed.join(" ")),
    ))
}

async fn remove(names: &[String], client: &Client) -> CommandResult {
    let repos = list_repos(client).await?;
    let mut said = String::new();
    for name in names {
        let gone = match find_repo(&repos, name)? {
            Some(repo) => client.delete(&format!("repos/{}", encode_segment(repo_key(repo)))).await,
            None => return Err(CommandError::with_output(said, not_found_message(name))),
        };
        match gone {
            Ok(_) => {}
            Err(PlatformError::Api(problem)) if problem.status == StatusCode::NOT_FOUND => {
                return Err(CommandError::with_output(said, not_found_message(name)));
            }
            Err(failure) => return Err(CommandError::with_output(said, failure.to_string())),
        }
        let _ =
            writeln!(said, "{} has been removed from the repositories of {}", quote(name), client.server());
    }
    Ok(said.into_bytes())
}

fn not_found_message(name: &str) -> String {
    format!("no repo named {} found", quote(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn find_repo_requires_unique_name() {
        let repos = [
            json!({"key": "team.acme", "name": "acme"}),
            json!({"key": "other.acme", "name": "acme"}),
            json!({"key": "public", "name": "public"}),
            json!({"key": "team.tools", "name": "tools"}),
        ];
        let found =
            |name: &str| find_repo(&repos, name).map(|repo| repo.map(|repo| repo_key(repo).to_owned()));
        assert_eq!(found("public"), Ok(Some("public".to_owned())));
        assert_eq!(found("tools"), Ok(Some("team.tools".to_owned())));
        assert_eq!(found("other.acme"), Ok(Some("other.acme".to_owned())));
        assert_eq!(found("nothing"), Ok(None));
        assert_eq!(
            found("acme").unwrap_err(),
            "repository name \"acme\" is ambiguous, use one of: team.acme, other.acme"
        );
    }
}
