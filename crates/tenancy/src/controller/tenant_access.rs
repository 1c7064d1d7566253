//! Access by ServiceAccounts that tenants created, when a member or an account loses its own.
//!
//! A ServiceAccount's tokens are valid for up to a day, and the one that yurthub reads does not expire. A new ServiceAccount of the same
//! name invalidates them, because it has another UID.

use std::collections::BTreeSet;
use std::fmt::Debug;

use domain::ids::UserId;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use kube_types::Workspace;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::deletion::ignore_not_found;
use super::{ErrorContext, ReconcileError, TenancyController};
use crate::members::bindings::tenant_bindings;
use crate::workspaces::is_personal;

/// The limit of rounds of listing RoleBindings that are being created concurrently.
const MAX_ROUNDS: usize = 5;
/// Pods without a ServiceAccount of their own run as this one. Kubernetes creates it in every namespace.
const DEFAULT_SERVICE_ACCOUNT: &str = "default";

impl TenancyController {
    /// Revokes what a former user of the workspace may know: tokens of bound ServiceAccounts, in a personal workspace those of `default`
    /// too, and with `delete_bindings` the RoleBindings of tenants. A ServiceAccount that is still bound could create bindings
    /// concurrently, so it is repeated until a list has nothing new, at most [`MAX_ROUNDS`] times in one reconcile; the error repeats the
    /// reconcile.
    pub(super) async fn revoke_tenant_access(
        &self,
        workspace: &Workspace,
        namespace: &str,
        delete_bindings: bool,
    ) -> Result<(), ReconcileError> {
        let is_personal = is_personal(workspace);
        if !is_personal && !delete_bindings {
            return Ok(());
        }
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        let mut renewed = BTreeSet::new();
        if is_personal {
            self.renew_service_account(namespace, DEFAULT_SERVICE_ACCOUNT).await?;
            renewed.insert(DEFAULT_SERVICE_ACCOUNT.to_owned());
            self.renew_yurthub_token(workspace, namespace).await?;
        }
        for _ in 0..MAX_ROUNDS {
            let found = tenant_bindings(self.client.clone(), namespace).await;
            let found = found.context(|| format!("list the RoleBindings in `{namespace}`"))?;
            let mut is_done = found.is_empty() || !delete_bindings;
            for binding in found.iter().filter(|_| delete_bindings) {
                delete_with_finalizers(&api, &binding.name, binding.uid.as_deref())
                    .await
                    .context(|| format!("delete RoleBinding `{}` in `{namespace}`", binding.name))?;
            }
            for account in found.into_iter().flat_map(|binding| binding.service_accounts) {
                if !renewed.contains(&account) {
                    self.renew_service_account(namespace, &account).await?;
                    renewed.insert(account);
                    is_done = false;
                }
            }
            if is_done {
                return Ok(());
            }
        }
        let remaining = ReconcileError::unfinished("RoleBindings are created while they are read");
        Err::<(), _>(remaining).context(|| format!("revoke the access of ServiceAccounts in `{namespace}`"))
    }

    /// Recreates a ServiceAccount with the labels, annotations and Secrets that it has.
    async fn renew_service_account(&self, namespace: &str, name: &str) -> Result<(), ReconcileError> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let doing = || format!("recreate ServiceAccount `{name}` in `{namespace}`");
        let Some(found) = api.get_opt(name).await.context(doing)? else { return Ok(()) };
        delete_with_finalizers(&api, name, found.metadata.uid.as_deref()).await.context(doing)?;
        let ObjectMeta { labels, annotations, owner_references, .. } = found.metadata;
        let metadata = ObjectMeta {
            name: Some(name.to_owned()),
            labels,
            annotations,
            owner_references,
            ..ObjectMeta::default()
        };
        // Another writer, for `default` Kubernetes, may be faster.
        match api.create(&PostParams::default(), &ServiceAccount { metadata, ..found }).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            created => created.map(drop).context(doing),
        }
    }

    /// Replaces the Secret that yurthub reads. An account that is closed or has no nodes gets no new one.
    async fn renew_yurthub_token(
        &self,
        workspace: &Workspace,
        namespace: &str,
    ) -> Result<(), ReconcileError> {
        self.delete_yurthub_token(namespace).await?;
        let owner = workspace.spec.owner.parse::<UserId>().ok();
        let account = owner.and_then(|owner| self.directory.account(&owner));
        let has_nodes = account.is_some_and(|account| !account.joined.is_empty());
        if has_nodes && !super::user::is_account_closed(workspace) {
            self.ensure_yurthub_token(namespace).await?;
        }
        Ok(())
    }
}

/// Deletes an object with this UID at once: until its finalizers are removed, a deleted RoleBinding still grants its role, and the tokens of
/// a deleted ServiceAccount are valid. None can be added to a deleted object.
pub(super) async fn delete_with_finalizers<K>(
    api: &Api<K>,
    name: &str,
    uid: Option<&str>,
) -> Result<(), kube::Error>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let same = Preconditions { uid: uid.map(str::to_owned), resource_version: None };
    let deleted = api.delete(name, &DeleteParams::default().preconditions(same)).await;
    let has_finalizers = matches!(&deleted, Ok(found) if found.is_left());
    ignore_not_found(deleted.map(drop))?;
    if has_finalizers {
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "finalizers": null}}));
        ignore_not_found(api.patch(name, &PatchParams::default(), &patch).await.map(drop))?;
    }
    Ok(())
}
