//! Where objects are kept, in which order they changed, and how one follows the changes.
//!
//! One sequence of versions for the whole server. A transaction of one or more changes is visible to
//! nobody before it is durable, and then all of it at once. Readers take `Arc`s and never wait for the disk.
//!
//! Inside: `sequencer` orders and groups, `file` makes durable, `mark` and `marker` prove what was acknowledged, `memory`
//! is what readers see, `size` limits an object, `budget` the objects of a group of namespaces, `health` says whether writes are accepted, `watchdog` checks the file's
//! `identity` and keeps the `reserve`.

mod budget;
mod file;
mod health;
mod identity;
mod mark;
mod marker;
mod memory;
mod object;
mod reserve;
mod sequencer;
mod size;
#[cfg(test)]
mod tests;
mod watchdog;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::clock::{Clock, SystemClock};
use file::{Contents, Disk, Opened, Record};
use health::Health;
use mark::Mark;
use marker::Marker;
use memory::State;
use object::Draft;
use reserve::Reserve;
use sequencer::{Answer, Prepared, Request, Sequencer};
use watchdog::Watchdog;

pub use budget::{Allowance, OverBudget, StorageBudget, StorageCollector};
pub use file::OpenError;
pub use object::{Fields, Object};
pub use size::MAX_OBJECT_BYTES;

/// How many transactions may wait; further writers wait to be let in.
const QUEUE: usize = 4096;

/// Which object: `storage` is [`crate::schema::resources::Resource::storage`]; cluster-scoped objects
/// have an empty namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub storage: Arc<str>,
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl Key {
    pub fn new(storage: &Arc<str>, namespace: &str, name: &str) -> Self {
        Self { storage: storage.clone(), namespace: namespace.into(), name: name.into() }
    }
}

/// What must hold of an object for a change to happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Version(u64),
}

/// What becomes of it.
#[derive(Clone, Debug)]
pub enum Op {
    /// The new document; its resourceVersion is written by the store.
    Put(Value),
    /// The same for a document that others change at the same time: where another change came first, it is made anew
    /// from the newest document. Only the key that it belongs to is concerned, not the rest of the transaction.
    Rebase(Value, Rebase),
    Delete,
}

/// Makes a change anew from the newest document; `None` if the whole transaction must be.
#[derive(Clone)]
pub struct Rebase(Arc<RebaseFn>);

type RebaseFn = dyn Fn(&Value) -> Option<Value> + Send + Sync;

impl Rebase {
    pub fn new(apply: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self(Arc::new(apply))
    }

    fn apply(&self, newest: &Value) -> Option<Value> {
        (self.0)(newest)
    }
}

impl std::fmt::Debug for Rebase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rebase")
    }
}

#[derive(Clone, Debug)]
pub struct Change {
    pub key: Key,
    pub expect: Expect,
    pub op: Op,
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// `Expect::Absent` did not hold.
    #[error("it exists already")]
    Exists(Key),
    /// `Expect::Version` did not hold: changed meanwhile, or gone (`None`).
    #[error("it has changed")]
    Moved(Key, Option<Arc<Object>>),
    /// The new document is too large, by its approximate size; nothing of the transaction happened.
    #[error("etcdserver: request is too large")]
    TooLarge(usize),
    /// The new documents do not fit into a storage budget; nothing of the transaction happened.
    #[error("{0}")]
    OverBudget(OverBudget),
    /// The file cannot be written; nothing of the transaction happened.
    #[error("the store cannot be written: {0}")]
    Unavailable(String),
    /// The disk failed to sync: whether the transaction happened is not known before a restart.
    #[error("the outcome of the write is unknown: {0}")]
    Unknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One change, as watchers get it.
#[derive(Clone, Debug)]
pub struct Event {
    pub version: u64,
    pub kind: EventKind,
    /// The new state; for `Deleted` the last one, carrying the deletion's version.
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
}

/// The asked version lies before what history remembers. `oldest` is the first that could be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    pub oldest: u64,
}

/// Objects as they were at one version, in key order (namespace, then name).
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub version: u64,
    pub objects: Vec<Arc<Object>>,
}

/// Where in a collection to begin: at an object, or after it. In a list of one namespace, `namespace` is that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListStart {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub is_after: bool,
}

impl ListStart {
    pub fn after(object: &Object) -> Self {
        Self { namespace: object.namespace.clone(), name: object.name.clone(), is_after: true }
    }

    /// Whether an object lies at or behind it.
    fn covers(&self, namespace: &str, name: &str) -> bool {
        let (here, start) = ((namespace, name), (self.namespace.as_ref(), self.name.as_ref()));
        if self.is_after { here > start } else { here >= start }
    }
}

/// Objects of a collection as they were at one version, from some place on, in key order.
#[derive(Clone, Debug)]
pub struct ListPage {
    pub version: u64,
    pub objects: Vec<Arc<Object>>,
    /// How many objects come after these.
    pub remaining: usize,
}

/// When an answered write is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before it is answered.
    #[default]
    Immediate,
    /// Soon after, or when the store is closed: for tests.
    Relaxed,
}

/// How a store is opened.
pub struct Options {
    pub durability: Durability,
    pub clock: Arc<dyn Clock>,
    /// A folder without a store is an error: other files say that it had one.
    pub must_exist: bool,
    /// A limit of bytes for each group of namespaces.
    pub budget: Option<StorageBudget>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::default(),
            clock: Arc::new(SystemClock),
            must_exist: false,
            budget: None,
        }
    }
}

/// What readers, watches and the sequencer have in common.
struct Shared {
    state: RwLock<State>,
    clock: Arc<dyn Clock>,
    health: Health,
    groups: AtomicU64,
    /// Woken after each group, whatever it changed.
    changed: Notify,
}

impl Shared {
    fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.read().get(&key.storage, &key.namespace, &key.name).cloned()
    }
}

/// The objects of one cluster. See the module.
pub struct Store {
    shared: Arc<Shared>,
    /// `None` only while the store is being dropped.
    queue: Option<mpsc::Sender<Request>>,
    sequencer: Option<JoinHandle<()>>,
    _watchdog: Option<Watchdog>,
    durable: bool,
}

impl Store {
    /// Opens the store in a data folder, or makes one. The folder is this process's own until the
    /// store is dropped.
    pub fn open(folder: &Path, options: Options) -> Result<Arc<Self>, OpenError> {
        let Opened { disk, contents, mark, reserve } = Disk::open(folder, options.must_exist)?;
        let failed = |source| OpenError::Io { file: folder.join("store.redb"), source };
        Self::try_start(Some(disk), contents, Some(mark), Some(reserve), options).map_err(failed)
    }

    /// A store without a file, for tests.
    pub fn in_memory() -> Arc<Self> {
        Self::in_memory_with(Options::default())
    }

    /// The same with a clock of one's own.
    pub fn in_memory_with(options: Options) -> Arc<Self> {
        Self::start(None, Contents::default(), options)
    }

    fn start(disk: Option<Disk>, contents: Contents, options: Options) -> Arc<Self> {
        Self::try_start(disk, contents, None, None, options).expect("a process can start a thread")
    }

    fn try_start(
        disk: Option<Disk>,
        contents: Contents,
        mark: Option<Mark>,
        reserve: Option<Reserve>,
        options: Options,
    ) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            state: RwLock::new(State::of(contents, options.budget)),
            clock: options.clock,
            health: Health::new(reserve),
            groups: AtomicU64::new(0),
            changed: Notify::new(),
        });
        let (sender, queue) = mpsc::channel(QUEUE);
        let durable = disk.is_some();
        let identity = disk.as_ref().and_then(Disk::identity);
        let watchdog =
            mark.is_some().then(|| Watchdog::start(identity.clone(), shared.clone())).transpose()?;
        let marker = mark.map(|mark| Marker::start(mark, shared.clone())).transpose()?;
        let sequencer =
            Sequencer::new(shared.clone(), disk, identity, marker, options.durability, queue, Instant::now());
        let thread = std::thread::Builder::new().name("store".to_owned());
        let sequencer = thread.spawn(move || sequencer.run())?;
        let (queue, sequencer) = (Some(sender), Some(sequencer));
        Ok(Arc::new(Self { shared, queue, sequencer, _watchdog: watchdog, durable }))
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.shared.state.read().version
    }

    /// The version of the last change in `storage`; 0 if there was none since the store was opened.
    pub fn storage_version(&self, storage: &str) -> u64 {
        self.shared.state.read().storage_version(storage)
    }

    /// Whether writes of all kinds are accepted, as far as the last one tells.
    pub fn writable(&self) -> bool {
        self.problem().is_none()
    }

    /// Why writes are not accepted, or only deletions.
    pub fn problem(&self) -> Option<String> {
        self.shared.problem()
    }

    /// Lets every write use the reserve of disk space while a server starts, so that it starts on a full disk. Otherwise
    /// the reserve is for removals.
    pub fn set_starting(&self, starting: bool) {
        self.shared.set_starting(starting);
    }

    /// Resolves when the store has failed for good: the disk did not sync, and pages may be lost. The process must end,
    /// and a new one reads what is really there.
    pub fn failed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut failed = self.shared.subscribe_failed();
        async move {
            if failed.wait_for(|failed| *failed).await.is_err() {
                // The store was closed before it failed.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The stored bytes of a group of namespaces, where there is a budget.
    pub fn storage_used(&self, group: &str) -> Option<u64> {
        Some(self.shared.state.read().usage()?.of(group))
    }

    /// The metrics of storage budgets.
    pub fn storage_collector(&self) -> StorageCollector {
        StorageCollector(self.shared.clone())
    }

    /// How many groups of transactions have been written since the store was opened.
    pub fn groups(&self) -> u64 {
        self.shared.groups.load(Ordering::Relaxed)
    }

    pub fn get(&self, storage: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.shared.state.read().get(storage, namespace, name).cloned()
    }

    /// The newest state, of one namespace or of all.
    pub fn list(&self, storage: &str, namespace: Option<&str>) -> Snapshot {
        self.shared.state.read().list(storage, namespace)
    }

    /// The objects of the newest state for which `wanted` holds. It runs under the store's lock: a look at metadata.
    pub fn select(
        &self,
        storage: &str,
        namespace: Option<&str>,
        wanted: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        self.shared.state.read().select(storage, namespace, wanted)
    }

    /// The state at an earlier version, from history. A version that is still to come gives the newest.
    pub fn list_at(&self, storage: &str, namespace: Option<&str>, version: u64) -> Result<Snapshot, TooOld> {
        let ListPage { version, objects, .. } = self.part(storage, namespace, Some(version), None, None)?;
        Ok(Snapshot { version, objects })
    }

    /// A part of the state at `version`, or of the newest: from `start` on, at most `limit` objects. Under the store's
    /// lock only the objects of the part and the events after `version` are copied.
    pub fn part(
        &self,
        storage: &str,
        namespace: Option<&str>,
        version: Option<u64>,
        start: Option<&ListStart>,
        limit: Option<usize>,
    ) -> Result<ListPage, TooOld> {
        let read = self.shared.state.read().part(storage, namespace, version, start, limit)?;
        let mut part = undo(read);
        if let Some(limit) = limit
            && part.objects.len() > limit
        {
            part.remaining += part.objects.len() - limit;
            part.objects.truncate(limit);
        }
        Ok(part)
    }

    /// The objects that name `owner` among their owner references, with the storage of each.
    pub fn dependents(&self, owner: &str) -> Vec<(Arc<str>, Arc<Object>)> {
        self.shared.state.read().dependents(owner)
    }

    /// The objects of a namespace that no controller manages; known of pods and of what else can be adopted.
    pub fn unmanaged(&self, storage: &str, namespace: &str) -> Vec<Arc<Object>> {
        self.shared.state.read().unmanaged(storage, namespace)
    }

    /// The storages that hold an object, sorted.
    pub fn storages(&self) -> Vec<Arc<str>> {
        self.shared.state.read().storages()
    }

    /// All changes or none, each with a version of its own; answers the objects as they now stand
    /// (for a delete: the last state, carrying the deletion's version).
    ///
    /// Who stops waiting for the answer does not know whether the changes happened.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Arc<Object>>, CommitError> {
        self.commit_holding(changes, ()).await
    }

    /// The same, and drops `held` when the changes are visible or have failed, also if this future is dropped before:
    /// a queued change happens whether somebody waits for it or not.
    pub async fn commit_holding(
        &self,
        changes: Vec<Change>,
        held: impl Send + 'static,
    ) -> Result<Vec<Arc<Object>>, CommitError> {
        self.commit_within(changes, Allowance::Unlimited, held).await
    }

    /// The same for changes that storage budgets may refuse.
    pub async fn commit_within(
        &self,
        changes: Vec<Change>,
        allowance: Allowance,
        held: impl Send + 'static,
    ) -> Result<Vec<Arc<Object>>, CommitError> {
        for change in &changes {
            size::check(change, || self.shared.get(&change.key))?;
        }
        let changes = changes.into_iter().map(|change| self.prepare(change)).collect();
        let held = Box::new(held);
        self.ask(|answer| Request::Commit { changes, allowance, held, answer }).await
    }

    /// A small fact about the store itself.
    pub fn get_meta(&self, key: &str) -> Option<Box<[u8]>> {
        self.shared.state.read().meta.get(key).cloned()
    }

    /// Keeps a small fact; `format` and `version` are the store's own.
    pub async fn put_meta(&self, key: &str, value: &[u8]) -> Result<(), CommitError> {
        let (key, value) = (key.to_owned(), value.into());
        self.ask(|answer| Request::Meta { key, value, answer }).await
    }

    /// Follows the changes of one storage after `after`. One that is still to come is waited for.
    pub fn watch(self: &Arc<Self>, storage: &str, after: u64) -> Result<Watch, TooOld> {
        let changed = self.changed(storage);
        let oldest = self.shared.state.read().oldest(storage);
        if after < oldest {
            return Err(TooOld { oldest });
        }
        Ok(Watch { shared: self.shared.clone(), storage: storage.into(), after, changed })
    }

    /// The newest state, and the watch that continues it without a gap.
    pub fn follow(self: &Arc<Self>, storage: &str, namespace: Option<&str>) -> (Snapshot, Watch) {
        let changed = self.changed(storage);
        let snapshot = self.list(storage, namespace);
        let after = snapshot.version;
        (snapshot, Watch { shared: self.shared.clone(), storage: storage.into(), after, changed })
    }

    /// Follows the changes of all storages from now on.
    pub fn follow_all(&self) -> Feed {
        Feed { shared: self.shared.clone(), after: self.version() }
    }

    /// How many objects there are.
    pub fn count(&self, storage: &str, namespace: Option<&str>) -> usize {
        self.shared.state.read().count(storage, namespace)
    }

    /// Says that a storage's kind is served from now on: one cannot watch it from an earlier version.
    pub fn begin_storage(&self, storage: &str) {
        self.shared.state.write().begin_storage(storage);
    }

    fn changed(&self, storage: &str) -> Arc<Notify> {
        if let Some(changed) = self.shared.state.read().changed(storage) {
            return changed;
        }
        let mut state = self.shared.state.write();
        state.expect_storage(storage);
        state.changed(storage).expect("a storage that is expected has one")
    }

    /// Forgets the past: every watch that has not caught up, and every exact list, is now too old.
    pub fn compact(&self) {
        self.shared.state.write().forget();
    }

    /// Everything that costs time is done here, by who asks.
    fn prepare(&self, change: Change) -> Prepared {
        let Change { key, expect, op } = change;
        let (value, rebase) = match op {
            Op::Delete => (None, None),
            Op::Put(value) => (Some(value), None),
            Op::Rebase(value, rebase) => (Some(value), Some(rebase)),
        };
        let put = value.map(|value| {
            let draft = Draft::new(value);
            let record = self.durable.then(|| Record::of(&draft.text, draft.gap));
            (draft, record)
        });
        Prepared { key, expect, put, rebase }
    }

    async fn ask<T>(&self, request: impl FnOnce(Answer<T>) -> Request) -> Result<T, CommitError> {
        let closed = || CommitError::Unavailable("the store is closed".to_owned());
        let (answer, told) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.send(request(answer)).await.map_err(|_| closed())?;
        told.await.map_err(|_| CommitError::Unknown("the store did not answer".to_owned()))?
    }
}

/// An object at an earlier version, and whether it exists now.
type Before = (Option<Arc<Object>>, bool);

/// Leads a part of the newest state back to its version.
fn undo(read: memory::UndoablePage) -> ListPage {
    let memory::UndoablePage { version, mut objects, is_complete, beyond, undone } = read;
    if undone.is_empty() {
        return ListPage { version, objects, remaining: beyond };
    }
    // What each changed object was at `version`, and whether it exists now.
    let mut changed = BTreeMap::<(Box<str>, Box<str>), Before>::new();
    for Event { kind, object, previous, .. } in undone {
        let key = (object.namespace.clone(), object.name.clone());
        changed.entry(key).or_insert((previous, false)).1 = kind != EventKind::Deleted;
    }
    let key = |object: &Object| (object.namespace.clone(), object.name.clone());
    let end = objects.last().filter(|_| !is_complete).map(|last| key(last));
    objects.retain(|object| !changed.contains_key(&key(object)));
    let mut remaining = beyond;
    for (at, (then, exists)) in changed {
        if end.as_ref().is_none_or(|end| at <= *end) {
            objects.extend(then);
            continue;
        }
        // It lies behind this part, whose length was counted as of now.
        remaining = remaining + usize::from(then.is_some()) - usize::from(exists);
    }
    objects.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    ListPage { version, objects, remaining }
}

impl Drop for Store {
    /// What waits is still written, and the folder is free afterwards.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(sequencer) = self.sequencer.take() {
            let _ = sequencer.join();
        }
    }
}

/// A place in history from which one goes on. It holds no events: a watch that sleeps costs nothing,
/// and one that sleeps too long has lost its place.
pub struct Watch {
    shared: Arc<Shared>,
    storage: Arc<str>,
    after: u64,
    changed: Arc<Notify>,
}

impl Watch {
    /// The next changes, at least one; waits for them. Falling out of history ends the watch.
    pub async fn next(&mut self) -> Result<Vec<Event>, TooOld> {
        loop {
            // Made before looking, so that a change in between wakes it.
            let changed = self.changed.notified();
            let events = self.shared.state.read().events(&self.storage, self.after)?;
            if let Some(last) = events.last() {
                self.after = last.version;
                return Ok(events);
            }
            changed.await;
        }
    }
    /// The version up to which this watch has seen everything: what a bookmark may say.
    pub fn position(&self) -> u64 {
        let state = self.shared.state.read();
        match state.events(&self.storage, self.after) {
            Ok(events) if events.is_empty() => state.version.max(self.after),
            _ => self.after,
        }
    }
}

/// A [`Watch`] over all storages.
pub struct Feed {
    shared: Arc<Shared>,
    after: u64,
}

impl Feed {
    /// The version up to which this feed has told everything.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// The next changes with the storage of each, at least one; waits for them. May be dropped while it
    /// waits and asked again.
    pub async fn next(&mut self) -> Result<Vec<(Arc<str>, Event)>, TooOld> {
        loop {
            let changed = self.shared.changed.notified();
            let events = self.shared.state.read().all_events(self.after)?;
            if let Some((_, last)) = events.last() {
                self.after = last.version;
                return Ok(events);
            }
            changed.await;
        }
    }
}
