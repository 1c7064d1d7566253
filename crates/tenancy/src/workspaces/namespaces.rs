//! Further namespaces of a workspace.

use domain::ids::{WorkspaceName, further_namespace, shortened};
use domain::roles::Capability;
use domain::{Actor, Place};
use kube_types::workspace::WorkspaceNamespace;

use super::{Claimant, Reissue, WorkspaceInfo};
use crate::quota::{Amounts, shares_of};
use crate::{Error, Tenancy};

/// The limit of namespaces per workspace, as in the CRD.
const MOST: usize = 50;

impl Tenancy {
    /// Adds the namespace `<workspace>-<word>` with a share of the workspace's quota, which is taken from the first
    /// namespace.
    pub async fn add_namespace(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        word: &str,
        share: Amounts,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        self.add_namespace_as(actor, name, word, share, Reissue::Refused, expected).await
    }

    /// Like [`Tenancy::add_namespace`], also with a retired name of another owner if an administrator of the platform confirms it.
    pub async fn add_namespace_as(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        word: &str,
        share: Amounts,
        reissue: Reissue,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        actor.may(Capability::ManageNamespaces, Place::Workspace(name))?;
        let namespace = further_namespace(name, word).ok_or_else(|| {
            let word = shortened(word);
            Error::Invalid(format!("`{word}` cannot end the name of a namespace: small letters, digits and inner dashes, 63 with the workspace's name"))
        })?;
        let known = self.0.directory.workspace(name).ok_or_else(|| super::unknown(name))?;
        let claimant = Claimant { account: known.maker.as_ref(), workspace_uid: Some(&*known.uid) };
        self.is_free(actor, &namespace, claimant, reissue).await?;
        self.change_workspace(actor, name, expected, |workspace| {
            let namespaces = &mut workspace.spec.namespaces;
            if namespaces.iter().any(|other| other.name == namespace) {
                return Err(super::taken(&namespace));
            }
            // The share of the former namespace is in use until that is deleted.
            let mut records = workspace.status.iter().flat_map(|status| &status.namespaces);
            if records.any(|record| record.name == namespace) {
                let message =
                    format!("namespace `{namespace}` is still being removed; try again when it is gone");
                return Err(Error::Conflict(message));
            }
            if namespaces.len() >= MOST {
                return Err(Error::Conflict(format!(
                    "workspace `{name}` has {MOST} namespaces, which is the most"
                )));
            }
            namespaces.push(WorkspaceNamespace { name: namespace.clone(), share: share.clone() });
            shares_of(workspace)?;
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
        actor.may(Capability::ManageNamespaces, Place::Workspace(name))?;
        self.change_workspace(actor, name, expected, |workspace| {
            let namespaces = &mut workspace.spec.namespaces;
            match namespaces.iter().position(|own| own.name == namespace) {
                None => Err(Error::NotFound { kind: "namespace", name: shortened(namespace) }),
                Some(0) => Err(Error::Conflict(format!(
                    "`{namespace}` is the first namespace of workspace `{name}`, and goes with it"
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
