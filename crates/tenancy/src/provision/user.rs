//! Controller of Users: provisions id, ServiceAccount and personal workspace, and for platform administrators a ClusterRoleBinding to
//! `cluster-admin`.
//!
//! Writes the status: `tenantID` and `effectiveTime` (both once), `expireTime`, `expired`, the account's nodes, and the conditions
//! `NamespaceReady`, `AccessReady`, `CredentialsIssued`, `Expiring`, `Expired`, `Ready`. A User that was created by hand gets the same,
//! except for credentials.
//!
//! Elsewhere: provisioning of the personal workspace ([`super::workspace`]), deletion of accounts ([`super::removal`]).

pub(super) mod report;

use std::sync::Arc;

use domain::actor::administrator_group;
use domain::ids::UserId;
use domain::roles::{PlatformRole, WorkspaceRole};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, RoleRef, Subject};
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, ResourceExt};
use kube_access::queue::Next;
use kube_types::marks::{TENANT_ID, USER, USER_FINALIZER, USER_UID};
use kube_types::workspace::{Member, WorkspaceNamespace};
use kube_types::{SYSTEM_NAMESPACE, User, UserStatus, Workspace, WorkspaceSpec};

use self::report::{Access, Door, Looked, door, due, next_look, status};
use super::namespace::service_account;
use super::nodes::Tended;
use super::pieces::{Piece, PieceKind, labels};
use super::{Doing, HOST, ProvisionError, Provisioner, until};
use crate::directory::WorkspaceRecord;
use crate::secrets::new_user_id;

/// The ClusterRoleBinding of an administrator of the platform.
pub(super) fn administrator_binding(id: &UserId) -> String {
    format!("longshore-admin-{id}")
}

/// The account that the name of an `administrator_binding` belongs to.
pub(super) fn administrator_of(binding: &str) -> Option<UserId> {
    binding.strip_prefix("longshore-admin-")?.parse().ok()
}

/// The assigned id, in the status.
fn settled(user: &User) -> Option<UserId> {
    user.status.as_ref()?.tenant_id.parse().ok()
}

/// The announced id, in the annotation.
fn announced(user: &User) -> Option<UserId> {
    user.annotations().get(TENANT_ID)?.parse().ok()
}

impl Provisioner {
    /// Reconciles one User. Idempotent.
    pub(super) async fn sync_user(&self, name: &str) -> Result<Next, ProvisionError> {
        let found = self.api::<User>().get_opt(name).await.doing(|| format!("read user `{name}`"))?;
        let Some(user) = found else { return Ok(Next::Rest) };
        if user.metadata.deletion_timestamp.is_some() {
            let id = self.id_to_remove(&user).await?;
            return self.remove_user(&user, id.as_ref()).await;
        }
        let now = self.clock.now();
        let (user, id) = self.settle(&user).await?;
        let door = door(&user, now);
        // Operations under an id of another account would affect that account.
        let (access, workspace, nodes) = if self.is_anothers(&user, &id) {
            (Access::Contested, None, Tended::default())
        } else {
            let (access, workspace, administrator, nodes) = futures::join!(
                self.give_access(&user, &id, door),
                self.personal_workspace(&id),
                self.administrate(&user, &id, door),
                self.tend_nodes(&user, &id, now),
            );
            administrator?;
            (access?, workspace?, nodes?)
        };
        let credentials = self.secrets.get(&format!("credentials-{id}")).is_some();
        let awaited = nodes.next;
        let seen = Looked { id: &id, door, access, workspace: workspace.as_deref(), credentials, nodes };
        let status = status(&user, &seen, now);
        let user = self.tell_user(&user, status).await?;
        if let Some(why) = due(&user, self.began, self.grace, now) {
            tracing::info!(user.name = name, tenant.id = %id, ?why, "removing an account");
            self.begin_user_removal(&user).await?;
            return Ok(Next::Rest);
        }
        let next = next_look(&user, self.began, self.grace, now).into_iter().chain(awaited).min();
        Ok(next.map_or(Next::Rest, |end| Next::After(until(now, end))))
    }

    /// Assigns the id and the namespace name and adds our finalizer. The id is written into the annotation before any object is created
    /// under it. It belongs to the account that owns the ServiceAccount of that name: only one account can create that.
    async fn settle(&self, user: &User) -> Result<(User, UserId), ProvisionError> {
        if let Some(id) = settled(user) {
            return Ok((self.hold_user(user, &id).await?, id));
        }
        let wish = announced(user).filter(|id| !self.is_anothers(user, id));
        let mut id = wish.unwrap_or_else(new_user_id);
        let mut user = self.hold_user(user, &id).await?;
        while !self.claim(&user, &id).await? {
            id = new_user_id();
            user = self.hold_user(&user, &id).await?;
        }
        Ok((user, id))
    }

    /// Whether the directory assigns this id to another account.
    fn is_anothers(&self, user: &User, id: &UserId) -> bool {
        self.directory
            .account(id)
            .is_some_and(|account| Some(account.uid.as_str()) != user.metadata.uid.as_deref())
    }

    /// Writes finalizer, id annotation and namespace name if they differ.
    async fn hold_user(&self, user: &User, id: &UserId) -> Result<User, ProvisionError> {
        let held = user.finalizers().iter().any(|finalizer| finalizer == USER_FINALIZER);
        if held && user.spec.namespace == id.as_str() && announced(user).as_ref() == Some(id) {
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
            .doing(|| format!("hold user `{name}`"))
    }

    /// Creates the ServiceAccount named like the id. Returns whether it belongs to this account.
    async fn claim(&self, user: &User, id: &UserId) -> Result<bool, ProvisionError> {
        let wanted = person(user, id);
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        match accounts.create(&PostParams::default(), &wanted).await {
            Ok(_) => return Ok(true),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error).doing(|| format!("make ServiceAccount `{id}`")),
        }
        let found = accounts.get_opt(id.as_str()).await.doing(|| format!("look at ServiceAccount `{id}`"))?;
        if found.is_none_or(|found| found.annotations().get(USER_UID) != user.uid().as_ref()) {
            return Ok(false);
        }
        // Ours, but changed since.
        self.apply(Some(SYSTEM_NAMESPACE), &Piece::new(PieceKind::ServiceAccount, &wanted)).await?;
        Ok(true)
    }

    /// Reconciles the ServiceAccount, which exists while the account is open. Deleting it invalidates every token that was issued for it;
    /// a recreated one has another UID.
    async fn give_access(&self, user: &User, id: &UserId, door: Door) -> Result<Access, ProvisionError> {
        let wanted = Piece::new(PieceKind::ServiceAccount, &person(user, id)).print();
        let found = self.seen.print(SYSTEM_NAMESPACE, PieceKind::ServiceAccount, id.as_str());
        match (door, found) {
            (Door::Open, Some(print)) if print == wanted => Ok(Access::Given),
            (Door::Open, _) if self.claim(user, id).await? => Ok(Access::Given),
            (Door::Open, _) => Ok(Access::Contested),
            (_, Some(_)) => self.remove_service_account(user, id).await.map(|()| Access::Withheld),
            (_, None) => Ok(Access::Withheld),
        }
    }

    /// Returns the personal workspace, and creates it if missing.
    async fn personal_workspace(&self, id: &UserId) -> Result<Option<Arc<WorkspaceRecord>>, ProvisionError> {
        if let Some(found) = self.workspaces.get(id.as_str()) {
            return Ok(Some(found));
        }
        let member = Member { user: id.to_string(), role: WorkspaceRole::Admin.to_string() };
        let spec = WorkspaceSpec {
            owner: id.to_string(),
            members: vec![member],
            namespaces: vec![WorkspaceNamespace { name: id.to_string(), ..WorkspaceNamespace::default() }],
            quota: self.quota.clone(),
            clusters: vec![HOST.to_owned()],
            ..WorkspaceSpec::default()
        };
        match self.api::<Workspace>().create(&PostParams::default(), &Workspace::new(id.as_str(), spec)).await
        {
            Ok(made) => Ok(Some(Arc::new(WorkspaceRecord::of(&made)))),
            // Created already, but not cached yet.
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
            Err(error) => Err(error).doing(|| format!("make workspace `{id}`")),
        }
    }

    /// Reconciles the `cluster-admin` binding, which open accounts of platform administrators have, for the platform and for kubeconfigs.
    async fn administrate(&self, user: &User, id: &UserId, door: Door) -> Result<(), ProvisionError> {
        let name = administrator_binding(id);
        let found = self.seen.print("", PieceKind::ClusterRoleBinding, &name);
        let is_admin = user.spec.platform_roles.iter().any(|role| role == PlatformRole::Admin.as_str());
        if door == Door::Open && is_admin {
            let wanted = Piece::new(PieceKind::ClusterRoleBinding, &everything(id));
            if found == Some(wanted.print()) { Ok(()) } else { self.apply(None, &wanted).await }
        } else if found.is_some() {
            self.delete(None, PieceKind::ClusterRoleBinding, &name).await
        } else {
            Ok(())
        }
    }

    /// The id under which this account may own objects. `None` if the id is another account's.
    async fn id_to_remove(&self, user: &User) -> Result<Option<UserId>, ProvisionError> {
        if let Some(id) = settled(user) {
            return Ok(Some(id).filter(|id| !self.is_anothers(user, id)));
        }
        let Some(id) = announced(user) else { return Ok(None) };
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let found = accounts.get_opt(id.as_str()).await.doing(|| format!("look at ServiceAccount `{id}`"))?;
        let claimed = found.is_some_and(|found| found.annotations().get(USER_UID) == user.uid().as_ref());
        Ok(claimed.then_some(id))
    }

    /// Writes the status if it changed. Returns the current User.
    async fn tell_user(&self, user: &User, status: UserStatus) -> Result<User, ProvisionError> {
        if user.status.as_ref() == Some(&status) {
            return Ok(user.clone());
        }
        let conditions = |user: &User| user.status.clone().unwrap_or_default().conditions;
        let name = user.name_any();
        let told = User { status: Some(status), ..user.clone() };
        let told = self
            .api::<User>()
            .replace_status(&name, &PostParams::default(), &told)
            .await
            .doing(|| format!("write the status of user `{name}`"))?;
        self.announce(&told, &conditions(user), &conditions(&told)).await;
        Ok(told)
    }
}

/// The ServiceAccount of a user.
fn person(user: &User, id: &UserId) -> ServiceAccount {
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
fn everything(id: &UserId) -> ClusterRoleBinding {
    const RBAC: &str = "rbac.authorization.k8s.io";
    let metadata = ObjectMeta {
        name: Some(administrator_binding(id)),
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
