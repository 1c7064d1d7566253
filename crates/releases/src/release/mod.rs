//! The release controller: observe, decide, execute, update the status.
//!
//! A reconcile observes the desired and the actual state (mostly from caches), decides on one action (`domain::release::operation`),
//! executes it with the identity of the release, and writes the status once. It may crash between any two steps: an operation in progress
//! is in the status and in Helm's record, and the next reconcile finishes it.
//!
//! Modules:
//!
//! * [`identity`]: the identities of a release.
//! * [`ledger`]: which Helm records the platform created.
//! * [`administrator_objects`]: objects written with an administrator's rights.
//! * [`desired`]: the desired release.
//! * [`execute`]: executes an operation.
//! * [`post_render_hook`]: post-rendering and checks of rendered objects.
//! * [`quota_check`]: the quota check.
//! * [`readiness`]: readiness of the objects.
//! * [`crash_loop`]: quarantine after repeated interruptions.
//! * [`drift`]: changes by other clients.
//! * [`uninstall`], deletion.

pub(crate) mod administrator_objects;
mod crash_loop;
pub(crate) mod desired;
mod drift;
mod execute;
pub(crate) mod identity;
pub(crate) mod ledger;
pub(crate) mod post_render_hook;
mod quota_check;
mod readiness;
mod uninstall;

use std::sync::Arc;
use std::time::Duration;

use domain::ErrorKind;
use domain::error::RetryPolicy;
use domain::release::operation::{self, Decision, Observation, RetryState};
use domain::release::retry::{self, RetryDecision};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube_access::queue::Action;
use kube_types::conditions::is_condition_true;
use kube_types::release::conditions::READY;
use kube_types::well_known::RELEASE_FINALIZER;
use kube_types::{HelmRelease, HelmReleaseStatus};
use serde_json::json;

use crate::controller::ReleaseController;
use crate::duration;
use crate::error::{ErrorContext, ReconcileError};
use crate::helm_records::LatestRevision;
use crate::key::ReleaseKey;
use crate::requests::{STALE_CACHE_REQUEUE, has_release_finalizer, time_until};
use crate::status_update::{StatusFailure, StatusUpdate};
use desired::DesiredRelease;
use identity::ReleaseIdentity;

/// The default timeout of an operation.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_mins(5);

/// The reason of a release that waits for memory or a slot, and the delay before the retry.
const EXHAUSTED_REASON: &str = "Exhausted";
const EXHAUSTED_RETRY_DELAY: Duration = Duration::from_secs(10);

/// Tests use shorter intervals than the schema allows.
const MIN_RECONCILE_INTERVAL: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { duration::MIN_INTERVAL };

/// The subject of one reconcile.
pub(crate) struct ReleaseContext<'a> {
    pub key: &'a ReleaseKey,
    pub release: Arc<HelmRelease>,
    pub now: Timestamp,
}

impl ReleaseContext<'_> {
    pub fn status(&self) -> HelmReleaseStatus {
        self.release.status.clone().unwrap_or_default()
    }

    pub fn status_update(&self) -> StatusUpdate {
        StatusUpdate::new(self.release.status.as_ref(), self.release.metadata.generation, self.now)
    }

    pub fn timeout(&self) -> Duration {
        let said = self.release.spec.options.timeout.as_deref();
        said.and_then(duration::parse_timeout).unwrap_or(DEFAULT_TIMEOUT)
    }

    fn interval(&self) -> Option<Duration> {
        let interval =
            duration::parse_interval(self.release.spec.interval.as_deref()?, MIN_RECONCILE_INTERVAL)?;
        Some(duration::with_jitter(interval, self.key))
    }

    /// The attempt id while the desired state is not known yet.
    fn generation_attempt_id(&self) -> String {
        format!("generation {}", self.release.metadata.generation.unwrap_or_default())
    }

    /// The attempt id for a desired state.
    fn attempt_id(&self, spec_hash: &str) -> String {
        format!("{spec_hash}/{}", self.release.spec.version)
    }
}

impl ReleaseController {
    /// Boxed because the future is large.
    pub(crate) fn reconcile_release<'a>(
        &'a self,
        key: &'a ReleaseKey,
    ) -> BoxFuture<'a, Result<Action, ReconcileError>> {
        self.reconcile(key).boxed()
    }

    async fn reconcile(&self, key: &ReleaseKey) -> Result<Action, ReconcileError> {
        let Some(release) = self.releases.get_namespaced(&key.namespace, &key.name) else {
            self.reconcile_state.remove(key);
            self.custom_resources.remove(key);
            self.release_debounce.remove(key);
            self.release_expectations.remove(key);
            return Ok(Action::AwaitChange);
        };
        if self.release_expectations.is_cache_stale(key, release.metadata.resource_version.as_deref()) {
            return Ok(Action::RequeueAfter(STALE_CACHE_REQUEUE));
        }
        let mut pass = ReleaseContext { key, release, now: self.clock.now() };
        if pass.release.metadata.deletion_timestamp.is_some() {
            return self.reconcile_deletion(&pass).boxed().await;
        }
        if pass.release.spec.suspend {
            self.update_status(&pass, pass.status_update().suspended().build()).await?;
            return Ok(Action::AwaitChange);
        }
        pass.release = self.ensure_release_finalizer(pass.release).await?;
        if let Some(next) = self.quarantine(&pass).await? {
            return Ok(next);
        }
        // A failure before the desired state was known has its own backoff.
        if let Some(next) = self.backoff(&pass, &pass.generation_attempt_id()) {
            return Ok(next);
        }
        let identity = match identity::resolve_identity(&pass.release, &self.requests, &*self.tenants) {
            Ok(identity) => identity,
            Err(failure) => return self.fail_before_start(&pass, &failure).await,
        };
        let administrator =
            match identity::granted_administrator(&pass.release, &self.requests, &*self.tenants) {
                Ok(administrator) => administrator,
                Err(failure) => return self.fail_before_start(&pass, &failure).await,
            };
        let identity = ReleaseIdentity { administrator, ..identity };
        let interval = pass.interval().and_then(|interval| SignedDuration::try_from(interval).ok());
        let (spec_hash, wanted) = match self.reconcile_state.spec_hash(key, &pass.release, interval, pass.now)
        {
            Some(spec_hash) => (spec_hash, None),
            None => match self.prepare(&mut pass, &identity, false).await? {
                Ok(wanted) => {
                    self.reconcile_state.record_reconcile(key, &pass.release, &wanted.spec_hash, pass.now);
                    (wanted.spec_hash.clone(), Some(wanted))
                }
                Err(failure) => return self.fail_before_start(&pass, &failure).await,
            },
        };
        self.act_on_decision(&mut pass, &identity, &spec_hash, wanted).boxed().await
    }

    /// Prepares the desired release: fetches the chart and the values. If an action may follow (`acts`: it will), the status names the
    /// generation first, so that a process that crashes on a tenant's chart or values is counted ([`crash_loop`]).
    async fn prepare(
        &self,
        pass: &mut ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        acts: bool,
    ) -> Result<Result<DesiredRelease, StatusFailure>, ReconcileError> {
        let release = pass.release.clone();
        if acts || crash_loop::may_need_action(&release, pass.now) {
            let (status, generation) = (release.status.as_ref(), release.metadata.generation);
            let named = status.is_some_and(|status| status.preparing == generation);
            if !(named && self.reconcile_state.is_prepared(pass.key, &release)) {
                pass.release =
                    self.update_status(pass, crash_loop::preparing_status(status, generation)).await?;
            }
        }
        self.reconcile_state.begin_preparation(pass.key);
        let desired = self.desired_release(pass, identity).boxed().await;
        self.reconcile_state.end_preparation(pass.key, &pass.release);
        Ok(desired)
    }

    /// Quarantines a release whose operations keep being interrupted by a crash, a panic or a deadline. The status names an operation
    /// before it starts, so an operation found here was never finished.
    async fn quarantine(&self, pass: &ReleaseContext<'_>) -> Result<Option<Action>, ReconcileError> {
        let ended = self.reconcile_state.is_prepared(pass.key, &pass.release);
        let (status, generation) = (pass.release.status.as_ref(), pass.release.metadata.generation);
        let Some(pause) = crash_loop::quarantine_backoff(status, generation, ended) else { return Ok(None) };
        let pause = duration::with_jitter(pause, pass.key);
        self.update_status(
            pass,
            pass.status_update().crash_looped(&pass.generation_attempt_id(), pause).build(),
        )
        .await?;
        tracing::warn!(release = %pass.key, ?pause, "operations keep being interrupted; the release is quarantined");
        Ok(Some(Action::RequeueAfter(pause)))
    }

    async fn act_on_decision(
        &self,
        pass: &mut ReleaseContext<'_>,
        identity: &ReleaseIdentity,
        spec_hash: &str,
        desired: Option<DesiredRelease>,
    ) -> Result<Action, ReconcileError> {
        let status = pass.status();
        let newest = self.helm_records.latest(pass.key);
        // A request of an administrator is applied even if nothing has changed, unless its revision exists already and only the status is
        // missing.
        let applies = identity.administrator.is_some();
        let was_made = |newest: &LatestRevision| {
            let mut entries = status.revisions.iter();
            entries
                .any(|entry| (entry.revision, entry.version) == (newest.revision, pass.release.spec.version))
        };
        let is_wanted =
            |newest: &LatestRevision| newest.has_spec_hash(spec_hash) && (!applies || was_made(newest));
        let observation = Observation {
            is_blocked: !self.unready_dependencies(pass).is_empty(),
            history: self.history_state(pass, &status),
            is_hash_unchanged: status.spec_hash == spec_hash && !applies,
            is_record_desired: newest.as_ref().is_some_and(is_wanted),
            is_version_unchanged: pass.release.spec.version <= status.version,
            is_own_revision: newest.as_ref().is_some_and(|newest| is_own_revision(newest, &status)),
            enforce: pass.release.spec.options.enforce,
            retry: retry_state(&status, &pass.attempt_id(spec_hash), pass.now),
        };
        match operation::decide(&observation) {
            choice @ (Decision::Run(_) | Decision::RecordDeployed) => {
                let desired = match desired {
                    Some(wanted) => wanted,
                    None => match self.prepare(pass, identity, true).await? {
                        Ok(wanted) => wanted,
                        Err(failure) => return self.fail_before_start(pass, &failure).await,
                    },
                };
                match choice {
                    Decision::Run(step) => self.execute(pass, identity, step, desired).boxed().await,
                    _ => self.record_deployed(pass, identity, desired).await,
                }
            }
            Decision::ObserveReadiness => {
                self.reconcile_readiness(pass, identity, newest, desired.is_some()).await
            }
            Decision::RecordVersion => {
                self.update_status(
                    pass,
                    pass.status_update().version_recorded(pass.release.spec.version).build(),
                )
                .await?;
                Ok(Action::AwaitChange)
            }
            Decision::WaitForDependencies => {
                let missing = self.unready_dependencies(pass);
                let message = format!("waiting for {}", missing.join(", "));
                self.add_dependent(pass.key, &missing);
                self.update_status(
                    pass,
                    pass.status_update().waiting("DependencyNotReady", &message).build(),
                )
                .await?;
                Ok(Action::RequeueAfter(Duration::from_secs(30)))
            }
            Decision::WaitForExternalOperation => self.wait_for_other_client(pass).await,
            Decision::WaitToRetry => {
                self.observe_generation(pass).await?;
                Ok(self.backoff(pass, &pass.attempt_id(spec_hash)).unwrap_or(Action::AwaitChange))
            }
            Decision::StayFailed => {
                self.observe_generation(pass).await?;
                Ok(self.requeue_after_interval(pass))
            }
        }
    }

    /// Updates `observedGeneration` when no action follows.
    async fn observe_generation(&self, pass: &ReleaseContext<'_>) -> Result<(), ReconcileError> {
        self.update_status(pass, pass.status_update().build()).await.map(drop)
    }

    async fn wait_for_other_client(&self, pass: &ReleaseContext<'_>) -> Result<Action, ReconcileError> {
        let message = "another client, such as the helm command, is operating on the release";
        self.update_status(pass, pass.status_update().waiting("Busy", message).build()).await?;
        Ok(Action::RequeueAfter(Duration::from_secs(10)))
    }

    /// The state of the Helm history. A pending operation of another client counts as abandoned after the timeout.
    fn history_state(
        &self,
        pass: &ReleaseContext<'_>,
        status: &HelmReleaseStatus,
    ) -> operation::HistoryState {
        let limit = SignedDuration::try_from(pass.timeout()).unwrap_or(SignedDuration::MAX);
        let old = self.helm_records.latest(pass.key).and_then(|newest| newest.modified_at);
        let old = old.is_some_and(|since| pass.now.duration_since(since) > limit);
        self.helm_records.history_state(pass.key, status.operation.is_some() || old)
    }

    /// The dependencies of this release that are not ready.
    fn unready_dependencies(&self, pass: &ReleaseContext<'_>) -> Vec<String> {
        let is_ready = |name: &str| {
            self.releases.get_namespaced(&pass.key.namespace, name).is_some_and(|release| {
                release.status.as_ref().is_some_and(|status| {
                    is_condition_true(&status.conditions, READY)
                        && status.observed_generation == release.metadata.generation
                })
            })
        };
        let depends = pass.release.spec.depends_on.iter();
        depends.filter(|other| !is_ready(&other.name)).map(|other| other.name.clone()).collect()
    }

    fn add_dependent(&self, key: &ReleaseKey, others: &[String]) {
        let mut waiting = self.dependents.lock();
        for other in others {
            waiting.entry(ReleaseKey::new(&key.namespace, other)).or_default().insert(key.clone());
        }
    }

    /// Whether this attempt failed and its retry is not due.
    fn backoff(&self, pass: &ReleaseContext<'_>, attempted: &str) -> Option<Action> {
        let status = pass.release.status.as_ref()?;
        match retry_state(status, attempted, pass.now) {
            RetryState::Ready => None,
            RetryState::Exhausted => Some(self.requeue_after_interval(pass)),
            RetryState::BackingOff => {
                let due = status.next_retry_time.as_ref().map_or(pass.now, |due| due.0);
                Some(Action::RequeueAfter(time_until(pass.now, due)))
            }
        }
    }

    /// The delay until the next full reconcile.
    pub(crate) fn requeue_after_interval(&self, pass: &ReleaseContext<'_>) -> Action {
        match pass.interval() {
            Some(interval) => {
                let since =
                    self.reconcile_state.last_reconciled(pass.key).map(|at| pass.now.duration_since(at));
                let since = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
                Action::RequeueAfter(interval.saturating_sub(since))
            }
            None => Action::AwaitChange,
        }
    }

    /// The desired state could not be determined, so no operation was started.
    async fn fail_before_start(
        &self,
        pass: &ReleaseContext<'_>,
        failure: &StatusFailure,
    ) -> Result<Action, ReconcileError> {
        // The request controller is about to correct this; no status is written.
        if matches!(failure.reason, "NoRequest" | "NotAsRequested") && pass.release.status.is_some() {
            return Ok(Action::RequeueAfter(Duration::from_secs(1)));
        }
        if failure.reason == EXHAUSTED_REASON {
            self.update_status(
                pass,
                pass.status_update().waiting(EXHAUSTED_REASON, &failure.message).build(),
            )
            .await?;
            return Ok(Action::RequeueAfter(EXHAUSTED_RETRY_DELAY));
        }
        let attempted = pass.generation_attempt_id();
        let attempts = pass.status();
        let attempts =
            if attempts.attempted_hash == attempted { attempts.attempts.saturating_add(1) } else { 1 };
        let retries = pass.release.spec.remediation.as_ref().and_then(|remediation| remediation.retries);
        // Nothing was started, so the retries are unlimited while the missing input may still appear.
        let retries = retries.or_else(|| (failure.kind.retry_policy() != RetryPolicy::Never).then_some(-1));
        let then = match (retry::decide_retry(failure.kind, attempts, retries), pass.interval()) {
            (RetryDecision::GiveUp, Some(interval)) => RetryDecision::RetryAfter(interval),
            (then, _) => then,
        };
        let status = pass.status_update().failed(failure, &attempted, then, None).build();
        self.update_status(pass, status).await?;
        Ok(match then {
            RetryDecision::GiveUp => Action::AwaitChange,
            RetryDecision::RetryAfter(pause) => Action::RequeueAfter(pause),
        })
    }

    /// Adds the finalizer. No object is created before it, because uninstallation depends on it.
    async fn ensure_release_finalizer(
        &self,
        release: Arc<HelmRelease>,
    ) -> Result<Arc<HelmRelease>, ReconcileError> {
        if has_release_finalizer(&release) {
            return Ok(release);
        }
        let finalizers: Vec<&str> =
            release.finalizers().iter().map(String::as_str).chain([RELEASE_FINALIZER]).collect();
        let patch = json!({
            "metadata": { "resourceVersion": release.resource_version(), "finalizers": finalizers },
        });
        let (name, namespace) = (release.name_any(), release.namespace().unwrap_or_default());
        let held =
            self.release_api(&namespace).patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        Ok(Arc::new(held.context(|| format!("add the finalizer to release `{namespace}/{name}`"))?))
    }

    /// Writes the status if it changed, and the event. A conflict is returned: the next reconcile observes the other write first.
    pub(crate) async fn update_status(
        &self,
        pass: &ReleaseContext<'_>,
        status: HelmReleaseStatus,
    ) -> Result<Arc<HelmRelease>, ReconcileError> {
        if pass.release.status.as_ref() == Some(&status) {
            return Ok(pass.release.clone());
        }
        let release_with_status = HelmRelease { status: Some(status), ..HelmRelease::clone(&pass.release) };
        let name = release_with_status.name_any();
        let result = self
            .release_api(&pass.key.namespace)
            .replace_status(&name, &PostParams::default(), &release_with_status)
            .await;
        let updated = result.context(|| format!("write the status of release `{}`", pass.key))?;
        self.release_expectations
            .record_write(pass.key.clone(), updated.metadata.resource_version.as_deref());
        self.publish_status_event(pass.release.status.as_ref(), &updated).await;
        Ok(Arc::new(updated))
    }
}

/// Whether a revision is the one in the status. The revision number does not suffice: it starts at 1 again after an uninstallation. Nor
/// does the operation id, which Helm copies to later revisions.
fn is_own_revision(newest: &LatestRevision, status: &HelmReleaseStatus) -> bool {
    let Some(told) = &status.helm else { return false };
    told.revision == newest.revision && newest.operation.as_deref() == Some(&*told.operation)
}

/// The retry state of this attempt id.
fn retry_state(status: &HelmReleaseStatus, attempted: &str, now: Timestamp) -> RetryState {
    match &status.next_retry_time {
        _ if status.attempts == 0 || status.attempted_hash != attempted => RetryState::Ready,
        None => RetryState::Exhausted,
        Some(due) if due.0 > now => RetryState::BackingOff,
        Some(_) => RetryState::Ready,
    }
}

/// Builds a failure with a message for users.
pub(crate) fn status_failure(
    kind: ErrorKind,
    reason: &'static str,
    message: impl Into<String>,
) -> StatusFailure {
    StatusFailure { kind, reason, message: message.into() }
}

#[cfg(test)]
mod kill;
#[cfg(test)]
mod tests;
