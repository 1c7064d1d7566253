//! Access by ServiceAccounts of a workspace, when a member or an account loses its own.
//!
//! Members know tokens of these ServiceAccounts. They are valid for up to a day, and the one that yurthub reads does not expire. A
//! ServiceAccount that was recreated has another UID, which invalidates its tokens.

use std::fmt::Debug;
use std::time::Duration;

use domain::ids::UserId;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use kube_access::storage_budget;
use kube_types::Workspace;
use kube_types::well_known::PENDING_SERVICE_ACCOUNT;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::deletion::ignore_not_found;
use super::namespace::DEPLOYER;
use super::node_csr::account_namespace;
use super::user::is_account_closed;
use super::{ErrorContext, ReconcileError, TenancyController};
use crate::credential_store::{is_code, post_params};
use crate::directory::Account;
use crate::members::bindings::tenant_bindings;
use crate::paging;
use crate::workspaces::is_personal;

/// The limit of rounds of listing and deleting RoleBindings that are being created concurrently.
const MAX_BINDING_ROUNDS: usize = 5;
/// Maximum attempts to create a ServiceAccount: quotas count the deleted one for a short time.
const MAX_CREATE_ATTEMPTS: u32 = 5;
const CREATE_INTERVAL: Duration = Duration::from_millis(200);
/// The limit for a recorded ServiceAccount: Kubernetes allows 256 KiB of annotations in all.
const MAX_RECORD_BYTES: usize = 64 * 1024;

impl TenancyController {
    /// Revokes the access that a former user of the workspace has by ServiceAccounts: deletes the RoleBindings of tenants with
    /// `delete_bindings`, and recreates all ServiceAccounts. Members who keep RoleBindings of a shared workspace keep the ServiceAccounts
    /// too. Idempotent. A failure repeats the reconcile.
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
        if is_personal {
            self.delete_yurthub_token(namespace).await?;
        }
        if delete_bindings {
            self.delete_tenant_bindings(namespace).await?;
        }
        self.recreate_service_accounts(namespace).await?;
        if self.needs_yurthub_token(workspace, namespace) {
            self.ensure_yurthub_token(namespace).await?;
        }
        Ok(())
    }

    /// Whether yurthubs read a token in this namespace: that of an open account with nodes.
    fn needs_yurthub_token(&self, workspace: &Workspace, namespace: &str) -> bool {
        let owner = workspace.spec.owner.parse::<UserId>().ok();
        let account = owner.and_then(|owner| self.directory.account(&owner));
        let has_nodes =
            |account: &Account| account_namespace(account) == namespace && !account.joined.is_empty();
        !is_account_closed(workspace) && account.is_some_and(|account| has_nodes(&account))
    }

    /// Deletes the RoleBindings of tenants. A ServiceAccount that is still bound could create one concurrently, so it is repeated until
    /// none remains, at most [`MAX_BINDING_ROUNDS`] times in one reconcile; the error repeats the reconcile.
    async fn delete_tenant_bindings(&self, namespace: &str) -> Result<(), ReconcileError> {
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..MAX_BINDING_ROUNDS {
            let found = tenant_bindings(self.client.clone(), namespace).await;
            let found = found.context(|| format!("list the RoleBindings in `{namespace}`"))?;
            if found.is_empty() {
                return Ok(());
            }
            for binding in found {
                delete_with_finalizers(&api, &binding.name, binding.uid.as_deref())
                    .await
                    .context(|| format!("delete RoleBinding `{}` in `{namespace}`", binding.name))?;
            }
        }
        let remaining = ReconcileError::unfinished("RoleBindings are created while they are deleted");
        Err::<(), _>(remaining).context(|| format!("delete the RoleBindings of tenants in `{namespace}`"))
    }

    /// Recreates the ServiceAccounts of a namespace, except the deployer, which has its own record. Each is recorded in an annotation of the
    /// namespace before it is deleted: after a crash between the two writes it is created from there.
    async fn recreate_service_accounts(&self, namespace: &str) -> Result<(), ReconcileError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let doing = || format!("recreate the ServiceAccounts in `{namespace}`");
        let found = self.api::<Namespace>().get(namespace).await.context(doing)?;
        let record = found.annotations().get(PENDING_SERVICE_ACCOUNT);
        let pending = record.and_then(|record| serde_json::from_str::<ServiceAccount>(record).ok());
        if let Some(pending) = pending {
            create_service_account(&accounts, &pending).await.context(doing)?;
        }
        let all = paging::list_all(&accounts, &ListParams::default(), Some).await.context(doing)?;
        let renewed: Vec<ServiceAccount> =
            all.into_iter().filter(|account| account.name_any() != DEPLOYER).collect();
        for account in &renewed {
            let (name, fresh) = (account.name_any(), without_identity(account));
            let doing = || format!("recreate ServiceAccount `{name}` in `{namespace}`");
            self.record_pending(namespace, Some(&fresh)).await.context(doing)?;
            delete_with_finalizers(&accounts, &name, account.metadata.uid.as_deref()).await.context(doing)?;
            create_service_account(&accounts, &fresh).await.context(doing)?;
        }
        if renewed.is_empty() && record.is_none() {
            return Ok(());
        }
        self.record_pending(namespace, None).await.context(doing)
    }

    /// Records in the namespace the ServiceAccount that is about to be recreated.
    async fn record_pending(
        &self,
        namespace: &str,
        account: Option<&ServiceAccount>,
    ) -> Result<(), kube::Error> {
        let text = |account: &ServiceAccount| serde_json::to_string(account).map_err(kube::Error::SerdeError);
        let mut record = account.map(text).transpose()?;
        if let Some(account) =
            account.filter(|_| record.as_ref().is_some_and(|text| text.len() > MAX_RECORD_BYTES))
        {
            let metadata = ObjectMeta { name: account.metadata.name.clone(), ..ObjectMeta::default() };
            record = Some(text(&ServiceAccount { metadata, ..ServiceAccount::default() })?);
        }
        let patch = json!({ "metadata": { "annotations": { PENDING_SERVICE_ACCOUNT: record } } });
        self.api::<Namespace>()
            .patch(namespace, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .map(drop)
    }
}

/// A copy of the ServiceAccount without UID, for its creation.
fn without_identity(account: &ServiceAccount) -> ServiceAccount {
    let ObjectMeta { name, labels, annotations, owner_references, .. } = account.metadata.clone();
    let metadata = ObjectMeta { name, labels, annotations, owner_references, ..ObjectMeta::default() };
    ServiceAccount { metadata, ..account.clone() }
}

/// Creates a ServiceAccount, or updates one that another writer created first (Kubernetes creates `default`). If the quota is exceeded it is
/// skipped, so that a tenant with a full quota cannot block the others.
async fn create_service_account(
    accounts: &Api<ServiceAccount>,
    account: &ServiceAccount,
) -> Result<(), kube::Error> {
    let name = account.name_any();
    for _ in 0..MAX_CREATE_ATTEMPTS {
        match accounts.create(&post_params(), account).await {
            Err(error) if is_quota_exceeded(&error) => tokio::time::sleep(CREATE_INTERVAL).await,
            Err(error) if is_code(&error, 409) => {
                let patched = accounts.patch(&name, &PatchParams::default(), &Patch::Merge(account)).await;
                return ignore_not_found(patched.map(drop));
            }
            created => return created.map(drop),
        }
    }
    tracing::warn!(service_account = name, "ServiceAccount not recreated: quota exceeded");
    Ok(())
}

fn is_quota_exceeded(error: &kube::Error) -> bool {
    let by_quota =
        |status: &kube::core::Status| status.code == 403 && status.message.contains("exceeded quota");
    matches!(error, kube::Error::Api(status) if by_quota(status))
        || storage_budget::exceeded_message(error).is_some()
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
    // Kubernetes returns a deleted ServiceAccount also when it is gone.
    let has_finalizers = deleted
        .as_ref()
        .is_ok_and(|left| left.as_ref().left().is_some_and(|left| !left.finalizers().is_empty()));
    let mut done = deleted.map(drop);
    if has_finalizers {
        let patch = Patch::Merge(json!({"metadata": {"uid": uid, "finalizers": null}}));
        done = api.patch(name, &PatchParams::default(), &patch).await.map(drop);
    }
    match ignore_not_found(done) {
        // A tenant may delete and create it again all the time.
        Err(error) if is_code(&error, 409) || is_code(&error, 422) => match api.get_opt(name).await? {
            Some(found) if found.meta().uid.as_deref() == uid => Err(error),
            _ => Ok(()),
        },
        done => done,
    }
}
