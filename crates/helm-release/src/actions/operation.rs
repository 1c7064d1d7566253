//! Parts that all actions share: a locked release with its history, and the run of a revision from its first record
//! to its last.

use std::collections::BTreeSet;
use std::time::Duration;

use domain::ErrorKind;
use helm_engine::HookEvent;
use kube_apply::readiness::{self, WaitStrategy};
use kube_apply::{
    ApplyOptions, ApplyPlan, ApplyResult, ApplyStrategy, Mask, Object, ObjectId, Ownership, ProgressSink,
    RemoveOptions, Target, UntrustedBases,
};
use tokio::time::Instant;

use super::history::{self, RevisionStatus};
use super::inventory;
use super::options::{ActionOptions, ApplyMode, WaitMode};
use crate::error::{Error, FailureCause};
use crate::helm::Helm;
use crate::hooks;
use crate::masked_progress::MaskedProgress;
use crate::record::{ApplyMethod, Record, Status};
use crate::render::RenderError;
use crate::render::share::PoolShare;
use crate::storage::{self, Storage, StorageError, StoredRecord};
use crate::trust::{LedgerError, Origin};

/// Description of a revision whose operation was interrupted.
const INTERRUPTED_DESCRIPTION: &str = "operation interrupted";

/// Grace period for a pending revision of a client that uses no Lease: within it the operation counts as running.
/// Equals Helm's default timeout.
const FOREIGN_GRACE_PERIOD: Duration = Duration::from_mins(5);

/// Upper bound of timeouts; longer ones are capped.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 365);

/// One action on one release.
pub(super) struct Operation<'o> {
    pub helm: &'o Helm,
    pub name: &'o str,
    pub namespace: &'o str,
    pub options: &'o ActionOptions<'o>,
    pub storage: Storage,
    pub target: Target,
    /// Target for the content of untrusted records.
    pub untrusted_target: Target,
}

/// Objects that may be in the cluster, by trust in the records that name them.
#[derive(Default)]
pub(super) struct ExistingObjects {
    /// Named by a trusted record.
    pub trusted: Vec<Object>,
    /// Named by untrusted records only.
    pub untrusted: Vec<Object>,
}

impl ExistingObjects {
    pub fn all(&self) -> Vec<Object> {
        self.trusted.iter().chain(&self.untrusted).cloned().collect()
    }
}

/// Revisions of a release.
pub(super) struct History {
    entries: Vec<storage::EncodedRecord>,
}

impl<'o> Operation<'o> {
    pub fn new(helm: &'o Helm, namespace: &'o str, name: &'o str, run: &'o ActionOptions<'o>) -> Self {
        let (storage, target) = (helm.storage(namespace), helm.target(namespace));
        Self {
            helm,
            name,
            namespace,
            options: run,
            storage,
            target,
            untrusted_target: helm.untrusted_target(namespace),
        }
    }

    /// The target of the release's own identity, without writes to reserved objects.
    pub fn target_without_reserved(&self) -> Target {
        Target { reserved: self.target.reserved.without_client(), ..self.target.clone() }
    }

    /// The target for CRDs of `crds/`: uses the client of reserved objects where there is one.
    pub fn crd_target(&self) -> Target {
        let client = self.target.reserved.client().unwrap_or(&self.target.client);
        Target::new(client.clone(), self.target.discovery.clone(), self.namespace)
    }

    /// Returns the target that executes hooks and manifests of a stored record.
    pub fn target_for_record(&self, record: &Record) -> &Target {
        match self.helm.origin(record) {
            Origin::Own => &self.target,
            Origin::Other | Origin::Foreign => &self.untrusted_target,
        }
    }

    /// Share of the worker pool for parsing manifests of this release.
    pub fn share(&self) -> PoolShare {
        self.helm.share(self.namespace)
    }

    /// Objects of all given records, without duplicates. The first record with an object wins.
    async fn parse_objects(&self, records: Vec<Record>, which: &'static str) -> Result<Vec<Object>, Error> {
        let bytes = records.iter().map(|record| record.manifest.len()).fold(0, usize::saturating_add);
        let namespace = self.namespace.to_owned();
        let parse = move || inventory::unique_objects(&records, &namespace).map_err(Error::manifest(which));
        self.share().run_on_objects(bytes, parse).await.map_err(RenderError::from)?
    }

    pub async fn history(&self) -> Result<History, Error> {
        Ok(History { entries: self.storage.entries(self.name).await? })
    }

    pub fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.options.timeout.min(MAX_TIMEOUT)).unwrap_or(now)
    }

    fn ownership(&self) -> Ownership {
        Ownership { take_ownership: self.options.take_ownership, ..Ownership::new(self.name, self.namespace) }
    }

    /// Apply options for the objects of this release.
    pub fn apply_options(&self, way: ApplyStrategy) -> ApplyOptions {
        ApplyOptions {
            force_replace: self.options.force_replace,
            ..ApplyOptions::new(way).owned_by(self.ownership())
        }
    }

    /// Apply options for the objects of this release over existing ones.
    fn apply_options_over(&self, before: &ExistingObjects, way: ApplyStrategy) -> ApplyOptions {
        let client = self.untrusted_target.client.clone();
        let untrusted = UntrustedBases { objects: before.untrusted.clone(), client };
        ApplyOptions { untrusted: Some(untrusted), ..self.apply_options(way) }
    }

    /// Remove options; waits for the removal if the action waits.
    pub fn remove_options(&self) -> RemoveOptions {
        let wait_until = (self.options.wait != WaitMode::HookOnly).then(|| self.deadline());
        RemoveOptions { ownership: Some(self.ownership()), wait_until, ..RemoveOptions::default() }
    }

    /// Returns the apply strategy and the method to record. `like` decides in [`ApplyMode::Auto`].
    pub fn apply_strategy(&self, like: Option<&Record>) -> (ApplyStrategy, Option<ApplyMethod>) {
        let server_side = ApplyStrategy::ServerSide { force_conflicts: self.options.force_conflicts };
        let method = like.map(|record| record.apply_method);
        match (self.options.apply_mode, method) {
            (ApplyMode::ServerSide, _) | (ApplyMode::Auto, None | Some(Some(ApplyMethod::ServerSide))) => {
                (server_side, Some(ApplyMethod::ServerSide))
            }
            // A release of Helm 3 stays in Helm 3's format.
            (ApplyMode::Helm3, _) | (_, Some(None)) => (ApplyStrategy::ThreeWay, None),
            _ => (ApplyStrategy::ThreeWay, Some(ApplyMethod::ClientSide)),
        }
    }

    /// Plans the writes and rejects objects that the release does not own. Writes nothing.
    pub async fn plan_writes(
        &self,
        act: &'static str,
        target: &Target,
        (before, after): (&ExistingObjects, &[Object]),
        way: ApplyStrategy,
        mask: &Mask,
    ) -> Result<ApplyPlan, Error> {
        let options = self.apply_options_over(before, way);
        let looked = kube_apply::plan(target, &before.trusted, after, &options).await;
        looked.map_err(|error| Error::Rejected {
            act,
            kind: error.kind(),
            why: mask.mask_text(&error.to_string()),
        })
    }

    /// Fails if the objects exceed the capacity. Writes nothing.
    pub async fn check_capacity(
        &self,
        act: &'static str,
        before: &ExistingObjects,
        after: &[Object],
        mask: &Mask,
    ) -> Result<(), Error> {
        let Some(room) = self.options.capacity_check else { return Ok(()) };
        match room.shortage(&self.target, &before.all(), after).await {
            Some(why) => Err(Error::Rejected { act, kind: ErrorKind::Exhausted, why: mask.mask_text(&why) }),
            None => Ok(()),
        }
    }

    /// Whether no client is working on a pending revision. The caller holds the lock, so another lock holder must have
    /// died; a client that uses no Lease counts as alive within [`FOREIGN_GRACE_PERIOD`].
    pub fn is_orphaned(&self, pending: &StoredRecord) -> bool {
        let info = &pending.record.info;
        let begun = info.last_deployed.timestamp().max(info.deleted.timestamp());
        let age = begun.map(|begun| self.helm.clock.now().duration_since(begun));
        pending.has_lease || age.is_none_or(|age| age.unsigned_abs() >= FOREIGN_GRACE_PERIOD)
    }

    /// Marks an interrupted revision as failed.
    pub async fn fail_interrupted(&self, mut pending: StoredRecord) -> Result<Record, Error> {
        if !self.is_orphaned(&pending) {
            return Err(Error::Pending);
        }
        pending.record.set_status(Status::Failed, INTERRUPTED_DESCRIPTION);
        Ok(self.storage.update(&pending).await?.record)
    }

    /// Marks all deployed revisions as superseded except one. Concurrent changes and deletions are accepted.
    pub async fn supersede(&self, history: &History, except: i64) -> Result<(), StorageError> {
        let deployed = |entry: &&storage::EncodedRecord| {
            entry.meta.status == Status::Deployed && entry.meta.revision != except
        };
        // Collected first: a lazy filter across the await points would make the future `!Send`.
        for entry in history.entries.iter().filter(deployed).collect::<Vec<_>>() {
            let mut stored = self.storage.load_guaranteed(entry).await?;
            stored.record.info.status = Status::Superseded;
            match self.storage.update(&stored).await {
                Ok(_) | Err(StorageError::NotFound { .. }) => {}
                Err(StorageError::ChangedConcurrently { .. }) => {
                    self.retry_supersede(entry.meta.revision).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn retry_supersede(&self, revision: i64) -> Result<(), StorageError> {
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
    pub async fn create_first_record(
        &self,
        history: &History,
        record: &Record,
        origin: Origin,
        restored: Option<i64>,
    ) -> Result<StoredRecord, Error> {
        // Size limits are checked before any old revision is deleted.
        self.storage.layout(record).await?;
        let outdated = self.prunable_entries(history).await?;
        if let Some(trust) = self.helm.trust.as_ref().filter(|_| origin == Origin::Own) {
            let gone: BTreeSet<i64> = outdated.iter().map(|entry| entry.meta.revision).collect();
            let retained_revisions = history.entries.iter().map(|entry| entry.meta.revision);
            let retained_revisions: Vec<i64> =
                retained_revisions.filter(|revision| !gone.contains(revision)).collect();
            trust.ledger.insert(record, restored, &retained_revisions).await.map_err(
                |error| match error {
                    LedgerError::Superseded => Error::ChangedConcurrently { name: self.name.to_owned() },
                    LedgerError::Unavailable(why) => Error::Ledger(why),
                },
            )?;
        }
        for entry in outdated {
            self.storage.delete(&entry.meta).await?;
        }
        Ok(self.storage.create(record).await?)
    }

    async fn prunable_entries<'h>(
        &self,
        history: &'h History,
    ) -> Result<Vec<&'h storage::EncodedRecord>, Error> {
        let view = history.revisions();
        if self.options.max_history == 0 || view.len() < self.options.max_history {
            return Ok(Vec::new());
        }
        let mut ids: Vec<(i64, BTreeSet<ObjectId>)> = Vec::new();
        for &(revision, _) in history::revisions_with_objects(&view) {
            let record = history.load(self, revision).await?.record;
            let objects = self.parse_objects(vec![record], "a former").await?;
            ids.push((
                revision,
                objects.iter().map(|object| inventory::namespaced_id(object, self.namespace)).collect(),
            ));
        }
        let ids_of = |revision| ids.iter().find(|(of, _)| *of == revision).map(|(_, ids)| ids.clone());
        let gone = inventory::prunable_revisions(&view, self.options.max_history, |revision| {
            ids_of(revision).unwrap_or_default()
        });
        Ok(history.entries.iter().filter(|entry| gone.contains(&entry.meta.revision)).collect())
    }

    /// Returns the objects that may be in the cluster. For duplicates the version of `first` wins, and trusted
    /// records win over others.
    pub async fn installed_objects(&self, history: &History, first: i64) -> Result<ExistingObjects, Error> {
        let view = history.revisions();
        let mut revisions: Vec<i64> =
            history::revisions_with_objects(&view).iter().map(|(revision, _)| *revision).collect();
        revisions.sort_by_key(|&revision| (revision != first, std::cmp::Reverse(revision)));
        let (mut own, mut foreign) = (Vec::new(), Vec::new());
        for revision in revisions {
            let record = history.load(self, revision).await?.record;
            match self.helm.origin(&record) {
                Origin::Own | Origin::Other => own.push(record),
                Origin::Foreign => foreign.push(record),
            }
        }
        let (own, mut foreign) =
            (self.parse_objects(own, "current").await?, self.parse_objects(foreign, "current").await?);
        let known: BTreeSet<ObjectId> =
            own.iter().map(|object| inventory::namespaced_id(object, self.namespace)).collect();
        foreign.retain(|object| !known.contains(&inventory::namespaced_id(object, self.namespace)));
        Ok(ExistingObjects { trusted: own, untrusted: foreign })
    }

    /// Removes obsolete objects that only untrusted records name. Objects that the untrusted identity may not remove
    /// stay: such a record must not block upgrades.
    async fn prune_foreign(
        &self,
        before: &ExistingObjects,
        after: &[Object],
        progress: &dyn ProgressSink,
    ) -> Result<(), FailureCause> {
        let wanted: BTreeSet<ObjectId> =
            after.iter().map(|object| inventory::namespaced_id(object, self.namespace)).collect();
        let gone = before
            .untrusted
            .iter()
            .filter(|object| !wanted.contains(&inventory::namespaced_id(object, self.namespace)));
        let gone: Vec<Object> = gone.cloned().collect();
        if gone.is_empty() {
            return Ok(());
        }
        let removal = RemoveOptions { ownership: Some(self.ownership()), ..RemoveOptions::default() };
        match kube_apply::remove(&self.untrusted_target, &gone, &removal, progress).await {
            Ok(_) => Ok(()),
            Err(error) if error.failures.iter().all(|failure| failure.kind() == ErrorKind::Forbidden) => {
                tracing::warn!(
                    release = self.name,
                    namespace = self.namespace,
                    objects = error.failures.len(),
                    "not deleting objects of a Helm record that Longshore did not create"
                );
                Ok(())
            }
            Err(error) => Err(FailureCause::apply(kube_apply::ApplyError {
                failures: error.failures,
                applied: ApplyResult::default(),
            })),
        }
    }

    /// Removes all objects of a release. Objects of untrusted records are removed as the untrusted identity. A failure
    /// does not stop the removal of the others.
    pub async fn remove(
        &self,
        standing: &ExistingObjects,
        options: &RemoveOptions,
    ) -> Result<kube_apply::RemoveResult, kube_apply::RemoveError> {
        let tell = self.options.progress;
        let own = kube_apply::remove(&self.target, &standing.trusted, options, tell).await;
        let foreign = kube_apply::remove(&self.untrusted_target, &standing.untrusted, options, tell).await;
        let (mut removed, mut failures) = (kube_apply::RemoveResult::default(), Vec::new());
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
    async fn recorded_objects(&self) -> Result<BTreeSet<ObjectId>, Error> {
        let history = self.history().await?;
        let last = history.revisions().last().map(|&(revision, status)| (revision, status));
        let Some((last, _)) = last.filter(|(_, status)| *status != Status::Uninstalling) else {
            return Ok(BTreeSet::new());
        };
        let standing = self.installed_objects(&history, last).await?;
        Ok(standing.all().iter().map(|object| inventory::namespaced_id(object, self.namespace)).collect())
    }

    /// Waits until objects are ready, if the action waits.
    async fn wait_until_ready(
        &self,
        target: &Target,
        objects: &[Object],
        progress: &dyn ProgressSink,
    ) -> Result<(), FailureCause> {
        let strategy = match (self.options.wait, self.options.wait_for_jobs) {
            (WaitMode::HookOnly, _) => return Ok(()),
            (WaitMode::Watcher, false) => WaitStrategy::Watcher,
            (WaitMode::Watcher, true) => WaitStrategy::WatcherWithJobs,
            (WaitMode::Legacy, false) => WaitStrategy::Legacy,
            (WaitMode::Legacy, true) => WaitStrategy::LegacyWithJobs,
        };
        let waited = readiness::wait_until_ready(target, objects, strategy, self.deadline(), progress).await;
        waited.map_err(FailureCause::NotReady)
    }
}

impl History {
    pub fn revisions(&self) -> Vec<RevisionStatus> {
        self.entries.iter().map(|entry| (entry.meta.revision, entry.meta.status)).collect()
    }

    pub fn entries(&self) -> &[storage::EncodedRecord] {
        &self.entries
    }

    /// Loads one revision of the history.
    pub async fn load(&self, operation: &Operation<'_>, revision: i64) -> Result<StoredRecord, Error> {
        let entry = self.entries.iter().find(|entry| entry.meta.revision == revision);
        Ok(operation.storage.load(entry.ok_or(Error::NoRevision(revision))?).await?)
    }
}

/// Run of a revision: its last written record and how its objects are written.
pub(super) struct RevisionRun<'c> {
    pub operation: &'c Operation<'c>,
    /// Target of the identity that may execute the content of the record.
    pub target: &'c Target,
    pub stored: StoredRecord,
    /// Objects of the revision.
    pub objects: &'c [Object],
    pub strategy: ApplyStrategy,
    pub mask: Mask,
}

impl RevisionRun<'_> {
    /// Runs pre hooks, applies the objects, waits for readiness, runs post hooks. `looked` is the plan made before
    /// the record was written.
    pub async fn execute(
        &mut self,
        events: [HookEvent; 2],
        before: &ExistingObjects,
        looked: ApplyPlan,
        applied: &mut ApplyResult,
    ) -> Result<(), FailureCause> {
        let [first, last] = events;
        let ran = self.run_hooks(first).await?;
        // Hooks may have created some of the objects, so plan again.
        let looked = if ran == 0 {
            looked
        } else {
            let options = self.operation.apply_options_over(before, self.strategy);
            kube_apply::plan(self.target, &before.trusted, self.objects, &options)
                .await
                .map_err(FailureCause::apply)?
        };
        let quiet = MaskedProgress { mask: &self.mask, progress: self.operation.options.progress };
        match looked.execute(self.target, &quiet).await {
            Ok(done) => *applied = done,
            Err(mut error) => {
                *applied = std::mem::take(&mut error.applied);
                return Err(FailureCause::apply(error));
            }
        }
        self.operation.prune_foreign(before, self.objects, &quiet).await?;
        self.operation.wait_until_ready(self.target, self.objects, &quiet).await?;
        self.run_hooks(last).await?;
        Ok(())
    }

    /// Runs the hooks of an event unless hooks are disabled. Returns their number.
    pub async fn run_hooks(&mut self, event: HookEvent) -> Result<usize, FailureCause> {
        if !self.operation.options.hooks {
            return Ok(0);
        }
        let hooks = hooks::HookRunner {
            storage: &self.operation.storage,
            share: &self.operation.share(),
            target: self.target,
            clock: &*self.operation.helm.clock,
            strategy: self.strategy,
            timeout: self.operation.options.timeout,
            progress: &MaskedProgress { mask: &self.mask, progress: self.operation.options.progress },
        };
        let ran = hooks.run(&mut self.stored, event, |_| true).await;
        ran.map_err(|error| FailureCause::Hook { event, error })
    }

    /// Marks this revision as deployed and the others as superseded.
    pub async fn set_deployed(&mut self, history: &History, description: &str) -> Result<(), StorageError> {
        let revision = self.stored.record.version;
        self.operation.supersede(history, revision).await?;
        let effective_description = self.operation.options.description.as_deref().unwrap_or(description);
        self.stored.record.set_status(Status::Deployed, effective_description);
        self.stored = self.operation.storage.update(&self.stored).await?;
        Ok(())
    }

    /// Marks this revision as failed. `said` becomes its description.
    pub async fn set_failed(&mut self, message: &str) -> Result<(), StorageError> {
        self.stored.record.set_status(Status::Failed, self.mask.mask_text(message));
        self.stored = self.operation.storage.update(&self.stored).await?;
        Ok(())
    }

    /// Cleans up after another client changed or deleted the record. Removes the written objects that no record
    /// names: the other client may have uninstalled or replaced the release without seeing them.
    pub async fn clean_up_superseded(&self) -> Error {
        let Operation { name, namespace, options: run, .. } = self.operation;
        let overtaken = Error::ChangedConcurrently { name: (*name).to_owned() };
        let recorded = match self.operation.recorded_objects().await {
            Ok(told) => told,
            Err(error) => return error,
        };
        let is_unrecorded =
            |object: &&Object| !recorded.contains(&inventory::namespaced_id(object, namespace));
        let written: Vec<Object> = self.objects.iter().filter(is_unrecorded).cloned().collect();
        let removal = self.operation.remove_options();
        match kube_apply::remove(self.target, &written, &removal, run.progress).await {
            Ok(_) => overtaken,
            Err(error) => Error::NotDeleted {
                name: (*name).to_owned(),
                kind: error.kind(),
                why: self.mask.mask_text(&error.to_string()),
            },
        }
    }
}
