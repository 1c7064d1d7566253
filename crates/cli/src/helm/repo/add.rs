//! `longshore repo add`

use clap::Args;
use helm_template::go::quote;
use helm_template::profile::Profile;

use super::super::CommandResult;
use super::super::flags::{Switch, switch};
use super::super::remote::{self, RepoAuthArgs};
use super::super::repositories::{RepoPathsArgs, RepositoryEntry};

#[derive(Clone, Debug, Args)]
pub struct RepoAddArgs {
    /// Name of the repository
    pub name: String,
    /// URL of the repository
    pub url: String,
    #[command(flatten)]
    pub login: RepoAuthArgs,
    /// Read the password from standard input
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub password_stdin: Switch,
    /// Replace an existing repository of the same name
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub force_update: Switch,
    /// Add the repository even if it cannot be reached (platform only)
    #[arg(long, value_parser = switch(), num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true", hide_possible_values = true)]
    pub no_check: Switch,
    /// Workspace that owns the repository, empty for a public repository (platform only) [default: your personal
    /// workspace]
    #[arg(long, value_name = "WORKSPACE")]
    pub workspace: Option<String>,
    #[command(flatten)]
    pub places: RepoPathsArgs,
}

pub fn run(args: &RepoAddArgs) -> CommandResult {
    let name = &args.name;
    if args.workspace.is_some() {
        return Err("--workspace requires a platform: run `longshore login SERVER` first".into());
    }
    // As in Helm, a repository without an index cannot be used.
    if args.no_check.0 {
        return Err("--no-check requires a platform: run `longshore login SERVER` first".into());
    }
    if name.contains('/') {
        let why = "contains '/', please specify a different name without '/'";
        return Err(format!("repository name ({name}) {why}").into());
    }
    if name.is_empty() || name.starts_with('.') {
        return Err(format!("repository name ({name}) is not a valid file name").into());
    }
    let places = args.places.resolve()?;
    let entry = new_entry(args)?;
    let known = places.read()?;
    if !args.force_update.0
        && let Some(known) = known.get(name)
    {
        if *known == entry {
            let said = format!("{} already exists with the same configuration, skipping\n", quote(name));
            return Ok(said.into_bytes());
        }
        return Err(
            format!("repository name ({name}) already exists, please specify a different name").into()
        );
    }
    let repository = entry.repository()?;
    let (text, index) = remote::download(&repository, Profile::default()).map_err(|why| {
        let place = quote(&repository.address.to_string());
        format!("looks like {place} is not a valid chart repository or cannot be reached: {why}")
    })?;
    places.save_index(name, &text, &index)?;
    places.update(|repositories| {
        repositories.upsert(entry);
        Ok(())
    })?;
    Ok(format!("{} has been added to your repositories\n", quote(name)).into_bytes())
}

fn new_entry(args: &RepoAddArgs) -> Result<RepositoryEntry, String> {
    let login = args.login.clone().with_password_from_stdin(args.password_stdin.0)?;
    Ok(RepositoryEntry {
        name: args.name.clone(),
        url: args.url.clone(),
        ca_file: login.ca_file,
        cert_file: login.cert_file,
        key_file: login.key_file,
        insecure_skip_tls_verify: login.insecure_skip_tls_verify.0,
        pass_credentials_all: login.pass_credentials.0,
        username: login.username,
        password: login.password,
    })
}
