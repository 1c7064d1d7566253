//! Executes one operation, which the status names from start to end.
//!
//! Invariants: nothing is done before the status names the operation. That write is conditional on the observed `resourceVersion`, so a
//! reconcile with a stale view does nothing. The next reconcile finds an unfinished operation of a crashed process in the status and in
//! Helm's record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use domain::Kind;
use domain::clock::after;
use domain::release::State;
use domain::release::operation::Step;
use domain::release::retry::{self, Then};
use futures::FutureExt;
use helm_release::actions::{Propagation, Rollback, Run, Uninstall};
use helm_release::render::RenderError;
use helm_release::{Error, Helm, Record, StorageError};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::PostParams;
use kube_access::queue::Next;
use kube_apply::{Id, Reserved, Silent};
use kube_types::HelmReleaseStatus;
use kube_types::marks::{CHART_PACKAGE, OPERATION, SPEC_HASH};
use kube_types::release::status::HelmState;
use kube_types::release::{InventoryEntry, RemediationStrategy};

use super::administered;
use super::change::{Admission, Change};
use super::identity::Identity;
use super::ledger::{OperationLedger, ReadOnlyLedger};
use super::room::Quotas;
use super::wanted::Wanted;
use super::{Pass, failure};
use crate::acts::VERSION;
use crate::error::{Doing, PassError};
use crate::helm_options::{self, Action, Inputs};
use crate::lead::Controller;
use crate::people::flow_of;
use crate::records::short;
use crate::tell::{Deployment, Telling};
use crate::workloads::customs::Again;

/// Limit on conflict retries when the result of an operation is written.
const MAX_CONFLICT_RETRIES: usize = 10;

/// The delay while another client works on the release.
const BUSY: Duration = Duration::from_secs(2);
/// The delay after rendering found no slot or memory.
const PUT_OFF: Duration = Duration::from_secs(10);

impl Controller {
    /// Executes one step with the identity of the release.
    pub(super) async fn operate(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        step: Step,
        wanted: Wanted,
    ) -> Result<Next, PassError> {
        if let Step::Recover | Step::FinishUninstall = step {
            return self.repair(pass, &self.judging_helm(pass, identity)).boxed().await;
        }
        let (state, kind) = begun(step, identity);
        let id = operation_id();
        let started = pass.telling().started(state, kind, &id, after(pass.now, pass.timeout())).done();
        let begun = Pass { key: pass.key, release: self.tell(pass, started).await?, now: pass.now };
        let reserved = administered::reserved(&self.clients, identity, Some(&begun.release));
        let ledger = Arc::new(OperationLedger::new(
            self.release_api(&pass.key.namespace),
            begun.release.clone(),
            &id,
            &identity.by,
            wanted.sensitive.pointers(),
            reserved.clone(),
        ));
        let mut helm = self.helm.acting_for(&self.clients, identity, reserved, ledger.clone());
        let workspace = self.people.workspace_of(&pass.key.namespace);
        helm.flow = workspace.map(|workspace| flow_of(&*self.people, &workspace).into());
        let done = self.deploy(&begun, identity, step, &wanted, &id, &helm).boxed().await;
        let now = self.clock.now();
        let begun = Pass { release: ledger.latest(), ..begun };
        let telling = Telling::new(begun.release.status.as_ref(), begun.release.metadata.generation, now);
        match done {
            Ok(record) => {
                self.records.learn(pass.key, &record, true, now);
                let objects = self.objects(&pass.key.namespace, &record).await?;
                self.known.learn_objects(pass.key, record.version, objects.clone());
                // RBAC may have changed since a watch was refused.
                self.customs.follow(pass.key, &objects, &identity.acts_as, Again::Always).await;
                let standing = self.standing(&begun, &objects, now, None);
                let late = standing.late;
                let first = matches!(step, Step::Install | Step::Reinstall);
                let administered = self.settle_administered(&begun, identity, &record).await;
                let inventory = inventory(&begun, &objects);
                let deployment = Deployment {
                    administered,
                    ..deployment(&begun, identity, wanted, &record, inventory, first)
                };
                self.end(&begun, &id, telling.deployed(deployment).stands(standing).done()).await?;
                Ok(if late { Next::Rest } else { Next::After(pass.timeout()) })
            }
            Err(Error::Hold(_) | Error::Pending) => {
                // Another client holds the release; nothing was done.
                self.end(&begun, &id, telling.withdrawn().waits("Busy", "somebody else works on it").done())
                    .await?;
                Ok(Next::After(BUSY))
            }
            Err(
                error @ (Error::Render(RenderError::Rejected(_)) | Error::Storage(StorageError::Busy(_))),
            ) => {
                // The pool is overloaded; nothing was rendered or written.
                let waits = telling.interrupted().waits("Exhausted", &error.to_string());
                self.end(&begun, &id, waits.done()).await?;
                Ok(Next::After(PUT_OFF))
            }
            Err(error) => self.failed(&begun, identity, &wanted, (&id, &helm, &ledger), &error).boxed().await,
        }
    }

    /// A Helm client for operations that create no revision.
    pub(super) fn judging_helm(&self, pass: &Pass<'_>, identity: &Identity) -> Helm {
        let ledger = ReadOnlyLedger { release: Some(pass.release.clone()), by: identity.by.clone() };
        let reserved = administered::reserved(&self.clients, identity, Some(&pass.release));
        self.helm.acting_for(&self.clients, identity, reserved, Arc::new(ledger))
    }

    fn admission<'a>(
        &'a self,
        pass: &'a Pass<'_>,
        identity: &'a Identity,
        reserved: &'a Reserved,
    ) -> Admission<'a> {
        Admission {
            namespace: &pass.key.namespace,
            identity,
            reserved,
            people: &*self.people,
            discovery: &self.helm.discovery,
            clients: &self.clients,
        }
    }

    async fn deploy(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        step: Step,
        wanted: &Wanted,
        id: &str,
        helm: &Helm,
    ) -> Result<Record, Error> {
        let spec = &pass.release.spec;
        let admission = self.admission(pass, identity, &helm.reserved);
        let change = Change { spec, admission, renderer: &helm.renderer };
        let quotas = Quotas(&self.clients);
        let run = || {
            let sensitive = wanted.sensitive.texts().to_vec();
            Run { sensitive, room: Some(&quotas), ..helm_options::run(spec, pass.timeout(), &change) }
        };
        if step == Step::Reinstall {
            helm.uninstall(&uninstall(pass, run())).boxed().await?;
            self.records.forget(pass.key);
        }
        let inputs = Inputs {
            name: pass.key.name.to_string(),
            namespace: pass.key.namespace.to_string(),
            chart: wanted.chart.ready.clone(),
            values: wanted.values.clone(),
            labels: labels(pass, wanted, id),
        };
        helm_options::deploy(helm, Action::of(step), inputs, spec, run()).await
    }

    /// Recovers an interrupted operation and requeues.
    async fn repair(&self, pass: &Pass<'_>, helm: &Helm) -> Result<Next, PassError> {
        match helm.recover(&pass.key.namespace, &pass.key.name, &Run::new(&Silent)).await {
            Ok(_) => {
                self.tell(pass, pass.telling().interrupted().done()).await?;
                Ok(Next::After(Duration::ZERO))
            }
            Err(Error::Hold(_)) => Ok(Next::After(BUSY)),
            // The `helm` command uses no Lease: only the timeout shows whether it still works.
            Err(Error::Pending) => self.wait_for_end(pass).await,
            Err(error) => Err(PassError::Helm(error.to_string())),
        }
    }

    async fn failed(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        wanted: &Wanted,
        (id, helm, ledger): (&str, &Helm, &OperationLedger),
        error: &Error,
    ) -> Result<Next, PassError> {
        let message = wanted.sensitive.mask_text(&error.to_string());
        let failure = failure(error.kind(), reason(error), message);
        let attempted = pass.attempted(&wanted.spec_hash);
        let status = pass.status();
        let attempts = if status.attempted_hash == attempted { status.attempts.saturating_add(1) } else { 1 };
        let remediation = pass.release.spec.remediation.clone().unwrap_or_default();
        let then = retry::then(failure.kind, attempts, remediation.retries);
        let mut left = None;
        if let Error::Failed { record, .. } = error {
            self.remediate(pass, identity, helm, remediation.strategy).await;
            left = Some(self.left(pass, record).await);
        }
        let pass = &Pass { key: pass.key, release: ledger.latest(), now: pass.now };
        let telling =
            Telling::new(pass.release.status.as_ref(), pass.release.metadata.generation, self.clock.now());
        let revision = left.as_ref().map_or(0, |helm| helm.revision);
        let telling =
            telling.remember_failure(pass.release.spec.version, revision, &failure.message, &identity.by);
        self.end(pass, id, telling.failed(&failure, &attempted, then, left).done()).await?;
        Ok(match then {
            Then::GiveUp => self.interval_from(pass),
            Then::TryAgain(pause) => Next::After(pause),
        })
    }

    /// The Helm state after a failure and its remediation: a rollback has a newer record, an uninstallation has none.
    async fn left(&self, pass: &Pass<'_>, failed: &Record) -> HelmState {
        match self.helm.storage(&self.clients, &pass.key.namespace).last(&pass.key.name).await {
            Ok(Some(newest)) => {
                self.records.learn(pass.key, &newest.record, newest.held, self.clock.now());
                return helm_state(&newest.record);
            }
            Ok(None) => self.records.forget(pass.key),
            Err(error) => {
                // The failure is still reported; the watch delivers the records.
                tracing::warn!(release = %pass.key, %error, "cannot read what a failure left");
                self.records.learn(pass.key, failed, true, self.clock.now());
            }
        }
        helm_state(failed)
    }

    /// Remediates a failed upgrade before the retry.
    async fn remediate(
        &self,
        pass: &Pass<'_>,
        identity: &Identity,
        helm: &Helm,
        strategy: Option<RemediationStrategy>,
    ) {
        let Some(strategy) = strategy.filter(|_| pass.status().version > 0) else { return };
        let spec = &pass.release.spec;
        let admission = self.admission(pass, identity, &helm.reserved);
        let mut run = Run::new(&Silent);
        run.timeout = pass.timeout();
        run.hooks = !spec.options.disable_hooks;
        run.post_render = Some(&admission);
        let (name, namespace) = (pass.key.name.to_string(), pass.key.namespace.to_string());
        let done = match strategy {
            RemediationStrategy::Rollback => {
                let cleanup_on_fail = spec.options.cleanup_on_fail;
                helm.rollback(&Rollback { name, namespace, revision: 0, cleanup_on_fail, run })
                    .await
                    .map(drop)
            }
            RemediationStrategy::Uninstall => helm.uninstall(&uninstall(pass, run)).boxed().await.map(drop),
        };
        if let Err(error) = done {
            tracing::warn!(release = %pass.key, %error, "a failed upgrade could not be remedied");
        }
    }

    /// Writes the result of an operation. The spec may have changed since. If the status names another operation, another process has
    /// taken over and nothing is written.
    async fn end(&self, begun: &Pass<'_>, id: &str, status: HelmReleaseStatus) -> Result<(), PassError> {
        match self.tell(begun, status.clone()).await {
            Err(error) if error.is_conflict() => {}
            done => return done.map(drop),
        }
        let api = self.release_api(&begun.key.namespace);
        let doing = || format!("write how an operation on release `{}` ended", begun.key);
        for _ in 0..MAX_CONFLICT_RETRIES {
            let Some(mut latest) = api.get_opt(&begun.key.name).await.doing(doing)? else { return Ok(()) };
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
                    let told = written.doing(doing)?;
                    self.told.note(begun.key.clone(), told.metadata.resource_version.as_deref());
                    self.announce(begun.release.status.as_ref(), &told).await;
                    return Ok(());
                }
            }
        }
        // The next reconcile finds the operation in the status and in Helm's record, and finishes it.
        Err(PassError::Contended(begun.key.clone()))
    }
}

/// The objects of a release outside its namespace, except those of an administrator.
pub(super) fn inventory(pass: &Pass<'_>, objects: &[Id]) -> Vec<InventoryEntry> {
    let listed = administered::entries_of(&pass.release);
    let outside = objects.iter().filter(|id| id.namespace.as_deref() != Some(&*pass.key.namespace));
    outside.map(administered::entry).filter(|entry| !listed.contains(entry)).collect()
}

/// The state and the operation kind of a step.
fn begun(step: Step, identity: &Identity) -> (State, &'static str) {
    match step {
        Step::Install | Step::Reinstall => (State::Creating, "install"),
        _ if identity.rollback_of.is_some() => (State::Rollbacking, "rollback"),
        _ => (State::Upgrading, "upgrade"),
    }
}

pub(super) fn uninstall<'r>(pass: &Pass<'_>, run: Run<'r>) -> Uninstall<'r> {
    Uninstall {
        name: pass.key.name.to_string(),
        namespace: pass.key.namespace.to_string(),
        keep_history: false,
        ignore_not_found: true,
        propagation: Propagation::Background,
        // A `helm` command still in progress would leave objects without a record.
        interrupts: false,
        run,
    }
}

pub(super) fn deployment(
    pass: &Pass<'_>,
    identity: &Identity,
    wanted: Wanted,
    record: &Record,
    inventory: Vec<InventoryEntry>,
    first: bool,
) -> Deployment {
    Deployment {
        version: pass.release.spec.version,
        hash: wanted.hash,
        spec_hash: wanted.spec_hash,
        chart: wanted.chart.resolved,
        helm: helm_state(record),
        inventory,
        administered: None,
        rollback_of: identity.rollback_of,
        by: identity.by.clone(),
        first,
    }
}

fn helm_state(record: &Record) -> HelmState {
    HelmState {
        revision: record.version,
        operation: record.labels.get(OPERATION).cloned().unwrap_or_default(),
        status: record.info.status.as_str().to_owned(),
        first_deployed: record.info.first_deployed.at().map(Time),
    }
}

fn reason(error: &Error) -> &'static str {
    match error.kind() {
        Kind::Forbidden => "Forbidden",
        Kind::Invalid => "Invalid",
        Kind::Timeout => "TimedOut",
        Kind::Conflict => "Conflict",
        Kind::TooLarge => "TooLarge",
        Kind::Exhausted => "Exhausted",
        Kind::Unavailable => "Unavailable",
        _ => "OperationFailed",
    }
}

/// Labels of the record: chart package, spec hash, operation and version.
fn labels(pass: &Pass<'_>, wanted: &Wanted, id: &str) -> BTreeMap<String, String> {
    [
        (CHART_PACKAGE.to_owned(), wanted.chart.resolved.package.clone()),
        (SPEC_HASH.to_owned(), short(&wanted.spec_hash).to_owned()),
        (OPERATION.to_owned(), id.to_owned()),
        (VERSION.to_owned(), pass.release.spec.version.to_string()),
    ]
    .into()
}

pub(super) fn operation_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
