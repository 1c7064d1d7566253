//! Further namespaces of a workspace.

use domain::ids::{WorkspaceName, additional_namespace, truncate_for_error};
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use kube_types::workspace::WorkspaceNamespace;

use super::{NameClaimant, ReissuePolicy, WorkspaceInfo};
use crate::quota::{ResourceQuantities, split_workspace_quota};
use crate::{Error, Tenancy};

/// The limit of namespaces per workspace, as in the CRD.
const MAX_NAMESPACES: usize = 50;

impl Tenancy {
    /// Adds the namespace `<workspace>-<word>` with a share of the workspace's quota, which is taken from the first
    /// namespace.
    pub async fn add_namespace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        word: &str,
        share: ResourceQuantities,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        self.add_namespace_as(actor, name, word, share, ReissuePolicy::Denied, expected).await
    }

    /// Like [`Tenancy::add_namespace`], also with a retired name of another owner if an administrator of the platform confirms it.
    pub async fn add_namespace_as(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        word: &str,
        share: ResourceQuantities,
        reissue: ReissuePolicy,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::ManageNamespaces, AccessScope::Workspace(name))?;
        let namespace = additional_namespace(name, word).ok_or_else(|| {
            let word = truncate_for_error(word);
            Error::Invalid(format!("`{word}` is not a valid namespace suffix: lower-case letters, digits and inner dashes, at most 63 characters with the workspace's name"))
        })?;
        let known = self.0.directory.workspace(name).ok_or_else(|| super::workspace_not_found(name))?;
        let claimant = NameClaimant { account: known.creator.as_ref(), workspace_uid: Some(&*known.uid) };
        self.check_name_is_available(actor, &namespace, claimant, reissue).await?;
        self.update_workspace(actor, name, expected, |workspace| {
            let namespaces = &mut workspace.spec.namespaces;
            if namespaces.iter().any(|other| other.name == namespace) {
                return Err(super::name_in_use(&namespace));
            }
            // The share of the former namespace is in use until that is deleted.
            let mut records = workspace.status.iter().flat_map(|status| &status.namespaces);
            if records.any(|record| record.name == namespace) {
                let message = format!("namespace `{namespace}` is still being deleted: retry later");
                return Err(Error::Conflict(message));
            }
            if namespaces.len() >= MAX_NAMESPACES {
                return Err(Error::Conflict(format!(
                    "workspace `{name}` has {MAX_NAMESPACES} namespaces, which is the limit"
                )));
            }
            namespaces.push(WorkspaceNamespace { name: namespace.clone(), share: share.clone() });
            split_workspace_quota(workspace)?;
            Ok(())
        })
        .await
    }

    /// Removes a namespace with its content. Its share returns to the first namespace, which cannot be removed.
    pub async fn remove_namespace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        namespace: &str,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        actor.authorize(Capability::ManageNamespaces, AccessScope::Workspace(name))?;
        self.update_workspace(actor, name, expected, |workspace| {
            let namespaces = &mut workspace.spec.namespaces;
            match namespaces.iter().position(|own| own.name == namespace) {
                None => Err(Error::NotFound { kind: "namespace", name: truncate_for_error(namespace) }),
                Some(0) => Err(Error::Conflict(format!(
                    "`{namespace}` is the first namespace of workspace `{name}` and can only be deleted with it"
                ))),
                Some(place) => {
                    namespaces.remove(place);
                    Ok(())
                }
            }
        })
        .await
    }
}
