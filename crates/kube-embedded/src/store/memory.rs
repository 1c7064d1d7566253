//! The watch cache: the newest objects, an index of owners, and the recent history.
//!
//! One [`StoreState`] behind one lock. The sequencer updates it after a group is durable, a whole group at a time, so everything
//! read under one lock belongs to one version. Readers clone only `Arc`s.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;

use super::budget::{StorageBudget, StorageUsage};
use super::file::StoreContents;
use super::{Event, EventKind, Key, ListStart, Object, Snapshot, TooOld};

/// The history of a storage covers at least this many changes and this long,
const MIN_HISTORY_EVENTS: usize = 1_000;
const MIN_HISTORY_AGE: SignedDuration = SignedDuration::from_mins(5);
/// but all histories together are limited to this many bytes.
const MAX_HISTORY_BYTES: usize = 64 << 20;
/// Overhead of an event in the history, in addition to the bytes of its objects.
const EVENT_OVERHEAD: usize = 512;
/// Storages whose objects controllers adopt; their objects without a controller are indexed.
const ADOPTABLE: [&str; 3] = ["pods", "replicasets.apps", "controllerrevisions.apps"];
/// A watch reads at most this many events at a time, to keep the lock short,
const MAX_EVENTS_PER_READ: usize = 1_000;
/// and at most this many bytes (but always one event): they stay in memory until the watcher has read them.
const MAX_BYTES_PER_READ: usize = 1 << 20;

#[derive(Default)]
pub(super) struct StoreState {
    pub version: u64,
    pub meta: BTreeMap<String, Box<[u8]>>,
    storages: HashMap<Arc<str>, Storage>,
    /// Maps an owner uid to the objects that name it.
    dependents: HashMap<Box<str>, BTreeSet<Key>>,
    /// Where the history of a new storage begins.
    floor: u64,
    history_bytes: usize,
    /// `Some` if there is a storage budget.
    usage: Option<StorageUsage>,
}

#[derive(Default)]
struct Storage {
    /// By namespace, then by name.
    objects: BTreeMap<Box<str>, BTreeMap<Box<str>, Arc<Object>>>,
    /// Namespace and name of [`ADOPTABLE`] objects without a controller.
    unmanaged: BTreeSet<(Box<str>, Box<str>)>,
    history: VecDeque<HistoryEntry>,
    /// Whether controllers store a parsed view with these objects.
    has_views: bool,
    /// The oldest version that can be requested: all later changes are in `history`.
    floor: u64,
    /// The version of the newest change that was dropped from the history. It can be older than `floor`:
    /// a watch that has read this change has missed nothing.
    newest_dropped: u64,
    /// The version of the newest change since the store was opened.
    newest: u64,
    changed: Arc<Notify>,
}

/// An event of the history.
struct HistoryEntry {
    at: Timestamp,
    /// The bytes charged when it was published; views that are parsed later do not change it.
    cost: usize,
    event: Event,
}

/// A part of a collection as read under the lock: the newest objects, and the events to undo to get to
/// the requested version. [`super::Store::page`] undoes them outside the lock.
pub(super) struct UndoablePage {
    pub version: u64,
    pub objects: Vec<Arc<Object>>,
    /// Whether `objects` reaches the end of the collection.
    pub is_complete: bool,
    /// Number of newest objects after `objects`.
    pub remaining: usize,
    /// Events after the requested version, oldest first.
    pub events_to_undo: Vec<Event>,
}

impl StoreState {
    pub fn from_contents(contents: StoreContents, budget: Option<StorageBudget>) -> Self {
        let StoreContents { version, objects, meta, .. } = contents;
        let usage = budget.map(StorageUsage::new);
        let mut state = Self { version, meta, floor: version, usage, ..Self::default() };
        for (key, object) in objects {
            if let Some(usage) = &mut state.usage {
                usage.record(&key, None, Some(&object));
            }
            state.put(&key, &Arc::new(object));
        }
        state
    }

    pub fn usage(&self) -> Option<&StorageUsage> {
        self.usage.as_ref()
    }

    pub fn get(&self, storage: &str, namespace: &str, name: &str) -> Option<&Arc<Object>> {
        self.storages.get(storage)?.objects.get(namespace)?.get(name)
    }

    pub fn list(&self, storage: &str, namespace: Option<&str>) -> Snapshot {
        let objects = self.storages.get(storage).map(|s| s.objects(namespace).cloned().collect());
        Snapshot { version: self.version, objects: objects.unwrap_or_default() }
    }

    pub fn select(
        &self,
        storage: &str,
        namespace: Option<&str>,
        predicate: impl Fn(&Object) -> bool,
    ) -> Vec<Arc<Object>> {
        let objects = self.storages.get(storage).into_iter().flat_map(|s| s.objects(namespace));
        objects.filter(|object| predicate(object)).cloned().collect()
    }

    /// Returns objects from `start` on: at most `limit`, plus as many as undoing events may remove.
    pub fn page(
        &self,
        storage: &str,
        namespace: Option<&str>,
        version: Option<u64>,
        start: Option<&ListStart>,
        limit: Option<usize>,
    ) -> Result<UndoablePage, TooOld> {
        let oldest = self.oldest(storage);
        if version.is_some_and(|version| version < oldest) {
            return Err(TooOld { oldest });
        }
        let version = version.unwrap_or(self.version).min(self.version);
        let mut part = UndoablePage {
            version,
            objects: Vec::new(),
            is_complete: true,
            remaining: 0,
            events_to_undo: Vec::new(),
        };
        let Some(found) = self.storages.get(storage) else { return Ok(part) };
        let is_asked_for = |event: &&Event| {
            let object = &event.object;
            namespace.is_none_or(|ns| ns == object.namespace.as_ref())
                && start.is_none_or(|start| start.covers(&object.namespace, &object.name))
        };
        part.events_to_undo = found.events_after(version).filter(is_asked_for).cloned().collect();
        let objects = found.objects_from(namespace, start).cloned();
        let Some(limit) = limit else {
            part.objects = objects.collect();
            return Ok(part);
        };
        let most = limit.saturating_add(1).saturating_add(part.events_to_undo.len());
        part.objects = objects.take(most).collect();
        if part.objects.len() == most
            && let Some(last) = part.objects.last()
        {
            part.remaining = found.count_after(namespace, last);
            part.is_complete = part.remaining == 0;
        }
        Ok(part)
    }

    /// Returns the changes of one storage after `version`, oldest first, for a watch that has read everything up to it.
    pub fn events(&self, storage: &str, version: u64) -> Result<Vec<Event>, TooOld> {
        let Some(found) = self.storages.get(storage) else { return Ok(Vec::new()) };
        if version < found.newest_dropped {
            return Err(TooOld { oldest: found.floor });
        }
        let mut bytes = 0;
        let fits = |event: &&Event| {
            let is_first = bytes == 0;
            bytes += event.object.bytes.len() + event.previous.as_ref().map_or(0, |p| p.bytes.len());
            is_first || bytes <= MAX_BYTES_PER_READ
        };
        Ok(found.events_after(version).take(MAX_EVENTS_PER_READ).take_while(fits).cloned().collect())
    }

    /// Returns the changes of all storages after `version`, in order.
    pub fn all_events(&self, version: u64) -> Result<Vec<(Arc<str>, Event)>, TooOld> {
        let mut events = Vec::new();
        for (name, storage) in &self.storages {
            if version < storage.newest_dropped {
                return Err(TooOld { oldest: storage.floor });
            }
            if storage.history.back().is_some_and(|newest| newest.event.version > version) {
                events.extend(storage.events_after(version).map(|event| (name.clone(), event.clone())));
            }
        }
        events.sort_unstable_by_key(|(_, event)| event.version);
        Ok(events)
    }

    pub fn count(&self, storage: &str, namespace: Option<&str>) -> usize {
        let Some(found) = self.storages.get(storage) else { return 0 };
        match namespace {
            Some(namespace) => found.objects.get(namespace).map_or(0, BTreeMap::len),
            None => found.objects.values().map(BTreeMap::len).sum(),
        }
    }

    pub fn storage_version(&self, storage: &str) -> u64 {
        self.storages.get(storage).map_or(0, |found| found.newest)
    }

    /// Returns the oldest version that can be requested.
    pub fn oldest(&self, storage: &str) -> u64 {
        self.storages.get(storage).map_or(self.floor, |found| found.floor)
    }

    pub fn dependents(&self, owner: &str) -> Vec<(Arc<str>, Arc<Object>)> {
        let keys = self.dependents.get(owner).into_iter().flatten();
        keys.filter_map(|key| {
            Some((key.storage.clone(), self.get(&key.storage, &key.namespace, &key.name)?.clone()))
        })
        .collect()
    }

    /// Returns the objects of an [`ADOPTABLE`] storage that have no controller.
    pub fn unmanaged(&self, storage: &str, namespace: &str) -> Vec<Arc<Object>> {
        let Some(found) = self.storages.get(storage) else { return Vec::new() };
        let first = (namespace.into(), Box::default());
        let names = found.unmanaged.range(first..).take_while(|(at, _)| at.as_ref() == namespace);
        names.filter_map(|(_, name)| self.get(storage, namespace, name).cloned()).collect()
    }

    /// Returns the storages that hold an object, sorted.
    pub fn storages(&self) -> Vec<Arc<str>> {
        let filled = self.storages.iter().filter(|(_, storage)| !storage.objects.is_empty());
        let mut names: Vec<_> = filled.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Notified after each change of `storage`; `None` for a storage that has never held anything
    /// and has not been announced by [`Self::expect_storage`].
    pub fn changed(&self, storage: &str) -> Option<Arc<Notify>> {
        Some(self.storages.get(storage)?.changed.clone())
    }

    pub fn expect_storage(&mut self, storage: &str) {
        self.storage(storage);
    }

    /// Begins the history of a storage whose kind is served from now on.
    pub fn begin_storage(&mut self, storage: &str) {
        if !self.storages.contains_key(storage) {
            let begun = self.version;
            self.storage(storage).floor = begun;
        }
    }

    /// Applies one durable change.
    pub fn publish(&mut self, key: &Key, event: Event, now: Timestamp) {
        self.version = event.version;
        if let Some(usage) = &mut self.usage {
            let is_stored = event.kind != EventKind::Deleted;
            usage.record(key, event.previous.as_deref(), is_stored.then_some(event.object.as_ref()));
        }
        match event.kind {
            EventKind::Added | EventKind::Modified => self.put(key, &event.object),
            EventKind::Deleted => self.remove(key),
        }
        let storage = self.storage(&key.storage);
        storage.newest = event.version;
        storage.has_views |= event.previous.as_ref().is_some_and(|previous| previous.has_view());
        let cost = storage.cost(&event);
        storage.history.push_back(HistoryEntry { at: now, cost, event });
        let mut dropped = 0;
        while storage.history.len() > MIN_HISTORY_EVENTS
            && storage.history.front().is_some_and(|oldest| now.duration_since(oldest.at) > MIN_HISTORY_AGE)
        {
            dropped += storage.drop_oldest();
        }
        self.history_bytes = self.history_bytes + cost - dropped;
        while self.history_bytes > MAX_HISTORY_BYTES {
            let first = |s: &Storage| s.history.front().map(|oldest| oldest.event.version);
            let oldest = self.storages.values_mut().filter(|s| first(s).is_some()).min_by_key(|s| first(s));
            let Some(oldest) = oldest else { break };
            self.history_bytes -= oldest.drop_oldest();
        }
    }

    /// Drops all history; a watch that has not caught up ends.
    pub fn clear_history(&mut self) {
        let version = self.version;
        self.floor = version;
        for storage in self.storages.values_mut() {
            while !storage.history.is_empty() {
                self.history_bytes -= storage.drop_oldest();
            }
            storage.floor = version;
            storage.changed.notify_waiters();
        }
    }

    fn storage(&mut self, name: &str) -> &mut Storage {
        if !self.storages.contains_key(name) {
            let floor = self.floor;
            self.storages.insert(name.into(), Storage { floor, ..Storage::default() });
        }
        self.storages.get_mut(name).expect("it was put there when it was missing")
    }

    fn put(&mut self, key: &Key, object: &Arc<Object>) {
        for owner in &object.owner_uids {
            self.dependents.entry(owner.clone()).or_default().insert(key.clone());
        }
        let storage = self.storage(&key.storage);
        if ADOPTABLE.contains(&key.storage.as_ref()) {
            let place = (key.namespace.clone(), key.name.clone());
            if object.controller_uid.is_some() {
                storage.unmanaged.remove(&place);
            } else {
                storage.unmanaged.insert(place);
            }
        }
        let namespaces = &mut storage.objects;
        let previous = match namespaces.get_mut(&key.namespace) {
            Some(names) => names.insert(key.name.clone(), object.clone()),
            None => {
                namespaces.entry(key.namespace.clone()).or_default().insert(key.name.clone(), object.clone())
            }
        };
        for lost in previous.iter().flat_map(|p| &p.owner_uids).filter(|o| !object.owner_uids.contains(o)) {
            self.unlink(lost, key);
        }
    }

    fn remove(&mut self, key: &Key) {
        let storage = self.storage(&key.storage);
        if ADOPTABLE.contains(&key.storage.as_ref()) {
            storage.unmanaged.remove(&(key.namespace.clone(), key.name.clone()));
        }
        let namespaces = &mut storage.objects;
        let Some(names) = namespaces.get_mut(&key.namespace) else { return };
        let gone = names.remove(&key.name);
        if names.is_empty() {
            namespaces.remove(&key.namespace);
        }
        for owner in gone.iter().flat_map(|object| &object.owner_uids) {
            self.unlink(owner, key);
        }
    }

    fn unlink(&mut self, owner: &str, dependent: &Key) {
        if let Some(dependents) = self.dependents.get_mut(owner) {
            dependents.remove(dependent);
            if dependents.is_empty() {
                self.dependents.remove(owner);
            }
        }
    }
}

impl Storage {
    fn objects(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Object>> {
        let one = namespace.and_then(|name| self.objects.get(name));
        let all = self.objects.values().filter(move |_| namespace.is_none());
        one.into_iter().chain(all).flat_map(BTreeMap::values)
    }

    fn objects_from<'a>(
        &'a self,
        namespace: Option<&str>,
        start: Option<&'a ListStart>,
    ) -> impl Iterator<Item = &'a Arc<Object>> {
        let (first, last) = match (namespace, start) {
            (Some(namespace), _) => (Bound::Included(namespace), Bound::Included(namespace)),
            (None, Some(start)) => (Bound::Included(start.namespace.as_ref()), Bound::Unbounded),
            (None, None) => (Bound::Unbounded, Bound::Unbounded),
        };
        self.objects.range::<str, _>((first, last)).flat_map(move |(namespace, names)| {
            let first = match start {
                Some(start) if start.namespace == *namespace && start.is_after => {
                    Bound::Excluded(start.name.as_ref())
                }
                Some(start) if start.namespace == *namespace => Bound::Included(start.name.as_ref()),
                _ => Bound::Unbounded,
            };
            names.range::<str, _>((first, Bound::Unbounded)).map(|(_, object)| object)
        })
    }

    fn count_after(&self, namespace: Option<&str>, last: &Object) -> usize {
        let behind = |bound| (Bound::Excluded(bound), Bound::Unbounded);
        let own = self.objects.get(&last.namespace);
        let own = own.map_or(0, |names| names.range::<str, _>(behind(last.name.as_ref())).count());
        if namespace.is_some() {
            return own;
        }
        let others = self.objects.range::<str, _>(behind(last.namespace.as_ref()));
        own + others.map(|(_, names)| names.len()).sum::<usize>()
    }

    /// Returns the events after `version`.
    fn events_after(&self, version: u64) -> impl DoubleEndedIterator<Item = &Event> + ExactSizeIterator {
        let from = self.history.partition_point(|remembered| remembered.event.version <= version);
        self.history.range(from..).map(|remembered| &remembered.event)
    }

    /// Returns the bytes that an event holds in memory: both documents, and their parsed views where controllers make them.
    fn cost(&self, event: &Event) -> usize {
        let bytes = event.object.bytes.len() + event.previous.as_ref().map_or(0, |p| p.bytes.len());
        EVENT_OVERHEAD + if self.has_views { 2 * bytes } else { bytes }
    }

    /// Drops the oldest event and returns its cost.
    fn drop_oldest(&mut self) -> usize {
        let Some(HistoryEntry { cost, event, .. }) = self.history.pop_front() else { return 0 };
        self.floor = event.version;
        self.newest_dropped = event.version;
        cost
    }
}
