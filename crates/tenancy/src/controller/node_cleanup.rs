//! Removal of an account's nodes: first its credentials for joining, then its nodes and pools.
//!
//! Each step reads the cluster, not the cache, and is idempotent. Ownership is decided by the account's record, token or group; the
//! label alone does not make a node the account's.

use std::collections::BTreeSet;
use std::fmt::Debug;

use domain::ids::UserId;
use futures::future::try_join_all;
use k8s_openapi::ClusterResourceScope;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{DeleteParams, ListParams, Preconditions};
use kube::{Resource, ResourceExt};
use kube_types::well_known::{JOIN_TOKEN, TENANT};
use kube_types::{NodePool, User};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::deletion::ignore_not_found;
use super::{ErrorContext, ReconcileError, TenancyController};
use crate::node_join::token::{self, token_group};

impl TenancyController {
    /// Removes tokens, requests, nodes and pools of an account. Returns whether nodes or pools still exist.
    pub(super) async fn remove_node_access(&self, user: &User, id: &UserId) -> Result<bool, ReconcileError> {
        token::delete_tokens_of(self.client.clone(), id)
            .await
            .context(|| format!("delete the join tokens of `{id}`"))?;
        let names = self.node_names(user, id).await?;
        self.remove_csrs(id, &names).await?;
        self.remove_token_roles::<ClusterRoleBinding>(id).await?;
        self.remove_token_roles::<ClusterRole>(id).await?;
        if self.remove_nodes(&names).await? {
            return Ok(true);
        }
        self.remove_pools(id).await
    }

    /// Deletes the roles, or the bindings, by which join tokens of this account read their requests.
    async fn remove_token_roles<K>(&self, id: &UserId) -> Result<(), ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = ClusterResourceScope> + Clone + DeserializeOwned + Debug,
    {
        let api = self.api::<K>();
        let of_tokens = ListParams::default().labels(&format!("{TENANT}={id},{JOIN_TOKEN}"));
        let found = api
            .list_metadata(&of_tokens)
            .await
            .context(|| format!("list the roles of join tokens of `{id}`"))?;
        for role in &found.items {
            let deleted = api.delete(&role.name_any(), &delete_if_uid(role)).await;
            ignore_not_found(deleted.map(drop))
                .context(|| format!("delete `{}` of a join token", role.name_any()))?;
        }
        Ok(())
    }

    /// The names of this account's nodes: names in the status, names of existing nodes with its label, and recorded names of older nodes.
    async fn node_names(&self, user: &User, id: &UserId) -> Result<Vec<String>, ReconcileError> {
        let recorded = user.status.clone().unwrap_or_default().joined;
        let (_, names) = self.get_node_names().await?;
        let is_theirs = |name: &String| names.owner(name).is_none_or(|owner| owner == *id);
        let recorded = recorded.into_iter().map(|joined| joined.name).filter(is_theirs);
        let older = names.names_of_account(id).map(str::to_owned);
        let present = self.nodes_of_account(&names, id).into_iter().map(|node| node.name.to_string());
        let all: BTreeSet<String> = recorded.chain(older).chain(present).collect();
        Ok(all.into_iter().collect())
    }

    /// Deletes requests that a token of this account or one of its nodes created. Kubernetes sets the requester's user and groups.
    async fn remove_csrs(&self, id: &UserId, nodes: &[String]) -> Result<(), ReconcileError> {
        let requests = self.api::<CertificateSigningRequest>();
        let found = requests.list(&ListParams::default()).await;
        let found = found.context(|| format!("list the certificate signing requests of `{id}`"))?;
        let own = token_group(id);
        let is_theirs = |csr: &&CertificateSigningRequest| {
            let of_node = csr.spec.username.as_deref().and_then(|user| user.strip_prefix("system:node:"));
            csr.spec.groups.iter().flatten().any(|group| *group == own)
                || of_node.is_some_and(|name| nodes.iter().any(|node| node == name))
        };
        let deleted = found.items.iter().filter(is_theirs).map(async |csr| {
            let deleted = requests.delete(&csr.name_any(), &delete_if_uid(csr)).await;
            ignore_not_found(deleted.map(drop)).context(|| format!("delete the request `{}`", csr.name_any()))
        });
        try_join_all(deleted).await.map(drop)
    }

    /// Cordons the nodes and deletes them. Returns whether one still exists.
    async fn remove_nodes(&self, names: &[String]) -> Result<bool, ReconcileError> {
        let left = try_join_all(names.iter().map(|name| self.remove_node(name))).await?;
        Ok(left.contains(&true))
    }

    async fn remove_node(&self, name: &str) -> Result<bool, ReconcileError> {
        let Some(node) = self.get_node(name).await? else { return Ok(false) };
        let cordoned = node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
        if !cordoned {
            self.patch_node(&node, json!({ "spec": { "unschedulable": true } })).await?;
        }
        let deleted = self.api::<Node>().delete(name, &delete_if_uid(&node)).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete node `{name}`"))?;
        Ok(self.get_node(name).await?.is_some())
    }

    /// Deletes the pools of the account. Returns whether one still exists. Tenants cannot label pools, so the label proves ownership.
    async fn remove_pools(&self, id: &UserId) -> Result<bool, ReconcileError> {
        let pools = self.api::<NodePool>();
        let theirs = ListParams::default().labels(&format!("{TENANT}={id}"));
        let list = async || match pools.list(&theirs).await {
            Ok(found) => Ok(found.items),
            // The cluster has no `NodePool` resource.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
            Err(error) => Err(error).context(|| format!("list the node pools of `{id}`")),
        };
        let found = list().await?;
        for pool in found.iter().filter(|pool| pool.metadata.deletion_timestamp.is_none()) {
            let deleted = pools.delete(&pool.name_any(), &delete_if_uid(pool)).await;
            ignore_not_found(deleted.map(drop)).context(|| format!("delete pool `{}`", pool.name_any()))?;
        }
        if found.is_empty() { Ok(false) } else { Ok(!list().await?.is_empty()) }
    }
}

/// Restricts a deletion to this object by UID.
fn delete_if_uid(object: &impl Resource) -> DeleteParams {
    let same = Preconditions { uid: object.meta().uid.clone(), resource_version: None };
    DeleteParams::default().preconditions(same)
}
