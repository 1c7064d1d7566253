//! Workspace members.

use domain::Actor;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tenancy::members::{Bindings, MemberInfo, TenantBinding};

use super::workspaces::{WorkspaceView, answer};
use crate::actions::{Action, actions};
use crate::answer::{Answer, List};
use crate::call::Call;
use crate::problem::Problem;
use crate::routes::MEMBER;
use crate::sent::{Sent, Text};

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Member")]
pub struct MemberView {
    user: String,
    role: &'static str,
    email: String,
    organization: String,
    disabled: bool,
    actions: Vec<Action>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRole {
    /// admin, isv, developer, operator or viewer.
    role: Text<32>,
}

fn view(actor: &Actor, workspace: &str, member: MemberInfo) -> MemberView {
    MemberView {
        actions: actions(actor, MEMBER, &[workspace, member.user.as_str()], &[]),
        user: member.user.to_string(),
        role: member.role.as_str(),
        email: member.email,
        organization: member.organization,
        disabled: member.disabled,
    }
}

/// `GET workspaces/{workspace}/members`
pub async fn list(call: Call) -> Result<Answer<List<MemberView>>, Problem> {
    let (actor, name) = (call.actor()?, call.params.workspace()?);
    let members = call.api.tenancy.members(actor, &name)?;
    Ok(call.list(members.into_iter().map(|member| view(actor, name.as_str(), member)).collect()))
}

/// `PUT workspaces/{workspace}/members/{user}`
pub async fn set(call: Call<Sent<NewRole>>) -> Result<Answer<WorkspaceView>, Problem> {
    let (actor, name, user) = (call.actor()?, call.params.workspace()?, call.user()?);
    let role = call.body.0.role.parse().map_err(tenancy::Error::from)?;
    Ok(answer(actor, call.api.tenancy.set_role(actor, &name, &user, role).await?))
}

/// Query parameter that keeps RoleBindings which the removed member may have created.
pub const KEEP_BINDINGS: &str = "keepBindings";

/// RoleBindings that a removed member may have created: Kubernetes does not record who did.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RemovedMember")]
pub struct RemovedMemberView {
    /// RoleBindings for ServiceAccounts that the platform did not provision.
    bindings: Vec<BindingView>,
    /// Whether they are deleted.
    bindings_deleted: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TenantBinding")]
pub struct BindingView {
    namespace: String,
    name: String,
    role: String,
    service_accounts: Vec<String>,
}

/// `DELETE workspaces/{workspace}/members/{user}`
pub async fn remove(call: Call) -> Result<Answer<RemovedMemberView>, Problem> {
    let (actor, name, user) = (call.actor()?, call.params.workspace()?, call.user()?);
    let keep = call.asks(KEEP_BINDINGS)?;
    let bindings = if keep { Bindings::Keep } else { Bindings::Delete };
    let removed = call.api.tenancy.remove_member_with(actor, &name, &user, bindings).await?;
    let binding = |binding: TenantBinding| BindingView {
        namespace: binding.namespace,
        name: binding.name,
        role: binding.role,
        service_accounts: binding.service_accounts,
    };
    let bindings = removed.bindings.into_iter().map(binding).collect();
    Ok(Answer::new(RemovedMemberView { bindings, bindings_deleted: !keep }))
}
