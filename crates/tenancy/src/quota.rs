//! How much a workspace may use: the whole, set by administrators of the platform, and how its namespaces share it,
//! which the workspace's own admins decide.

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

/// What a workspace may use and what it uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuotaInfo {
    /// The resourceVersion of the workspace.
    pub version: String,
    pub quota: Amounts,
    /// The first namespace first.
    pub namespaces: Vec<NamespaceQuota>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceQuota {
    pub name: String,
    /// What it may use.
    pub hard: Amounts,
    /// What it uses, as the cluster last counted.
    pub used: Amounts,
}

/// What is to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuotaPatch {
    /// The whole.
    pub quota: Option<Amounts>,
    /// By namespace. Those that are not named keep their share.
    pub shares: BTreeMap<String, Amounts>,
}

impl Tenancy {
    pub async fn quota(&self, actor: &Actor, name: &WorkspaceName) -> Result<QuotaInfo, Error> {
        let WorkspaceInfo { version, quota, namespaces, .. } = self.workspace(actor, name)?;
        let known = self.0.directory.workspace(name);
        let hard = known.map_or_else(|| Ok(BTreeMap::new()), |known| shares(&quota, &known.namespaces))?;
        let parts = namespaces.into_iter().map(async |namespace| {
            let used = if namespace.made { self.used(&namespace.name).await? } else { Amounts::new() };
            let hard = hard.get(&namespace.name).cloned().unwrap_or_default();
            // Counts of objects are limits of the platform and no part of the quota.
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

    /// Changes the whole, the shares, or both: a sum of shares that is greater than the whole is refused.
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
