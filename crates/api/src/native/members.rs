//! Workspace members.

use domain::Actor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::members::{BindingPolicy, MemberInfo, TenantBinding};

use super::workspaces::{WorkspaceView, workspace_response};
use crate::allowed_actions::{ActionView, actions_for_path};
use crate::body::{BoundedString, JsonBody};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{JsonResponse, ListResponse};
use crate::routes::MEMBER;

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Member")]
pub struct MemberView {
    user: String,
    role: &'static str,
    email: String,
    organization: String,
    disabled: bool,
    actions: Vec<ActionView>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetRoleRequest {
    /// Role: admin, isv, developer, operator or viewer.
    role: BoundedString<32>,
}

fn member_view(actor: &Actor, workspace: &str, member: MemberInfo) -> MemberView {
    MemberView {
        actions: actions_for_path(actor, MEMBER, &[workspace, member.user.as_str()], &[]),
        user: member.user.to_string(),
        role: member.role.as_str(),
        email: member.email,
        organization: member.organization,
        disabled: member.is_disabled,
    }
}

/// `GET workspaces/{workspace}/members`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ListResponse<MemberView>>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let members = call.api.tenancy.members(actor, &name)?;
    Ok(call.list(members.into_iter().map(|member| member_view(actor, name.as_str(), member)).collect()))
}

/// `PUT workspaces/{workspace}/members/{user}`
pub async fn set_role(
    call: ApiRequest<JsonBody<SetRoleRequest>>,
) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name, user) = (call.actor()?, call.params.workspace()?, call.user()?);
    let role = call.body.0.role.parse().map_err(tenancy::Error::from)?;
    Ok(workspace_response(actor, call.api.tenancy.set_role(actor, &name, &user, role).await?))
}

/// Query parameter that keeps RoleBindings which the removed member may have created.
pub const KEEP_BINDINGS_PARAM: &str = "keepBindings";

/// RoleBindings that a removed member may have created: Kubernetes does not record who did.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RemovedMember")]
pub struct RemovedMemberView {
    /// RoleBindings for ServiceAccounts that the platform did not provision.
    bindings: Vec<TenantBindingView>,
    /// Whether these RoleBindings were deleted.
    bindings_deleted: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TenantBinding")]
pub struct TenantBindingView {
    namespace: String,
    name: String,
    role: String,
    service_accounts: Vec<String>,
}

/// `DELETE workspaces/{workspace}/members/{user}`
pub async fn remove(call: ApiRequest) -> Result<JsonResponse<RemovedMemberView>, Problem> {
    let (actor, name, user) = (call.actor()?, call.params.workspace()?, call.user()?);
    let keep = call.bool_param(KEEP_BINDINGS_PARAM)?;
    let bindings = if keep { BindingPolicy::Keep } else { BindingPolicy::Delete };
    let removed = call.api.tenancy.remove_member_with(actor, &name, &user, bindings).await?;
    let binding = |binding: TenantBinding| TenantBindingView {
        namespace: binding.namespace,
        name: binding.name,
        role: binding.role,
        service_accounts: binding.service_accounts,
    };
    let bindings = removed.bindings.into_iter().map(binding).collect();
    Ok(JsonResponse::new(RemovedMemberView { bindings, bindings_deleted: !keep }))
}
