//! Quotas of workspaces: the total, which administrators of the platform set, and the shares of its namespaces, which the
//! workspace's admins set.

use std::collections::BTreeMap;

use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{AccessScope, Actor};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::ListParams;
use kube_types::well_known;

use crate::workspaces::WorkspaceInfo;
use crate::{Error, Tenancy};

pub(crate) mod account_quota;
pub(crate) mod limits;
pub(crate) mod object_counts;
mod shares;

pub use shares::{QuotaError, ResourceQuantities, split_quota, split_workspace_quota};

/// The quota of a workspace and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaInfo {
    /// The `resourceVersion` of the workspace.
    pub version: String,
    pub quota: ResourceQuantities,
    /// The first namespace of the workspace comes first.
    pub namespaces: Vec<NamespaceQuota>,
}

/// The quota of one namespace and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceQuota {
    pub name: String,
    /// The limits.
    pub hard: ResourceQuantities,
    /// The use as Kubernetes last counted it.
    pub used: ResourceQuantities,
}

/// A change of a workspace's quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaPatch {
    /// The total of the workspace.
    pub quota: Option<ResourceQuantities>,
    /// Shares by namespace. Namespaces that are not listed keep their share.
    pub shares: BTreeMap<String, ResourceQuantities>,
}

impl Tenancy {
    /// The quota of a workspace and its use per namespace.
    pub async fn quota(&self, actor: &Actor, name: &WorkspaceName) -> Result<QuotaInfo, Error> {
        let WorkspaceInfo { version, quota, namespaces, .. } = self.workspace(actor, name)?;
        let known = self.0.directory.workspace(name);
        let hard =
            known.map_or_else(|| Ok(BTreeMap::new()), |known| split_quota(&quota, &known.namespaces))?;
        let parts = namespaces.into_iter().map(async |namespace| {
            let used = if namespace.is_created {
                self.used(&namespace.name).await?
            } else {
                ResourceQuantities::new()
            };
            let hard = hard.get(&namespace.name).cloned().unwrap_or_default();
            // Object counts are limits of the platform and not part of the quota.
            let used = used.into_iter().filter(|(resource, _)| hard.contains_key(resource)).collect();
            Ok::<_, Error>(NamespaceQuota { hard, used, name: namespace.name })
        });
        Ok(QuotaInfo { version, quota, namespaces: try_join_all(parts).await? })
    }

    async fn used(&self, namespace: &str) -> Result<ResourceQuantities, Error> {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.0.clients.platform(), namespace);
        let ours = quotas.list(&ListParams::default().labels(well_known::PROVISIONED_OBJECT)).await?;
        let used = ours.into_iter().filter_map(|quota| quota.status?.used).flatten();
        Ok(used.map(|(resource, amount)| (resource, amount.0)).collect())
    }

    /// Changes the total, the shares, or both. Refuses shares whose sum exceeds the total.
    pub async fn set_quota(
        &self,
        actor: &Actor,
        name: &WorkspaceName,
        patch: QuotaPatch,
        expected: Option<&str>,
    ) -> Result<WorkspaceInfo, Error> {
        let needed = if patch.quota.is_some() { Capability::SetQuota } else { Capability::ManageNamespaces };
        actor.authorize(needed, AccessScope::Workspace(name))?;
        self.update_workspace(actor, name, expected, |workspace| {
            let spec = &mut workspace.spec;
            if let Some(quota) = &patch.quota {
                spec.quota.clone_from(quota);
            }
            for (namespace, share) in &patch.shares {
                let own = spec.namespaces.iter_mut().find(|own| own.name == *namespace);
                let own = own.ok_or_else(|| crate::members::not_found("namespace", namespace))?;
                own.share.clone_from(share);
            }
            split_workspace_quota(workspace)?;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests;
