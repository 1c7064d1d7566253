//! The one thread that puts changes in order.
//!
//! It takes the transactions that wait, decides each against the newest state and the ones before it,
//! writes all that hold in one durable group, and only then shows them and answers. While it waits for
//! the disk the next group gathers in the queue. It parses and serialises JSON only to rebase a change on one that was
//! decided just before ([`Rebase`]).
//!
//! After a failed sync it writes nothing more and answers that the outcome is unknown; the process is to be restarted.

use std::any::Any;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

use super::file::{Disk, Record, Write};
use super::memory::State;
use super::object::Draft;
use super::{CommitError, Durability, Event, EventKind, Expect, Key, Object, Rebase, Shared};

/// A group takes no more than this, so that the first in it does not wait for too many others.
const GROUP_TRANSACTIONS: usize = 512;
const GROUP_BYTES: usize = 8 << 20;
/// With relaxed durability, how long an answered write may be lost to a crash.
const RELAXED_FOR: Duration = Duration::from_millis(100);

pub(super) type Answer<T> = oneshot::Sender<Result<T, CommitError>>;

pub(super) enum Request {
    /// `held` is dropped when the changes are visible or have failed, before the answer.
    Commit {
        changes: Vec<Prepared>,
        held: Box<dyn Any + Send>,
        answer: Answer<Vec<Arc<Object>>>,
    },
    Meta {
        key: String,
        value: Box<[u8]>,
        answer: Answer<()>,
    },
}

/// A change that is ready to be decided.
pub(super) struct Prepared {
    pub key: Key,
    pub expect: Expect,
    /// The new document, or `None` to delete.
    pub put: Option<(Draft, Option<Record>)>,
    /// Makes the change anew where another one came first.
    pub rebase: Option<Rebase>,
}

/// A change that will happen if the group becomes durable.
struct Effect {
    key: Key,
    event: Event,
    record: Option<Record>,
}

/// Tells who asked, once it is known whether the group was written.
type Tell = Box<dyn FnOnce(Result<(), Unwritten>) + Send>;

/// Why a group was not written.
#[derive(Clone)]
enum Unwritten {
    /// Nothing of it will be found in the file.
    Refused(String),
    /// It may be found in the file, or not.
    Unknown(String),
}

impl From<Unwritten> for CommitError {
    fn from(unwritten: Unwritten) -> Self {
        match unwritten {
            Unwritten::Refused(why) => Self::Unavailable(why),
            Unwritten::Unknown(why) => Self::Unknown(why),
        }
    }
}

#[derive(Default)]
struct Group {
    version: u64,
    size: usize,
    effects: Vec<Effect>,
    /// The newest state of each key that this group touches.
    newest: HashMap<Key, Option<Arc<Object>>>,
    meta: Vec<(String, Box<[u8]>)>,
    answers: Vec<Tell>,
}

pub(super) struct Sequencer {
    pub shared: Arc<Shared>,
    pub disk: Option<Disk>,
    pub durability: Durability,
    pub queue: mpsc::Receiver<Request>,
    pub synced: Instant,
}

impl Sequencer {
    /// Works until the store is dropped. A panic makes the store fail.
    pub fn run(self) {
        let shared = self.shared.clone();
        if catch_unwind(AssertUnwindSafe(|| self.work())).is_err() {
            shared.fail();
        }
    }

    fn work(mut self) {
        while let Some(first) = self.queue.blocking_recv() {
            let mut group = self.gather(first);
            let written = self.write(&mut group);
            self.shared.writable.store(written.is_ok(), Ordering::Relaxed);
            if written.is_ok() {
                self.publish(&mut group);
            }
            for answer in group.answers {
                answer(written.clone());
            }
        }
        if let Some(disk) = &mut self.disk
            && !disk.has_lost_sync()
            && (self.durability == Durability::Relaxed || disk.is_unsure())
        {
            let version = self.shared.state.read().version;
            let newest = |key: &Key| self.shared.get(key);
            // The store is gone: there is nobody left to tell.
            let _ = disk.write(version, &mut [], redb::Durability::Immediate, &newest);
        }
    }

    fn gather(&mut self, first: Request) -> Group {
        let state = self.shared.state.read();
        let mut group = Group { version: state.version, ..Group::default() };
        group.take(first, &state);
        while group.answers.len() < GROUP_TRANSACTIONS && group.size < GROUP_BYTES {
            let Ok(next) = self.queue.try_recv() else { break };
            group.take(next, &state);
        }
        group
    }

    fn write(&mut self, group: &mut Group) -> Result<(), Unwritten> {
        if group.effects.is_empty() && group.meta.is_empty() {
            return Ok(());
        }
        if let Some(disk) = &mut self.disk {
            if disk.has_lost_sync() {
                return Err(Unwritten::Refused("a sync of the disk failed before".to_owned()));
            }
            let effects = group.effects.iter_mut().map(|effect| match &mut effect.record {
                Some(record) => Write::Put(&effect.key, effect.event.version, record),
                None => Write::Remove(&effect.key),
            });
            let meta = group.meta.iter().map(|(key, value)| Write::Meta(key, value));
            let mut writes: Vec<_> = effects.chain(meta).collect();
            let relaxed = self.durability == Durability::Relaxed && self.synced.elapsed() < RELAXED_FOR;
            let durability = if relaxed { redb::Durability::None } else { redb::Durability::Immediate };
            let newest = |key: &Key| self.shared.get(key);
            if let Err(error) = disk.write(group.version, &mut writes, durability, &newest) {
                tracing::error!(error, changes = group.effects.len(), "the store cannot be written");
                if disk.has_lost_sync() {
                    self.shared.fail();
                    return Err(Unwritten::Unknown(error));
                }
                return Err(Unwritten::Refused(error));
            }
            if !relaxed {
                self.synced = Instant::now();
            }
        }
        self.shared.groups.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn publish(&self, group: &mut Group) {
        let now = self.shared.clock.now();
        let mut touched: Vec<Arc<str>> = Vec::new();
        let mut state = self.shared.state.write();
        for Effect { key, event, .. } in group.effects.drain(..) {
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

impl Group {
    /// Decides one transaction. Even a refusal is told only after the group is durable: it may be
    /// owed to a change that nobody may know of before.
    fn take(&mut self, request: Request, state: &State) {
        match request {
            Request::Commit { changes, held, answer } => {
                let decided = self.decide(changes, state);
                self.answers.push(Box::new(move |written| {
                    let told = written.map_err(CommitError::from).and(decided);
                    drop(held);
                    // Who asked may have gone away meanwhile.
                    let _ = answer.send(told);
                }));
            }
            Request::Meta { key, value, answer } => {
                self.size += value.len();
                self.meta.push((key, value));
                self.answers.push(Box::new(move |written| {
                    let _ = answer.send(written.map_err(CommitError::from));
                }));
            }
        }
    }

    fn decide(&mut self, changes: Vec<Prepared>, state: &State) -> Result<Vec<Arc<Object>>, CommitError> {
        let mut effects: Vec<Effect> = Vec::with_capacity(changes.len());
        let mut newest: HashMap<Key, Option<Arc<Object>>> = HashMap::new();
        let mut version = self.version;
        for Prepared { key, mut expect, mut put, rebase } in changes {
            let known = newest.get(&key).or_else(|| self.newest.get(&key)).cloned();
            let previous =
                known.unwrap_or_else(|| state.get(&key.storage, &key.namespace, &key.name).cloned());
            if let (Some(rebase), Some(found)) = (rebase, &previous)
                && expect != Expect::Version(found.version)
                && let Some(value) =
                    catch_unwind(AssertUnwindSafe(|| rebase.apply(&found.value()))).ok().flatten()
            {
                let draft = Draft::new(value);
                let durable = put.is_some_and(|(_, record)| record.is_some());
                let record = durable.then(|| Record::of(&draft.text, draft.gap));
                (expect, put) = (Expect::Version(found.version), Some((draft, record)));
            }
            match (expect, &previous) {
                (Expect::Absent, Some(_)) => return Err(CommitError::Exists(key)),
                (Expect::Absent, None) if put.is_none() => return Err(CommitError::Moved(key, None)),
                (Expect::Version(expected), found)
                    if found.as_ref().is_none_or(|found| found.version != expected) =>
                {
                    return Err(CommitError::Moved(key, previous));
                }
                (Expect::Absent, None) | (Expect::Version(_), _) => {}
            }
            version += 1;
            let (kind, object, record) = match (put, &previous) {
                (Some((draft, record)), None) => (EventKind::Added, draft.finish(version), record),
                (Some((draft, record)), Some(_)) => (EventKind::Modified, draft.finish(version), record),
                (None, Some(last)) => (EventKind::Deleted, last.at_version(version), None),
                (None, None) => return Err(CommitError::Moved(key, None)),
            };
            let object = Arc::new(object);
            newest.insert(key.clone(), (kind != EventKind::Deleted).then(|| object.clone()));
            effects.push(Effect { key, event: Event { version, kind, object, previous }, record });
        }
        self.version = version;
        self.size +=
            effects.iter().filter_map(|effect| effect.record.as_ref()).map(Record::len).sum::<usize>();
        self.newest.extend(newest);
        let objects = effects.iter().map(|effect| effect.event.object.clone()).collect();
        self.effects.extend(effects);
        Ok(objects)
    }
}
