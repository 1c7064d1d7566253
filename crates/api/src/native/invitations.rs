//! Workspace invitations: create, list, withdraw, accept, decline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::members::invitations::{InvitationInfo, ReceivedInvitation};

use super::workspaces::{WorkspaceView, workspace_response};
use crate::body::{BoundedString, JsonBody, OptionalBody};
use crate::problem::Problem;
use crate::request::ApiRequest;
use crate::response::{JsonResponse, ListResponse, NoContent};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateInvitationRequest {
    /// Account id, e-mail address or phone number. Addresses and numbers are not verified, so an invitation to one is
    /// accepted with the code in the response. The response does not reveal whether the account exists.
    to: BoundedString<320>,
    role: BoundedString<32>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AcceptInvitation")]
pub struct AcceptInvitationRequest {
    /// One-time code of the invitation. If absent, an invitation to the caller's id is accepted.
    code: Option<BoundedString<64>>,
}

/// A new invitation, with its code.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CreatedInvitation")]
pub struct CreatedInvitation {
    #[serde(flatten)]
    invitation: InvitationView,
    /// One-time code to give to the invitee; absent for an invitation to an id. It is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// Invitation as shown to the workspace's administrators.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Invitation")]
pub struct InvitationView {
    workspace: String,
    /// Name of the invitation: a digest of the invitee.
    id: String,
    role: &'static str,
    by: String,
    expires: String,
}

/// Invitation as shown to the invitee.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Invited")]
pub struct ReceivedInvitationView {
    workspace: String,
    display_name: String,
    role: &'static str,
    expires: String,
}

fn invitation_view(workspace: &str, info: InvitationInfo) -> InvitationView {
    InvitationView {
        workspace: workspace.to_owned(),
        id: info.invitee_digest,
        role: info.role.as_str(),
        by: info.invited_by,
        expires: info.expires.to_string(),
    }
}

/// `GET workspaces/{workspace}/invitations`
pub async fn list(call: ApiRequest) -> Result<JsonResponse<ListResponse<InvitationView>>, Problem> {
    let name = call.params.workspace()?;
    let open = call.api.tenancy.invitations(call.actor()?, &name)?;
    Ok(call.list(open.into_iter().map(|info| invitation_view(name.as_str(), info)).collect()))
}

/// `POST workspaces/{workspace}/invitations`
pub async fn create(
    call: ApiRequest<JsonBody<CreateInvitationRequest>>,
) -> Result<JsonResponse<CreatedInvitation>, Problem> {
    let name = call.params.workspace()?;
    let JsonBody(CreateInvitationRequest { to, role }) = &call.body;
    let role = role.parse().map_err(tenancy::Error::from)?;
    let made = call.api.tenancy.invite(call.actor()?, &name, to, role).await?;
    let code = made.code.map(|code| code.expose().to_owned());
    Ok(JsonResponse::new(CreatedInvitation { invitation: invitation_view(name.as_str(), made.info), code })
        .no_store())
}

/// `DELETE workspaces/{workspace}/invitations/{invitation}`
pub async fn withdraw(call: ApiRequest) -> Result<NoContent, Problem> {
    let name = call.params.workspace()?;
    call.api.tenancy.withdraw_invitation(call.actor()?, &name, call.params.get("invitation")).await?;
    Ok(NoContent::default())
}

/// `GET invitations`
pub async fn list_received(
    call: ApiRequest,
) -> Result<JsonResponse<ListResponse<ReceivedInvitationView>>, Problem> {
    let invited = call.api.tenancy.received_invitations(call.actor()?)?;
    let view = |ReceivedInvitation { workspace, display_name, role, expires }| ReceivedInvitationView {
        workspace: workspace.to_string(),
        display_name,
        role: domain::roles::WorkspaceRole::as_str(role),
        expires: expires.to_string(),
    };
    Ok(call.list(invited.into_iter().map(view).collect()))
}

/// `POST invitations/{workspace}`
pub async fn accept(
    call: ApiRequest<OptionalBody<AcceptInvitationRequest>>,
) -> Result<JsonResponse<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let joined = call
        .api
        .tenancy
        .accept_invitation(actor, &name, call.body.0.code.as_deref(), call.client_ip())
        .await?;
    // The caller has become a member; its role is read again.
    Ok(workspace_response(&call.api.refresh_actor(actor), joined))
}

/// `DELETE invitations/{workspace}`
pub async fn decline(call: ApiRequest) -> Result<NoContent, Problem> {
    call.api.tenancy.decline_invitation(call.actor()?, &call.params.workspace()?).await?;
    Ok(NoContent::default())
}
