//! Chart repositories.

use releases::repos::charts::{RepoChart, RepoChartVersion};
use releases::repos::credentials::Credentials;
use releases::repos::view::RepoView;
use releases::repos::{self, RepoUpdate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allowed_actions::{ActionView, actions_for_params};
use crate::body::{BoundedString, JsonBody};
use crate::params::PathParams;
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{JsonResponse, ListResponse, NoContent};
use crate::routes::{REPO, ROOT};

/// Larger than the default limit, for certificates and keys.
type RepoBody<T> = JsonBody<T, { 512 << 10 }>;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Repo")]
pub struct RepoResponse {
    #[serde(flatten)]
    repo: RepoView,
    actions: Vec<ActionView>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CreateRepoRequest {
    name: BoundedString<63>,
    /// Workspace that owns the repository; empty for a public repository.
    #[serde(default)]
    workspace: BoundedString<63>,
    /// URL with scheme `http`, `https` or `oci`.
    url: BoundedString<2048>,
    #[serde(default)]
    description: BoundedString<512>,
    /// Use plain HTTP for a registry.
    #[serde(default)]
    insecure: bool,
    credentials: Option<RepoCredentialsBody>,
}

/// Absent fields are unchanged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UpdateRepoRequest {
    url: Option<BoundedString<2048>>,
    description: Option<BoundedString<512>>,
    /// Disables fetching from the repository.
    suspended: Option<bool>,
    /// Replaces all previous credentials; an empty object removes them.
    credentials: Option<RepoCredentialsBody>,
}

/// Credentials for a repository. They are never returned.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "camelCase")]
#[schemars(rename = "RepoCredentials")]
pub struct RepoCredentialsBody {
    username: BoundedString<512>,
    password: BoundedString<4096>,
    token: BoundedString<8192>,
    /// CA certificates to trust, PEM.
    ca: BoundedString<262_144>,
    /// Client certificate, PEM.
    certificate: BoundedString<65_536>,
    key: BoundedString<65_536>,
    /// Skip verification of the server's certificate.
    #[serde(rename = "insecureSkipTLSVerify")]
    insecure_skip_tls_verify: bool,
}

impl RepoCredentialsBody {
    fn to_credentials(&self) -> Credentials {
        let Self { username, password, token, ca, certificate, key, insecure_skip_tls_verify } = self;
        Credentials {
            username: username.to_string(),
            password: password.to_string(),
            token: token.to_string(),
            ca: ca.to_string(),
            certificate: certificate.to_string(),
            key: key.to_string(),
            insecure_skip_tls_verify: *insecure_skip_tls_verify,
        }
    }
}

fn repo_response<B>(call: &ApiRequest<B>, repo: RepoView) -> Result<RepoResponse, Problem> {
    let params = PathParams::from_pairs([("repo", repo.key.as_str())].into_iter());
    let params = params.owned_by(repos::workspace_of(&repo.key));
    let actions = actions_for_params(call.actor()?, REPO, &params, &[]);
    Ok(RepoResponse { repo, actions })
}

fn json_response<B>(call: &ApiRequest<B>, repo: RepoView) -> Result<JsonResponse<RepoResponse>, Problem> {
    let version = repo.v.clone();
    Ok(JsonResponse::new(repo_response(call, repo)?).etag(&version))
}

/// Whether the repository must serve an index before it is saved; true by default.
fn should_check<B>(call: &ApiRequest<B>) -> Result<bool, Problem> {
    if call.raw_query_param(CHECK_PARAM).is_none() { Ok(true) } else { call.bool_param(CHECK_PARAM) }
}

/// Query parameter for this check.
pub const CHECK_PARAM: &str = "check";

/// `GET repos`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ListResponse<RepoResponse>>, Problem> {
    let repos = call.api.releases.list_repos(call.actor()?, call.query_param("ws")).await?;
    let views = repos.into_iter().map(|repo| repo_response(&call, repo)).collect::<Result<_, _>>()?;
    Ok(call.list(views))
}

/// `POST repos`
pub async fn create(
    call: ApiRequest<RepoBody<CreateRepoRequest>>,
) -> Result<JsonResponse<RepoResponse>, Problem> {
    let JsonBody(CreateRepoRequest { name, workspace, url, description, insecure, credentials }) = &call.body;
    let new = repos::CreateRepoRequest {
        name: name.to_string(),
        workspace: workspace.to_string(),
        url: url.to_string(),
        description: description.to_string(),
        insecure: *insecure,
        credentials: credentials.as_ref().map(RepoCredentialsBody::to_credentials),
        check: should_check(&call)?,
    };
    let made = call.api.releases.create_repo(call.actor()?, new).await?;
    let key = made.key.clone();
    Ok(json_response(&call, made)?.location(&format!("{ROOT}/repos/{key}")).audit_object(&key))
}

/// `GET repos/{repo}`
pub async fn get(call: ApiRequest) -> Result<JsonResponse<RepoResponse>, Problem> {
    json_response(&call, call.api.releases.get_repo(call.actor()?, call.params.get("repo")).await?)
}

/// `PATCH repos/{repo}`
pub async fn update(
    call: ApiRequest<RepoBody<UpdateRepoRequest>>,
) -> Result<JsonResponse<RepoResponse>, Problem> {
    let JsonBody(UpdateRepoRequest { url, description, suspended, credentials }) = &call.body;
    let changes = RepoUpdate {
        url: url.as_ref().map(|text| text.to_string()),
        description: description.as_ref().map(|text| text.to_string()),
        suspended: *suspended,
        credentials: credentials.as_ref().map(RepoCredentialsBody::to_credentials),
        check: should_check(&call)?,
    };
    let (actor, name) = (call.actor()?, call.params.get("repo"));
    json_response(&call, call.api.releases.update_repo(actor, name, changes, call.if_match.as_deref()).await?)
}

/// `DELETE repos/{repo}`
pub async fn delete(call: ApiRequest) -> Result<NoContent, Problem> {
    let (actor, name) = (call.actor()?, call.params.get("repo"));
    call.api.releases.delete_repo(actor, name, call.if_match.as_deref()).await?;
    Ok(NoContent::default())
}

/// `GET repos/{repo}/charts`
pub async fn list_charts(call: ApiRequest) -> Result<JsonResponse<ListResponse<RepoChart>>, Problem> {
    let charts = call.api.releases.repo_charts(call.actor()?, call.params.get("repo")).await?;
    Ok(call.list(charts))
}

/// `GET repos/{repo}/charts/{chart}`
pub async fn list_versions(
    call: ApiRequest,
) -> Result<JsonResponse<ListResponse<RepoChartVersion>>, Problem> {
    let (repo, chart) = (call.params.get("repo"), call.params.get("chart"));
    Ok(call.list(call.api.releases.repo_chart(call.actor()?, repo, chart).await?))
}
