//! Workspaces and their namespaces: create, read, update, delete.

use std::collections::BTreeMap;

use domain::Actor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::workspaces::{ReissuePolicy, WorkspaceInfo};

use crate::allowed_actions::{ActionView, actions_for_path};
use crate::body::{BoundedString, JsonBody};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{JsonResponse, ListResponse};
use crate::routes::{ROOT, WORKSPACE};

pub type ResourceQuantities = BTreeMap<String, String>;

/// Quantities by resource name, as sent by a client.
pub type ResourceQuantitiesBody = BTreeMap<BoundedString<128>, BoundedString<64>>;

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Workspace")]
pub struct WorkspaceView {
    name: String,
    display_name: String,
    /// Whether it is the personal workspace of an account, which is not shared and is deleted with the account.
    personal: bool,
    /// Role of the caller; absent for a platform administrator without membership.
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    members: usize,
    invitations: usize,
    /// Namespaces; the first has the name of the workspace.
    namespaces: Vec<NamespaceView>,
    quota: ResourceQuantities,
    clusters: Vec<String>,
    ready: bool,
    /// Reason why the workspace is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// Time of the scheduled deletion; until then the workspace can be restored.
    #[serde(skip_serializing_if = "Option::is_none")]
    remove_after: Option<String>,
    /// Whether the workspace is being deleted.
    leaving: bool,
    created: String,
    /// Version, for `If-Match`.
    v: String,
    actions: Vec<ActionView>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "WorkspaceNamespace")]
pub struct NamespaceView {
    name: String,
    /// Whether the namespace exists.
    made: bool,
    /// Share of the workspace's quota; the first namespace gets the amounts that no other namespace has as a share.
    share: ResourceQuantities,
}

impl WorkspaceView {
    fn new(actor: &Actor, info: WorkspaceInfo) -> Self {
        let mut blocked = Vec::new();
        if info.is_personal {
            blocked.extend([("workspaces.delete", "personal"), ("invitations.create", "personal")]);
        }
        if info.remove_at.is_none() {
            blocked.push(("workspaces.restore", "not-removed"));
        }
        let actions = actions_for_path(actor, WORKSPACE, &[info.name.as_str()], &blocked);
        let namespace = |namespace: tenancy::workspaces::NamespaceInfo| NamespaceView {
            name: namespace.name,
            made: namespace.is_created,
            share: namespace.share,
        };
        Self {
            name: info.name.to_string(),
            display_name: info.display_name,
            personal: info.is_personal,
            role: info.role.map(domain::roles::WorkspaceRole::as_str),
            members: info.members,
            invitations: info.invitations,
            namespaces: info.namespaces.into_iter().map(namespace).collect(),
            quota: info.quota,
            clusters: info.clusters,
            ready: info.is_ready,
            message: info.message,
            remove_after: info.remove_at.map(|time| time.to_string()),
            leaving: info.is_deleting,
            created: info.created.to_string(),
            v: info.version,
            actions,
        }
    }
}

/// One workspace, with its version as `ETag`.
pub fn workspace_response(actor: &Actor, info: WorkspaceInfo) -> JsonResponse<WorkspaceView> {
    let version = info.version.clone();
    JsonResponse::new(WorkspaceView::new(actor, info)).etag(&version)
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CreateWorkspaceRequest {
    name: BoundedString<63>,
    #[serde(default)]
    display_name: BoundedString<128>,
    /// Reuse the retired name of another owner, with all permissions still granted to it. Platform administrators only.
    #[serde(default)]
    reissue: bool,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct UpdateWorkspaceRequest {
    display_name: BoundedString<128>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateNamespaceRequest {
    /// Suffix of the name, after the workspace's name and a dash.
    name: BoundedString<63>,
    /// Share of the workspace's quota.
    #[serde(default)]
    share: ResourceQuantitiesBody,
    /// Reuse the retired name of another owner, with all permissions still granted to it. Platform administrators only.
    #[serde(default)]
    reissue: bool,
}

fn reissue(confirmed: bool) -> ReissuePolicy {
    if confirmed { ReissuePolicy::Confirmed } else { ReissuePolicy::Denied }
}

pub fn to_quantities(amounts: &ResourceQuantitiesBody) -> ResourceQuantities {
    amounts.iter().map(|(name, amount)| (name.to_string(), amount.to_string())).collect()
}

/// `GET workspaces`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ListResponse<WorkspaceView>>, Problem> {
    let actor = call.actor()?;
    let workspaces = call.api.tenancy.workspaces(actor);
    Ok(call.list(workspaces.into_iter().map(|info| WorkspaceView::new(actor, info)).collect()))
}

/// `POST workspaces`
pub async fn create(
    call: ApiRequest<JsonBody<CreateWorkspaceRequest>>,
) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let JsonBody(CreateWorkspaceRequest { name, display_name, reissue: confirmed }) = &call.body;
    let actor = call.actor()?;
    let tenancy = &call.api.tenancy;
    let made = tenancy.create_workspace_as(actor, name, display_name, reissue(*confirmed)).await?;
    let name = made.name.clone();
    // The caller has become the workspace's admin; its role is read again.
    let actor = call.api.refresh_actor(actor);
    Ok(workspace_response(&actor, made).location(&format!("{ROOT}/workspaces/{name}")).audit_object(&name))
}

/// `GET workspaces/{workspace}`
pub async fn get(call: ApiRequest) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let actor = call.actor()?;
    Ok(workspace_response(actor, call.api.tenancy.workspace(actor, &call.params.workspace()?)?))
}

/// `PATCH workspaces/{workspace}`
pub async fn update(
    call: ApiRequest<JsonBody<UpdateWorkspaceRequest>>,
) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let display = &call.body.0.display_name;
    let changed = call.api.tenancy.rename_workspace(actor, &name, display, call.if_match.as_deref()).await?;
    Ok(workspace_response(actor, changed))
}

/// `DELETE workspaces/{workspace}`: after a retention period, or immediately with `now`.
pub async fn delete(call: ApiRequest) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name, now) = (call.actor()?, call.params.workspace()?, call.bool_param("now")?);
    let gone = call.api.tenancy.delete_workspace(actor, &name, now, call.if_match.as_deref()).await?;
    Ok(workspace_response(actor, gone))
}

/// `POST workspaces/{workspace}/restore`
pub async fn restore(call: ApiRequest) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let back = call.api.tenancy.restore_workspace(actor, &name, call.if_match.as_deref()).await?;
    Ok(workspace_response(actor, back))
}

/// `POST workspaces/{workspace}/namespaces`
pub async fn add_namespace(
    call: ApiRequest<JsonBody<CreateNamespaceRequest>>,
) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let JsonBody(CreateNamespaceRequest { name: word, share, reissue: confirmed }) = &call.body;
    let (expected, reissue) = (call.if_match.as_deref(), reissue(*confirmed));
    let changed = call
        .api
        .tenancy
        .add_namespace_as(actor, &name, word, to_quantities(share), reissue, expected)
        .await?;
    Ok(workspace_response(actor, changed).audit_object(&format!("{name}/{name}-{}", &**word)))
}

/// `DELETE workspaces/{workspace}/namespaces/{namespace}`
pub async fn remove_namespace(call: ApiRequest) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let namespace = call.params.get("namespace");
    let changed =
        call.api.tenancy.remove_namespace(actor, &name, namespace, call.if_match.as_deref()).await?;
    Ok(workspace_response(actor, changed))
}
