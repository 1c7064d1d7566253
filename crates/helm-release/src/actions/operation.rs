//! Parts that all actions share: a locked release with its history, and the run of a revision from its first record
//! to its last.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::Kind;
use helm_engine::Event;
use kube_apply::ready::{self, Strategy};
use kube_apply::{Applied, Id, Looked, Mask, Object, Options, Ownership, Removal, Target, Tell, Way};
use tokio::time::Instant;

use super::ask::{Applying, Run, Wait};
use super::footprint;
use super::plan::{self, Entry};
use crate::error::{Cause, Error};
use crate::helm::Helm;
use crate::hooks;
use crate::quiet::Quiet;
use crate::record::{ApplyMethod, Record, Status};
use crate::render::RenderError;
use crate::render::share::Share;
use crate::storage::{self, Storage, StorageError, Stored};
use crate::trust::{LedgerError, Origin};

/// Description of a revision whose operation died.
const INTERRUPTED: &str = "operation interrupted";

/// Grace period for a pending revision of a client that uses no Lease: within it the operation counts as running.
/// Equals Helm's default timeout.
const FOREIGN_GRACE: Duration = Duration::from_mins(5);

/// Upper bound of timeouts; longer ones are capped.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// One action on one release.
pub(super) struct Operation<'o> {
    pub helm: &'o Helm,
    pub name: &'o str,
    pub namespace: &'o str,
    pub run: &'o Run<'o>,
    pub storage: Storage,
    pub target: Target,
    /// Target for the content of untrusted records.
    pub foreign: Target,
}

/// Objects that may be in the cluster, by trust in the records that name them.
#[derive(Default)]
pub(super) struct ExistingObjects {
    /// Named by a trusted record.
    pub own: Vec<Object>,
    /// Named by untrusted records only.
    pub foreign: Vec<Object>,
}

impl ExistingObjects {
    pub fn all(&self) -> Vec<Object> {
        self.own.iter().chain(&self.foreign).cloned().collect()
    }
}

/// Revisions of a release.
pub(super) struct History {
    entries: Vec<storage::Entry>,
}

impl<'o> Operation<'o> {
    pub fn new(helm: &'o Helm, namespace: &'o str, name: &'o str, run: &'o Run<'o>) -> Self {
        let (storage, target) = (helm.storage(namespace), helm.target(namespace));
        Self { helm, name, namespace, run, storage, target, foreign: helm.foreign_target(namespace) }
    }

    /// The target of the release's own identity, without writes to reserved objects.
    pub fn target_without_reserved(&self) -> Target {
        Target { reserved: self.target.reserved.without_client(), ..self.target.clone() }
    }

    /// The target for CRDs of `crds/`: uses the client of reserved objects where there is one.
    pub fn target_of_definitions(&self) -> Target {
        let client = self.target.reserved.client().unwrap_or(&self.target.client);
        Target::new(client.clone(), self.target.discovery.clone(), self.namespace)
    }

    /// Returns the target that executes hooks and manifests of a stored record.
    pub fn target_of(&self, record: &Record) -> &Target {
        match self.helm.origin(record) {
            Origin::Own => &self.target,
            Origin::Other | Origin::Foreign => &self.foreign,
        }
    }

    /// Share of the worker pool for parsing manifests of this release.
    pub fn share(&self) -> Share {
        self.helm.share(self.namespace)
    }

    /// Objects of all given records, without duplicates. The first record with an object wins.
    async fn objects(&self, records: Vec<Record>, which: &'static str) -> Result<Vec<Object>, Error> {
        let bytes = records.iter().map(|record| record.manifest.len()).fold(0, usize::saturating_add);
        let namespace = self.namespace.to_owned();
        let parse = move || footprint::objects(&records, &namespace).map_err(Error::manifest(which));
        self.share().run_on_objects(bytes, parse).await.map_err(RenderError::from)?
    }

    pub async fn history(&self) -> Result<History, Error> {
        Ok(History { entries: self.storage.entries(self.name).await? })
    }

    pub fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.run.timeout.min(LONGEST)).unwrap_or(now)
    }

    fn ownership(&self) -> Ownership {
        Ownership { take: self.run.take_ownership, ..Ownership::new(self.name, self.namespace) }
    }

    /// Apply options for the objects of this release.
    pub fn options(&self, way: Way) -> Options {
        Options { force_replace: self.run.force_replace, ..Options::new(way).owned_by(self.ownership()) }
    }

    /// Remove options; waits for the removal if the action waits.
    pub fn removal(&self) -> Removal {
        let wait_until = (self.run.wait != Wait::HookOnly).then(|| self.deadline());
        Removal { ownership: Some(self.ownership()), wait_until, ..Removal::default() }
    }

    /// Returns the apply strategy and the method to record. `like` decides in [`Applying::Auto`].
    pub fn way(&self, like: Option<&Record>) -> (Way, Option<ApplyMethod>) {
        let server_side = Way::ServerSide { force_conflicts: self.run.force_conflicts };
        let method = like.map(|record| record.apply_method);
        match (self.run.applying, method) {
            (Applying::ServerSide, _) | (Applying::Auto, None | Some(Some(ApplyMethod::ServerSide))) => {
                (server_side, Some(ApplyMethod::ServerSide))
            }
            // A release of Helm 3 stays in Helm 3's format.
            (Applying::Helm3, _) | (_, Some(None)) => (Way::ThreeWay, None),
            _ => (Way::ThreeWay, Some(ApplyMethod::ClientSide)),
        }
    }

    /// Plans the writes and rejects objects that the release does not own. Writes nothing.
    pub async fn look(
        &self,
        act: &'static str,
        target: &Target,
        (before, after): (&ExistingObjects, &[Object]),
        way: Way,
        mask: &Mask,
    ) -> Result<Looked, Error> {
        let options = Options { merge_only: before.foreign.clone(), ..self.options(way) };
        let looked = kube_apply::look(target, &before.own, after, &options).await;
        looked.map_err(|error| Error::Refused { act, kind: error.kind(), why: mask.over(&error.to_string()) })
    }

    /// Fails if the objects exceed the capacity. Writes nothing.
    pub async fn fits(
        &self,
        act: &'static str,
        before: &ExistingObjects,
        after: &[Object],
        mask: &Mask,
    ) -> Result<(), Error> {
        let Some(room) = self.run.room else { return Ok(()) };
        match room.short(&self.target, &before.all(), after).await {
            Some(why) => Err(Error::Refused { act, kind: Kind::Exhausted, why: mask.over(&why) }),
            None => Ok(()),
        }
    }

    /// Whether no client works on a pending revision any more. The caller holds the lock, so another lock holder must
    /// have died; a client that uses no Lease counts as alive within [`FOREIGN_GRACE`].
    pub fn is_abandoned(&self, pending: &Stored) -> bool {
        let info = &pending.record.info;
        let begun = info.last_deployed.at().max(info.deleted.at());
        let age = begun.map(|begun| self.helm.clock.now().duration_since(begun));
        pending.held || age.is_none_or(|age| age.unsigned_abs() >= FOREIGN_GRACE)
    }

    /// Marks an interrupted revision as failed.
    pub async fn interrupt(&self, mut pending: Stored) -> Result<Record, Error> {
        if !self.is_abandoned(&pending) {
            return Err(Error::Pending);
        }
        pending.record.set_status(Status::Failed, INTERRUPTED);
        Ok(self.storage.update(&pending).await?.record)
    }

    /// Marks all deployed revisions as superseded except one. Concurrent changes and deletions are accepted.
    pub async fn supersede(&self, history: &History, except: i64) -> Result<(), StorageError> {
        let deployed =
            |entry: &&storage::Entry| entry.head.status == Status::Deployed && entry.head.revision != except;
        // Collected first: a lazy filter across the await points would make the future `!Send`.
        for entry in history.entries.iter().filter(deployed).collect::<Vec<_>>() {
            let mut stored = self.storage.open_to_finish(entry).await?;
            stored.record.info.status = Status::Superseded;
            match self.storage.update(&stored).await {
                Ok(_) | Err(StorageError::Gone { .. }) => {}
                Err(StorageError::Changed { .. }) => self.supersede_again(entry.head.revision).await?,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn supersede_again(&self, revision: i64) -> Result<(), StorageError> {
        match self.storage.get(self.name, revision).await? {
            Some(mut stored) if stored.record.info.status == Status::Deployed => {
                stored.record.info.status = Status::Superseded;
                self.storage.update(&stored).await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Writes the first record of a revision after pruning the history. Our own content is entered in the ledger
    /// before the record exists, so that a crash cannot leave an own record that is not trusted.
    pub async fn begin(
        &self,
        history: &History,
        record: &Record,
        origin: Origin,
        restored: Option<i64>,
    ) -> Result<Stored, Error> {
        // Size limits are checked before any old revision is deleted.
        self.storage.plan(record).await?;
        let outdated = self.outdated(history).await?;
        if let Some(trust) = self.helm.trust.as_ref().filter(|_| origin == Origin::Own) {
            let gone: BTreeSet<i64> = outdated.iter().map(|entry| entry.head.revision).collect();
            let kept = history.entries.iter().map(|entry| entry.head.revision);
            let kept: Vec<i64> = kept.filter(|revision| !gone.contains(revision)).collect();
            trust.ledger.enter(record, restored, &kept).await.map_err(|error| match error {
                LedgerError::Overtaken => Error::Overtaken { name: self.name.to_owned() },
                LedgerError::Unavailable(why) => Error::Ledger(why),
            })?;
        }
        for entry in outdated {
            self.storage.delete(&entry.head).await?;
        }
        Ok(self.storage.create(record).await?)
    }

    async fn outdated<'h>(&self, history: &'h History) -> Result<Vec<&'h storage::Entry>, Error> {
        let view = history.view();
        if self.run.max_history == 0 || view.len() < self.run.max_history {
            return Ok(Vec::new());
        }
        let mut ids: Vec<(i64, BTreeSet<Id>)> = Vec::new();
        for &(revision, _) in plan::footprint(&view) {
            let record = history.open(self, revision).await?.record;
            let objects = self.objects(vec![record], "a former").await?;
            ids.push((
                revision,
                objects.iter().map(|object| footprint::id(object, self.namespace)).collect(),
            ));
        }
        let ids_of = |revision| ids.iter().find(|(of, _)| *of == revision).map(|(_, ids)| ids.clone());
        let gone =
            footprint::outdated(&view, self.run.max_history, |revision| ids_of(revision).unwrap_or_default());
        Ok(history.entries.iter().filter(|entry| gone.contains(&entry.head.revision)).collect())
    }

    /// Returns the objects that may be in the cluster. For duplicates the version of `first` wins, and trusted
    /// records win over others.
    pub async fn standing(&self, history: &History, first: i64) -> Result<ExistingObjects, Error> {
        let view = history.view();
        let mut revisions: Vec<i64> = plan::footprint(&view).iter().map(|(revision, _)| *revision).collect();
        revisions.sort_by_key(|&revision| (revision != first, std::cmp::Reverse(revision)));
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        for revision in revisions {
            let record = history.open(self, revision).await?.record;
            match self.helm.origin(&record) {
                Origin::Own | Origin::Other => own.push(record),
                Origin::Foreign => foreign.push(record),
            }
        }
        let (own, mut foreign) =
            (self.objects(own, "current").await?, self.objects(foreign, "current").await?);
        let known: BTreeSet<Id> = own.iter().map(|object| footprint::id(object, self.namespace)).collect();
        foreign.retain(|object| !known.contains(&footprint::id(object, self.namespace)));
        Ok(ExistingObjects { own, foreign })
    }

    /// Removes obsolete objects that only untrusted records name. Objects that the untrusted identity may not remove
    /// stay: such a record must not block upgrades.
    async fn prune_foreign(
        &self,
        before: &ExistingObjects,
        after: &[Object],
        tell: &dyn Tell,
    ) -> Result<(), Cause> {
        let wanted: BTreeSet<Id> = after.iter().map(|object| footprint::id(object, self.namespace)).collect();
        let gone =
            before.foreign.iter().filter(|object| !wanted.contains(&footprint::id(object, self.namespace)));
        let gone: Vec<Object> = gone.cloned().collect();
        if gone.is_empty() {
            return Ok(());
        }
        let removal = Removal { ownership: Some(self.ownership()), ..Removal::default() };
        match kube_apply::remove(&self.foreign, &gone, &removal, tell).await {
            Ok(_) => Ok(()),
            Err(error) if error.failures.iter().all(|failure| failure.kind() == Kind::Forbidden) => {
                tracing::warn!(
                    release = self.name,
                    namespace = self.namespace,
                    objects = error.failures.len(),
                    "objects of a Helm record that Longshore did not make are left behind"
                );
                Ok(())
            }
            Err(error) => Err(Cause::apply(kube_apply::ApplyError {
                failures: error.failures,
                applied: Applied::default(),
            })),
        }
    }

    /// Removes all objects of a release. Those of untrusted records are removed as the untrusted identity. A failure
    /// does not stop the removal of the others.
    pub async fn remove(
        &self,
        standing: &ExistingObjects,
        how: &Removal,
    ) -> Result<kube_apply::Removed, kube_apply::RemoveError> {
        let tell = self.run.tell;
        let own = kube_apply::remove(&self.target, &standing.own, how, tell).await;
        let foreign = kube_apply::remove(&self.foreign, &standing.foreign, how, tell).await;
        let (mut removed, mut failures) = (kube_apply::Removed::default(), Vec::new());
        for outcome in [own, foreign] {
            let part = match outcome {
                Ok(part) => part,
                Err(error) => {
                    failures.extend(error.failures);
                    error.removed
                }
            };
            removed.removed.extend(part.removed);
            removed.kept.extend(part.kept);
        }
        if failures.is_empty() { Ok(removed) } else { Err(kube_apply::RemoveError { failures, removed }) }
    }

    /// Ids of all recorded objects; empty while the release is being uninstalled.
    async fn told(&self) -> Result<BTreeSet<Id>, Error> {
        let history = self.history().await?;
        let last = history.view().last().map(|&(revision, status)| (revision, status));
        let Some((last, _)) = last.filter(|(_, status)| *status != Status::Uninstalling) else {
            return Ok(BTreeSet::new());
        };
        let standing = self.standing(&history, last).await?;
        Ok(standing.all().iter().map(|object| footprint::id(object, self.namespace)).collect())
    }

    /// Waits until objects are ready, if the action waits.
    async fn ready(&self, target: &Target, objects: &[Object], tell: &dyn Tell) -> Result<(), Cause> {
        let strategy = match (self.run.wait, self.run.wait_for_jobs) {
            (Wait::HookOnly, _) => return Ok(()),
            (Wait::Watcher, false) => Strategy::Watcher,
            (Wait::Watcher, true) => Strategy::WatcherWithJobs,
            (Wait::Legacy, false) => Strategy::Legacy,
            (Wait::Legacy, true) => Strategy::LegacyWithJobs,
        };
        let waited = ready::wait(target, objects, strategy, self.deadline(), tell).await;
        waited.map_err(Cause::NotReady)
    }
}

impl History {
    pub fn view(&self) -> Vec<Entry> {
        self.entries.iter().map(|entry| (entry.head.revision, entry.head.status)).collect()
    }

    pub fn entries(&self) -> &[storage::Entry] {
        &self.entries
    }

    /// Loads one revision of the history.
    pub async fn open(&self, operation: &Operation<'_>, revision: i64) -> Result<Stored, Error> {
        let entry = self.entries.iter().find(|entry| entry.head.revision == revision);
        Ok(operation.storage.open(entry.ok_or(Error::NoRevision(revision))?).await?)
    }
}

/// Run of a revision: its last written record and how its objects are written.
pub(super) struct Course<'c> {
    pub operation: &'c Operation<'c>,
    /// Target of the identity that may execute the content of the record.
    pub target: &'c Target,
    pub stored: Stored,
    /// Objects of the revision.
    pub objects: &'c [Object],
    pub way: Way,
    pub mask: Mask,
}

impl Course<'_> {
    /// Runs pre hooks, applies the objects, waits for readiness, runs post hooks. `looked` is the plan made before
    /// the record was written.
    pub async fn run(
        &mut self,
        events: [Event; 2],
        before: &ExistingObjects,
        looked: Looked,
        applied: &mut Applied,
    ) -> Result<(), Cause> {
        let [first, last] = events;
        let ran = self.hooks(first).await?;
        // Hooks may have created some of the objects, so plan again.
        let looked = if ran == 0 {
            looked
        } else {
            let options = Options { merge_only: before.foreign.clone(), ..self.operation.options(self.way) };
            kube_apply::look(self.target, &before.own, self.objects, &options).await.map_err(Cause::apply)?
        };
        let quiet = Quiet { mask: &self.mask, tell: self.operation.run.tell };
        match looked.write(self.target, &quiet).await {
            Ok(done) => *applied = done,
            Err(mut error) => {
                *applied = std::mem::take(&mut error.applied);
                return Err(Cause::apply(error));
            }
        }
        self.operation.prune_foreign(before, self.objects, &quiet).await?;
        self.operation.ready(self.target, self.objects, &quiet).await?;
        self.hooks(last).await?;
        Ok(())
    }

    /// Runs the hooks of an event unless hooks are disabled. Returns their number.
    pub async fn hooks(&mut self, event: Event) -> Result<usize, Cause> {
        if !self.operation.run.hooks {
            return Ok(0);
        }
        let hooks = hooks::Hooks {
            storage: &self.operation.storage,
            share: &self.operation.share(),
            target: self.target,
            clock: &*self.operation.helm.clock,
            way: self.way,
            timeout: self.operation.run.timeout,
            tell: &Quiet { mask: &self.mask, tell: self.operation.run.tell },
        };
        let ran = hooks.run(&mut self.stored, event, |_| true).await;
        ran.map_err(|error| Cause::Hook { event, error })
    }

    /// Marks this revision as deployed and the others as superseded.
    pub async fn deployed(&mut self, history: &History, description: &str) -> Result<(), StorageError> {
        let revision = self.stored.record.version;
        self.operation.supersede(history, revision).await?;
        let said = self.operation.run.description.as_deref().unwrap_or(description);
        self.stored.record.set_status(Status::Deployed, said);
        self.stored = self.operation.storage.update(&self.stored).await?;
        Ok(())
    }

    /// Marks this revision as failed. `said` becomes its description.
    pub async fn failed(&mut self, said: &str) -> Result<(), StorageError> {
        self.stored.record.set_status(Status::Failed, self.mask.over(said));
        self.stored = self.operation.storage.update(&self.stored).await?;
        Ok(())
    }

    /// Cleans up after another client changed or deleted the record. Removes the written objects that no record
    /// names: the other client may have uninstalled or replaced the release without seeing them.
    pub async fn overtaken(&self) -> Error {
        let Operation { name, namespace, run, .. } = self.operation;
        let overtaken = Error::Overtaken { name: (*name).to_owned() };
        let told = match self.operation.told().await {
            Ok(told) => told,
            Err(error) => return error,
        };
        let untold = |object: &&Object| !told.contains(&footprint::id(object, namespace));
        let written: Vec<Object> = self.objects.iter().filter(untold).cloned().collect();
        let removal = self.operation.removal();
        match kube_apply::remove(self.target, &written, &removal, run.tell).await {
            Ok(_) => overtaken,
            Err(error) => Error::NotDeleted {
                name: (*name).to_owned(),
                kind: error.kind(),
                why: self.mask.over(&error.to_string()),
            },
        }
    }
}
