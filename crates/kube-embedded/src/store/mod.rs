//! The store: objects with resourceVersions, transactions, and watches. It takes the place of etcd and the watch cache.
//!
//! One sequence of versions for the whole server. A transaction of one or more changes becomes visible
//! as a whole, and only after it is durable. Readers take `Arc`s and never wait for the disk.
//!
//! Modules:
//! - `sequencer`: orders transactions and writes them in groups
//! - `file`: the durable file
//! - `watermark`, `watermark_writer`: record which commit was acknowledged
//! - `durations`: metrics of the time for both
//! - `memory`: the state that readers see
//! - `size`: limit for one object
//! - `budget`: limit for the objects of a group of namespaces
//! - `health`: whether writes are accepted
//! - `watchdog`: checks the file's `identity` and refills the `reserve`

mod budget;
mod durations;
mod file;
mod health;
mod identity;
mod memory;
mod object;
mod reserve;
mod sequencer;
mod size;
#[cfg(test)]
mod tests;
mod watchdog;
mod watermark;
mod watermark_writer;

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
use durations::CommitDurations;
use file::{Disk, OpenedStore, Record, StoreContents};
use health::StoreHealth;
use memory::StoreState;
use object::Draft;
use reserve::Reserve;
use sequencer::{PreparedChange, ReplySender, Sequencer, WriteRequest};
use watchdog::Watchdog;
use watermark::Watermark;
use watermark_writer::WatermarkWriter;

pub use budget::{Allowance, OverBudget, StorageBudget, StorageCollector};
pub use file::OpenError;
pub use object::{Fields, Object};
pub use size::MAX_OBJECT_BYTES;

/// Capacity of the queue of transactions; further writers wait.
const QUEUE_CAPACITY: usize = 4096;

/// The key of an object. `storage` is [`crate::schema::resources::Resource::storage`]; the namespace of cluster-scoped objects
/// is empty.
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

/// Precondition of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Absent,
    Version(u64),
}

/// The operation of a change.
#[derive(Clone, Debug)]
pub enum Op {
    /// Writes a document; the store sets its resourceVersion.
    Put(Value),
    /// The same for a document with concurrent writers: if another change came first, the document is computed again
    /// from the newest one. Affects only this key, not the rest of the transaction.
    Rebase(Value, Rebase),
    Delete,
}

/// Computes a change again from the newest document; `None` if the whole transaction must be repeated.
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
    /// `Expect::Version` did not hold: the object has changed, or is gone (`None`).
    #[error("it has changed")]
    Conflict(Key, Option<Arc<Object>>),
    /// The new document is too large, with its approximate size. Nothing of the transaction was written.
    #[error("etcdserver: request is too large")]
    TooLarge(usize),
    /// The new documents do not fit into a storage budget. Nothing of the transaction was written.
    #[error("{0}")]
    OverBudget(OverBudget),
    /// The file cannot be written. Nothing of the transaction was written.
    #[error("the store cannot be written: {0}")]
    Unavailable(String),
    /// The disk failed to sync: whether the transaction was written is unknown until a restart.
    #[error("the outcome of the write is unknown: {0}")]
    OutcomeUnknown(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Added,
    Modified,
    Deleted,
}

/// One change, as watches deliver it.
#[derive(Clone, Debug)]
pub struct Event {
    pub version: u64,
    pub kind: EventKind,
    /// The new state; for `Deleted` the last state with the version of the deletion.
    pub object: Arc<Object>,
    pub previous: Option<Arc<Object>>,
}

/// The requested version is older than the history. `oldest` is the oldest version that can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooOld {
    pub oldest: u64,
}

/// Objects at one version, sorted by key (namespace, then name).
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub version: u64,
    pub objects: Vec<Arc<Object>>,
}

/// The start of a page: at an object, or after it. In a list of one namespace, `namespace` is that one.
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

    /// Whether an object lies at or after the start.
    fn covers(&self, namespace: &str, name: &str) -> bool {
        let (here, start) = ((namespace, name), (self.namespace.as_ref(), self.name.as_ref()));
        if self.is_after { here > start } else { here >= start }
    }
}

/// A page: objects of a collection at one version, in key order.
#[derive(Clone, Debug)]
pub struct ListPage {
    pub version: u64,
    pub objects: Vec<Arc<Object>>,
    /// Number of objects after these.
    pub remaining: usize,
}

/// When a write becomes durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Before it is acknowledged.
    #[default]
    Immediate,
    /// Soon after, or when the store is closed: for tests.
    Relaxed,
}

/// Options for opening a store.
pub struct Options {
    pub durability: Durability,
    pub clock: Arc<dyn Clock>,
    /// Fail if the folder has no store: other files show that it had one.
    pub must_exist: bool,
    /// Limits of the stored bytes per group of namespaces.
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

/// State shared by readers, watches and the sequencer.
struct Shared {
    state: RwLock<StoreState>,
    clock: Arc<dyn Clock>,
    health: StoreHealth,
    durations: CommitDurations,
    groups: AtomicU64,
    /// Notified after each group.
    changed: Notify,
}

impl Shared {
    fn get(&self, key: &Key) -> Option<Arc<Object>> {
        self.state.read().get(&key.storage, &key.namespace, &key.name).cloned()
    }
}

/// The store of one cluster. See the module.
pub struct Store {
    shared: Arc<Shared>,
    /// `None` only while the store is being dropped.
    queue: Option<mpsc::Sender<WriteRequest>>,
    sequencer: Option<JoinHandle<()>>,
    _watchdog: Option<Watchdog>,
    durable: bool,
}

impl Store {
    /// Opens the store in a data folder, or creates one. The folder is locked until the store is dropped.
    pub fn open(folder: &Path, options: Options) -> Result<Arc<Self>, OpenError> {
        let OpenedStore { disk, contents, watermark: mark, reserve } =
            Disk::open(folder, options.must_exist)?;
        let failed = |source| OpenError::Io { file: folder.join("store.redb"), source };
        Self::try_start(Some(disk), contents, Some(mark), Some(reserve), options).map_err(failed)
    }

    /// Opens a store without a file, for tests.
    pub fn in_memory() -> Arc<Self> {
        Self::in_memory_with(Options::default())
    }

    /// The same with the given options, for instance another clock.
    pub fn in_memory_with(options: Options) -> Arc<Self> {
        Self::start(None, StoreContents::default(), options)
    }

    fn start(disk: Option<Disk>, contents: StoreContents, options: Options) -> Arc<Self> {
        Self::try_start(disk, contents, None, None, options).expect("a process can start a thread")
    }

    fn try_start(
        disk: Option<Disk>,
        contents: StoreContents,
        mark: Option<Watermark>,
        reserve: Option<Reserve>,
        options: Options,
    ) -> std::io::Result<Arc<Self>> {
        let shared = Arc::new(Shared {
            state: RwLock::new(StoreState::from_contents(contents, options.budget)),
            clock: options.clock,
            health: StoreHealth::new(reserve),
            durations: CommitDurations::default(),
            groups: AtomicU64::new(0),
            changed: Notify::new(),
        });
        let (sender, queue) = mpsc::channel(QUEUE_CAPACITY);
        let durable = disk.is_some();
        let identity = disk.as_ref().and_then(Disk::identity);
        let watchdog =
            mark.is_some().then(|| Watchdog::start(identity.clone(), shared.clone())).transpose()?;
        let marker = mark.map(|mark| WatermarkWriter::start(mark, shared.clone())).transpose()?;
        let sequencer =
            Sequencer::new(shared.clone(), disk, identity, marker, options.durability, queue, Instant::now());
        let thread = std::thread::Builder::new().name("store".to_owned());
        let sequencer = thread.spawn(move || sequencer.run())?;
        let (queue, sequencer) = (Some(sender), Some(sequencer));
        Ok(Arc::new(Self { shared, queue, sequencer, _watchdog: watchdog, durable }))
    }

    /// Returns the newest version.
    pub fn version(&self) -> u64 {
        self.shared.state.read().version
    }

    /// Returns the version of the last change in `storage`; 0 if there was none since the store was opened.
    pub fn storage_version(&self, storage: &str) -> u64 {
        self.shared.state.read().storage_version(storage)
    }

    /// Whether writes of all kinds are accepted, judged by the last one.
    pub fn is_writable(&self) -> bool {
        self.problem().is_none()
    }

    /// Returns why writes, or all writes except deletions, are rejected.
    pub fn problem(&self) -> Option<String> {
        self.shared.problem()
    }

    /// Lets every write use the disk space reserve while a server starts, so that it starts on a full disk. Otherwise
    /// the reserve is for removals only.
    pub fn set_starting(&self, starting: bool) {
        self.shared.set_starting(starting);
    }

    /// Resolves when the store has failed permanently: the disk did not sync, and pages may be lost. The process must exit;
    /// a new one reads the real content of the disk.
    pub fn wait_until_failed(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut failed = self.shared.subscribe_failed();
        async move {
            if failed.wait_for(|failed| *failed).await.is_err() {
                // The store was closed before it failed.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Returns the stored bytes of a group of namespaces, if there is a budget.
    pub fn storage_used(&self, group: &str) -> Option<u64> {
        Some(self.shared.state.read().usage()?.group_bytes(group))
    }

    /// Returns the metrics of the store: storage budgets and durations of commits.
    pub fn storage_collector(&self) -> StorageCollector {
        StorageCollector(self.shared.clone())
    }

    /// Returns how many groups of transactions have been written since the store was opened.
    pub fn groups(&self) -> u64 {
        self.shared.groups.load(Ordering::Relaxed)
    }

    pub fn get(&self, storage: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.shared.state.read().get(storage, namespace, name).cloned()
    }

    /// Returns the newest state of one namespace or of all.
    pub fn list(&self, storage: &str, namespace: Option<&str>) -> Snapshot {
        self.shared.state.read().list(storage, namespace)
    }

    /// Returns the newest objects for which `predicate` holds. `predicate` runs under the store's lock and should read metadata only.
    pub fn select(
        &self,
        storage: &str,
        namespace: Option<&str>,
        predicate: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        self.shared.state.read().select(storage, namespace, predicate)
    }

    /// Returns the state at an earlier version, from history. A version in the future returns the newest.
    pub fn list_at(&self, storage: &str, namespace: Option<&str>, version: u64) -> Result<Snapshot, TooOld> {
        let ListPage { version, objects, .. } = self.page(storage, namespace, Some(version), None, None)?;
        Ok(Snapshot { version, objects })
    }

    /// Returns a page of the state at `version`, or of the newest: from `start` on, at most `limit` objects. Under the store's
    /// lock only the objects of the page and the events after `version` are copied.
    pub fn page(
        &self,
        storage: &str,
        namespace: Option<&str>,
        version: Option<u64>,
        start: Option<&ListStart>,
        limit: Option<usize>,
    ) -> Result<ListPage, TooOld> {
        let read = self.shared.state.read().page(storage, namespace, version, start, limit)?;
        let mut part = undo(read);
        if let Some(limit) = limit
            && part.objects.len() > limit
        {
            part.remaining += part.objects.len() - limit;
            part.objects.truncate(limit);
        }
        Ok(part)
    }

    /// Returns the objects that name `owner` in their owner references, with the storage of each.
    pub fn dependents(&self, owner: &str) -> Vec<(Arc<str>, Arc<Object>)> {
        self.shared.state.read().dependents(owner)
    }

    /// Returns the objects of a namespace without a controller; indexed only for kinds that controllers adopt, such as pods.
    pub fn unmanaged(&self, storage: &str, namespace: &str) -> Vec<Arc<Object>> {
        self.shared.state.read().unmanaged(storage, namespace)
    }

    /// Returns the storages that hold an object, sorted.
    pub fn storages(&self) -> Vec<Arc<str>> {
        self.shared.state.read().storages()
    }

    /// Applies all changes or none, each with its own version. Returns the objects as stored
    /// (for a delete: the last state with the version of the deletion).
    ///
    /// Not cancel-safe: the changes of a dropped future may still be committed.
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Arc<Object>>, CommitError> {
        self.commit_with_guard(changes, ()).await
    }

    /// The same, and drops `held` when the changes are visible or have failed, even if this future is dropped before:
    /// a queued change is applied regardless.
    pub async fn commit_with_guard(
        &self,
        changes: Vec<Change>,
        held: impl Send + 'static,
    ) -> Result<Vec<Arc<Object>>, CommitError> {
        self.commit_with_allowance(changes, Allowance::Unlimited, held).await
    }

    /// The same for changes that storage budgets may refuse.
    pub async fn commit_with_allowance(
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
        self.send_request(|answer| WriteRequest::Commit { changes, allowance, held, answer }).await
    }

    /// Returns metadata of the store itself.
    pub fn get_meta(&self, key: &str) -> Option<Box<[u8]>> {
        self.shared.state.read().meta.get(key).cloned()
    }

    /// Stores metadata; the keys `format` and `version` are reserved.
    pub async fn put_meta(&self, key: &str, value: &[u8]) -> Result<(), CommitError> {
        let (key, value) = (key.to_owned(), value.into());
        self.send_request(|answer| WriteRequest::Meta { key, value, answer }).await
    }

    /// Watches the changes of one storage after the version `after`, which may be in the future.
    pub fn watch(self: &Arc<Self>, storage: &str, after: u64) -> Result<Watch, TooOld> {
        let changed = self.changed(storage);
        let oldest = self.shared.state.read().oldest(storage);
        if after < oldest {
            return Err(TooOld { oldest });
        }
        Ok(Watch { shared: self.shared.clone(), storage: storage.into(), after, changed })
    }

    /// Returns the newest state and a watch that continues it without a gap.
    pub fn list_and_watch(self: &Arc<Self>, storage: &str, namespace: Option<&str>) -> (Snapshot, Watch) {
        let changed = self.changed(storage);
        let snapshot = self.list(storage, namespace);
        let after = snapshot.version;
        (snapshot, Watch { shared: self.shared.clone(), storage: storage.into(), after, changed })
    }

    /// Watches all storages from now on.
    pub fn watch_all(&self) -> StoreWatch {
        StoreWatch { shared: self.shared.clone(), after: self.version() }
    }

    /// Returns the number of objects.
    pub fn count(&self, storage: &str, namespace: Option<&str>) -> usize {
        self.shared.state.read().count(storage, namespace)
    }

    /// Begins the history of a storage whose kind is served from now on: watches from earlier versions are refused.
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

    /// Drops the history: every watch that has not caught up and every list at an exact version gets "too old".
    pub fn compact(&self) {
        self.shared.state.write().clear_history();
    }

    /// Does the expensive work of a change on the caller's task.
    fn prepare(&self, change: Change) -> PreparedChange {
        let Change { key, expect, op } = change;
        let (value, rebase) = match op {
            Op::Delete => (None, None),
            Op::Put(value) => (Some(value), None),
            Op::Rebase(value, rebase) => (Some(value), Some(rebase)),
        };
        let put = value.map(|value| {
            let draft = Draft::new(value);
            let record = self.durable.then(|| Record::encode(&draft.text, draft.version_offset));
            (draft, record)
        });
        PreparedChange { key, expect, put, rebase }
    }

    async fn send_request<T>(
        &self,
        request: impl FnOnce(ReplySender<T>) -> WriteRequest,
    ) -> Result<T, CommitError> {
        let closed = || CommitError::Unavailable("the store is closed".to_owned());
        let (answer, told) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(closed)?;
        queue.send(request(answer)).await.map_err(|_| closed())?;
        told.await.map_err(|_| CommitError::OutcomeUnknown("the store did not answer".to_owned()))?
    }
}

/// The object at the requested version, and whether it exists now.
type PriorState = (Option<Arc<Object>>, bool);

/// Undoes events to get a page at an earlier version.
fn undo(read: memory::UndoablePage) -> ListPage {
    let memory::UndoablePage { version, mut objects, is_complete, remaining: beyond, events_to_undo: undone } =
        read;
    if undone.is_empty() {
        return ListPage { version, objects, remaining: beyond };
    }
    // For each changed object: its state at `version`, and whether it exists now.
    let mut changed = BTreeMap::<(Box<str>, Box<str>), PriorState>::new();
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
        // The object lies after this page, whose remainder was counted for the newest state.
        remaining = remaining + usize::from(then.is_some()) - usize::from(exists);
    }
    objects.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
    ListPage { version, objects, remaining }
}

impl Drop for Store {
    /// Writes the queued transactions, then unlocks the folder.
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(sequencer) = self.sequencer.take() {
            let _ = sequencer.join();
        }
    }
}

/// A position in the history of one storage. It holds no events, so an idle watch costs nothing,
/// and a watch that falls behind the history ends.
pub struct Watch {
    shared: Arc<Shared>,
    storage: Arc<str>,
    after: u64,
    changed: Arc<Notify>,
}

impl Watch {
    /// Returns the next changes, at least one; waits for them. Fails when the position has fallen out of the history.
    pub async fn next(&mut self) -> Result<Vec<Event>, TooOld> {
        loop {
            // Created before the read, so that a change in between wakes the watch.
            let changed = self.changed.notified();
            let events = self.shared.state.read().events(&self.storage, self.after)?;
            if let Some(last) = events.last() {
                self.after = last.version;
                return Ok(events);
            }
            changed.await;
        }
    }
    /// Returns the version up to which this watch has delivered everything: the version of a bookmark.
    pub fn position(&self) -> u64 {
        let state = self.shared.state.read();
        match state.events(&self.storage, self.after) {
            Ok(events) if events.is_empty() => state.version.max(self.after),
            _ => self.after,
        }
    }
}

/// A [`Watch`] over all storages.
pub struct StoreWatch {
    shared: Arc<Shared>,
    after: u64,
}

impl StoreWatch {
    /// Returns the version up to which this watch has delivered everything.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// Returns the next changes with the storage of each, at least one; waits for them. Cancel-safe.
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
