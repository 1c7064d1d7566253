//! One release: look, think, do, tell.
//!
//! A pass looks at what is wanted and at what there is (mostly in memory), chooses one thing (`domain::release::operation`),
//! does it as whoever the release acts as, and tells the status once. A crash between two steps costs nothing: what was begun
//! is in the status and in Helm's record, and the next pass ends it.
//!
//! Modules in reading order: as whom it acts ([`identity`]) which records are ours ([`ledger`]) and which objects an administrator's ([`administered`]), what is wanted ([`wanted`]), doing it ([`operate`], [`change`]) if
//! there is room ([`room`]), how its
//! objects stand ([`standing`]), when it is quarantined ([`crash_loop`]) and what others made of them ([`drift`]), and its end ([`remove`]).

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

/// How long an operation may take where nothing is said.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(5);

/// The reason of a release that waits for memory or a slot, and the pause before it is tried again.
const EXHAUSTED: &str = "Exhausted";
const EXHAUSTED_PAUSE: Duration = Duration::from_secs(10);

/// Tests do not wait for the shortest interval that the schema allows.
const SHORTEST_INTERVAL: Duration =
    if cfg!(test) { Duration::from_millis(100) } else { duration::MIN_INTERVAL };

/// What a pass works on.
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

    /// How an attempt at this spec is called before it is known what exactly it wants.
    fn unlooked(&self) -> String {
        format!("generation {}", self.release.metadata.generation.unwrap_or_default())
    }

    /// How an attempt at this wish is called.
    fn attempted(&self, spec_hash: &str) -> String {
        format!("{spec_hash}/{}", self.release.spec.version)
    }
}

impl Controller {
    /// Boxed, as what follows from it is large.
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
        // What could not even be looked at is looked at again in its time.
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

    /// Fetches and reads what the release wants. Where something may have to be done (`acts` says that it has), the status names the
    /// generation before: a process that dies over the chart or the values of a tenant is counted ([`crash_loop`]).
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

    /// Quarantines a release whose operations keep being interrupted: by a process that died or a reconcile that panicked or
    /// exceeded its deadline. The status names an operation before it begins, so one that is there now was never ended.
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
        // What an administrator asks for is applied even if nothing in it has changed; unless just that was done, and nobody
        // came to enter it.
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

    /// Tells that this generation was looked at, where nothing follows from it.
    async fn looked(&self, pass: &Pass<'_>) -> Result<(), PassError> {
        self.tell(pass, pass.telling().done()).await.map(drop)
    }

    async fn wait_for_end(&self, pass: &Pass<'_>) -> Result<Next, PassError> {
        let message = "somebody else, such as the helm command line, works on it";
        self.tell(pass, pass.telling().waits("Busy", message).done()).await?;
        Ok(Next::After(Duration::from_secs(10)))
    }

    /// What the records say. Somebody else's operation that had all the time that one may take is over.
    fn record(&self, pass: &Pass<'_>, status: &HelmReleaseStatus) -> operation::Record {
        let limit = SignedDuration::try_from(pass.timeout()).unwrap_or(SignedDuration::MAX);
        let old = self.records.newest(pass.key).and_then(|newest| newest.since);
        let old = old.is_some_and(|since| pass.now.duration_since(since) > limit);
        self.records.standing(pass.key, status.operation.is_some() || old)
    }

    /// Releases that this one depends on and that are not ready.
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

    /// Whether this attempt failed and is not due again.
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

    /// When everything is to be looked at anew.
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

    /// Nothing could be done, because it is not known what is wanted.
    async fn not_looked(&self, pass: &Pass<'_>, failure: &Failure) -> Result<Next, PassError> {
        // What is put right in a moment need not be told.
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
        // Nothing was begun: what others must bring first is looked for until it is there.
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

    /// Nothing is made before the finalizer is there: it is what removes it again.
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

    /// Writes the status, where it is another, and tells of it. What somebody else wrote since is looked at first.
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

/// Whether a revision is the one that the status tells of. Its number alone does not say so: who takes a release off and
/// installs it anew counts from one again. Nor does the operation, which Helm copies to the revisions that follow.
fn is_own(newest: &Newest, status: &HelmReleaseStatus) -> bool {
    let Some(told) = &status.helm else { return false };
    told.revision == newest.revision && newest.operation.as_deref() == Some(&*told.operation)
}

/// What became of the attempts of that name.
fn attempt(status: &HelmReleaseStatus, attempted: &str, now: Timestamp) -> Attempt {
    match &status.next_retry_time {
        _ if status.attempts == 0 || status.attempted_hash != attempted => Attempt::Free,
        None => Attempt::GivenUp,
        Some(due) if due.0 > now => Attempt::Later,
        Some(_) => Attempt::Free,
    }
}

/// What a failure of ours means to those who read it.
pub(crate) fn failure(kind: Kind, reason: &'static str, message: impl Into<String>) -> Failure {
    Failure { kind, reason, message: message.into() }
}

#[cfg(test)]
mod kill;
#[cfg(test)]
mod tests;
