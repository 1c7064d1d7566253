//! Removal of workspaces and accounts: deletes exactly the objects that belong to them, in order.
//!
//! Each step reads the cluster, not the cache, and is idempotent. The last step removes the finalizer.

use std::fmt::Debug;
use std::time::Duration;

use domain::ids::UserId;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Resource, ResourceExt};
use kube_access::queue::Action;
use kube_types::well_known::{USER, USER_FINALIZER, USER_UID, WORKSPACE_FINALIZER};
use kube_types::workspace::OwnedNamespace;
use kube_types::{SYSTEM_NAMESPACE, User, Workspace};
use serde::de::DeserializeOwned;

use super::contents::UNINSTALL_POLL;
use super::namespace::NamespaceOwnership;
use super::owned_object::OwnedKind;
use super::user::admin_binding_name;
use super::workspace::recorded_namespace;
use super::{ErrorContext, HOST_CLUSTER, REQUEUE_AFTER, ReconcileError, TenancyController};
use crate::credential_store;
use crate::members::record_member_left;
use crate::register::email_claims;
use crate::retired_names::{self, ExistingRecord, RetiredName};

/// A namespace of a workspace that is being deleted.
pub(super) struct TerminatingNamespace {
    pub namespace: OwnedNamespace,
    /// The requeue delay.
    pub requeue_after: Duration,
}

impl TenancyController {
    /// Deletes a workspace after its grace period. One that was restored in the meantime has another `resourceVersion` and stays.
    pub(super) async fn delete_workspace(&self, workspace: &Workspace) -> Result<(), ReconcileError> {
        let name = workspace.name_any();
        let same = Preconditions { uid: workspace.uid(), resource_version: workspace.resource_version() };
        let deleted =
            self.api::<Workspace>().delete(&name, &DeleteParams::default().preconditions(same)).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete workspace `{name}`"))
    }

    /// Deletes an account that has expired for good or never became ready. One that was extended in the meantime has another
    /// `resourceVersion` and stays.
    pub(super) async fn delete_user(&self, user: &User) -> Result<(), ReconcileError> {
        let name = user.name_any();
        let same = Preconditions { uid: user.uid(), resource_version: user.resource_version() };
        let deleted = self.api::<User>().delete(&name, &DeleteParams::default().preconditions(same)).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete user `{name}`"))
    }

    /// Removes everything of a workspace: retires its names, deletes its releases and namespaces, then the objects that the platform keeps
    /// for it elsewhere, and last removes the workspace's finalizer.
    pub(super) async fn remove_workspace(&self, workspace: &Workspace) -> Result<Action, ReconcileError> {
        self.retire_names(workspace).await?;
        let mut names = self.all_namespaces(workspace);
        names.extend(workspace.spec.namespaces.iter().map(|namespace| namespace.name.clone()));
        let left = try_join_all(names.iter().map(|name| self.remove_namespace(workspace, name))).await?;
        if let Some(next) = left.iter().flatten().map(|leaving| leaving.requeue_after).min() {
            // Watches report deleted namespaces; the requeue covers missed events.
            return Ok(Action::RequeueAfter(next));
        }
        let requests = self.delete_requests(workspace, None).await?;
        if !requests.is_done() {
            return Ok(Action::RequeueAfter(requests.requeue_after(self.clock.now())));
        }
        self.delete_workspace_objects(workspace).await?;
        self.remove_finalizer(workspace, WORKSPACE_FINALIZER).await?;
        Ok(Action::AwaitChange)
    }

    /// Removes one namespace with its releases if it is the workspace's own; returns it while it still exists.
    pub(super) async fn remove_namespace(
        &self,
        workspace: &Workspace,
        name: &str,
    ) -> Result<Option<TerminatingNamespace>, ReconcileError> {
        let now = self.clock.now();
        let requests = self.delete_requests(workspace, Some(name)).await?;
        let recorded = recorded_namespace(workspace, name);
        let standing = self.observe_namespace(workspace, name).await?;
        match &standing {
            NamespaceOwnership::Owned(_) => self.retire(workspace, name, ExistingRecord::Replace).await?,
            // Even if others deleted the namespace, its name was the workspace's: it is retired before the record is dropped.
            _ if recorded.is_some() => self.retire(workspace, name, ExistingRecord::Keep).await?,
            _ => {}
        }
        let (uid, look_again) = match standing {
            NamespaceOwnership::Foreign => return Ok(None),
            NamespaceOwnership::Absent if requests.is_done() => return Ok(None),
            // The requests disappear once their releases are deleted.
            NamespaceOwnership::Absent => {
                (recorded.map(|record| record.uid.clone()).unwrap_or_default(), requests.requeue_after(now))
            }
            NamespaceOwnership::Terminating(uid) => (uid, REQUEUE_AFTER),
            NamespaceOwnership::Owned(uid) => {
                let uninstalling = requests.merge(self.delete_releases(name).await?);
                if uninstalling.blocks_namespace_deletion(now) {
                    (uid, UNINSTALL_POLL)
                } else {
                    let same = Preconditions { uid: Some(uid.clone()), resource_version: None };
                    let deleted = self
                        .api::<Namespace>()
                        .delete(name, &DeleteParams::default().preconditions(same))
                        .await;
                    ignore_not_found(deleted.map(drop)).context(|| format!("delete namespace `{name}`"))?;
                    (uid, REQUEUE_AFTER)
                }
            }
        };
        let share = recorded.map(|record| record.share.clone()).unwrap_or_default();
        let namespace =
            OwnedNamespace { name: name.to_owned(), uid, cluster: HOST_CLUSTER.to_owned(), share };
        Ok(Some(TerminatingNamespace { namespace, requeue_after: look_again }))
    }

    /// Records the names of a workspace as retired, before the first of them is free.
    async fn retire_names(&self, workspace: &Workspace) -> Result<(), ReconcileError> {
        self.retire(workspace, &workspace.name_any(), ExistingRecord::Replace).await?;
        // Another namespace may have replaced a recorded one: its record is not replaced.
        let recorded = workspace.status.iter().flat_map(|status| &status.namespaces);
        try_join_all(recorded.map(|record| self.retire(workspace, &record.name, ExistingRecord::Keep)))
            .await?;
        Ok(())
    }

    /// Records a name of the workspace as retired. Does nothing for names of personal workspaces.
    async fn retire(
        &self,
        workspace: &Workspace,
        name: &str,
        existing: ExistingRecord,
    ) -> Result<(), ReconcileError> {
        let Some(record) = RetiredName::new(workspace, name, self.clock.now()) else { return Ok(()) };
        retired_names::retire(self.client.clone(), &record, existing)
            .await
            .context(|| format!("record that the name `{name}` is retired"))
    }

    /// Removes an account: first revokes all access, then deletes its objects.
    pub(super) async fn remove_user(
        &self,
        user: &User,
        id: Option<&UserId>,
    ) -> Result<Action, ReconcileError> {
        if let Some(id) = id {
            self.revoke_access(id).await?;
            self.remove_service_account(user, id).await?;
            if self.remove_node_access(user, id).await? {
                return Ok(Action::RequeueAfter(REQUEUE_AFTER));
            }
            self.delete(None, OwnedKind::ClusterRoleBinding, &admin_binding_name(id)).await?;
            self.remove_memberships(id).await?;
            if self.remove_personal_workspace(id).await? {
                return Ok(Action::RequeueAfter(REQUEUE_AFTER));
            }
            self.release_email_claims(id).await?;
            retired_names::clear_owner(self.client.clone(), id)
                .await
                .context(|| format!("remove `{id}` from its retired names"))?;
        }
        self.remove_finalizer(user, USER_FINALIZER).await?;
        Ok(Action::AwaitChange)
    }

    /// Deletes credentials and tokens. Sessions end with the credentials.
    async fn revoke_access(&self, id: &UserId) -> Result<(), ReconcileError> {
        let theirs = ListParams::default().labels(&format!("{USER}={id}"));
        let found = credential_store::api(self.client.clone()).list_metadata(&theirs).await;
        let found = found.context(|| format!("list the Secrets of `{id}`"))?;
        try_join_all(found.items.iter().map(|secret| self.delete_secret(secret.name_any()))).await?;
        Ok(())
    }

    async fn delete_secret(&self, name: String) -> Result<(), ReconcileError> {
        let deleted =
            credential_store::api(self.client.clone()).delete(&name, &DeleteParams::default()).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete secret `{name}`"))
    }

    /// Deletes the account's ServiceAccount if it was created for this User.
    pub(super) async fn remove_service_account(
        &self,
        user: &User,
        id: &UserId,
    ) -> Result<(), ReconcileError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let found = accounts.get_opt(id.as_str()).await.context(|| format!("read ServiceAccount `{id}`"))?;
        let Some(found) = found.filter(|found| found.annotations().get(USER_UID) == user.uid().as_ref())
        else {
            return Ok(());
        };
        let same = Preconditions { uid: found.uid(), resource_version: None };
        let deleted = accounts.delete(id.as_str(), &DeleteParams::default().preconditions(same)).await;
        ignore_not_found(deleted.map(drop)).context(|| format!("delete ServiceAccount `{id}`"))
    }

    /// Removes the account from the members of all shared workspaces.
    async fn remove_memberships(&self, id: &UserId) -> Result<(), ReconcileError> {
        let all = self.workspaces.list();
        let shared =
            all.iter().filter(|workspace| *workspace.owner != *id.as_str() && workspace.has_member(id));
        try_join_all(shared.map(|workspace| self.remove_membership(workspace.name.to_string(), id))).await?;
        Ok(())
    }

    /// Removes the account from the members of one workspace, and the label that names it as the creator.
    async fn remove_membership(&self, name: String, id: &UserId) -> Result<(), ReconcileError> {
        let (api, doing) = (self.api::<Workspace>(), || format!("remove `{id}` from workspace `{name}`"));
        let Some(mut fresh) = api.get_opt(&name).await.context(doing)? else { return Ok(()) };
        if has_member(&fresh, id) {
            fresh.spec.members.retain(|member| member.user != id.as_str());
            if fresh.labels().get(USER).is_some_and(|creator| creator == id.as_str()) {
                fresh.labels_mut().remove(USER);
            }
            record_member_left(&mut fresh, self.clock.now());
            api.replace(&name, &PostParams::default(), &fresh).await.context(doing)?;
        }
        Ok(())
    }

    /// Deletes the personal workspace. Returns whether it still exists.
    async fn remove_personal_workspace(&self, id: &UserId) -> Result<bool, ReconcileError> {
        let (api, name) = (self.api::<Workspace>(), id.as_str());
        let found = api.get_opt(name).await.context(|| format!("read workspace `{name}`"))?;
        let Some(found) = found.filter(|found| found.spec.owner == name) else { return Ok(false) };
        if found.metadata.deletion_timestamp.is_none() {
            let same = Preconditions { uid: found.uid(), resource_version: None };
            let deleted = api.delete(name, &DeleteParams::default().preconditions(same)).await;
            ignore_not_found(deleted.map(drop)).context(|| format!("delete workspace `{name}`"))?;
        }
        Ok(true)
    }

    /// Releases the claims on e-mail addresses.
    async fn release_email_claims(&self, id: &UserId) -> Result<(), ReconcileError> {
        let theirs = ListParams::default().labels(&format!("{USER}={id}"));
        let claims = email_claims::config_maps(self.client.clone()).list(&theirs).await;
        let claims = claims.context(|| format!("list the e-mail claims of `{id}`"))?;
        let released =
            claims.items.iter().map(|claim| email_claims::release_claim(self.client.clone(), claim));
        try_join_all(released).await.context(|| format!("delete the e-mail claims of `{id}`"))?;
        Ok(())
    }

    /// Removes our finalizer and keeps all others.
    async fn remove_finalizer<K>(&self, object: &K, finalizer: &str) -> Result<(), ReconcileError>
    where
        K: Resource<DynamicType = (), Scope = kube::core::ClusterResourceScope>
            + Clone
            + DeserializeOwned
            + Debug,
    {
        let others: Vec<&String> = object.finalizers().iter().filter(|held| *held != finalizer).collect();
        if others.len() == object.finalizers().len() {
            return Ok(());
        }
        let patch = serde_json::json!({
            "metadata": { "resourceVersion": object.resource_version(), "finalizers": others },
        });
        let name = object.name_any();
        let released = self.api::<K>().patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        ignore_not_found(released.map(drop)).context(|| format!("remove the finalizer of `{name}`"))
    }
}

fn has_member(workspace: &Workspace, id: &UserId) -> bool {
    workspace.spec.members.iter().any(|member| member.user == id.as_str())
}

/// Ignores "not found" errors of deletions.
pub(super) fn ignore_not_found(deleted: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}
