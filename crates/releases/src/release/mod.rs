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
//! * [`administered`]: objects written with an administrator's rights.
//! * [`wanted`]: the desired release.
//! * [`operate`]: executes an operation.
//! * [`change`]: post-rendering and checks of rendered objects.
//! * [`room`]: the quota check.
//! * [`standing`]: readiness of the objects.
//! * [`crash_loop`]: quarantine after repeated interruptions.
//! * [`drift`]: changes by other clients.
//! * [`remove`], deletion.

pub(crate) mod administered;
pub(crate) mod change;
mod crash_loop;
mod drift;
pub(crate) mod identity;
pub(crate) mod ledger;
mod operate;
mod remove;
mod room;
mod standing;
pub(crate) mod wanted;

use std::sync::Arc;
use std::time::Duration;

use domain::Kind;
use domain::failure::Retry;
use domain::release::operation::{self, Attempt, Choice, Seen};
use domain::release::retry::{self, Then};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use kube_access::queue::Next;
use kube_types::marks::RELEASE_FINALIZER;
use kube_types::progress::is_true;
use kube_types::release::conditions::READY;
use kube_types::{HelmRelease, HelmReleaseStatus};
use serde_json::json;

use crate::duration;
use crate::error::{Doing, PassError};
use crate::key::Key;
use crate::lead::Controller;
use crate::records::Newest;
use crate::requests::{UNHEARD, is_held, until};
use crate::tell::{Failure, Telling};
use identity::Identity;
use wanted::Wanted;

/// The default timeout of an operation.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);

/// The reason of a release that waits for memory or a slot, and the delay before the retry.
const EXHAUSTED: &str = "Exhausted";
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(10);

/// Tests use shorter intervals than the schema allows.
const SHORTEST_INTERVAL: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { duration::MIN_INTERVAL };

/// The subject of one reconcile.
pub(crate) struct Pass<'a> {
    pub key: &'a Key,
    pub release: Arc<HelmRelease>,
    pub now: Timestamp,
}

impl Pass<'_> {
    pub fn status(&self) -> HelmReleaseStatus {
        self.release.status.clone().unwrap_or_default()
    }

    pub fn telling(&self) -> Telling {
        Telling::new(self.release.status.as_ref(), self.release.metadata.generation, self.now)
    }

    pub fn timeout(&self) -> Duration {
        let said = self.release.spec.options.timeout.as_deref();
        said.and_then(duration::timeout).unwrap_or(TIMEOUT)
    }

    fn interval(&self) -> Option<Duration> {
        let interval = duration::interval(self.release.spec.interval.as_deref()?, SHORTEST_INTERVAL)?;
        Some(duration::jittered(interval, self.key))
    }

    /// The attempt id while the desired state is not known yet.
    fn unlooked(&self) -> String {
        format!("generation {}", self.release.metadata.generation.unwrap_or_default())
    }

    /// The attempt id for a desired state.
    fn attempted(&self, spec_hash: &str) -> String {
        format!("{spec_hash}/{}", self.release.spec.version)
    }
}

impl Controller {
    /// Boxed because the future is large.
    pub(crate) fn pass_release<'a>(&'a self, key: &'a Key) -> BoxFuture<'a, Result<Next, PassError>> {
        self.pass(key).boxed()
    }

    async fn pass(&self, key: &Key) -> Result<Next, PassError> {
        let Some(release) = self.releases.get_in(&key.namespace, &key.name) else {
            self.known.forget(key);
            self.customs.forget(key);
            self.soon.forget(key);
            self.told.forget(key);
            return Ok(Next::Rest);
        };
        if self.told.is_ahead_of(key, release.metadata.resource_version.as_deref()) {
            return Ok(Next::After(UNHEARD));
        }
        let mut pass = Pass { key, release, now: self.clock.now() };
        if pass.release.metadata.deletion_timestamp.is_some() {
            return self.remove_release(&pass).boxed().await;
        }
        if pass.release.spec.suspend {
            self.tell(&pass, pass.telling().suspended().done()).await?;
            return Ok(Next::Rest);
        }
        pass.release = self.hold_release(pass.release).await?;
        if let Some(next) = self.quarantine(&pass).await? {
            return Ok(next);
        }
        // A failure before the desired state was known has its own backoff.
        if let Some(next) = self.rests(&pass, &pass.unlooked()) {
            return Ok(next);
        }
        let identity = match identity::identity(&pass.release, &self.requests, &*self.people) {
            Ok(identity) => identity,
            Err(failure) => return self.not_looked(&pass, &failure).await,
        };
        let administrator = match identity::administrator(&pass.release, &self.requests, &*self.people) {
            Ok(administrator) => administrator,
            Err(failure) => return self.not_looked(&pass, &failure).await,
        };
        let identity = Identity { administrator, ..identity };
        let interval = pass.interval().and_then(|interval| SignedDuration::try_from(interval).ok());
        let (spec_hash, wanted) = match self.known.spec_hash(key, &pass.release, interval, pass.now) {
            Some(spec_hash) => (spec_hash, None),
            None => match self.prepared(&mut pass, &identity, false).await? {
                Ok(wanted) => {
                    self.known.learn(key, &pass.release, &wanted.spec_hash, pass.now);
                    (wanted.spec_hash.clone(), Some(wanted))
                }
                Err(failure) => return self.not_looked(&pass, &failure).await,
            },
        };
        self.choose(&mut pass, &identity, &spec_hash, wanted).boxed().await
    }

    /// Prepares the desired release: fetches the chart and the values. If an action may follow (`acts`: it will), the status names the
    /// generation first, so that a process that crashes on a tenant's chart or values is counted ([`crash_loop`]).
    async fn prepared(
        &self,
        pass: &mut Pass<'_>,
        identity: &Identity,
        acts: bool,
    ) -> Result<Result<Wanted, Failure>, PassError> {
        let release = pass.release.clone();
        if acts || crash_loop::may_act(&release, pass.now) {
            let (status, generation) = (release.status.as_ref(), release.metadata.generation);
            let named = status.is_some_and(|status| status.preparing == generation);
            if !(named && self.known.is_prepared(pass.key, &release)) {
                pass.release = self.tell(pass, crash_loop::preparing(status, generation)).await?;
            }
        }
        self.known.begin_preparation(pass.key);
        let wanted = self.wanted(pass, identity).boxed().await;
        self.known.end_preparation(pass.key, &pass.release);
        Ok(wanted)
    }

    /// Quarantines a release whose operations keep being interrupted by a crash, a panic or a deadline. The status names an operation
    /// before it starts, so an operation found here was never finished.
    async fn quarantine(&self, pass: &Pass<'_>) -> Result<Option<Next>, PassError> {
        let ended = self.known.is_prepared(pass.key, &pass.release);
        let (status, generation) = (pass.release.status.as_ref(), pass.release.metadata.generation);
        let Some(pause) = crash_loop::pause(status, generation, ended) else { return Ok(None) };
        let pause = duration::jittered(pause, pass.key);
        self.tell(pass, pass.telling().crash_looped(&pass.unlooked(), pause).done()).await?;
        tracing::warn!(release = %pass.key, ?pause, "operations keep being interrupted; the release is quarantined");
        Ok(Some(Next::After(pause)))
    }

    async fn choose(
        &self,
        pass: &mut Pass<'_>,
        identity: &Identity,
        spec_hash: &str,
        wanted: Option<Wanted>,
    ) -> Result<Next, PassError> {
        let status = pass.status();
        let newest = self.records.newest(pass.key);
        // A request of an administrator is applied even if nothing has changed, unless its revision exists already and only the status is
        // missing.
        let applies = identity.administrator.is_some();
        let was_made = |newest: &Newest| {
            let mut entries = status.revisions.iter();
            entries
                .any(|entry| (entry.revision, entry.version) == (newest.revision, pass.release.spec.version))
        };
        let is_wanted = |newest: &Newest| newest.is_made_of(spec_hash) && (!applies || was_made(newest));
        let seen = Seen {
            blocked: !self.missing(pass).is_empty(),
            record: self.record(pass, &status),
            same_hash: status.spec_hash == spec_hash && !applies,
            record_is_wanted: newest.as_ref().is_some_and(is_wanted),
            same_version: pass.release.spec.version <= status.version,
            own_revision: newest.as_ref().is_some_and(|newest| is_own(newest, &status)),
            enforce: pass.release.spec.options.enforce,
            attempt: attempt(&status, &pass.attempted(spec_hash), pass.now),
        };
        match operation::next(&seen) {
            choice @ (Choice::Do(_) | Choice::EnterDeployed) => {
                let wanted = match wanted {
                    Some(wanted) => wanted,
                    None => match self.prepared(pass, identity, true).await? {
                        Ok(wanted) => wanted,
                        Err(failure) => return self.not_looked(pass, &failure).await,
                    },
                };
                match choice {
                    Choice::Do(step) => self.operate(pass, identity, step, wanted).boxed().await,
                    _ => self.enter_deployed(pass, identity, wanted).await,
                }
            }
            Choice::Watch => self.watch(pass, identity, newest, wanted.is_some()).await,
            Choice::EnterVersion => {
                self.tell(pass, pass.telling().version_entered(pass.release.spec.version).done()).await?;
                Ok(Next::Rest)
            }
            Choice::WaitForOthers => {
                let missing = self.missing(pass);
                let message = format!("waits for {}", missing.join(", "));
                self.wait_for(pass.key, &missing);
                self.tell(pass, pass.telling().waits("DependencyNotReady", &message).done()).await?;
                Ok(Next::After(Duration::from_secs(30)))
            }
            Choice::WaitForEnd => self.wait_for_end(pass).await,
            Choice::WaitToRetry => {
                self.looked(pass).await?;
                Ok(self.rests(pass, &pass.attempted(spec_hash)).unwrap_or(Next::Rest))
            }
            Choice::StayFailed => {
                self.looked(pass).await?;
                Ok(self.interval_from(pass))
            }
        }
    }

    /// Updates `observedGeneration` when no action follows.
    async fn looked(&self, pass: &Pass<'_>) -> Result<(), PassError> {
        self.tell(pass, pass.telling().done()).await.map(drop)
    }

    async fn wait_for_end(&self, pass: &Pass<'_>) -> Result<Next, PassError> {
        let message = "somebody else, such as the helm command line, works on it";
        self.tell(pass, pass.telling().waits("Busy", message).done()).await?;
        Ok(Next::After(Duration::from_secs(10)))
    }

    /// The state of the Helm history. A pending operation of another client counts as abandoned after the timeout.
    fn record(&self, pass: &Pass<'_>, status: &HelmReleaseStatus) -> operation::Record {
        let limit = SignedDuration::try_from(pass.timeout()).unwrap_or(SignedDuration::MAX);
        let old = self.records.newest(pass.key).and_then(|newest| newest.since);
        let old = old.is_some_and(|since| pass.now.duration_since(since) > limit);
        self.records.standing(pass.key, status.operation.is_some() || old)
    }

    /// The dependencies of this release that are not ready.
    fn missing(&self, pass: &Pass<'_>) -> Vec<String> {
        let is_ready = |name: &str| {
            self.releases.get_in(&pass.key.namespace, name).is_some_and(|release| {
                release.status.as_ref().is_some_and(|status| {
                    is_true(&status.conditions, READY)
                        && status.observed_generation == release.metadata.generation
                })
            })
        };
        let depends = pass.release.spec.depends_on.iter();
        depends.filter(|other| !is_ready(&other.name)).map(|other| other.name.clone()).collect()
    }

    fn wait_for(&self, key: &Key, others: &[String]) {
        let mut waiting = self.waiting.lock();
        for other in others {
            waiting.entry(Key::new(&key.namespace, other)).or_default().insert(key.clone());
        }
    }

    /// Whether this attempt failed and its retry is not due.
    fn rests(&self, pass: &Pass<'_>, attempted: &str) -> Option<Next> {
        let status = pass.release.status.as_ref()?;
        match attempt(status, attempted, pass.now) {
            Attempt::Free => None,
            Attempt::GivenUp => Some(self.interval_from(pass)),
            Attempt::Later => {
                let due = status.next_retry_time.as_ref().map_or(pass.now, |due| due.0);
                Some(Next::After(until(pass.now, due)))
            }
        }
    }

    /// The delay until the next full reconcile.
    pub(crate) fn interval_from(&self, pass: &Pass<'_>) -> Next {
        match pass.interval() {
            Some(interval) => {
                let since = self.known.looked(pass.key).map(|at| pass.now.duration_since(at));
                let since = since.and_then(|since| Duration::try_from(since).ok()).unwrap_or_default();
                Next::After(interval.saturating_sub(since))
            }
            None => Next::Rest,
        }
    }

    /// The desired state could not be determined, so no operation was started.
    async fn not_looked(&self, pass: &Pass<'_>, failure: &Failure) -> Result<Next, PassError> {
        // The request controller is about to correct this; no status is written.
        if matches!(failure.reason, "NoRequest" | "NotAsRequested") && pass.release.status.is_some() {
            return Ok(Next::After(Duration::from_secs(1)));
        }
        if failure.reason == EXHAUSTED {
            self.tell(pass, pass.telling().waits(EXHAUSTED, &failure.message).done()).await?;
            return Ok(Next::After(EXHAUSTED_PAUSE));
        }
        let attempted = pass.unlooked();
        let attempts = pass.status();
        let attempts =
            if attempts.attempted_hash == attempted { attempts.attempts.saturating_add(1) } else { 1 };
        let retries = pass.release.spec.remediation.as_ref().and_then(|remediation| remediation.retries);
        // Nothing was started, so the retries are unlimited while the missing input may still appear.
        let retries = retries.or_else(|| (failure.kind.retry() != Retry::Never).then_some(-1));
        let then = match (retry::then(failure.kind, attempts, retries), pass.interval()) {
            (Then::GiveUp, Some(interval)) => Then::TryAgain(interval),
            (then, _) => then,
        };
        let status = pass.telling().failed(failure, &attempted, then, None).done();
        self.tell(pass, status).await?;
        Ok(match then {
            Then::GiveUp => Next::Rest,
            Then::TryAgain(pause) => Next::After(pause),
        })
    }

    /// Adds the finalizer. No object is created before it, because uninstallation depends on it.
    async fn hold_release(&self, release: Arc<HelmRelease>) -> Result<Arc<HelmRelease>, PassError> {
        if is_held(&release) {
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
        Ok(Arc::new(held.doing(|| format!("hold release `{namespace}/{name}`"))?))
    }

    /// Writes the status if it changed, and the event. A conflict is returned: the next reconcile observes the other write first.
    pub(crate) async fn tell(
        &self,
        pass: &Pass<'_>,
        status: HelmReleaseStatus,
    ) -> Result<Arc<HelmRelease>, PassError> {
        if pass.release.status.as_ref() == Some(&status) {
            return Ok(pass.release.clone());
        }
        let told = HelmRelease { status: Some(status), ..HelmRelease::clone(&pass.release) };
        let name = told.name_any();
        let told =
            self.release_api(&pass.key.namespace).replace_status(&name, &PostParams::default(), &told).await;
        let told = told.doing(|| format!("write the status of release `{}`", pass.key))?;
        self.told.note(pass.key.clone(), told.metadata.resource_version.as_deref());
        self.announce(pass.release.status.as_ref(), &told).await;
        Ok(Arc::new(told))
    }
}

/// Whether a revision is the one in the status. The revision number does not suffice: it starts at 1 again after an uninstallation. Nor
/// does the operation id, which Helm copies to later revisions.
fn is_own(newest: &Newest, status: &HelmReleaseStatus) -> bool {
    let Some(told) = &status.helm else { return false };
    told.revision == newest.revision && newest.operation.as_deref() == Some(&*told.operation)
}

/// The retry state of this attempt id.
fn attempt(status: &HelmReleaseStatus, attempted: &str, now: Timestamp) -> Attempt {
    match &status.next_retry_time {
        _ if status.attempts == 0 || status.attempted_hash != attempted => Attempt::Free,
        None => Attempt::GivenUp,
        Some(due) if due.0 > now => Attempt::Later,
        Some(_) => Attempt::Free,
    }
}

/// Builds a failure with a message for users.
pub(crate) fn failure(kind: Kind, reason: &'static str, message: impl Into<String>) -> Failure {
    Failure { kind, reason, message: message.into() }
}

#[cfg(test)]
mod kill;
#[cfg(test)]
mod tests;
