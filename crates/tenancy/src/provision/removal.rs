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
use kube_access::queue::Next;
use kube_types::marks::{USER, USER_FINALIZER, USER_UID, WORKSPACE_FINALIZER};
use kube_types::workspace::OwnedNamespace;
use kube_types::{SYSTEM_NAMESPACE, User, Workspace};
use serde::de::DeserializeOwned;

use super::contents::UNINSTALL_POLL;
use super::namespace::Standing;
use super::pieces::PieceKind;
use super::user::administrator_binding;
use super::workspace::recorded;
use super::{AGAIN, Doing, HOST, ProvisionError, Provisioner};
use crate::members::member_left;
use crate::names::{self, Existing, RetiredName};
use crate::register::claims;
use crate::secrets;

/// A namespace of a workspace that is being deleted.
pub(super) struct LeavingNamespace {
    pub namespace: OwnedNamespace,
    /// The requeue delay.
    pub look_again: Duration,
}

impl Provisioner {
    /// Deletes a workspace after its grace period. One that was restored in the meantime has another `resourceVersion` and stays.
    pub(super) async fn begin_removal(&self, workspace: &Workspace) -> Result<(), ProvisionError> {
        let name = workspace.name_any();
        let same = Preconditions { uid: workspace.uid(), resource_version: workspace.resource_version() };
        let deleted =
            self.api::<Workspace>().delete(&name, &DeleteParams::default().preconditions(same)).await;
        gone(deleted.map(drop)).doing(|| format!("delete workspace `{name}`"))
    }

    /// Deletes an account that has expired for good or never became ready. One that was extended in the meantime has another
    /// `resourceVersion` and stays.
    pub(super) async fn begin_user_removal(&self, user: &User) -> Result<(), ProvisionError> {
        let name = user.name_any();
        let same = Preconditions { uid: user.uid(), resource_version: user.resource_version() };
        let deleted = self.api::<User>().delete(&name, &DeleteParams::default().preconditions(same)).await;
        gone(deleted.map(drop)).doing(|| format!("delete user `{name}`"))
    }

    /// Removes everything of a workspace: retires its names, deletes its releases and namespaces, then the objects that the platform keeps
    /// for it elsewhere, and last removes the workspace's finalizer.
    pub(super) async fn remove_workspace(&self, workspace: &Workspace) -> Result<Next, ProvisionError> {
        self.retire_names(workspace).await?;
        let mut names = self.known_namespaces(workspace);
        names.extend(workspace.spec.namespaces.iter().map(|namespace| namespace.name.clone()));
        let left = try_join_all(names.iter().map(|name| self.remove_namespace(workspace, name))).await?;
        if let Some(next) = left.iter().flatten().map(|leaving| leaving.look_again).min() {
            // Watches report deleted namespaces; the requeue covers missed events.
            return Ok(Next::After(next));
        }
        let requests = self.delete_requests(workspace, None).await?;
        if !requests.is_done() {
            return Ok(Next::After(requests.look_again(self.clock.now())));
        }
        self.delete_kept(workspace).await?;
        self.release(workspace, WORKSPACE_FINALIZER).await?;
        Ok(Next::Rest)
    }

    /// Removes one namespace with its releases if it is the workspace's own; returns it while it still exists.
    pub(super) async fn remove_namespace(
        &self,
        workspace: &Workspace,
        name: &str,
    ) -> Result<Option<LeavingNamespace>, ProvisionError> {
        let now = self.clock.now();
        let requests = self.delete_requests(workspace, Some(name)).await?;
        let recorded = recorded(workspace, name);
        let standing = self.look(workspace, name).await?;
        match &standing {
            Standing::Ours(_) => self.retire(workspace, name, Existing::Replace).await?,
            // Even if others deleted the namespace, its name was the workspace's: it is retired before the record is dropped.
            _ if recorded.is_some() => self.retire(workspace, name, Existing::Keep).await?,
            _ => {}
        }
        let (uid, look_again) = match standing {
            Standing::Taken => return Ok(None),
            Standing::Absent if requests.is_done() => return Ok(None),
            // The requests disappear once their releases are deleted.
            Standing::Absent => {
                (recorded.map(|record| record.uid.clone()).unwrap_or_default(), requests.look_again(now))
            }
            Standing::Leaving(uid) => (uid, AGAIN),
            Standing::Ours(uid) => {
                let uninstalling = requests.and(self.delete_releases(name).await?);
                if uninstalling.holds_namespace(now) {
                    (uid, UNINSTALL_POLL)
                } else {
                    let same = Preconditions { uid: Some(uid.clone()), resource_version: None };
                    let deleted = self
                        .api::<Namespace>()
                        .delete(name, &DeleteParams::default().preconditions(same))
                        .await;
                    gone(deleted.map(drop)).doing(|| format!("delete namespace `{name}`"))?;
                    (uid, AGAIN)
                }
            }
        };
        let share = recorded.map(|record| record.share.clone()).unwrap_or_default();
        let namespace = OwnedNamespace { name: name.to_owned(), uid, cluster: HOST.to_owned(), share };
        Ok(Some(LeavingNamespace { namespace, look_again }))
    }

    /// Records the names of a workspace as retired, before the first of them is free.
    async fn retire_names(&self, workspace: &Workspace) -> Result<(), ProvisionError> {
        self.retire(workspace, &workspace.name_any(), Existing::Replace).await?;
        // Another namespace may have replaced a recorded one: its record is not replaced.
        let recorded = workspace.status.iter().flat_map(|status| &status.namespaces);
        try_join_all(recorded.map(|record| self.retire(workspace, &record.name, Existing::Keep))).await?;
        Ok(())
    }

    /// Records a name of the workspace as retired. Does nothing for names of personal workspaces.
    async fn retire(
        &self,
        workspace: &Workspace,
        name: &str,
        existing: Existing,
    ) -> Result<(), ProvisionError> {
        let Some(record) = RetiredName::new(workspace, name, self.clock.now()) else { return Ok(()) };
        names::retire(self.client.clone(), &record, existing)
            .await
            .doing(|| format!("record that the name `{name}` is retired"))
    }

    /// Removes an account: first revokes all access, then deletes its objects.
    pub(super) async fn remove_user(&self, user: &User, id: Option<&UserId>) -> Result<Next, ProvisionError> {
        if let Some(id) = id {
            self.revoke(id).await?;
            self.remove_service_account(user, id).await?;
            if self.remove_edge(user, id).await? {
                return Ok(Next::After(AGAIN));
            }
            self.delete(None, PieceKind::ClusterRoleBinding, &administrator_binding(id)).await?;
            self.leave_workspaces(id).await?;
            if self.remove_personal_workspace(id).await? {
                return Ok(Next::After(AGAIN));
            }
            self.release_claims(id).await?;
            names::forget_owner(self.client.clone(), id)
                .await
                .doing(|| format!("take `{id}` off its retired names"))?;
        }
        self.release(user, USER_FINALIZER).await?;
        Ok(Next::Rest)
    }

    /// Deletes credentials and tokens. Sessions end with the credentials.
    async fn revoke(&self, id: &UserId) -> Result<(), ProvisionError> {
        let theirs = ListParams::default().labels(&format!("{USER}={id}"));
        let found = secrets::api(self.client.clone()).list_metadata(&theirs).await;
        let found = found.doing(|| format!("find the secrets of `{id}`"))?;
        try_join_all(found.items.iter().map(|secret| self.delete_secret(secret.name_any()))).await?;
        Ok(())
    }

    async fn delete_secret(&self, name: String) -> Result<(), ProvisionError> {
        let deleted = secrets::api(self.client.clone()).delete(&name, &DeleteParams::default()).await;
        gone(deleted.map(drop)).doing(|| format!("delete secret `{name}`"))
    }

    /// Deletes the account's ServiceAccount if it was created for this User.
    pub(super) async fn remove_service_account(
        &self,
        user: &User,
        id: &UserId,
    ) -> Result<(), ProvisionError> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let found = accounts.get_opt(id.as_str()).await.doing(|| format!("look at ServiceAccount `{id}`"))?;
        let Some(found) = found.filter(|found| found.annotations().get(USER_UID) == user.uid().as_ref())
        else {
            return Ok(());
        };
        let same = Preconditions { uid: found.uid(), resource_version: None };
        let deleted = accounts.delete(id.as_str(), &DeleteParams::default().preconditions(same)).await;
        gone(deleted.map(drop)).doing(|| format!("delete ServiceAccount `{id}`"))
    }

    /// Removes the account from the members of all shared workspaces.
    async fn leave_workspaces(&self, id: &UserId) -> Result<(), ProvisionError> {
        let all = self.workspaces.all();
        let shared =
            all.iter().filter(|workspace| *workspace.owner != *id.as_str() && workspace.has_member(id));
        try_join_all(shared.map(|workspace| self.leave(workspace.name.to_string(), id))).await?;
        Ok(())
    }

    /// Removes the account from the members of one workspace, and the label that names it as the creator.
    async fn leave(&self, name: String, id: &UserId) -> Result<(), ProvisionError> {
        let (api, doing) = (self.api::<Workspace>(), || format!("take `{id}` out of workspace `{name}`"));
        let Some(mut fresh) = api.get_opt(&name).await.doing(doing)? else { return Ok(()) };
        if has_member(&fresh, id) {
            fresh.spec.members.retain(|member| member.user != id.as_str());
            if fresh.labels().get(USER).is_some_and(|creator| creator == id.as_str()) {
                fresh.labels_mut().remove(USER);
            }
            member_left(&mut fresh, self.clock.now());
            api.replace(&name, &PostParams::default(), &fresh).await.doing(doing)?;
        }
        Ok(())
    }

    /// Deletes the personal workspace. Returns whether it still exists.
    async fn remove_personal_workspace(&self, id: &UserId) -> Result<bool, ProvisionError> {
        let (api, name) = (self.api::<Workspace>(), id.as_str());
        let found = api.get_opt(name).await.doing(|| format!("look at workspace `{name}`"))?;
        let Some(found) = found.filter(|found| found.spec.owner == name) else { return Ok(false) };
        if found.metadata.deletion_timestamp.is_none() {
            let same = Preconditions { uid: found.uid(), resource_version: None };
            let deleted = api.delete(name, &DeleteParams::default().preconditions(same)).await;
            gone(deleted.map(drop)).doing(|| format!("delete workspace `{name}`"))?;
        }
        Ok(true)
    }

    /// Releases the claims on e-mail addresses.
    async fn release_claims(&self, id: &UserId) -> Result<(), ProvisionError> {
        let theirs = ListParams::default().labels(&format!("{USER}={id}"));
        let claims = claims::maps(self.client.clone()).list(&theirs).await;
        let claims = claims.doing(|| format!("find the claims of `{id}`"))?;
        let released = claims.items.iter().map(|claim| claims::release(self.client.clone(), claim));
        try_join_all(released).await.doing(|| format!("release the claims of `{id}`"))?;
        Ok(())
    }

    /// Removes our finalizer and keeps those of others.
    async fn release<K>(&self, object: &K, finalizer: &str) -> Result<(), ProvisionError>
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
        gone(released.map(drop)).doing(|| format!("let go of `{name}`"))
    }
}

fn has_member(workspace: &Workspace, id: &UserId) -> bool {
    workspace.spec.members.iter().any(|member| member.user == id.as_str())
}

/// Ignores "not found" errors of deletions.
pub(super) fn gone(deleted: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match deleted {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        other => other,
    }
}
