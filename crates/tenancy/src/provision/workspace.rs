//! Controller of Workspaces: provisions namespaces and their objects.
//!
//! Writes the status: the UIDs of its own namespaces, the number of members, and the conditions `NamespacesReady`, `AccessReady`,
//! `Ready`.
//!
//! Elsewhere: the objects in a namespace ([`super::namespace`]), deletion of workspaces ([`super::removal`]).

mod report;

pub(super) use self::report::recorded;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, ResourceExt};
use kube_access::queue::Next;
use kube_types::marks::{ACCOUNT, WORKSPACE_FINALIZER};
use kube_types::workspace::{Allowance, OwnedNamespace};
use kube_types::{FIELD_MANAGER, Workspace};
use serde_json::json;

use self::report::{DeployerAction, Done, Life, Outcome, bindings_due, deployers_due, life, status};
use super::namespace::{self, DEPLOYER, Marks, PodSecurity, Standing, standing};
use super::pieces::{Piece, PieceKind};
use super::removal::{LeavingNamespace, gone};
use super::seen::Pieces;
use super::{Doing, ProvisionError, Provisioner, until};
use crate::manifests::host_ports;
use crate::members::bindings::tenant_bindings;
use crate::quota::{self, Amounts};
use crate::secrets::is_code;

/// The limit of rounds of listing and deleting RoleBindings that are being created concurrently.
const BINDING_ROUNDS: usize = 5;

impl Provisioner {
    /// Reconciles one Workspace. Idempotent.
    pub(super) async fn sync_workspace(&self, name: &str) -> Result<Next, ProvisionError> {
        let found =
            self.api::<Workspace>().get_opt(name).await.doing(|| format!("read workspace `{name}`"))?;
        let Some(workspace) = found else { return Ok(Next::Rest) };
        if workspace.metadata.deletion_timestamp.is_some() {
            return self.remove_workspace(&workspace).await;
        }
        let now = self.clock.now();
        let life = life(&workspace, now);
        if life == Life::Over {
            self.begin_removal(&workspace).await?;
            return Ok(Next::Rest);
        }
        let workspace = self.hold_workspace(&workspace).await?;
        let shares = quota::shares_of(&workspace);
        let closed = life != Life::Open;
        let deployers = deployers_due(&workspace);
        let outcomes = join_all(workspace.spec.namespaces.iter().map(|wanted| {
            let hard =
                shares.as_ref().ok().map(|shares| shares.get(&wanted.name).cloned().unwrap_or_default());
            self.provision(&workspace, &wanted.name, hard, closed, &deployers)
        }))
        .await;
        let names = workspace.spec.namespaces.iter().map(|wanted| wanted.name.clone());
        let outcomes: Vec<(String, Outcome)> = names.zip(outcomes).collect();
        let (leaving, look_again) = self.let_go(&workspace).await?;
        let done = Done {
            outcomes,
            leaving,
            unshared: shares.err().map(|error| error.to_string()),
            life,
            deployers,
        };
        self.tell_workspace(&workspace, &done, now).await?;
        let failed = done.outcomes.into_iter().find_map(|(_, outcome)| match outcome {
            Outcome::Failed { error, .. } => Some(error),
            _ => None,
        });
        match (failed, done.life) {
            (Some(error), _) => Err(error),
            (None, Life::Closed(Some(after))) => Ok(Next::After(until(now, after))),
            (None, _) => Ok(look_again.map_or(Next::Rest, Next::After)),
        }
    }

    /// Adds the finalizer. Nothing is created before it is there, as it guarantees the removal.
    async fn hold_workspace(&self, workspace: &Workspace) -> Result<Workspace, ProvisionError> {
        if workspace.finalizers().iter().any(|finalizer| finalizer == WORKSPACE_FINALIZER) {
            return Ok(workspace.clone());
        }
        let mut finalizers = workspace.finalizers().to_vec();
        finalizers.push(WORKSPACE_FINALIZER.to_owned());
        let patch = json!({
            "metadata": { "resourceVersion": workspace.resource_version(), "finalizers": finalizers },
        });
        let name = workspace.name_any();
        self.api::<Workspace>()
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .doing(|| format!("hold workspace `{name}`"))
    }

    /// Reconciles one namespace and its objects.
    async fn provision(
        &self,
        workspace: &Workspace,
        name: &str,
        hard: Option<Amounts>,
        closed: bool,
        deployers: &DeployerAction,
    ) -> Outcome {
        if !namespace::may_be_called(&workspace.name_any(), name) {
            return Outcome::NotOwn;
        }
        let recorded = recorded(workspace, name);
        let uid = match self.stand(workspace, name, hard.is_some()).await {
            Ok(Standing::Ours(uid)) => uid,
            Ok(Standing::Leaving(uid)) => return Outcome::Leaving { uid },
            Ok(Standing::Taken) => return Outcome::Taken,
            Ok(Standing::Absent) if recorded.is_some() => return Outcome::Gone,
            Ok(Standing::Absent) => return Outcome::Unshared,
            Err(error) => {
                return Outcome::Failed { uid: recorded.map(|recorded| recorded.uid.clone()), error };
            }
        };
        let wanted = namespace::pieces(workspace, name, hard.as_ref().unwrap_or(&Amounts::new()), closed);
        let mut seen = self.seen.inside(name);
        let deployer = seen.remove(&(PieceKind::ServiceAccount, DEPLOYER.into()));
        // A new namespace has none yet. In an old namespace the cache may lack it.
        if *deployers == DeployerAction::Keep {
            seen.extend(deployer.map(|print| ((PieceKind::ServiceAccount, DEPLOYER.into()), print)));
        } else if (deployer.is_some() || recorded.is_some())
            && let Err(error) = self.delete(Some(name), PieceKind::ServiceAccount, DEPLOYER).await
        {
            return Outcome::Failed { uid: Some(uid), error };
        }
        let repairs = repairs(seen, wanted, hard.is_some());
        let (bindings, first): (Vec<_>, Vec<_>) =
            repairs.into_iter().partition(|repair| repair.kind() == PieceKind::RoleBinding);
        // Members get access to a new namespace only once its limits exist. An old namespace has them, and removed members must lose
        // their access even if applying the limits fails.
        let limited = self.repair_all(name, first).await;
        let bound = match (&limited, recorded) {
            (Err(_), None) => Ok(()),
            _ => self.repair_all(name, bindings).await,
        };
        // After the roles of members: a removed member can no longer create bindings.
        let bound = match bound {
            Ok(()) if bindings_due(workspace) => self.delete_tenant_bindings(name).await,
            other => other,
        };
        match limited.and(bound) {
            Ok(()) => Outcome::Ready { uid },
            Err(error) => Outcome::Failed { uid: Some(uid), error },
        }
    }

    /// Deletes the RoleBindings of tenants. A ServiceAccount that is still bound could create one concurrently, so it is repeated until
    /// none remains, at most [`BINDING_ROUNDS`] times.
    async fn delete_tenant_bindings(&self, namespace: &str) -> Result<(), ProvisionError> {
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        for _ in 0..BINDING_ROUNDS {
            let found = tenant_bindings(self.client.clone(), namespace).await;
            let found = found.doing(|| format!("list the RoleBindings in `{namespace}`"))?;
            if found.is_empty() {
                return Ok(());
            }
            for binding in found {
                let same = Preconditions { uid: binding.uid, resource_version: None };
                let deleted = api.delete(&binding.name, &DeleteParams::default().preconditions(same)).await;
                gone(deleted.map(drop))
                    .doing(|| format!("delete RoleBinding `{}` in `{namespace}`", binding.name))?;
            }
        }
        tracing::warn!(
            namespace,
            "RoleBindings of a workspace are created while they are deleted for a removed member"
        );
        Ok(())
    }

    /// The mechanism that refuses privileged pods. Pod Security if the policy is not installed: manifests of older versions lack it.
    async fn pod_security(&self, workspace: &Workspace) -> Result<PodSecurity, ProvisionError> {
        if !workspace.spec.allow.contains(&Allowance::HostPorts) {
            return Ok(PodSecurity::Baseline);
        }
        let bindings = self.api::<ValidatingAdmissionPolicyBinding>();
        match bindings.get_opt(host_ports::NAME).await {
            Ok(Some(_)) => Ok(PodSecurity::HostPorts),
            Ok(None) => Ok(PodSecurity::Baseline),
            // Manifests of older versions lack the right to read policies, too.
            Err(error) if is_code(&error, 403) => Ok(PodSecurity::Baseline),
            Err(error) => Err(error).doing(|| format!("look for the policy `{}`", host_ports::NAME)),
        }
    }

    /// Observes the ownership of the namespace, creates it if it is missing and allowed, and corrects its labels.
    async fn stand(
        &self,
        workspace: &Workspace,
        name: &str,
        may_make: bool,
    ) -> Result<Standing, ProvisionError> {
        let recorded = recorded(workspace, name);
        let known = self.seen.namespace(name);
        let account = self.directory.account_of_object(workspace);
        let security = self.pod_security(workspace).await?;
        let wanted = namespace::namespace(workspace, account.as_ref(), security, name);
        match standing(workspace, recorded, known.as_ref()) {
            Standing::Ours(uid) => {
                if let Some(found) = known
                    && !found.is_labelled_as(&wanted)
                {
                    let surplus = account.is_none() && !found.account.is_empty();
                    self.label(wanted, &uid, surplus).await?;
                }
                Ok(Standing::Ours(uid))
            }
            Standing::Leaving(uid) => Ok(Standing::Leaving(uid)),
            // The cache may be stale, and namespaces without the label are not cached at all.
            Standing::Taken => self.look(workspace, name).await,
            Standing::Absent if recorded.is_some() || !may_make => self.look(workspace, name).await,
            Standing::Absent => match self.api::<Namespace>().create(&PostParams::default(), &wanted).await {
                Ok(made) => Ok(standing(workspace, None, Some(&Marks::of(&made)))),
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    self.look(workspace, name).await
                }
                Err(error) => Err(error).doing(|| format!("make namespace `{name}`")),
            },
        }
    }

    /// Reads the ownership of the namespace from the cluster.
    pub(super) async fn look(&self, workspace: &Workspace, name: &str) -> Result<Standing, ProvisionError> {
        let found =
            self.api::<Namespace>().get_opt(name).await.doing(|| format!("look at namespace `{name}`"))?;
        Ok(standing(workspace, recorded(workspace, name), found.as_ref().map(Marks::of).as_ref()))
    }

    /// Corrects the labels of a namespace.
    async fn label(
        &self,
        mut wanted: Namespace,
        uid: &str,
        has_surplus_account: bool,
    ) -> Result<(), ProvisionError> {
        let name = wanted.name_any();
        // The UID keeps another namespace of this name from being labelled.
        wanted.metadata.uid = Some(uid.to_owned());
        let api = self.api::<Namespace>();
        api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&wanted))
            .await
            .doing(|| format!("label namespace `{name}`"))?;
        if has_surplus_account {
            // Server-side apply keeps the label that the namespace was created with.
            let patch = json!({ "metadata": { "uid": uid, "labels": { ACCOUNT: null } } });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .doing(|| format!("label namespace `{name}`"))?;
        }
        Ok(())
    }

    /// Removes the namespaces that the spec no longer lists. Returns those that still exist, and the requeue delay.
    async fn let_go(
        &self,
        workspace: &Workspace,
    ) -> Result<(Vec<OwnedNamespace>, Option<Duration>), ProvisionError> {
        let wanted: BTreeSet<&str> =
            workspace.spec.namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
        let names = self.known_namespaces(workspace);
        let surplus = names.iter().filter(|name| !wanted.contains(name.as_str()));
        let left = try_join_all(surplus.map(|name| self.remove_namespace(workspace, name))).await?;
        let left: Vec<LeavingNamespace> = left.into_iter().flatten().collect();
        let look_again = left.iter().map(|leaving| leaving.look_again).min();
        Ok((left.into_iter().map(|leaving| leaving.namespace).collect(), look_again))
    }

    /// The names of all namespaces that are recorded for this workspace or carry its label.
    pub(super) fn known_namespaces(&self, workspace: &Workspace) -> BTreeSet<String> {
        let records = workspace.status.iter().flat_map(|status| &status.namespaces);
        let labelled = self.seen.labelled(&workspace.name_any());
        labelled.into_iter().chain(records.map(|record| record.name.clone())).collect()
    }

    async fn repair_all(&self, namespace: &str, repairs: Vec<Repair>) -> Result<(), ProvisionError> {
        try_join_all(repairs.into_iter().map(|repair| self.repair(namespace, repair))).await?;
        Ok(())
    }

    async fn repair(&self, namespace: &str, repair: Repair) -> Result<(), ProvisionError> {
        match repair {
            Repair::Apply(piece) => self.apply(Some(namespace), &piece).await,
            Repair::Delete(kind, name) => self.delete(Some(namespace), kind, &name).await,
        }
    }

    /// Writes the status if it changed, and publishes an event.
    async fn tell_workspace(
        &self,
        workspace: &Workspace,
        done: &Done,
        now: Timestamp,
    ) -> Result<(), ProvisionError> {
        if workspace.status.as_ref() == Some(&status(workspace, done, now)) {
            return Ok(());
        }
        let name = workspace.name_any();
        let doing = || format!("write the status of workspace `{name}`");
        let told = Workspace { status: Some(status(workspace, done, now)), ..workspace.clone() };
        let told = self
            .api::<Workspace>()
            .replace_status(&name, &PostParams::default(), &told)
            .await
            .doing(doing)?;
        let conditions = |workspace: &Workspace| workspace.status.clone().unwrap_or_default().conditions;
        self.announce(&told, &conditions(workspace), &conditions(&told)).await;
        Ok(())
    }
}

/// A write in a namespace.
enum Repair {
    Apply(Box<Piece>),
    Delete(PieceKind, Arc<str>),
}

impl Repair {
    fn kind(&self) -> PieceKind {
        match self {
            Self::Apply(piece) => piece.kind,
            Self::Delete(kind, _) => *kind,
        }
    }
}

/// The writes that turn the observed into the desired objects. Without a valid quota the old one stays.
fn repairs(mut seen: Pieces, wanted: Vec<Piece>, quota_too: bool) -> Vec<Repair> {
    let mut repairs = Vec::new();
    for piece in wanted {
        if seen.remove(&(piece.kind, piece.name().into())) != Some(piece.print()) {
            repairs.push(Repair::Apply(Box::new(piece)));
        }
    }
    let surplus = seen.into_keys().filter(|(kind, _)| quota_too || *kind != PieceKind::ResourceQuota);
    repairs.extend(surplus.map(|(kind, name)| Repair::Delete(kind, name)));
    repairs
}
