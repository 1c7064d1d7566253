//! Being asked to join a workspace, and answering.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::members::invitations::{InvitationInfo, Invited};

use super::workspaces::{WorkspaceView, answer};
use crate::answer::{Answer, Done, List};
use crate::call::Call;
use crate::problem::Problem;
use crate::sent::{Sent, Text};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewInvitation {
    /// An e-mail address, phone number or id. The answer is the same whether there is such an account.
    to: Text<320>,
    role: Text<32>,
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
pub async fn create(call: Call<Sent<NewInvitation>>) -> Result<Answer<InvitationView>, Problem> {
    let name = call.params.workspace()?;
    let Sent(NewInvitation { to, role }) = &call.body;
    let role = role.parse().map_err(tenancy::Error::from)?;
    let made = call.api.tenancy.invite(call.actor()?, &name, to, role).await?;
    Ok(Answer::new(view(name.as_str(), made)))
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
pub async fn accept(call: Call) -> Result<Answer<WorkspaceView>, Problem> {
    let actor = call.actor()?;
    let joined = call.api.tenancy.accept(actor, &call.params.workspace()?).await?;
    // Whoever joined is a member, which they were not when they asked.
    Ok(answer(&call.api.as_now(actor), joined))
}

/// `DELETE invitations/{workspace}`
pub async fn decline(call: Call) -> Result<Done, Problem> {
    call.api.tenancy.decline(call.actor()?, &call.params.workspace()?).await?;
    Ok(Done::default())
}
