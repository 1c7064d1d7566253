//! Controller of Workspaces: provisions namespaces and their objects.
//!
//! Writes the status: the UIDs of its own namespaces, the number of members, and the conditions `NamespacesReady`, `AccessReady`,
//! `Ready`.
//!
//! Elsewhere: the objects in a namespace ([`super::namespace`]), deletion of workspaces ([`super::deletion`]).

mod status;

pub(super) use self::status::recorded_namespace;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use kube_access::queue::Action;
use kube_types::well_known::WORKSPACE_FINALIZER;
use kube_types::workspace::{Allowance, OwnedNamespace};
use kube_types::{FIELD_MANAGER, Workspace};
use serde_json::json;

use self::status::{
    DeployerAction, NamespaceOutcome, ReconcileOutcome, WorkspacePhase, deployer_action,
    must_delete_bindings, must_revoke_tenant_access, phase, status,
};
use super::deletion::TerminatingNamespace;
use super::namespace::{self, DEPLOYER, NamespaceMeta, NamespaceOwnership, PodSecurity, ownership};
use super::object_cache::ObjectHashes;
use super::owned_object::{OwnedKind, OwnedObject};
use super::tenant_access::delete_with_finalizers;
use super::{ErrorContext, ReconcileError, TenancyController, delay_until};
use crate::credential_store::is_code;
use crate::manifests::host_ports;
use crate::quota::ResourceQuantities;

impl TenancyController {
    /// Reconciles one Workspace. Idempotent.
    pub(super) async fn reconcile_workspace(&self, name: &str) -> Result<Action, ReconcileError> {
        let found =
            self.api::<Workspace>().get_opt(name).await.context(|| format!("read workspace `{name}`"))?;
        let Some(workspace) = found else { return Ok(Action::AwaitChange) };
        if workspace.metadata.deletion_timestamp.is_some() {
            return self.remove_workspace(&workspace).await;
        }
        let now = self.clock.now();
        let life = phase(&workspace, now);
        if life == WorkspacePhase::Expired {
            self.delete_workspace(&workspace).await?;
            return Ok(Action::AwaitChange);
        }
        let workspace = self.ensure_workspace_finalizer(&workspace).await?;
        let workspace = self.record_unlisted_namespaces(workspace).await?;
        let (shares, raise_later) = self.namespace_limits(&workspace).await?;
        let closed = life != WorkspacePhase::Open;
        let deployers = deployer_action(&workspace);
        let outcomes = join_all(workspace.spec.namespaces.iter().map(|wanted| {
            let hard =
                shares.as_ref().ok().map(|shares| shares.get(&wanted.name).cloned().unwrap_or_default());
            self.reconcile_namespace(&workspace, &wanted.name, hard, closed, &deployers)
        }))
        .await;
        let names = workspace.spec.namespaces.iter().map(|wanted| wanted.name.clone());
        let outcomes: Vec<(String, NamespaceOutcome)> = names.zip(outcomes).collect();
        let (leaving, look_again) = self.remove_unlisted_namespaces(&workspace).await?;
        let look_again = look_again.into_iter().chain(raise_later).min();
        let done = ReconcileOutcome {
            outcomes,
            terminating: leaving,
            quota_error: shares.err().map(|error| error.to_string()),
            phase: life,
            deployers,
        };
        self.update_workspace_status(&workspace, &done, now).await?;
        let failed = done.outcomes.into_iter().find_map(|(_, outcome)| match outcome {
            NamespaceOutcome::Failed { error, .. } => Some(error),
            _ => None,
        });
        match (failed, done.phase) {
            (Some(error), _) => Err(error),
            (None, WorkspacePhase::Closed(Some(after))) => Ok(Action::RequeueAfter(delay_until(now, after))),
            (None, _) => Ok(look_again.map_or(Action::AwaitChange, Action::RequeueAfter)),
        }
    }

    /// Adds the finalizer. Nothing is created before it is there, as it guarantees the removal.
    async fn ensure_workspace_finalizer(&self, workspace: &Workspace) -> Result<Workspace, ReconcileError> {
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
            .context(|| format!("hold workspace `{name}`"))
    }

    /// Reconciles one namespace and its objects.
    async fn reconcile_namespace(
        &self,
        workspace: &Workspace,
        name: &str,
        hard: Option<ResourceQuantities>,
        closed: bool,
        deployers: &DeployerAction,
    ) -> NamespaceOutcome {
        if !namespace::is_allowed_name(&workspace.name_any(), name) {
            return NamespaceOutcome::InvalidName;
        }
        let recorded = recorded_namespace(workspace, name);
        let uid = match self.ensure_namespace(workspace, name, hard.is_some()).await {
            Ok(NamespaceOwnership::Owned(uid)) => uid,
            Ok(NamespaceOwnership::Terminating(uid)) => return NamespaceOutcome::Terminating { uid },
            Ok(NamespaceOwnership::Foreign) => return NamespaceOutcome::Foreign,
            Ok(NamespaceOwnership::Absent) if recorded.is_some() => return NamespaceOutcome::Missing,
            Ok(NamespaceOwnership::Absent) => return NamespaceOutcome::InvalidQuota,
            Err(error) => {
                return NamespaceOutcome::Failed {
                    uid: recorded.map(|recorded| recorded.uid.clone()),
                    error,
                };
            }
        };
        let desired = namespace::desired_objects(
            workspace,
            name,
            hard.as_ref().unwrap_or(&ResourceQuantities::new()),
            closed,
        );
        let mut observed = self.objects.objects_in(name);
        let deployer = observed.remove(&(OwnedKind::ServiceAccount, DEPLOYER.into()));
        // A new namespace has none yet. In an old namespace the cache may lack it.
        if *deployers == DeployerAction::Keep {
            observed.extend(deployer.map(|print| ((OwnedKind::ServiceAccount, DEPLOYER.into()), print)));
        } else if (deployer.is_some() || recorded.is_some())
            && let Err(error) = self.delete(Some(name), OwnedKind::ServiceAccount, DEPLOYER).await
        {
            return NamespaceOutcome::Failed { uid: Some(uid), error };
        }
        let repairs = repairs(observed, desired, hard.is_some());
        let (bindings, first): (Vec<_>, Vec<_>) =
            repairs.into_iter().partition(|repair| repair.kind() == OwnedKind::RoleBinding);
        // Members get access to a new namespace only once its limits exist. An old namespace has them, and removed members must lose
        // their access even if applying the limits fails.
        let limited = self.repair_all(name, first).await;
        let bound = match (&limited, recorded) {
            (Err(_), None) => Ok(()),
            _ => self.repair_all(name, bindings).await,
        };
        // After the roles of members: a removed member can no longer create bindings. Access ends even if another write failed.
        let revoked = if must_revoke_tenant_access(workspace) {
            self.revoke_tenant_access(workspace, name, must_delete_bindings(workspace)).await
        } else {
            Ok(())
        };
        match limited.and(bound).and(revoked) {
            Ok(()) => NamespaceOutcome::Ready { uid },
            Err(error) => NamespaceOutcome::Failed { uid: Some(uid), error },
        }
    }

    /// The mechanism that refuses privileged pods. Pod Security if the policy is not installed: manifests of older versions lack it.
    async fn pod_security(&self, workspace: &Workspace) -> Result<PodSecurity, ReconcileError> {
        if !workspace.spec.allow.contains(&Allowance::HostPorts) {
            return Ok(PodSecurity::Baseline);
        }
        let bindings = self.api::<ValidatingAdmissionPolicyBinding>();
        match bindings.get_opt(host_ports::NAME).await {
            Ok(Some(_)) => Ok(PodSecurity::HostPorts),
            Ok(None) => Ok(PodSecurity::Baseline),
            // Manifests of older versions lack the right to read policies, too.
            Err(error) if is_code(&error, 403) => Ok(PodSecurity::Baseline),
            Err(error) => Err(error).context(|| format!("look for the policy `{}`", host_ports::NAME)),
        }
    }

    /// Observes the ownership of the namespace, creates it if it is missing and allowed, and corrects its labels.
    async fn ensure_namespace(
        &self,
        workspace: &Workspace,
        name: &str,
        may_create: bool,
    ) -> Result<NamespaceOwnership, ReconcileError> {
        let recorded = recorded_namespace(workspace, name);
        let known = self.objects.namespace(name);
        let account = self.directory.account_of_object(workspace);
        let security = self.pod_security(workspace).await?;
        let desired = namespace::desired_namespace(workspace, account.as_ref(), security, name);
        match ownership(workspace, recorded, known.as_ref()) {
            NamespaceOwnership::Owned(uid) => {
                if let Some(found) = known
                    && !found.has_labels_of(&desired)
                {
                    let surplus = found.surplus_labels(&desired);
                    self.update_namespace_labels(desired, &uid, &surplus).await?;
                }
                Ok(NamespaceOwnership::Owned(uid))
            }
            NamespaceOwnership::Terminating(uid) => Ok(NamespaceOwnership::Terminating(uid)),
            // The cache may be stale, and namespaces without the label are not cached at all.
            NamespaceOwnership::Foreign => self.observe_namespace(workspace, name).await,
            NamespaceOwnership::Absent if recorded.is_some() || !may_create => {
                self.observe_namespace(workspace, name).await
            }
            NamespaceOwnership::Absent => {
                match self.api::<Namespace>().create(&PostParams::default(), &desired).await {
                    Ok(made) => Ok(ownership(workspace, None, Some(&NamespaceMeta::from_namespace(&made)))),
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {
                        self.observe_namespace(workspace, name).await
                    }
                    Err(error) => Err(error).context(|| format!("make namespace `{name}`")),
                }
            }
        }
    }

    /// Reads the ownership of the namespace from the cluster.
    pub(super) async fn observe_namespace(
        &self,
        workspace: &Workspace,
        name: &str,
    ) -> Result<NamespaceOwnership, ReconcileError> {
        let found =
            self.api::<Namespace>().get_opt(name).await.context(|| format!("look at namespace `{name}`"))?;
        Ok(ownership(
            workspace,
            recorded_namespace(workspace, name),
            found.as_ref().map(NamespaceMeta::from_namespace).as_ref(),
        ))
    }

    /// Corrects the labels of a namespace.
    async fn update_namespace_labels(
        &self,
        mut desired: Namespace,
        uid: &str,
        surplus: &[&str],
    ) -> Result<(), ReconcileError> {
        let name = desired.name_any();
        // The UID keeps another namespace of this name from being labelled.
        desired.metadata.uid = Some(uid.to_owned());
        let api = self.api::<Namespace>();
        api.patch(&name, &PatchParams::apply(FIELD_MANAGER).force(), &Patch::Apply(&desired))
            .await
            .context(|| format!("label namespace `{name}`"))?;
        if !surplus.is_empty() {
            let labels: BTreeMap<&str, Option<&str>> = surplus.iter().map(|label| (*label, None)).collect();
            let patch = json!({ "metadata": { "uid": uid, "labels": labels } });
            api.patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .context(|| format!("label namespace `{name}`"))?;
        }
        Ok(())
    }

    /// Removes the namespaces that the spec no longer lists. Returns the namespaces that still exist, and the requeue delay.
    async fn remove_unlisted_namespaces(
        &self,
        workspace: &Workspace,
    ) -> Result<(Vec<OwnedNamespace>, Option<Duration>), ReconcileError> {
        let wanted: BTreeSet<&str> =
            workspace.spec.namespaces.iter().map(|namespace| namespace.name.as_str()).collect();
        let names = self.all_namespaces(workspace);
        let surplus = names.iter().filter(|name| !wanted.contains(name.as_str()));
        let left = try_join_all(surplus.map(|name| self.remove_namespace(workspace, name))).await?;
        let left: Vec<TerminatingNamespace> = left.into_iter().flatten().collect();
        let look_again = left.iter().map(|leaving| leaving.requeue_after).min();
        Ok((left.into_iter().map(|leaving| leaving.namespace).collect(), look_again))
    }

    /// The names of all namespaces that are recorded for this workspace or carry its label.
    pub(super) fn all_namespaces(&self, workspace: &Workspace) -> BTreeSet<String> {
        let records = workspace.status.iter().flat_map(|status| &status.namespaces);
        let labelled = self.objects.namespaces_of_workspace(&workspace.name_any());
        labelled.into_iter().chain(records.map(|record| record.name.clone())).collect()
    }

    /// Attempts all repairs and returns the first error.
    async fn repair_all(&self, namespace: &str, repairs: Vec<ObjectRepair>) -> Result<(), ReconcileError> {
        let repaired = join_all(repairs.into_iter().map(|repair| self.repair(namespace, repair))).await;
        repaired.into_iter().collect()
    }

    async fn repair(&self, namespace: &str, repair: ObjectRepair) -> Result<(), ReconcileError> {
        match repair {
            ObjectRepair::Apply(piece) => match self.apply(Some(namespace), &piece).await {
                // The role of a RoleBinding is immutable: one of another client that has this name is replaced.
                Err(error) if piece.kind == OwnedKind::RoleBinding && error.is_invalid() => {
                    self.delete_role_binding(namespace, &piece.name()).await?;
                    self.apply(Some(namespace), &piece).await
                }
                applied => applied,
            },
            ObjectRepair::Delete(kind, name) => self.delete(Some(namespace), kind, &name).await,
        }
    }

    async fn delete_role_binding(&self, namespace: &str, name: &str) -> Result<(), ReconcileError> {
        let api: Api<RoleBinding> = Api::namespaced(self.client.clone(), namespace);
        let doing = || format!("delete RoleBinding `{name}` in `{namespace}`");
        let Some(found) = api.get_opt(name).await.context(doing)? else { return Ok(()) };
        delete_with_finalizers(&api, name, found.metadata.uid.as_deref()).await.context(doing)
    }

    /// Writes the status if it changed, and publishes an event.
    async fn update_workspace_status(
        &self,
        workspace: &Workspace,
        done: &ReconcileOutcome,
        now: Timestamp,
    ) -> Result<(), ReconcileError> {
        if workspace.status.as_ref() == Some(&status(workspace, done, now)) {
            return Ok(());
        }
        let name = workspace.name_any();
        let doing = || format!("write the status of workspace `{name}`");
        let workspace_with_status =
            Workspace { status: Some(status(workspace, done, now)), ..workspace.clone() };
        let updated = self
            .api::<Workspace>()
            .replace_status(&name, &PostParams::default(), &workspace_with_status)
            .await
            .context(doing)?;
        let conditions = |workspace: &Workspace| workspace.status.clone().unwrap_or_default().conditions;
        self.publish_ready_event(&updated, &conditions(workspace), &conditions(&updated)).await;
        Ok(())
    }
}

/// A write in a namespace.
enum ObjectRepair {
    Apply(Box<OwnedObject>),
    Delete(OwnedKind, Arc<str>),
}

impl ObjectRepair {
    fn kind(&self) -> OwnedKind {
        match self {
            Self::Apply(piece) => piece.kind,
            Self::Delete(kind, _) => *kind,
        }
    }
}

/// The writes that turn the observed into the desired objects. Without a valid quota the old one stays.
fn repairs(
    mut observed: ObjectHashes,
    desired: Vec<OwnedObject>,
    has_valid_quota: bool,
) -> Vec<ObjectRepair> {
    let mut repairs = Vec::new();
    for piece in desired {
        if observed.remove(&(piece.kind, piece.name().into())) != Some(piece.hash()) {
            repairs.push(ObjectRepair::Apply(Box::new(piece)));
        }
    }
    let surplus =
        observed.into_keys().filter(|(kind, _)| has_valid_quota || *kind != OwnedKind::ResourceQuota);
    repairs.extend(surplus.map(|(kind, name)| ObjectRepair::Delete(kind, name)));
    repairs
}
