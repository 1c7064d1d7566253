//! The view of a workspace for its readers.

use domain::Actor;
use domain::ids::WorkspaceName;
use domain::roles::WorkspaceRole;
use jiff::Timestamp;
use kube_types::workspace::WorkspaceNamespace;

use crate::directory::WorkspaceRecord;
use crate::quota::ResourceQuantities;

/// A workspace in the view of an actor that may read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceInfo {
    pub name: WorkspaceName,
    pub uid: String,
    /// The `resourceVersion`.
    pub version: String,
    pub display_name: String,
    /// It belongs to one account, is deleted with it, and cannot be shared.
    pub is_personal: bool,
    /// The role of the requesting actor.
    pub role: Option<WorkspaceRole>,
    pub members: usize,
    pub invitations: usize,
    /// The first one is the namespace that was created with the workspace.
    pub namespaces: Vec<NamespaceInfo>,
    pub quota: ResourceQuantities,
    pub clusters: Vec<String>,
    pub is_ready: bool,
    /// Why it is not ready: the message of a condition.
    pub message: Option<String>,
    /// When it will be deleted; until then it can be restored.
    pub remove_at: Option<Timestamp>,
    /// It is being deleted.
    pub is_deleting: bool,
    pub created: Timestamp,
}

/// A namespace of a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    pub name: String,
    /// It exists and is recorded as the workspace's own.
    pub is_created: bool,
    pub share: ResourceQuantities,
}

impl WorkspaceInfo {
    /// `None` if the object's name is not a valid workspace name.
    pub(super) fn from_record(workspace: &WorkspaceRecord, actor: &Actor) -> Option<Self> {
        let name: WorkspaceName = workspace.name.parse().ok()?;
        let namespace = |namespace: &WorkspaceNamespace| NamespaceInfo {
            is_created: workspace.created_namespaces.iter().any(|made| **made == *namespace.name),
            name: namespace.name.clone(),
            share: namespace.share.clone(),
        };
        Some(Self {
            role: actor.memberships.get(&name).copied(),
            uid: workspace.uid.to_string(),
            version: workspace.version.to_string(),
            display_name: workspace.display_name.to_string(),
            is_personal: workspace.is_personal(),
            members: workspace.members.len(),
            invitations: workspace.invitations.len(),
            namespaces: workspace.namespaces.iter().map(namespace).collect(),
            quota: ResourceQuantities::clone(&workspace.quota),
            clusters: workspace.clusters.to_vec(),
            is_ready: workspace.is_ready,
            message: workspace.message.as_deref().map(str::to_owned),
            remove_at: workspace.remove_at,
            is_deleting: workspace.is_deleting,
            created: workspace.created,
            name,
        })
    }
}
