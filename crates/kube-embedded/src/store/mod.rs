//! Where objects are kept, in which order they changed, and how one follows the changes.
//!
//! One sequence of versions for the whole server. A transaction of one or more changes is visible to
//! nobody before it is durable, and then all of it at once. Readers take `Arc`s and never wait for writers.

mod object;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Notify;

pub use object::{Fields, Object};

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
    Delete,
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
    /// The file cannot be written; nothing of the transaction happened.
    #[error("the store cannot be written: {0}")]
    Unavailable(String),
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

#[derive(Default)]
struct Inner {
    version: u64,
    buckets: HashMap<Arc<str>, Bucket>,
}

#[derive(Default)]
struct Bucket {
    objects: BTreeMap<(Box<str>, Box<str>), Arc<Object>>,
    ring: VecDeque<Event>,
}

/// PLACEHOLDER in memory; the real one has the same interface.
#[derive(Default)]
pub struct Store {
    inner: Mutex<Inner>,
    changed: Notify,
}

impl Store {
    /// A store without a file, for tests.
    pub fn in_memory() -> Arc<Self> {
        Arc::new(Self::default())
    }

    /// The newest version.
    pub fn version(&self) -> u64 {
        self.inner.lock().version
    }

    pub fn get(&self, storage: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let inner = self.inner.lock();
        inner.buckets.get(storage)?.objects.get(&(namespace.into(), name.into())).cloned()
    }

    /// The newest state, of one namespace or of all.
    pub fn list(&self, storage: &str, namespace: Option<&str>) -> Snapshot {
        let inner = self.inner.lock();
        let all = inner.buckets.get(storage).into_iter().flat_map(|b| b.objects.values());
        let objects =
            all.filter(|o| namespace.is_none_or(|ns| ns == o.namespace.as_ref())).cloned().collect();
        Snapshot { version: inner.version, objects }
    }

    /// The state at an earlier version, from history.
    pub fn list_at(&self, storage: &str, namespace: Option<&str>, version: u64) -> Result<Snapshot, TooOld> {
        let _ = (storage, namespace, version);
        Err(TooOld { oldest: self.version() })
    }

    /// All changes or none, each with a version of its own; answers the objects as they now stand
    /// (for a delete: the last state, carrying the deletion's version).
    pub async fn commit(&self, changes: Vec<Change>) -> Result<Vec<Arc<Object>>, CommitError> {
        let mut inner = self.inner.lock();
        for change in &changes {
            let at = (change.key.namespace.clone(), change.key.name.clone());
            let found = inner.buckets.get(&change.key.storage).and_then(|b| b.objects.get(&at)).cloned();
            match (change.expect, found) {
                (Expect::Absent, None) => {}
                (Expect::Absent, Some(_)) => return Err(CommitError::Exists(change.key.clone())),
                (Expect::Version(v), Some(found)) if found.version == v => {}
                (Expect::Version(_), found) => return Err(CommitError::Moved(change.key.clone(), found)),
            }
        }
        let mut done = Vec::new();
        for change in changes {
            inner.version += 1;
            let version = inner.version;
            let bucket = inner.buckets.entry(change.key.storage).or_default();
            let at = (change.key.namespace, change.key.name);
            let previous = bucket.objects.get(&at).cloned();
            let (kind, object) = match change.op {
                Op::Put(value) => {
                    let object = Arc::new(Object::new(value, version));
                    bucket.objects.insert(at, object.clone());
                    (if previous.is_some() { EventKind::Modified } else { EventKind::Added }, object)
                }
                Op::Delete => {
                    bucket.objects.remove(&at);
                    let last = previous.as_ref().expect("a delete expects a version");
                    (EventKind::Deleted, Arc::new(last.at_version(version)))
                }
            };
            bucket.ring.push_back(Event { version, kind, object: object.clone(), previous });
            done.push(object);
        }
        drop(inner);
        self.changed.notify_waiters();
        Ok(done)
    }

    /// Follows the changes of one storage after `after`.
    pub fn watch(self: &Arc<Self>, storage: &str, after: u64) -> Result<Watch, TooOld> {
        Ok(Watch { store: self.clone(), storage: storage.into(), after })
    }
}

/// A place in history from which one goes on.
pub struct Watch {
    store: Arc<Store>,
    storage: Arc<str>,
    after: u64,
}

impl Watch {
    /// The next changes, at least one; waits for them. Falling out of history ends the watch.
    pub async fn next(&mut self) -> Result<Vec<Event>, TooOld> {
        loop {
            let changed = self.store.changed.notified();
            let events: Vec<Event> = {
                let inner = self.store.inner.lock();
                let ring = inner.buckets.get(&self.storage).into_iter().flat_map(|b| b.ring.iter());
                ring.filter(|e| e.version > self.after).cloned().collect()
            };
            if let Some(last) = events.last() {
                self.after = last.version;
                return Ok(events);
            }
            changed.await;
        }
    }
}
