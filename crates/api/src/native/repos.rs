//! Chart repositories.

use releases::repos::charts::{ChartEntry, VersionEntry};
use releases::repos::credentials::Credentials;
use releases::repos::view::RepoView;
use releases::repos::{self, RepoChanges};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::{Action, of_params};
use crate::answer::{Answer, Done, List};
use crate::call::Call;
use crate::params::Params;
use crate::problem::Problem;
use crate::routes::{REPO, ROOT};
use crate::sent::{Sent, Text};

/// Larger than the default limit, for certificates and keys.
type SentRepo<T> = Sent<T, { 512 << 10 }>;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Repo")]
pub struct RepoAnswer {
    #[serde(flatten)]
    repo: RepoView,
    actions: Vec<Action>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NewRepo {
    name: Text<63>,
    /// Whose it is; everybody's where nothing is said.
    #[serde(default)]
    workspace: Text<63>,
    /// `http`, `https` or `oci`.
    url: Text<2048>,
    #[serde(default)]
    description: Text<512>,
    /// Speak to a registry without TLS.
    #[serde(default)]
    insecure: bool,
    credentials: Option<SentCredentials>,
}

/// What is not said stays.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ChangedRepo {
    url: Option<Text<2048>>,
    description: Option<Text<512>>,
    /// Nothing is fetched from it for as long as this holds.
    suspended: Option<bool>,
    /// In place of all that were given before; an empty object: none.
    credentials: Option<SentCredentials>,
}

/// What lets one in. It is told to nobody again.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "RepoCredentials")]
pub struct SentCredentials {
    username: Text<512>,
    password: Text<4096>,
    token: Text<8192>,
    /// Those whose certificates are believed, as PEM.
    ca: Text<262_144>,
    /// The certificate by which one is known, and its key, as PEM.
    certificate: Text<65_536>,
    key: Text<65_536>,
    /// Believe any certificate.
    #[serde(rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
}

impl SentCredentials {
    fn read(&self) -> Credentials {
        let Self { username, password, token, ca, certificate, key, insecure_skip_tls_verify } = self;
        Credentials {
            username: username.to_string(),
            password: password.to_string(),
            token: token.to_string(),
            ca: ca.to_string(),
            certificate: certificate.to_string(),
            key: key.to_string(),
            believe_anything: *insecure_skip_tls_verify,
        }
    }
}

fn view<B>(call: &Call<B>, repo: RepoView) -> Result<RepoAnswer, Problem> {
    let params = Params::named([("repo", repo.key.as_str())].into_iter());
    let params = params.owned_by(repos::workspace_of(&repo.key));
    let actions = of_params(call.actor()?, REPO, &params, &[]);
    Ok(RepoAnswer { repo, actions })
}

fn answer<B>(call: &Call<B>, repo: RepoView) -> Result<Answer<RepoAnswer>, Problem> {
    let version = repo.v.clone();
    Ok(Answer::new(view(call, repo)?).version(&version))
}

/// Whether the repository must serve an index before it is saved; true by default.
fn checks<B>(call: &Call<B>) -> Result<bool, Problem> {
    if call.given(CHECK).is_none() { Ok(true) } else { call.asks(CHECK) }
}

/// Query parameter for this check.
pub const CHECK: &str = "check";

/// `GET repos`
pub async fn list(call: Call) -> Result<Answer<List<RepoAnswer>>, Problem> {
    let repos = call.api.releases.repos(call.actor()?, call.said("ws")).await?;
    let views = repos.into_iter().map(|repo| view(&call, repo)).collect::<Result<_, _>>()?;
    Ok(call.list(views))
}

/// `POST repos`
pub async fn create(call: Call<SentRepo<NewRepo>>) -> Result<Answer<RepoAnswer>, Problem> {
    let Sent(NewRepo { name, workspace, url, description, insecure, credentials }) = &call.body;
    let new = repos::NewRepo {
        name: name.to_string(),
        workspace: workspace.to_string(),
        url: url.to_string(),
        description: description.to_string(),
        insecure: *insecure,
        credentials: credentials.as_ref().map(SentCredentials::read),
        check: checks(&call)?,
    };
    let made = call.api.releases.create_repo(call.actor()?, new).await?;
    let key = made.key.clone();
    Ok(answer(&call, made)?.at(&format!("{ROOT}/repos/{key}")).about(&key))
}

/// `GET repos/{repo}`
pub async fn show(call: Call) -> Result<Answer<RepoAnswer>, Problem> {
    answer(&call, call.api.releases.repo(call.actor()?, call.params.get("repo")).await?)
}

/// `PATCH repos/{repo}`
pub async fn change(call: Call<SentRepo<ChangedRepo>>) -> Result<Answer<RepoAnswer>, Problem> {
    let Sent(ChangedRepo { url, description, suspended, credentials }) = &call.body;
    let changes = RepoChanges {
        url: url.as_ref().map(|text| text.to_string()),
        description: description.as_ref().map(|text| text.to_string()),
        suspended: *suspended,
        credentials: credentials.as_ref().map(SentCredentials::read),
        check: checks(&call)?,
    };
    let (actor, name) = (call.actor()?, call.params.get("repo"));
    answer(&call, call.api.releases.change_repo(actor, name, changes, call.expected.as_deref()).await?)
}

/// `DELETE repos/{repo}`
pub async fn delete(call: Call) -> Result<Done, Problem> {
    let (actor, name) = (call.actor()?, call.params.get("repo"));
    call.api.releases.delete_repo(actor, name, call.expected.as_deref()).await?;
    Ok(Done::default())
}

/// `GET repos/{repo}/charts`
pub async fn charts(call: Call) -> Result<Answer<List<ChartEntry>>, Problem> {
    let charts = call.api.releases.repo_charts(call.actor()?, call.params.get("repo")).await?;
    Ok(call.list(charts))
}

/// `GET repos/{repo}/charts/{chart}`
pub async fn chart(call: Call) -> Result<Answer<List<VersionEntry>>, Problem> {
    let (repo, chart) = (call.params.get("repo"), call.params.get("chart"));
    Ok(call.list(call.api.releases.repo_chart(call.actor()?, repo, chart).await?))
}
