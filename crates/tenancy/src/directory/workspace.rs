//! The cached part of Workspace objects.

use std::sync::Arc;

use domain::ids::UserId;
use domain::roles::WorkspaceRole;
use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::conditions::is_condition_true;
use kube_types::workspace::{Invitation, WorkspaceNamespace, conditions};
use kube_types::{Workspace, well_known};

use crate::quota::ResourceQuantities;
use crate::workspaces::removal;

/// The Workspace without unused fields. Writers read the object from the cluster.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact by itself, as the object has it")]
pub struct WorkspaceRecord {
    pub name: Box<str>,
    pub uid: Box<str>,
    /// The `resourceVersion`.
    pub version: Box<str>,
    pub display_name: Box<str>,
    /// The owner of a personal workspace; empty for a shared one.
    pub owner: Box<str>,
    /// The creator.
    pub creator: Option<UserId>,
    /// Members with their roles. `None` for unknown roles, which grant nothing.
    pub members: Box<[(UserId, Option<WorkspaceRole>)]>,
    pub invitations: Box<[Invitation]>,
    pub namespaces: Box<[WorkspaceNamespace]>,
    /// The names of the namespaces that the status records.
    pub created_namespaces: Box<[Box<str>]>,
    /// Most workspaces have the default quota and share its allocation.
    pub quota: Arc<ResourceQuantities>,
    pub clusters: Box<[String]>,
    pub namespaces_ready: bool,
    pub access_ready: bool,
    pub is_ready: bool,
    /// Why it is not ready: the message of the first condition that is not true.
    pub message: Option<Box<str>>,
    /// It is marked for removal, and grants no roles.
    pub is_closed: bool,
    /// It is marked as the personal workspace of a disabled or expired account.
    pub is_account_closed: bool,
    /// When it will be deleted.
    pub remove_at: Option<Timestamp>,
    /// The object is being deleted.
    pub is_deleting: bool,
    pub created: Timestamp,
}

impl WorkspaceRecord {
    pub fn from_workspace(workspace: &Workspace) -> Self {
        let (meta, spec, status) = (&workspace.metadata, &workspace.spec, workspace.status.as_ref());
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let conditions = status.map_or(&[][..], |status| &status.conditions);
        let is = |kind| is_condition_true(conditions, kind);
        let untrue = conditions.iter().find(|condition| condition.status != "True");
        let members = spec.members.iter();
        let owned = status.into_iter().flat_map(|status| &status.namespaces);
        Self {
            name: text(&meta.name),
            uid: text(&meta.uid),
            version: text(&meta.resource_version),
            display_name: spec.display_name.as_str().into(),
            owner: spec.owner.as_str().into(),
            creator: workspace.labels().get(well_known::USER).and_then(|id| id.parse().ok()),
            members: members
                .filter_map(|member| Some((member.user.parse().ok()?, member.role.parse().ok())))
                .collect(),
            invitations: spec.invitations.as_slice().into(),
            namespaces: spec.namespaces.as_slice().into(),
            created_namespaces: owned.map(|namespace| namespace.name.as_str().into()).collect(),
            quota: Arc::new(spec.quota.clone()),
            clusters: spec.clusters.as_slice().into(),
            namespaces_ready: is(conditions::NAMESPACES_READY),
            access_ready: is(conditions::ACCESS_READY),
            is_ready: is(conditions::READY),
            message: untrue
                .map(|condition| condition.message.as_str())
                .filter(|message| !message.is_empty())
                .map(Box::from),
            is_closed: workspace.annotations().contains_key(well_known::REMOVE_AFTER),
            is_account_closed: workspace.annotations().contains_key(well_known::ACCOUNT_CLOSED),
            remove_at: removal::removal_time(workspace),
            is_deleting: meta.deletion_timestamp.is_some(),
            created: meta.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        }
    }

    /// Replaces its quota with the shared allocation `quota` if they are equal.
    pub(super) fn with_shared_quota(mut self, quota: &Arc<ResourceQuantities>) -> Self {
        if self.quota == *quota {
            self.quota = quota.clone();
        }
        self
    }

    /// Whether this is a personal workspace.
    pub fn is_personal(&self) -> bool {
        crate::workspaces::is_personal_name(&self.owner, &self.name)
    }

    pub fn admins(&self) -> impl Iterator<Item = &UserId> {
        let admin = |(_, role): &&(UserId, Option<WorkspaceRole>)| *role == Some(WorkspaceRole::Admin);
        self.members.iter().filter(admin).map(|(user, _)| user)
    }

    pub fn has_member(&self, id: &UserId) -> bool {
        self.members.iter().any(|(user, _)| user == id)
    }
}
