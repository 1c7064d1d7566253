//! Workspace invitations: create, list, withdraw, accept, decline.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::members::invitations::{InvitationInfo, Invited};

use super::workspaces::{WorkspaceView, answer};
use crate::answer::{Answer, Done, List};
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::{OptionalBody, Sent, Text};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// The id of an account, or an e-mail address or phone number. Addresses and numbers are not verified: an invitation to one is
    /// accepted by the code in the answer. The answer is the same whether there is such an account.
    to: Text<320>,
    role: Text<32>,
}

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "AcceptInvitation")]
pub struct AcceptInvitation {
    /// The one-time code of the invitation. Without it, an invitation to the caller's id is accepted.
    code: Option<Text<64>>,
}

/// A new invitation, with its code.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "CreatedInvitation")]
pub struct CreatedInvitation {
    #[serde(flatten)]
    invitation: InvitationView,
    /// The one-time code to give to the invitee; absent for an invitation to an id. It is not shown again.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<String>,
}

/// As those see it who invite.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Invitation")]
pub struct InvitationView {
    workspace: String,
    /// The name of the invitation: a digest of whom it is for.
    id: String,
    role: &'static str,
    by: String,
    expires: String,
}

/// As the one sees it who was invited.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Invited")]
pub struct InvitedView {
    workspace: String,
    display_name: String,
    role: &'static str,
    expires: String,
}

fn view(workspace: &str, info: InvitationInfo) -> InvitationView {
    InvitationView {
        workspace: workspace.to_owned(),
        id: info.to,
        role: info.role.as_str(),
        by: info.by,
        expires: info.expires.to_string(),
    }
}

/// `GET workspaces/{workspace}/invitations`
pub async fn list(call: Call) -> Result<Answer<List<InvitationView>>, Problem> {
    let name = call.params.workspace()?;
    let open = call.api.tenancy.invitations(call.actor()?, &name)?;
    Ok(call.list(open.into_iter().map(|info| view(name.as_str(), info)).collect()))
}

/// `POST workspaces/{workspace}/invitations`
pub async fn create(call: Call<Sent<NewInvitation>>) -> Result<Answer<CreatedInvitation>, Problem> {
    let name = call.params.workspace()?;
    let Sent(NewInvitation { to, role }) = &call.body;
    let role = role.parse().map_err(tenancy::Error::from)?;
    let made = call.api.tenancy.invite(call.actor()?, &name, to, role).await?;
    let code = made.code.map(|code| code.expose().to_owned());
    Ok(Answer::new(CreatedInvitation { invitation: view(name.as_str(), made.info), code }).secret())
}

/// `DELETE workspaces/{workspace}/invitations/{invitation}`
pub async fn withdraw(call: Call) -> Result<Done, Problem> {
    let name = call.params.workspace()?;
    call.api.tenancy.withdraw(call.actor()?, &name, call.params.get("invitation")).await?;
    Ok(Done::default())
}

/// `GET invitations`
pub async fn own(call: Call) -> Result<Answer<List<InvitedView>>, Problem> {
    let invited = call.api.tenancy.invited(call.actor()?)?;
    let view = |Invited { workspace, display_name, role, expires }| InvitedView {
        workspace: workspace.to_string(),
        display_name,
        role: domain::roles::WorkspaceRole::as_str(role),
        expires: expires.to_string(),
    };
    Ok(call.list(invited.into_iter().map(view).collect()))
}

/// `POST invitations/{workspace}`
pub async fn accept(call: Call<OptionalBody<AcceptInvitation>>) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let joined = call.api.tenancy.accept(actor, &name, call.body.0.code.as_deref(), call.from()).await?;
    // The caller has become a member; its role is read again.
    Ok(answer(&call.api.as_now(actor), joined))
}

/// `DELETE invitations/{workspace}`
pub async fn decline(call: Call) -> Result<Done, Problem> {
    call.api.tenancy.decline(call.actor()?, &call.params.workspace()?).await?;
    Ok(Done::default())
}
