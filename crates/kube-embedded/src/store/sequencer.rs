//! The sequencer: the one thread that orders and commits transactions.
//!
//! It takes the waiting transactions, decides each against the newest state and the ones before it,
//! writes the successful ones as one durable group, and only then publishes them and answers. While it waits for
//! the disk the next group collects in the queue. It parses and serialises JSON only to rebase a change on one that was
//! decided just before ([`Rebase`]).
//!
//! After a failed sync it writes nothing more and answers that the outcome is unknown; the process must be restarted.
//!
//! The thread survives a panic: the current group is answered as unknown, and the next one is taken. If the group
//! was in the file but not in memory yet, the store fails.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::budget::{Allowance, PendingGrowth};
use super::file::{Disk, Record, WriteOp};
use super::health::DISK_FULL_MESSAGE;
use super::identity::FileIdentity;
use super::memory::StoreState;
use super::object::Draft;
use super::reserve::SpaceAdmission;
use super::watermark::Commit;
use super::watermark_writer::{WatermarkWriter, WrittenGroup};
use super::{CommitError, Durability, Event, EventKind, Expect, Key, Object, Rebase, Shared};

/// Limits of one group, so that its first transaction does not wait for too many others.
const MAX_GROUP_TRANSACTIONS: usize = 512;
const MAX_GROUP_BYTES: usize = 8 << 20;
/// A group up to this size may use the reserve without removing anything, when the disk turns out to be full.
const SMALL_GROUP: usize = 64 << 10;
/// With relaxed durability: how long an acknowledged write may be lost by a crash.
const RELAXED_SYNC_INTERVAL: Duration = Duration::from_millis(100);

pub(super) type ReplySender<T> = oneshot::Sender<Result<T, CommitError>>;

pub(super) enum WriteRequest {
    /// `held` is dropped when the changes are visible or have failed, before the answer.
    Commit {
        changes: Vec<PreparedChange>,
        allowance: Allowance,
        held: Box<dyn Any + Send>,
        answer: ReplySender<Vec<Arc<Object>>>,
    },
    Meta {
        key: String,
        value: Box<[u8]>,
        answer: ReplySender<()>,
    },
}

/// A serialised change, ready to be decided.
pub(super) struct PreparedChange {
    pub key: Key,
    pub expect: Expect,
    /// The new document, or `None` to delete.
    pub put: Option<(Draft, Option<Record>)>,
    /// Computes the change again if another one came first.
    pub rebase: Option<Rebase>,
}

/// A decided change, applied when the group is durable.
struct DecidedChange {
    key: Key,
    event: Event,
    record: Option<Record>,
}

/// Answers one writer when the outcome of the group is known.
pub(super) type ReplyFn = Box<dyn FnOnce(Result<(), GroupWriteError>) + Send>;

/// Answers all writers of a group. A panic in one callback (it drops values of the writer) does not affect the others.
pub(super) fn reply_all(answers: Vec<ReplyFn>, outcome: &Result<(), GroupWriteError>) {
    for answer in answers {
        if catch_unwind(AssertUnwindSafe(|| answer(outcome.clone()))).is_err() {
            tracing::error!("a writer's callback panicked");
        }
    }
}

/// Error of writing a group.
#[derive(Clone)]
pub(super) enum GroupWriteError {
    /// None of it is in the file.
    NotWritten(String),
    /// The file may or may not contain it.
    OutcomeUnknown(String),
}

impl From<GroupWriteError> for CommitError {
    fn from(unwritten: GroupWriteError) -> Self {
        match unwritten {
            GroupWriteError::NotWritten(why) => Self::Unavailable(why),
            GroupWriteError::OutcomeUnknown(why) => Self::OutcomeUnknown(why),
        }
    }
}

#[derive(Default)]
struct CommitGroup {
    version: u64,
    size: usize,
    effects: Vec<DecidedChange>,
    /// The newest state of each key that this group changes.
    newest_objects: HashMap<Key, Option<Arc<Object>>>,
    meta: Vec<(String, Box<[u8]>)>,
    replies: Vec<ReplyFn>,
    space: SpaceAdmission,
    /// The growth of storage budgets by this group.
    growth: PendingGrowth,
}

pub(super) struct Sequencer {
    shared: Arc<Shared>,
    /// Declared before `disk`: the folder's lock is held until the mark is written.
    watermark_writer: Option<WatermarkWriter>,
    disk: Option<Disk>,
    identity: Option<Arc<FileIdentity>>,
    durability: Durability,
    queue: mpsc::Receiver<WriteRequest>,
    synced: Instant,
    space: SpaceAdmission,
    /// A group is in the file and not in memory yet.
    is_ahead: bool,
}

impl Sequencer {
    pub fn new(
        shared: Arc<Shared>,
        disk: Option<Disk>,
        identity: Option<Arc<FileIdentity>>,
        marker: Option<WatermarkWriter>,
        durability: Durability,
        queue: mpsc::Receiver<WriteRequest>,
        synced: Instant,
    ) -> Self {
        let space = SpaceAdmission::default();
        Self {
            shared,
            watermark_writer: marker,
            disk,
            identity,
            durability,
            queue,
            synced,
            space,
            is_ahead: false,
        }
    }

    /// Runs until the store is dropped.
    pub fn run(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            if catch_unwind(AssertUnwindSafe(|| self.handle(first))).is_ok() {
                continue;
            }
            if self.is_ahead {
                self.shared.fail("the store's thread panicked while it showed a group");
            } else {
                tracing::error!("the store's thread panicked and continues");
            }
        }
        if let Some(disk) = &mut self.disk
            && !disk.has_failed_sync()
            && self.shared.closed_reason().is_none()
            && (self.durability == Durability::Relaxed || disk.has_unconfirmed_writes())
        {
            let version = self.shared.state.read().version;
            let newest = |key: &Key| self.shared.get(key);
            // The store is gone: no caller is left to answer.
            let _ = disk.write(version, &mut [], redb::Durability::Immediate, &newest);
        }
    }

    fn handle(&mut self, first: WriteRequest) {
        let mut group = self.collect_group(first);
        let outcome = self.write(&mut group);
        let error = outcome.as_ref().err().map(|unwritten| match unwritten {
            GroupWriteError::NotWritten(why) | GroupWriteError::OutcomeUnknown(why) => {
                format!("the store cannot be written: {why}")
            }
        });
        if error.is_some() || !group.effects.is_empty() || !group.meta.is_empty() {
            self.shared.record_write(error);
        }
        let commit = match &outcome {
            Ok(commit) => {
                self.publish(&mut group);
                *commit
            }
            Err(_) => None,
        };
        self.is_ahead = false;
        match (&self.watermark_writer, commit) {
            (Some(marker), Some(commit)) => {
                marker.acknowledge(WrittenGroup { commit, replies: group.replies });
            }
            _ => reply_all(group.replies, &outcome.map(drop)),
        }
    }

    fn collect_group(&mut self, first: WriteRequest) -> CommitGroup {
        let state = self.shared.state.read();
        let is_low = self.shared.is_low() && !self.shared.is_starting();
        if is_low != self.space.is_low {
            self.space = SpaceAdmission::default();
            if is_low {
                self.space.set_low();
            }
        }
        let mut group = CommitGroup { version: state.version, space: self.space, ..CommitGroup::default() };
        group.add_request(first, &state);
        while group.replies.len() < MAX_GROUP_TRANSACTIONS && group.size < MAX_GROUP_BYTES {
            let Ok(next) = self.queue.try_recv() else { break };
            group.add_request(next, &state);
        }
        self.space = group.space;
        group
    }

    /// Writes a group. Returns the commit that the mark must cover before writers are answered, if any.
    fn write(&mut self, group: &mut CommitGroup) -> Result<Option<Commit>, GroupWriteError> {
        if group.effects.is_empty() && group.meta.is_empty() {
            return Ok(None);
        }
        if let Some(why) = self.shared.closed_reason() {
            return Err(GroupWriteError::NotWritten(why.to_owned()));
        }
        self.check_identity(GroupWriteError::NotWritten)?;
        let commit = self.write_file(group)?;
        self.is_ahead = true;
        self.check_identity(GroupWriteError::OutcomeUnknown)?;
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        Ok(commit)
    }

    /// Detaches the store if the path no longer names the open file.
    fn check_identity(
        &self,
        unwritten: impl FnOnce(String) -> GroupWriteError,
    ) -> Result<(), GroupWriteError> {
        let Some(identity) = &self.identity else { return Ok(()) };
        identity.check().map_err(|why| {
            self.shared.detach(&why);
            unwritten(why)
        })
    }

    fn write_file(&mut self, group: &mut CommitGroup) -> Result<Option<Commit>, GroupWriteError> {
        let Some(disk) = &mut self.disk else { return Ok(None) };
        let changes = group.effects.len();
        let effects = group.effects.iter_mut().map(|effect| match &mut effect.record {
            Some(record) => WriteOp::Put(&effect.key, effect.event.version, record),
            None => WriteOp::Remove(&effect.key),
        });
        let meta = group.meta.iter().map(|(key, value)| WriteOp::Meta(key, value));
        let mut writes: Vec<_> = effects.chain(meta).collect();
        let relaxed = self.durability == Durability::Relaxed && self.synced.elapsed() < RELAXED_SYNC_INTERVAL;
        let durability = if relaxed { redb::Durability::None } else { redb::Durability::Immediate };
        let newest = |key: &Key| self.shared.get(key);
        let began = Instant::now();
        while let Err(error) = disk.write(group.version, &mut writes, durability, &newest) {
            if disk.has_failed_sync() {
                self.shared.fail(&format!("the disk failed to sync: {error}"));
                return Err(GroupWriteError::OutcomeUnknown(error));
            }
            if !disk.is_full() {
                tracing::error!(error, changes, "the store cannot be written");
                return Err(GroupWriteError::NotWritten(error));
            }
            let may_use_reserve = self.space.is_low || self.shared.is_starting() || group.size <= SMALL_GROUP;
            if !(self.shared.release_reserve() && may_use_reserve) {
                tracing::error!(error, changes, "the store cannot be written: {DISK_FULL_MESSAGE}");
                return Err(GroupWriteError::NotWritten(DISK_FULL_MESSAGE.to_owned()));
            }
        }
        if relaxed {
            return Ok(None);
        }
        self.synced = Instant::now();
        self.shared.durations.file.observe(self.synced.duration_since(began).as_secs_f64());
        Ok(Some(Commit { number: disk.commit(), version: group.version }))
    }

    fn publish(&self, group: &mut CommitGroup) {
        let now = self.shared.clock.now();
        let mut touched: Vec<Arc<str>> = Vec::new();
        let mut state = self.shared.state.write();
        for DecidedChange { key, event, .. } in group.effects.drain(..) {
            state.publish(&key, event, now);
            if !touched.contains(&key.storage) {
                touched.push(key.storage);
            }
        }
        state.meta.extend(group.meta.drain(..));
        let wake: Vec<_> = touched.iter().filter_map(|storage| state.changed(storage)).collect();
        drop(state);
        for storage in wake {
            storage.notify_waiters();
        }
        self.shared.changed.notify_waiters();
    }
}

impl CommitGroup {
    /// Decides one transaction. Even a refusal is answered only after the group is durable: it may
    /// depend on a change that is not visible yet.
    fn add_request(&mut self, request: WriteRequest, state: &StoreState) {
        match request {
            WriteRequest::Commit { changes, allowance, held, answer } => {
                let decided = self.decide(changes, allowance, state);
                self.replies.push(Box::new(move |written| {
                    let told = written.map_err(CommitError::from).and(decided);
                    drop(held);
                    // The caller may have gone away.
                    let _ = answer.send(told);
                }));
            }
            WriteRequest::Meta { key, value, answer } => {
                self.size += value.len();
                self.meta.push((key, value));
                self.replies.push(Box::new(move |written| {
                    let _ = answer.send(written.map_err(CommitError::from));
                }));
            }
        }
    }

    fn decide(
        &mut self,
        changes: Vec<PreparedChange>,
        allowance: Allowance,
        state: &StoreState,
    ) -> Result<Vec<Arc<Object>>, CommitError> {
        let mut effects: Vec<DecidedChange> = Vec::with_capacity(changes.len());
        let mut newest: HashMap<Key, Option<Arc<Object>>> = HashMap::new();
        let mut version = self.version;
        for PreparedChange { key, mut expect, mut put, rebase } in changes {
            let known = newest.get(&key).or_else(|| self.newest_objects.get(&key)).cloned();
            let previous =
                known.unwrap_or_else(|| state.get(&key.storage, &key.namespace, &key.name).cloned());
            if let (Some(rebase), Some(found)) = (rebase, &previous)
                && expect != Expect::Version(found.version)
                && let Some(value) =
                    catch_unwind(AssertUnwindSafe(|| rebase.apply(&found.value()))).ok().flatten()
            {
                let draft = Draft::new(value);
                let durable = put.is_some_and(|(_, record)| record.is_some());
                let record = durable.then(|| Record::encode(&draft.text, draft.version_offset));
                (expect, put) = (Expect::Version(found.version), Some((draft, record)));
            }
            match (expect, &previous) {
                (Expect::Absent, Some(_)) => return Err(CommitError::Exists(key)),
                (Expect::Absent, None) if put.is_none() => return Err(CommitError::Conflict(key, None)),
                (Expect::Version(expected), found)
                    if found.as_ref().is_none_or(|found| found.version != expected) =>
                {
                    return Err(CommitError::Conflict(key, previous));
                }
                (Expect::Absent, None) | (Expect::Version(_), _) => {}
            }
            version += 1;
            let (kind, object, record) = match (put, &previous) {
                (Some((draft, record)), None) => (EventKind::Added, draft.finish(version), record),
                (Some((draft, record)), Some(_)) => (EventKind::Modified, draft.finish(version), record),
                (None, Some(last)) => (EventKind::Deleted, last.at_version(version), None),
                (None, None) => return Err(CommitError::Conflict(key, None)),
            };
            let object = Arc::new(object);
            newest.insert(key.clone(), (kind != EventKind::Deleted).then(|| object.clone()));
            effects.push(DecidedChange { key, event: Event { version, kind, object, previous }, record });
        }
        let growth = state.usage().map(|usage| {
            let growth = usage.growth(effects.iter().map(|effect| (&effect.key, &effect.event)));
            self.growth.check(usage, &growth, allowance).map(|()| growth)
        });
        let growth = growth.transpose().map_err(CommitError::OverBudget)?.unwrap_or_default();
        if !self.space.admit(effects.iter().map(|effect| &effect.event)) {
            return Err(CommitError::Unavailable(DISK_FULL_MESSAGE.to_owned()));
        }
        self.growth.add(&growth);
        self.version = version;
        self.size +=
            effects.iter().filter_map(|effect| effect.record.as_ref()).map(Record::len).sum::<usize>();
        self.newest_objects.extend(newest);
        let objects = effects.iter().map(|effect| effect.event.object.clone()).collect();
        self.effects.extend(effects);
        Ok(objects)
    }
}
