//! Controller of Users: provisions id, ServiceAccount and personal workspace, and for platform administrators a ClusterRoleBinding to
//! `cluster-admin`.
//!
//! Writes the status: `tenantID` and `effectiveTime` (both once), `expireTime`, `expired`, the account's nodes, and the conditions
//! `NamespaceReady`, `AccessReady`, `CredentialsIssued`, `Expiring`, `Expired`, `Ready`. A User that was created by hand gets the same,
//! except for credentials.
//!
//! Elsewhere: provisioning of the personal workspace ([`super::workspace`]), deletion of accounts ([`super::deletion`]).

pub(super) mod status;

use std::sync::Arc;

use domain::actor::administrator_group;
use domain::ids::UserId;
use domain::roles::{PlatformRole, WorkspaceRole};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};
use kube_access::queue::Action;
use kube_types::well_known::{
    ACCOUNT_CLOSED, KEEP_BINDINGS, MEMBER_LEFT, TENANT_ID, USER, USER_FINALIZER, USER_UID,
};
use kube_types::workspace::{Member, WorkspaceNamespace};
use kube_types::{SYSTEM_NAMESPACE, User, UserStatus, Workspace, WorkspaceSpec};

use self::status::{
    AccountState, ServiceAccountAccess, UserObservation, account_state, deletion_due, next_reconcile_time,
    status,
};
use super::namespace::service_account;
use super::nodes::NodeReport;
use super::owned_object::{OwnedKind, OwnedObject, labels};
use super::{ErrorContext, HOST_CLUSTER, ReconcileError, TenancyController, delay_until};
use crate::credential_store::new_user_id;
use crate::directory::WorkspaceRecord;
use crate::members::is_removal_pending;

/// The ClusterRoleBinding of an administrator of the platform.
pub(super) fn admin_binding_name(id: &UserId) -> String {
    format!("longshore-admin-{id}")
}

/// The account of a ClusterRoleBinding that is named by [`admin_binding_name`].
pub(super) fn account_of_admin_binding(binding: &str) -> Option<UserId> {
    binding.strip_prefix("longshore-admin-")?.parse().ok()
}

/// Whether the workspace is marked as that of a disabled or expired account.
pub(super) fn is_account_closed(workspace: &Workspace) -> bool {
    workspace.annotations().contains_key(ACCOUNT_CLOSED)
}

/// The assigned id, in the status.
fn assigned_id(user: &User) -> Option<UserId> {
    user.status.as_ref()?.tenant_id.parse().ok()
}

/// The announced id, in the annotation.
fn announced_id(user: &User) -> Option<UserId> {
    user.annotations().get(TENANT_ID)?.parse().ok()
}

impl TenancyController {
    /// Reconciles one User. Idempotent.
    pub(super) async fn reconcile_user(&self, name: &str) -> Result<Action, ReconcileError> {
        let found = self.api::<User>().get_opt(name).await.context(|| format!("read user `{name}`"))?;
        let Some(user) = found else { return Ok(Action::AwaitChange) };
        if user.metadata.deletion_timestamp.is_some() {
            let id = self.id_to_remove(&user).await?;
            return self.remove_user(&user, id.as_ref()).await;
        }
        let now = self.clock.now();
        let (user, id) = self.assign_id(&user).await?;
        let state = account_state(&user, now);
        // Operations under an id of another account would affect that account.
        let (access, workspace, mut nodes) = if self.is_assigned_to_another_account(&user, &id) {
            (ServiceAccountAccess::Contested, None, NodeReport::default())
        } else {
            let (access, workspace, administrator, nodes) = futures::join!(
                self.reconcile_service_account(&user, &id, state),
                self.personal_workspace(&id),
                self.reconcile_admin_binding(&user, &id, state),
                self.reconcile_nodes(&user, &id, now),
            );
            let workspace = workspace?;
            // Before errors of the others: access ends even if another write failed.
            if let Some(workspace) = &workspace {
                self.annotate_account_state(workspace, state, now).await?;
            }
            administrator?;
            (access?, workspace, nodes?)
        };
        let dropped = std::mem::take(&mut nodes.dropped);
        let credentials = self.secrets.get(&format!("credentials-{id}")).is_some();
        let awaited = nodes.next_deadline;
        let seen = UserObservation {
            id: &id,
            account_state: state,
            access,
            workspace: workspace.as_deref(),
            has_credentials: credentials,
            nodes,
        };
        let status = status(&user, &seen, now);
        let user = self.update_user_status(&user, status).await?;
        for node in dropped {
            self.delete_dropped_node(&node, &id).await?;
        }
        if let Some(why) = deletion_due(&user, self.started_at, self.account_grace_period, now) {
            tracing::info!(user.name = name, tenant.id = %id, ?why, "removing an account");
            self.delete_user(&user).await?;
            return Ok(Action::AwaitChange);
        }
        let next = next_reconcile_time(&user, self.started_at, self.account_grace_period, now)
            .into_iter()
            .chain(awaited)
            .min();
        Ok(next.map_or(Action::AwaitChange, |end| Action::RequeueAfter(delay_until(now, end))))
    }

    /// Assigns the id and the namespace name and adds our finalizer. The id is written into the annotation before any object is created
    /// under it. It belongs to the account that owns the ServiceAccount of that name: only one account can create that.
    async fn assign_id(&self, user: &User) -> Result<(User, UserId), ReconcileError> {
        if let Some(id) = assigned_id(user) {
            return Ok((self.ensure_user_metadata(user, &id).await?, id));
        }
        let announced = announced_id(user).filter(|id| !self.is_assigned_to_another_account(user, id));
        let mut id = announced.unwrap_or_else(new_user_id);
        let mut user = self.ensure_user_metadata(user, &id).await?;
        while !self.claim_service_account(&user, &id).await? {
            id = new_user_id();
            user = self.ensure_user_metadata(&user, &id).await?;
        }
        Ok((user, id))
    }

    /// Whether the directory assigns this id to another account.
    fn is_assigned_to_another_account(&self, user: &User, id: &UserId) -> bool {
        self.directory
            .account(id)
            .is_some_and(|account| Some(account.uid.as_str()) != user.metadata.uid.as_deref())
    }

    /// Writes finalizer, id annotation and namespace name if they differ.
    async fn ensure_user_metadata(&self, user: &User, id: &UserId) -> Result<User, ReconcileError> {
        let held = user.finalizers().iter().any(|finalizer| finalizer == USER_FINALIZER);
        if held && user.spec.namespace == id.as_str() && announced_id(user).as_ref() == Some(id) {
            return Ok(user.clone());
        }
        let mut finalizers = user.finalizers().to_vec();
        if !held {
            finalizers.push(USER_FINALIZER.to_owned());
        }
        let patch = serde_json::json!({
            "metadata": {
                "resourceVersion": user.resource_version(),
                "finalizers": finalizers,
                "annotations": { TENANT_ID: id },
            },
            "spec": { "namespace": id },
        });
        let name = user.name_any();
        self.api::<User>()
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .context(|| format!("hold user `{name}`"))
    }

    /// Creates the ServiceAccount named like the id. Returns whether it belongs to this account.
    async fn claim_service_account(&self, user: &User, id: &UserId) -> Result<bool, ReconcileError> {
        let wanted = user_service_account(user, id);
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        match accounts.create(&PostParams::default(), &wanted).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error).context(|| format!("make ServiceAccount `{id}`")),
        }
        let found =
            accounts.get_opt(id.as_str()).await.context(|| format!("look at ServiceAccount `{id}`"))?;
        if found.is_none_or(|found| found.annotations().get(USER_UID) != user.uid().as_ref()) {
            return Ok(false);
        }
        // Ours, but changed since.
        self.apply(Some(SYSTEM_NAMESPACE), &OwnedObject::new(OwnedKind::ServiceAccount, &wanted)).await?;
        Ok(true)
    }

    /// Reconciles the ServiceAccount, which exists while the account is open. Deleting it invalidates every token that was issued for it;
    /// a recreated one has another UID.
    async fn reconcile_service_account(
        &self,
        user: &User,
        id: &UserId,
        state: AccountState,
    ) -> Result<ServiceAccountAccess, ReconcileError> {
        let wanted = OwnedObject::new(OwnedKind::ServiceAccount, &user_service_account(user, id)).hash();
        let found = self.objects.object_hash(SYSTEM_NAMESPACE, OwnedKind::ServiceAccount, id.as_str());
        match (state, found) {
            (AccountState::Open, Some(print)) if print == wanted => Ok(ServiceAccountAccess::Granted),
            (AccountState::Open, _) if self.claim_service_account(user, id).await? => {
                Ok(ServiceAccountAccess::Granted)
            }
            (AccountState::Open, _) => Ok(ServiceAccountAccess::Contested),
            (_, Some(_)) => {
                self.remove_service_account(user, id).await.map(|()| ServiceAccountAccess::Withheld)
            }
            (_, None) => Ok(ServiceAccountAccess::Withheld),
        }
    }

    /// Returns the personal workspace, and creates it if missing.
    async fn personal_workspace(&self, id: &UserId) -> Result<Option<Arc<WorkspaceRecord>>, ReconcileError> {
        if let Some(found) = self.workspaces.get(id.as_str()) {
            return Ok(Some(found));
        }
        let member = Member { user: id.to_string(), role: WorkspaceRole::Admin.to_string() };
        let spec = WorkspaceSpec {
            owner: id.to_string(),
            members: vec![member],
            namespaces: vec![WorkspaceNamespace { name: id.to_string(), ..WorkspaceNamespace::default() }],
            quota: self.personal_quota.clone(),
            clusters: vec![HOST_CLUSTER.to_owned()],
            ..WorkspaceSpec::default()
        };
        match self.api::<Workspace>().create(&PostParams::default(), &Workspace::new(id.as_str(), spec)).await
        {
            Ok(made) => Ok(Some(Arc::new(WorkspaceRecord::from_workspace(&made)))),
            // Created already, but not cached yet.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
            Err(error) => Err(error).context(|| format!("make workspace `{id}`")),
        }
    }

    /// Marks the personal workspace of a closed account, and removes the mark when the account is open again. Both make the workspace's
    /// controller revoke the access that the owner has by ServiceAccounts. The RoleBindings stay, because the account may be opened again.
    async fn annotate_account_state(
        &self,
        workspace: &WorkspaceRecord,
        state: AccountState,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        let is_closed = state != AccountState::Open;
        if workspace.is_account_closed == is_closed || !workspace.is_personal() {
            return Ok(());
        }
        let (name, api) = (&*workspace.name, self.api::<Workspace>());
        let doing = || format!("mark workspace `{name}`");
        let Some(found) = api.get_opt(name).await.context(doing)? else { return Ok(()) };
        // The cache may be stale.
        if is_account_closed(&found) == is_closed {
            return Ok(());
        }
        // A revocation that is pending deletes the bindings.
        let annotation = |key: &str| found.annotations().get(key);
        let is_kept = !is_removal_pending(&found) || annotation(KEEP_BINDINGS) == annotation(MEMBER_LEFT);
        let change = serde_json::json!({
            "metadata": { "uid": workspace.uid, "resourceVersion": found.resource_version(), "annotations": {
                ACCOUNT_CLOSED: is_closed.then_some("true"),
                MEMBER_LEFT: now.to_string(),
                KEEP_BINDINGS: is_kept.then(|| now.to_string()),
            } },
        });
        api.patch(name, &PatchParams::default(), &Patch::Merge(change)).await.map(drop).context(doing)
    }

    /// Reconciles the `cluster-admin` binding, which open accounts of platform administrators have, for the platform and for kubeconfigs.
    async fn reconcile_admin_binding(
        &self,
        user: &User,
        id: &UserId,
        state: AccountState,
    ) -> Result<(), ReconcileError> {
        let name = admin_binding_name(id);
        let found = self.objects.object_hash("", OwnedKind::ClusterRoleBinding, &name);
        let is_admin = user.spec.platform_roles.iter().any(|role| role == PlatformRole::Admin.as_str());
        if state == AccountState::Open && is_admin {
            let wanted = OwnedObject::new(OwnedKind::ClusterRoleBinding, &admin_cluster_role_binding(id));
            if found == Some(wanted.hash()) { Ok(()) } else { self.apply(None, &wanted).await }
        } else if found.is_some() {
            self.delete(None, OwnedKind::ClusterRoleBinding, &name).await
        } else {
            Ok(())
        }
    }

    /// The id under which this account may own objects. `None` if the id is another account's.
    async fn id_to_remove(&self, user: &User) -> Result<Option<UserId>, ReconcileError> {
        if let Some(id) = assigned_id(user) {
            return Ok(Some(id).filter(|id| !self.is_assigned_to_another_account(user, id)));
        }
        let Some(id) = announced_id(user) else { return Ok(None) };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let found =
            accounts.get_opt(id.as_str()).await.context(|| format!("look at ServiceAccount `{id}`"))?;
        let claimed = found.is_some_and(|found| found.annotations().get(USER_UID) == user.uid().as_ref());
        Ok(claimed.then_some(id))
    }

    /// Writes the status if it changed. Returns the current User.
    async fn update_user_status(&self, user: &User, status: UserStatus) -> Result<User, ReconcileError> {
        if user.status.as_ref() == Some(&status) {
            return Ok(user.clone());
        }
        let conditions = |user: &User| user.status.clone().unwrap_or_default().conditions;
        let name = user.name_any();
        let user_with_status = User { status: Some(status), ..user.clone() };
        let updated = self
            .api::<User>()
            .replace_status(&name, &PostParams::default(), &user_with_status)
            .await
            .context(|| format!("write the status of user `{name}`"))?;
        self.publish_ready_event(&updated, &conditions(user), &conditions(&updated)).await;
        Ok(updated)
    }
}

/// The ServiceAccount of a user.
fn user_service_account(user: &User, id: &UserId) -> ServiceAccount {
    let metadata = ObjectMeta {
        name: Some(id.to_string()),
        namespace: Some(SYSTEM_NAMESPACE.to_owned()),
        labels: Some(labels(USER, id.as_str())),
        annotations: Some([(USER_UID.to_owned(), user.uid().unwrap_or_default())].into()),
        ..ObjectMeta::default()
    };
    ServiceAccount { metadata, automount_service_account_token: Some(false), ..ServiceAccount::default() }
}

/// The ClusterRoleBinding of an administrator to `cluster-admin`.
fn admin_cluster_role_binding(id: &UserId) -> ClusterRoleBinding {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let metadata = ObjectMeta {
        name: Some(admin_binding_name(id)),
        labels: Some(labels(USER, id.as_str())),
        ..ObjectMeta::default()
    };
    // The group and not the user: actions for a release run under the user's name, too.
    let person = Subject {
        kind: "Group".to_owned(),
        api_group: Some(RBAC.to_owned()),
        name: administrator_group(id),
        namespace: None,
    };
    ClusterRoleBinding {
        metadata,
        role_ref: RoleRef {
            api_group: Some(RBAC.to_owned()),
            kind: "ClusterRole".to_owned(),
            name: "cluster-admin".to_owned(),
        },
        subjects: Some(vec![person, service_account(SYSTEM_NAMESPACE, id.as_str())]),
    }
}
