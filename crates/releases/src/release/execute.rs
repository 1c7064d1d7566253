//! Executes one operation, which the status names from start to end.
//!
//! Invariants: nothing is done before the status names the operation. That write is conditional on the observed `resourceVersion`, so a
//! reconcile with a stale view does nothing. The next reconcile finds an unfinished operation of a crashed process in the status and in
//! Helm's record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::ErrorKind;
use domain::clock::saturating_add;
use domain::release::ReleaseState;
use domain::release::operation::ReleaseAction;
use domain::release::retry::{self, RetryDecision};
use futures::FutureExt;
use helm_release::actions::{ActionOptions, Propagation, Rollback, Uninstall};
use helm_release::render::RenderError;
use helm_release::render::share::WorkError;
use helm_release::{Error, Helm, Record, StorageError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::PostParams;
use kube_access::queue::Action;
use kube_apply::{NoProgress, ObjectId, ReservedObjects};
use kube_types::HelmReleaseStatus;
use kube_types::release::status::HelmState;
use kube_types::release::{InventoryEntry, RemediationStrategy};
use kube_types::well_known::{CHART_PACKAGE, OPERATION, SPEC_HASH};

use super::administrator_objects;
use super::desired::DesiredRelease;
use super::identity::ReleaseIdentity;
use super::ledger::{OperationLedger, ReadOnlyLedger};
use super::post_render_hook::{ObjectAdmission, ReleasePostRenderer};
use super::quota_check::QuotaCheck;
use super::{EXHAUSTED_REASON, ReleaseContext, status_failure};
use crate::controller::ReleaseController;
use crate::error::{ErrorContext, ReconcileError};
use crate::helm_options::{self, DeployInputs, HelmAction};
use crate::helm_records::label_hash;
use crate::readiness::custom_resources::RestartPolicy;
use crate::service::VERSION_LABEL;
use crate::status_update::{DeployedRevision, StatusUpdate};
use crate::tenant_directory::flow_for_workspace;

/// Limit on conflict retries when the result of an operation is written.
const MAX_CONFLICT_RETRIES: usize = 10;

/// The delay while another client works on the release.
const BUSY_RETRY_DELAY: Duration = Duration::from_secs(2);
/// The delay after rendering found no slot or memory.
const OVERLOAD_RETRY_DELAY: Duration = Duration::from_secs(10);

impl ReleaseController {
    /// Executes one step with the identity of the release.
    pub(super) async fn execute(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        step: ReleaseAction,
        desired: DesiredRelease,
    ) -> Result<Action, ReconcileError> {
        if let ReleaseAction::Recover | ReleaseAction::FinishUninstall = step {
            return self.recover_interrupted(pass, &self.read_only_helm(pass, identity)).boxed().await;
        }
        let (state, kind) = operation_state(step, identity);
        let id = new_operation_id();
        let started =
            pass.status_update().started(state, kind, &id, saturating_add(pass.now, pass.timeout())).build();
        let begun = ReleaseContext {
            key: pass.key,
            release: self.update_status(pass, started).await?,
            now: pass.now,
        };
        let reserved = administrator_objects::reserved_objects(&self.clients, identity, Some(&begun.release));
        let ledger = Arc::new(OperationLedger::new(
            self.release_api(&pass.key.namespace),
            begun.release.clone(),
            &id,
            &identity.by,
            desired.sensitive.pointers(),
            reserved.clone(),
        ));
        let mut helm = self.helm_factory.helm_for_identity(&self.clients, identity, reserved, ledger.clone());
        let workspace = self.tenants.workspace_of(&pass.key.namespace);
        helm.flow = workspace.map(|workspace| flow_for_workspace(&*self.tenants, &workspace).into());
        let done = self.deploy(&begun, identity, step, &desired, &id, &helm).boxed().await;
        let now = self.clock.now();
        let begun = ReleaseContext { release: ledger.latest(), ..begun };
        let telling =
            StatusUpdate::new(begun.release.status.as_ref(), begun.release.metadata.generation, now);
        match done {
            Ok(record) => {
                self.helm_records.record_own_write(pass.key, &record, true, now);
                let objects = self.record_objects(&pass.key.namespace, &record).await?;
                self.reconcile_state.record_objects(pass.key, record.version, objects.clone());
                // RBAC may have changed since a watch was refused.
                self.custom_resources
                    .ensure_watches(pass.key, &objects, &identity.impersonation, RestartPolicy::Always)
                    .await;
                let standing = self.readiness_report(&begun, &objects, now, None);
                let late = standing.is_late;
                let first = matches!(step, ReleaseAction::Install | ReleaseAction::Reinstall);
                let administered = self.reconcile_administered(&begun, identity, &record).await;
                let inventory = external_inventory(&begun, &objects);
                let deployment = DeployedRevision {
                    administered,
                    ..deployed_revision(&begun, identity, desired, &record, inventory, first)
                };
                self.finish_operation(&begun, &id, telling.deployed(deployment).readiness(standing).build())
                    .await?;
                Ok(if late { Action::AwaitChange } else { Action::RequeueAfter(pass.timeout()) })
            }
            Err(Error::Lock(_) | Error::Pending) => {
                // Another client holds the release; nothing was done.
                self.finish_operation(
                    &begun,
                    &id,
                    telling.cancelled().waiting("Busy", "another client is operating on the release").build(),
                )
                .await?;
                Ok(Action::RequeueAfter(BUSY_RETRY_DELAY))
            }
            Err(
                error @ (Error::Render(RenderError::Rejected(_))
                | Error::Storage(StorageError::Busy(WorkError::Rejected(_)))),
            ) => {
                // The pool is overloaded; nothing was rendered or written. Overload by others is not an interruption.
                let waits = telling.cancelled().waiting(EXHAUSTED_REASON, &error.to_string());
                self.finish_operation(&begun, &id, waits.build()).await?;
                Ok(Action::RequeueAfter(OVERLOAD_RETRY_DELAY))
            }
            Err(error) => {
                self.handle_failure(&begun, identity, &desired, (&id, &helm, &ledger), &error).boxed().await
            }
        }
    }

    /// A Helm client for operations that create no revision.
    pub(super) fn read_only_helm(&self, pass: &ReleaseContext<'_>, identity: &ReleaseIdentity) -> Helm {
        let ledger = ReadOnlyLedger { release: Some(pass.release.clone()), by: identity.by.clone() };
        let reserved = administrator_objects::reserved_objects(&self.clients, identity, Some(&pass.release));
        self.helm_factory.helm_for_identity(&self.clients, identity, reserved, Arc::new(ledger))
    }

    fn object_admission<'a>(
        &'a self,
        pass: &'a ReleaseContext<'_>,
        identity: &'a ReleaseIdentity,
        reserved: &'a ReservedObjects,
    ) -> ObjectAdmission<'a> {
        ObjectAdmission {
            namespace: &pass.key.namespace,
            identity,
            reserved,
            tenants: &*self.tenants,
            discovery: &self.helm_factory.discovery,
            clients: &self.clients,
        }
    }

    async fn deploy(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        step: ReleaseAction,
        desired: &DesiredRelease,
        id: &str,
        helm: &Helm,
    ) -> Result<Record, Error> {
        let spec = &pass.release.spec;
        let admission = self.object_admission(pass, identity, &helm.reserved);
        let change = ReleasePostRenderer { spec, admission, renderer: &helm.renderer };
        let quotas = QuotaCheck(&self.clients);
        let run = || {
            let sensitive = desired.sensitive.texts().to_vec();
            ActionOptions {
                sensitive,
                capacity_check: Some(&quotas),
                ..helm_options::action_options(spec, pass.timeout(), &change)
            }
        };
        if step == ReleaseAction::Reinstall {
            helm.uninstall(&uninstall_options(pass, run())).boxed().await?;
            self.helm_records.remove(pass.key);
        }
        let inputs = DeployInputs {
            name: pass.key.name.to_string(),
            namespace: pass.key.namespace.to_string(),
            chart: desired.chart.prepared.clone(),
            values: desired.values.clone(),
            labels: record_labels(pass, desired, id),
        };
        helm_options::deploy(helm, HelmAction::from_release_action(step), inputs, spec, run()).await
    }

    /// Recovers an interrupted operation and requeues.
    async fn recover_interrupted(
        &self,
        pass: &ReleaseContext<'_>,
        helm: &Helm,
    ) -> Result<Action, ReconcileError> {
        match helm.recover(&pass.key.namespace, &pass.key.name, &ActionOptions::new(&NoProgress)).await {
            Ok(_) => {
                self.update_status(pass, pass.status_update().interrupted().build()).await?;
                Ok(Action::RequeueAfter(Duration::ZERO))
            }
            Err(Error::Lock(_)) => Ok(Action::RequeueAfter(BUSY_RETRY_DELAY)),
            // The `helm` command uses no Lease: only the timeout shows whether it still works.
            Err(Error::Pending) => self.wait_for_other_client(pass).await,
            Err(error) => Err(ReconcileError::Helm(error.to_string())),
        }
    }

    async fn handle_failure(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        desired: &DesiredRelease,
        (id, helm, ledger): (&str, &Helm, &OperationLedger),
        error: &Error,
    ) -> Result<Action, ReconcileError> {
        let message = desired.sensitive.mask_text(&error.to_string());
        let failure = status_failure(error.kind(), failure_reason(error), message);
        let attempted = pass.attempt_id(&desired.spec_hash);
        let status = pass.status();
        let attempts = if status.attempted_hash == attempted { status.attempts.saturating_add(1) } else { 1 };
        let remediation = pass.release.spec.remediation.clone().unwrap_or_default();
        let then = retry::decide_retry(failure.kind, attempts, remediation.retries);
        let mut left = None;
        if let Error::Failed { record, .. } = error {
            self.remediate(pass, identity, helm, remediation.strategy).await;
            left = Some(self.helm_state_after_failure(pass, record).await);
        }
        let pass = &ReleaseContext { key: pass.key, release: ledger.latest(), now: pass.now };
        let telling = StatusUpdate::new(
            pass.release.status.as_ref(),
            pass.release.metadata.generation,
            self.clock.now(),
        );
        let revision = left.as_ref().map_or(0, |helm| helm.revision);
        let telling =
            telling.add_failure(pass.release.spec.version, revision, &failure.message, &identity.by);
        self.finish_operation(pass, id, telling.failed(&failure, &attempted, then, left).build()).await?;
        Ok(match then {
            RetryDecision::GiveUp => self.requeue_after_interval(pass),
            RetryDecision::RetryAfter(pause) => Action::RequeueAfter(pause),
        })
    }

    /// The Helm state after a failure and its remediation: a rollback has a newer record, an uninstallation has none.
    async fn helm_state_after_failure(&self, pass: &ReleaseContext<'_>, failed: &Record) -> HelmState {
        match self.helm_factory.storage(&self.clients, &pass.key.namespace).newest(&pass.key.name).await {
            Ok(Some(newest)) => {
                self.helm_records.record_own_write(
                    pass.key,
                    &newest.record,
                    newest.has_lease,
                    self.clock.now(),
                );
                return helm_state(&newest.record);
            }
            Ok(None) => self.helm_records.remove(pass.key),
            Err(error) => {
                // The failure is still reported; the watch delivers the records.
                tracing::warn!(release = %pass.key, %error, "cannot read the objects of a failed operation");
                self.helm_records.record_own_write(pass.key, failed, true, self.clock.now());
            }
        }
        helm_state(failed)
    }

    /// Remediates a failed upgrade before the retry.
    async fn remediate(
        &self,
        pass: &ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        helm: &Helm,
        strategy: Option<RemediationStrategy>,
    ) {
        let Some(strategy) = strategy.filter(|_| pass.status().version > 0) else { return };
        let spec = &pass.release.spec;
        let admission = self.object_admission(pass, identity, &helm.reserved);
        let mut run = ActionOptions::new(&NoProgress);
        run.timeout = pass.timeout();
        run.hooks = !spec.options.disable_hooks;
        run.post_renderer = Some(&admission);
        let (name, namespace) = (pass.key.name.to_string(), pass.key.namespace.to_string());
        let done = match strategy {
            RemediationStrategy::Rollback => {
                let cleanup_on_fail = spec.options.cleanup_on_fail;
                helm.rollback(&Rollback { name, namespace, revision: 0, cleanup_on_fail, options: run })
                    .await
                    .map(drop)
            }
            RemediationStrategy::Uninstall => {
                helm.uninstall(&uninstall_options(pass, run)).boxed().await.map(drop)
            }
        };
        if let Err(error) = done {
            tracing::warn!(release = %pass.key, %error, "remediation of a failed upgrade failed");
        }
    }

    /// Writes the result of an operation. The spec may have changed since. If the status names another operation, another process has
    /// taken over and nothing is written.
    async fn finish_operation(
        &self,
        begun: &ReleaseContext<'_>,
        id: &str,
        status: HelmReleaseStatus,
    ) -> Result<(), ReconcileError> {
        match self.update_status(begun, status.clone()).await {
            Err(error) if error.is_conflict() => {}
            done => return done.map(drop),
        }
        let api = self.release_api(&begun.key.namespace);
        let doing = || format!("write the result of an operation on release `{}`", begun.key);
        for _ in 0..MAX_CONFLICT_RETRIES {
            let Some(mut latest) = api.get_opt(&begun.key.name).await.context(doing)? else { return Ok(()) };
            let ours = latest
                .status
                .as_ref()
                .and_then(|status| status.operation.as_ref())
                .is_some_and(|now| now.id == id);
            if !ours || latest.uid() != begun.release.uid() {
                return Ok(());
            }
            latest.status = Some(status.clone());
            let name = latest.name_any();
            match api.replace_status(&name, &PostParams::default(), &latest).await {
                Err(kube::Error::Api(refused)) if refused.is_conflict() => {}
                written => {
                    let updated = written.context(doing)?;
                    self.release_expectations
                        .record_write(begun.key.clone(), updated.metadata.resource_version.as_deref());
                    self.publish_status_event(begun.release.status.as_ref(), &updated).await;
                    return Ok(());
                }
            }
        }
        // The next reconcile finds the operation in the status and in Helm's record, and finishes it.
        Err(ReconcileError::TooManyConflicts(begun.key.clone()))
    }
}

/// The objects of a release outside its namespace, except an administrator's objects.
pub(super) fn external_inventory(pass: &ReleaseContext<'_>, objects: &[ObjectId]) -> Vec<InventoryEntry> {
    let listed = administrator_objects::administered_entries(&pass.release);
    let outside = objects.iter().filter(|id| id.namespace.as_deref() != Some(&*pass.key.namespace));
    outside.map(administrator_objects::inventory_entry).filter(|entry| !listed.contains(entry)).collect()
}

/// The state and the operation kind of a step.
fn operation_state(step: ReleaseAction, identity: &ReleaseIdentity) -> (ReleaseState, &'static str) {
    match step {
        ReleaseAction::Install | ReleaseAction::Reinstall => (ReleaseState::Creating, "install"),
        _ if identity.rollback_of.is_some() => (ReleaseState::Rollbacking, "rollback"),
        _ => (ReleaseState::Upgrading, "upgrade"),
    }
}

pub(super) fn uninstall_options<'r>(pass: &ReleaseContext<'_>, run: ActionOptions<'r>) -> Uninstall<'r> {
    Uninstall {
        name: pass.key.name.to_string(),
        namespace: pass.key.namespace.to_string(),
        keep_history: false,
        ignore_not_found: true,
        propagation: Propagation::Background,
        // A `helm` command still in progress would leave objects without a record.
        ignore_pending: false,
        options: run,
    }
}

pub(super) fn deployed_revision(
    pass: &ReleaseContext<'_>,
    identity: &ReleaseIdentity,
    desired: DesiredRelease,
    record: &Record,
    inventory: Vec<InventoryEntry>,
    first: bool,
) -> DeployedRevision {
    DeployedRevision {
        version: pass.release.spec.version,
        hash: desired.hash,
        spec_hash: desired.spec_hash,
        chart: desired.chart.resolved,
        helm: helm_state(record),
        inventory,
        administered: None,
        rollback_of: identity.rollback_of,
        by: identity.by.clone(),
        is_first: first,
    }
}

fn helm_state(record: &Record) -> HelmState {
    HelmState {
        revision: record.version,
        operation: record.labels.get(OPERATION).cloned().unwrap_or_default(),
        status: record.info.status.as_str().to_owned(),
        first_deployed: record.info.first_deployed.timestamp().map(Time),
    }
}

fn failure_reason(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Forbidden => "Forbidden",
        ErrorKind::Invalid => "Invalid",
        ErrorKind::Timeout => "TimedOut",
        ErrorKind::Conflict => "Conflict",
        ErrorKind::TooLarge => "TooLarge",
        ErrorKind::Exhausted => "Exhausted",
        ErrorKind::Unavailable => "Unavailable",
        _ => "OperationFailed",
    }
}

/// Labels of the record: chart package, spec hash, operation and version.
fn record_labels(pass: &ReleaseContext<'_>, desired: &DesiredRelease, id: &str) -> BTreeMap<String, String> {
    [
        (CHART_PACKAGE.to_owned(), desired.chart.resolved.package.clone()),
        (SPEC_HASH.to_owned(), label_hash(&desired.spec_hash).to_owned()),
        (OPERATION.to_owned(), id.to_owned()),
        (VERSION_LABEL.to_owned(), pass.release.spec.version.to_string()),
    ]
    .into()
}

pub(super) fn new_operation_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
