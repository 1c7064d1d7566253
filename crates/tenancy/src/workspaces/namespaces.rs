//! The namespaces of a workspace besides its first.

use domain::ids::{WorkspaceName, further_namespace, shortened};
use domain::roles::Capability;
use domain::{Actor, Place};
use kube_types::workspace::WorkspaceNamespace;

use super::WorkspaceInfo;
use crate::quota::{Amounts, shares};
use crate::{Error, Tenancy};

/// As many as the definition of a workspace allows.
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
        actor.may(Capability::ManageNamespaces, Place::Workspace(name))?;
        let namespace = further_namespace(name, word).ok_or_else(|| {
            let word = shortened(word);
            Error::Invalid(format!("`{word}` cannot end the name of a namespace: small letters, digits and inner dashes, 63 with the workspace's name"))
        })?;
        self.is_free(&namespace).await?;
        self.change_workspace(actor, name, expected, |workspace| {
            let namespaces = &mut workspace.spec.namespaces;
            if namespaces.iter().any(|other| other.name == namespace) {
                return Err(super::taken(&namespace));
            }
            if namespaces.len() >= MOST {
                return Err(Error::Conflict(format!(
                    "workspace `{name}` has {MOST} namespaces, which is the most"
                )));
            }
            namespaces.push(WorkspaceNamespace { name: namespace.clone(), share: share.clone() });
            shares(&workspace.spec.quota, namespaces)?;
            Ok(())
        })
        .await
    }

    /// Takes a namespace away, with all that is in it. Its share goes back to the first, which cannot be taken away.
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
