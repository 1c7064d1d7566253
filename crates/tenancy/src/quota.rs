//! Quotas of workspaces: the total, which administrators of the platform set, and the shares of its namespaces, which the
//! workspace's admins set.

use std::collections::BTreeMap;

use domain::ids::WorkspaceName;
use domain::roles::Capability;
use domain::{Actor, Place};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::Api;
use kube::api::ListParams;
use kube_types::marks;

use crate::workspaces::WorkspaceInfo;
use crate::{Error, Tenancy};

pub(crate) mod counts;
pub(crate) mod person;
mod shares;

pub use shares::{Amounts, QuotaError, shares, shares_of};

/// The quota of a workspace and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaInfo {
    /// The `resourceVersion` of the workspace.
    pub version: String,
    pub quota: Amounts,
    /// The first namespace of the workspace comes first.
    pub namespaces: Vec<NamespaceQuota>,
}

/// The quota of one namespace and its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceQuota {
    pub name: String,
    /// The limits.
    pub hard: Amounts,
    /// The use as Kubernetes last counted it.
    pub used: Amounts,
}

/// A change of a workspace's quota.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaPatch {
    /// The total of the workspace.
    pub quota: Option<Amounts>,
    /// Shares by namespace. Namespaces that are not listed keep their share.
    pub shares: BTreeMap<String, Amounts>,
}

impl Tenancy {
    /// The quota of a workspace and its use per namespace.
    pub async fn quota(&self, actor: &Actor, name: &WorkspaceName) -> Result<QuotaInfo, Error> {
        let WorkspaceInfo { version, quota, namespaces, .. } = self.workspace(actor, name)?;
        let known = self.0.directory.workspace(name);
        let hard = known.map_or_else(|| Ok(BTreeMap::new()), |known| shares(&quota, &known.namespaces))?;
        let parts = namespaces.into_iter().map(async |namespace| {
            let used = if namespace.made { self.used(&namespace.name).await? } else { Amounts::new() };
            let hard = hard.get(&namespace.name).cloned().unwrap_or_default();
            // Object counts are limits of the platform and not part of the quota.
            let used = used.into_iter().filter(|(resource, _)| hard.contains_key(resource)).collect();
            Ok::<_, Error>(NamespaceQuota { hard, used, name: namespace.name })
        });
        Ok(QuotaInfo { version, quota, namespaces: try_join_all(parts).await? })
    }

    async fn used(&self, namespace: &str) -> Result<Amounts, Error> {
        let quotas: Api<ResourceQuota> = Api::namespaced(self.0.clients.own(), namespace);
        let ours = quotas.list(&ListParams::default().labels(marks::PROVISIONED)).await?;
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
        actor.may(needed, Place::Workspace(name))?;
        self.change_workspace(actor, name, expected, |workspace| {
            let spec = &mut workspace.spec;
            if let Some(quota) = &patch.quota {
                spec.quota.clone_from(quota);
            }
            for (namespace, share) in &patch.shares {
                let own = spec.namespaces.iter_mut().find(|own| own.name == *namespace);
                let own = own.ok_or_else(|| crate::members::unknown("namespace", namespace))?;
                own.share.clone_from(share);
            }
            shares_of(workspace)?;
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
mod tests;
