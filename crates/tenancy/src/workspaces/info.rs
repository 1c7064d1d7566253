//! A workspace as people see it.

use domain::Actor;
use domain::ids::WorkspaceName;
use domain::roles::WorkspaceRole;
use jiff::Timestamp;
use kube::ResourceExt;
use kube_types::workspace::conditions;
use kube_types::{Workspace, progress};

use super::{is_personal, removal};
use crate::quota::Amounts;

/// A workspace as those see it who may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkspaceInfo {
    pub name: WorkspaceName,
    pub uid: String,
    /// The resourceVersion.
    pub version: String,
    pub display_name: String,
    /// Goes with its owner's account, and is not shared.
    pub personal: bool,
    /// What the one who asks is in it.
    pub role: Option<WorkspaceRole>,
    pub members: usize,
    pub invitations: usize,
    /// The first is the workspace's own.
    pub namespaces: Vec<NamespaceInfo>,
    pub quota: Amounts,
    pub clusters: Vec<String>,
    pub ready: bool,
    /// What is still missing, in the words of the conditions.
    pub message: Option<String>,
    /// When it will be removed; until then it can be brought back.
    pub removal: Option<Timestamp>,
    /// It is being removed.
    pub leaving: bool,
    pub created: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceInfo {
    pub name: String,
    /// It is there, and ours.
    pub made: bool,
    pub share: Amounts,
}

impl WorkspaceInfo {
    /// `None` where the object has a name that no workspace of ours can have.
    pub(super) fn of(workspace: &Workspace, actor: &Actor) -> Option<Self> {
        let name: WorkspaceName = workspace.name_any().parse().ok()?;
        let (spec, status) = (&workspace.spec, workspace.status.as_ref());
        let made =
            |name: &str| status.is_some_and(|status| status.namespaces.iter().any(|own| own.name == name));
        let untrue = status
            .and_then(|status| status.conditions.iter().find(|condition| condition.status != "True"))
            .map(|condition| condition.message.clone());
        Some(Self {
            role: actor.memberships.get(&name).copied(),
            uid: workspace.uid().unwrap_or_default(),
            version: workspace.resource_version().unwrap_or_default(),
            display_name: spec.display_name.clone(),
            personal: is_personal(workspace),
            members: spec.members.len(),
            invitations: spec.invitations.len(),
            namespaces: spec
                .namespaces
                .iter()
                .map(|namespace| NamespaceInfo {
                    made: made(&namespace.name),
                    name: namespace.name.clone(),
                    share: namespace.share.clone(),
                })
                .collect(),
            quota: spec.quota.clone(),
            clusters: spec.clusters.clone(),
            ready: status.is_some_and(|status| progress::is_true(&status.conditions, conditions::READY)),
            message: untrue.filter(|message| !message.is_empty()),
            removal: removal::moment(workspace),
            leaving: workspace.metadata.deletion_timestamp.is_some(),
            created: workspace
                .metadata
                .creation_timestamp
                .as_ref()
                .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            name,
        })
    }
}
