//! Cached objects and subscriber queues. Pure: no I/O, no clock.
//!
//! A subscriber queue has at most one pending event per object, at the position of its oldest event. The pending event leads from the
//! state that the subscriber knows to the current state. An object that was created and deleted in between yields no event; one
//! that was replaced under the same name yields a deletion first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use kube::Resource;

use super::Change;

/// `name/namespace`, so that a prefix scan finds an object by name alone. Kubernetes names contain no slash.
type Key = Arc<str>;

pub(super) struct Store<P> {
    objects: BTreeMap<Key, Known<P>>,
    subscribers: BTreeMap<u64, Waiting<P>>,
    next: u64,
    ended: bool,
}

/// An incoming object: projection, UID and version.
pub(super) struct Heard<P> {
    key: Key,
    uid: Option<String>,
    pub(super) version: Option<String>,
    object: P,
}

impl<P> Heard<P> {
    pub(super) fn of<K: Resource>(object: K, keep: impl Fn(K) -> P) -> Self {
        let meta = object.meta();
        Self {
            key: key(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default()),
            uid: meta.uid.clone(),
            version: meta.resource_version.clone(),
            object: keep(object),
        }
    }
}

/// An incoming object compared with the cached one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// No object of this name is cached.
    Unknown,
    /// It is newer than the cached object.
    New,
    /// It is not newer.
    Old,
}

/// A cached object. The UID is stored as a 64-bit hash, which is enough to tell objects apart; the version as its number, or as a hash
/// if it is not a number.
struct Known<P> {
    uid: u64,
    version: u64,
    object: Arc<P>,
}

/// Queue of one subscriber.
struct Waiting<P> {
    /// The one object subscribed to; `None` for all.
    only: Option<Key>,
    places: BTreeMap<Key, u64>,
    entries: BTreeMap<u64, (Key, Pending<P>)>,
    next: u64,
    waker: Option<Waker>,
}

/// Pending event of one object.
struct Pending<P> {
    /// Whether the subscriber was told of an object under this name.
    known: bool,
    /// Delivered first.
    deleted: Option<Arc<P>>,
    /// Delivered second.
    applied: Option<Arc<P>>,
}

impl<P> Default for Store<P> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), subscribers: BTreeMap::new(), next: 0, ended: false }
    }
}

impl<P> Store<P> {
    /// Inserts or updates an object, and notifies subscribers if its UID or version changed.
    pub(super) fn apply(&mut self, heard: Heard<P>) {
        let Heard { key, uid, version, object } = heard;
        let now = Known {
            uid: print(uid.as_deref()),
            version: place(version.as_deref()),
            object: Arc::new(object),
        };
        let object = now.object.clone();
        let Some(before) = self.objects.insert(key.clone(), now) else {
            return self.tell(&key, false, &Change::Applied(object));
        };
        let now = &self.objects[&key];
        if before.uid != now.uid {
            self.tell(&key, true, &Change::Deleted(before.object));
            self.tell(&key, false, &Change::Applied(object));
        } else if before.version != now.version {
            self.tell(&key, true, &Change::Applied(object));
        }
    }

    /// Compares by version, which is meaningful only for versions that are numbers.
    pub(super) fn is_news(&self, heard: &Heard<P>) -> News {
        match self.objects.get(&heard.key) {
            None => News::Unknown,
            Some(known) if known.version < place(heard.version.as_deref()) => News::New,
            Some(_) => News::Old,
        }
    }

    /// Whether the cached object of this name is newer, for versions that are numbers.
    pub(super) fn is_newer(&self, namespace: Option<&str>, name: &str, version: Option<&str>) -> bool {
        let known = self.objects.get(&*key(namespace.unwrap_or_default(), name));
        known.is_some_and(|known| known.version > place(version))
    }

    /// Removes an object and notifies subscribers.
    pub(super) fn remove(&mut self, namespace: Option<&str>, name: &str) {
        let key = key(namespace.unwrap_or_default(), name);
        if let Some(before) = self.objects.remove(&*key) {
            self.tell(&key, true, &Change::Deleted(before.object));
        }
    }

    /// Keys of all cached objects, from which a list removes those it contains.
    pub(super) fn names(&self) -> BTreeSet<Key> {
        self.objects.keys().cloned().collect()
    }

    /// Applies an object of a list and removes its key from `unheard`.
    pub(super) fn hear(&mut self, heard: Heard<P>, unheard: &mut BTreeSet<Key>) {
        unheard.remove(&heard.key);
        self.apply(heard);
    }

    /// Removes the objects that a complete list did not contain.
    pub(super) fn forget(&mut self, unheard: BTreeSet<Key>) {
        for key in unheard {
            if let Some(before) = self.objects.remove(&key) {
                self.tell(&key, true, &Change::Deleted(before.object));
            }
        }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.objects.get(&*key(namespace, name)).map(|known| known.object.clone())
    }

    pub(super) fn named(&self, name: &str) -> Option<Arc<P>> {
        let first = key("", name);
        let (found, known) = self.objects.range(first.clone()..).next()?;
        found.starts_with(&*first).then(|| known.object.clone())
    }

    pub(super) fn all(&self) -> Vec<Arc<P>> {
        self.objects.values().map(|known| known.object.clone()).collect()
    }

    /// Adds a subscriber to all objects, with the current objects as pending events.
    pub(super) fn subscribe(&mut self) -> u64 {
        let mut waiting = Waiting::new(None);
        for (key, known) in &self.objects {
            waiting.add(key, false, &Change::Applied(known.object.clone()));
        }
        self.enter(waiting)
    }

    /// Adds a subscriber to one object.
    pub(super) fn subscribe_to(&mut self, namespace: &str, name: &str) -> u64 {
        let key = key(namespace, name);
        let mut waiting = Waiting::new(Some(key.clone()));
        if let Some(known) = self.objects.get(&key) {
            waiting.add(&key, false, &Change::Applied(known.object.clone()));
        }
        self.enter(waiting)
    }

    fn enter(&mut self, waiting: Waiting<P>) -> u64 {
        self.next += 1;
        self.subscribers.insert(self.next, waiting);
        self.next
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        self.subscribers.remove(&id);
    }

    /// The next event of a subscriber.
    pub(super) fn poll(&mut self, id: u64, context: &Context<'_>) -> Poll<Option<Change<P>>> {
        let Some(waiting) = self.subscribers.get_mut(&id) else { return Poll::Ready(None) };
        match waiting.take() {
            Some(change) => Poll::Ready(Some(change)),
            None if self.ended => Poll::Ready(None),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends all subscriptions once their queues are empty.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.subscribers.values_mut().for_each(Waiting::wake);
    }

    fn tell(&mut self, key: &Key, known: bool, change: &Change<P>) {
        let concerned = |waiting: &&mut Waiting<P>| waiting.only.as_ref().is_none_or(|only| only == key);
        for waiting in self.subscribers.values_mut().filter(concerned) {
            waiting.add(key, known, change);
            waiting.wake();
        }
    }
}

impl<P> Waiting<P> {
    fn new(only: Option<Key>) -> Self {
        Self { only, places: BTreeMap::new(), entries: BTreeMap::new(), next: 0, waker: None }
    }

    /// `known`: an object existed under this name before the change. A subscriber without a pending event has been told of it.
    fn add(&mut self, key: &Key, known: bool, change: &Change<P>) {
        let place = match self.places.entry(key.clone()) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                self.next += 1;
                let pending = Pending { known, deleted: None, applied: None };
                self.entries.insert(self.next, (key.clone(), pending));
                *place.insert(self.next)
            }
        };
        let (_, pending) = self.entries.get_mut(&place).expect("every place has its entry");
        match change {
            Change::Applied(object) => pending.applied = Some(object.clone()),
            Change::Deleted(object) => {
                pending.applied = None;
                if pending.known && pending.deleted.is_none() {
                    pending.deleted = Some(object.clone());
                }
            }
        }
        if pending.deleted.is_none() && pending.applied.is_none() {
            self.places.remove(key);
            self.entries.remove(&place);
        }
    }

    fn take(&mut self) -> Option<Change<P>> {
        let mut first = self.entries.first_entry()?;
        let (_, pending) = first.get_mut();
        if let Some(object) = pending.deleted.take() {
            pending.known = false;
            if pending.applied.is_none() {
                let (key, _) = first.remove();
                self.places.remove(&key);
            }
            return Some(Change::Deleted(object));
        }
        let (key, pending) = first.remove();
        self.places.remove(&key);
        pending.applied.map(Change::Applied)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The version as a number, or its hash.
fn place(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_else(|| print(version))
}

fn print(text: Option<&str>) -> u64 {
    // Keyed per process, so that nobody can construct a collision.
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(text)
}

fn key(namespace: &str, name: &str) -> Key {
    format!("{name}/{namespace}").into()
}

#[cfg(test)]
mod tests;
