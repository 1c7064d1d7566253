//! Members of a workspace and their roles.
//!
//! Users consent to membership: they are invited ([`invitations`]) and accept. Only administrators of the platform add members
//! directly.
//!
//! Invariants: a shared workspace has an admin, and a personal workspace has its owner as its only member.

use domain::ids::{UserId, WorkspaceName};
use domain::roles::{Capability, WorkspaceRole};
use domain::{AccessScope, Actor};
use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::well_known::{KEEP_BINDINGS, MEMBER_LEFT};
use kube_types::workspace::Member;
use kube_types::{Workspace, WorkspaceSpec};

use crate::directory::WorkspaceRecord;
use crate::workspaces::{WorkspaceInfo, is_personal};
use crate::{Error, Tenancy};

pub(crate) mod bindings;
pub mod invitations;

pub use bindings::TenantBinding;

/// The limit of members per workspace, as in the CRD.
pub(crate) const MAX_MEMBERS: usize = 500;

/// A member as other members may view it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberInfo {
    pub user: UserId,
    pub role: WorkspaceRole,
    /// Empty if the account does not exist.
    pub email: String,
    pub organization: String,
    pub is_disabled: bool,
}

/// Whether RoleBindings that a removed member may have created are deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindingPolicy {
    Delete,
    Keep,
}

/// The result of removing a member.
#[derive(Clone, Debug)]
pub struct RemovedMember {
    pub workspace: WorkspaceInfo,
    /// RoleBindings that the member may have created.
    pub bindings: Vec<TenantBinding>,
}

impl Tenancy {
    pub fn members(&self, actor: &Actor, name: &WorkspaceName) -> Result<Vec<MemberInfo>, Error> {
        actor.authorize(Capability::ReadWorkspace, AccessScope::Workspace(name))?;
        let workspace = self.0.directory.workspace(name).ok_or_else(|| not_found("workspace", name))?;
        let info = |(user, role): &(UserId, Option<WorkspaceRole>)| {
            let account = self.0.directory.account(user);
            let text = |field: fn(&crate::Account) -> &String| {
                account.as_deref().map(field).cloned().unwrap_or_default()
            };
            Some(MemberInfo {
                role: (*role)?,
                email: text(|account| &account.email),
                organization: text(|account| &account.organization),
                is_disabled: account.as_ref().is_none_or(|account| account.is_disabled),
                user: user.clone(),
            })
        };
        Ok(workspace.members.iter().filter_map(info).collect())
    }

    /// Changes the role of a member. An administrator of the platform can also add a member this way.
    pub async fn set_role(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        user: &UserId,
        role: WorkspaceRole,
    ) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::ManageMembers, AccessScope::Workspace(name))?;
        let may_add = actor.authorize(Capability::ManageUsers, AccessScope::Platform).is_ok()
            && self.0.directory.account(user).is_some_and(|account| !account.is_deleting);
        let now = self.0.clock.now();
        self.update_workspace(actor, name, None, |workspace| {
            check_is_shared(workspace)?;
            let members = &mut workspace.spec.members;
            match members.iter_mut().find(|member| member.user == user.as_str()) {
                Some(member) => {
                    member.role = role.to_string();
                    if !role.allows(Capability::ManageMembers) {
                        workspace.spec.invitations.retain(|invitation| invitation.by != user.as_str());
                    }
                    if role == WorkspaceRole::Viewer {
                        record_member_left(workspace, now);
                    }
                }
                None if may_add => add_member(&mut workspace.spec, user, role)?,
                None => return Err(not_found("member", user)),
            }
            check_has_admin(workspace)
        })
        .await
    }

    /// Removes a member. Members may remove themselves. RoleBindings that the member may have created are deleted.
    pub async fn remove_member(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        user: &UserId,
    ) -> Result<RemovedMember, Error> {
        self.remove_member_with(actor, name, user, BindingPolicy::Delete).await
    }

    /// Like [`Tenancy::remove_member`]; an administrator of the workspace may keep the RoleBindings of tenants.
    pub async fn remove_member_with(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        user: &UserId,
        bindings: BindingPolicy,
    ) -> Result<RemovedMember, Error> {
        actor.authorize(Capability::ReadWorkspace, AccessScope::Workspace(name))?;
        if actor.user_id() == Some(user) {
            actor.require_unrestricted_user()?;
        } else {
            actor.authorize(Capability::ManageMembers, AccessScope::Workspace(name))?;
        }
        if bindings == BindingPolicy::Keep {
            // Members who leave do not decide which of their bindings remain.
            if actor.user_id() == Some(user) {
                return Err(Error::Conflict(
                    "who leaves a workspace cannot keep its RoleBindings".to_owned(),
                ));
            }
            actor.authorize(Capability::ManageMembers, AccessScope::Workspace(name))?;
        }
        let known = self.0.directory.workspace(name).ok_or_else(|| not_found("workspace", name))?;
        let could_bind = known
            .members
            .iter()
            .any(|(member, role)| member == user && role.is_some_and(|role| role != WorkspaceRole::Viewer));
        let listed = if could_bind { self.tenant_bindings(&known).await? } else { Vec::new() };
        let now = self.0.clock.now();
        let workspace = self.update_workspace(actor, name, None, |workspace| {
            check_is_shared(workspace)?;
            let before = workspace.spec.members.len();
            workspace.spec.members.retain(|member| member.user != user.as_str());
            if workspace.spec.members.len() == before {
                return Err(not_found("member", user));
            }
            invitations::remove_invitations_of(&mut workspace.spec, user);
            if bindings == BindingPolicy::Keep && is_removal_pending(workspace) {
                let message = format!(
                    "bindings of another removed member are being deleted in workspace `{name}`; try again"
                );
                return Err(Error::Conflict(message));
            }
            record_member_left(workspace, now);
            if bindings == BindingPolicy::Keep {
                workspace.annotations_mut().insert(KEEP_BINDINGS.to_owned(), now.to_string());
            }
            check_has_admin(workspace)
        });
        Ok(RemovedMember { workspace: workspace.await?, bindings: listed })
    }

    /// Lists the RoleBindings that tenants created in all namespaces of a workspace.
    async fn tenant_bindings(&self, workspace: &WorkspaceRecord) -> Result<Vec<TenantBinding>, Error> {
        let mut found = Vec::new();
        for namespace in &workspace.created_namespaces {
            found.extend(bindings::tenant_bindings(self.0.clients.platform(), namespace).await?);
        }
        Ok(found)
    }

    /// A shared workspace whose only admin is this user.
    pub(crate) fn workspace_with_sole_admin(&self, user: &UserId) -> Option<String> {
        let held = |workspace: &WorkspaceRecord| {
            let mut admins = workspace.admins();
            !workspace.is_personal()
                && !workspace.is_deleting
                && admins.next() == Some(user)
                && admins.next().is_none()
        };
        self.0
            .directory
            .workspaces()
            .iter()
            .find(|workspace| held(workspace))
            .map(|workspace| workspace.name.to_string())
    }
}

/// Adds a member.
pub(crate) fn add_member(spec: &mut WorkspaceSpec, user: &UserId, role: WorkspaceRole) -> Result<(), Error> {
    if spec.members.len() >= MAX_MEMBERS {
        return Err(Error::Conflict(format!("a workspace has at most {MAX_MEMBERS} members")));
    }
    spec.members.push(Member { user: user.to_string(), role: role.to_string() });
    Ok(())
}

/// Records that a member lost write access: the controller recreates `longshore-deployer` for it.
pub(crate) fn record_member_left(workspace: &mut Workspace, now: Timestamp) {
    workspace.annotations_mut().insert(MEMBER_LEFT.to_owned(), now.to_string());
}

/// Whether the controller has yet to handle the last member that left.
pub(crate) fn is_removal_pending(workspace: &Workspace) -> bool {
    let left = workspace.annotations().get(MEMBER_LEFT).map_or("", String::as_str);
    workspace.status.as_ref().is_none_or(|status| status.member_left != left)
}

/// Refuses personal workspaces.
pub(crate) fn check_is_shared(workspace: &Workspace) -> Result<(), Error> {
    if is_personal(workspace) {
        let name = workspace.name_any();
        return Err(Error::Conflict(format!(
            "workspace `{name}` is a personal workspace and cannot have members"
        )));
    }
    Ok(())
}

/// Refuses workspaces without an admin.
fn check_has_admin(workspace: &Workspace) -> Result<(), Error> {
    if !workspace.spec.members.iter().any(|member| member.role == WorkspaceRole::Admin.as_str()) {
        let name = workspace.name_any();
        return Err(Error::Conflict(format!("workspace `{name}` would have no admin left")));
    }
    Ok(())
}

pub(crate) fn not_found(kind: &'static str, name: &impl ToString) -> Error {
    Error::NotFound { kind, name: name.to_string() }
}

#[cfg(test)]
mod tests;
