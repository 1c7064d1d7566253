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

use super::CacheEvent;

/// `name/namespace`, so that a prefix scan finds an object by name alone. Kubernetes names contain no slash.
type ObjectKey = Arc<str>;

pub(super) struct ObjectStore<P> {
    objects: BTreeMap<ObjectKey, CachedObject<P>>,
    subscribers: BTreeMap<u64, SubscriberQueue<P>>,
    last_id: u64,
    is_ended: bool,
}

/// An incoming object: projection, UID and version.
pub(super) struct IncomingObject<P> {
    key: ObjectKey,
    uid: Option<String>,
    pub(super) version: Option<String>,
    object: P,
}

impl<P> IncomingObject<P> {
    pub(super) fn new<K: Resource>(object: K, keep: impl Fn(K) -> P) -> Self {
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
pub(super) enum Freshness {
    /// No object of this name is cached.
    Unknown,
    /// It is newer than the cached object.
    Newer,
    /// It is not newer.
    Stale,
}

/// A cached object. The UID is stored as a 64-bit hash, which is enough to distinguish objects; the version as its number, or as a
/// hash if it is not a number.
struct CachedObject<P> {
    uid: u64,
    version: u64,
    object: Arc<P>,
}

/// Queue of one subscriber.
struct SubscriberQueue<P> {
    /// The one object subscribed to; `None` for all.
    filter: Option<ObjectKey>,
    positions: BTreeMap<ObjectKey, u64>,
    events: BTreeMap<u64, (ObjectKey, PendingEvent<P>)>,
    last_position: u64,
    waker: Option<Waker>,
}

/// Pending event of one object.
struct PendingEvent<P> {
    /// Whether an object under this name was delivered to the subscriber.
    was_delivered: bool,
    /// Delivered first.
    deleted: Option<Arc<P>>,
    /// Delivered second.
    applied: Option<Arc<P>>,
}

impl<P> Default for ObjectStore<P> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), subscribers: BTreeMap::new(), last_id: 0, is_ended: false }
    }
}

impl<P> ObjectStore<P> {
    /// Inserts or updates an object, and notifies subscribers if its UID or version changed.
    pub(super) fn apply(&mut self, incoming: IncomingObject<P>) {
        let IncomingObject { key, uid, version, object } = incoming;
        let now = CachedObject {
            uid: fingerprint(uid.as_deref()),
            version: version_number(version.as_deref()),
            object: Arc::new(object),
        };
        let object = now.object.clone();
        let Some(before) = self.objects.insert(key.clone(), now) else {
            return self.notify(&key, false, &CacheEvent::Applied(object));
        };
        let now = &self.objects[&key];
        if before.uid != now.uid {
            self.notify(&key, true, &CacheEvent::Deleted(before.object));
            self.notify(&key, false, &CacheEvent::Applied(object));
        } else if before.version != now.version {
            self.notify(&key, true, &CacheEvent::Applied(object));
        }
    }

    /// Compares by version, which is meaningful only for versions that are numbers.
    pub(super) fn freshness(&self, incoming: &IncomingObject<P>) -> Freshness {
        match self.objects.get(&incoming.key) {
            None => Freshness::Unknown,
            Some(known) if known.version < version_number(incoming.version.as_deref()) => Freshness::Newer,
            Some(_) => Freshness::Stale,
        }
    }

    /// Whether the cached object of this name is newer, for versions that are numbers.
    pub(super) fn is_newer(&self, namespace: Option<&str>, name: &str, version: Option<&str>) -> bool {
        let known = self.objects.get(&*key(namespace.unwrap_or_default(), name));
        known.is_some_and(|known| known.version > version_number(version))
    }

    /// Removes an object and notifies subscribers.
    pub(super) fn remove(&mut self, namespace: Option<&str>, name: &str) {
        let key = key(namespace.unwrap_or_default(), name);
        if let Some(before) = self.objects.remove(&*key) {
            self.notify(&key, true, &CacheEvent::Deleted(before.object));
        }
    }

    /// Keys of all cached objects, from which a list removes those it contains.
    pub(super) fn keys(&self) -> BTreeSet<ObjectKey> {
        self.objects.keys().cloned().collect()
    }

    /// Applies an object of a list and removes its key from `unheard`.
    pub(super) fn apply_listed(&mut self, incoming: IncomingObject<P>, unheard: &mut BTreeSet<ObjectKey>) {
        unheard.remove(&incoming.key);
        self.apply(incoming);
    }

    /// Removes the objects that a complete list did not contain.
    pub(super) fn remove_unlisted(&mut self, unheard: BTreeSet<ObjectKey>) {
        for key in unheard {
            if let Some(before) = self.objects.remove(&key) {
                self.notify(&key, true, &CacheEvent::Deleted(before.object));
            }
        }
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<Arc<P>> {
        self.objects.get(&*key(namespace, name)).map(|known| known.object.clone())
    }

    pub(super) fn get_by_name(&self, name: &str) -> Option<Arc<P>> {
        let first = key("", name);
        let (found, known) = self.objects.range(first.clone()..).next()?;
        found.starts_with(&*first).then(|| known.object.clone())
    }

    pub(super) fn list(&self) -> Vec<Arc<P>> {
        self.objects.values().map(|known| known.object.clone()).collect()
    }

    /// Adds a subscriber to all objects, with the current objects as pending events.
    pub(super) fn subscribe(&mut self) -> u64 {
        let mut waiting = SubscriberQueue::new(None);
        for (key, known) in &self.objects {
            waiting.push(key, false, &CacheEvent::Applied(known.object.clone()));
        }
        self.add_subscriber(waiting)
    }

    /// Adds a subscriber to one object.
    pub(super) fn subscribe_to(&mut self, namespace: &str, name: &str) -> u64 {
        let key = key(namespace, name);
        let mut waiting = SubscriberQueue::new(Some(key.clone()));
        if let Some(known) = self.objects.get(&key) {
            waiting.push(&key, false, &CacheEvent::Applied(known.object.clone()));
        }
        self.add_subscriber(waiting)
    }

    fn add_subscriber(&mut self, waiting: SubscriberQueue<P>) -> u64 {
        self.last_id += 1;
        self.subscribers.insert(self.last_id, waiting);
        self.last_id
    }

    pub(super) fn unsubscribe(&mut self, id: u64) {
        self.subscribers.remove(&id);
    }

    /// The next event of a subscriber.
    pub(super) fn poll(&mut self, id: u64, context: &Context<'_>) -> Poll<Option<CacheEvent<P>>> {
        let Some(waiting) = self.subscribers.get_mut(&id) else { return Poll::Ready(None) };
        match waiting.pop() {
            Some(change) => Poll::Ready(Some(change)),
            None if self.is_ended => Poll::Ready(None),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Ends all subscriptions once their queues are empty.
    pub(super) fn end(&mut self) {
        self.is_ended = true;
        self.subscribers.values_mut().for_each(SubscriberQueue::wake);
    }

    fn notify(&mut self, key: &ObjectKey, known: bool, change: &CacheEvent<P>) {
        let concerned =
            |waiting: &&mut SubscriberQueue<P>| waiting.filter.as_ref().is_none_or(|only| only == key);
        for waiting in self.subscribers.values_mut().filter(concerned) {
            waiting.push(key, known, change);
            waiting.wake();
        }
    }
}

impl<P> SubscriberQueue<P> {
    fn new(only: Option<ObjectKey>) -> Self {
        Self {
            filter: only,
            positions: BTreeMap::new(),
            events: BTreeMap::new(),
            last_position: 0,
            waker: None,
        }
    }

    /// `known`: an object existed under this name before the change. It was delivered to subscribers without a pending event.
    fn push(&mut self, key: &ObjectKey, known: bool, change: &CacheEvent<P>) {
        let place = match self.positions.entry(key.clone()) {
            Entry::Occupied(place) => *place.get(),
            Entry::Vacant(place) => {
                self.last_position += 1;
                let pending = PendingEvent { was_delivered: known, deleted: None, applied: None };
                self.events.insert(self.last_position, (key.clone(), pending));
                *place.insert(self.last_position)
            }
        };
        let (_, pending) = self.events.get_mut(&place).expect("every place has its entry");
        match change {
            CacheEvent::Applied(object) => pending.applied = Some(object.clone()),
            CacheEvent::Deleted(object) => {
                pending.applied = None;
                if pending.was_delivered && pending.deleted.is_none() {
                    pending.deleted = Some(object.clone());
                }
            }
        }
        if pending.deleted.is_none() && pending.applied.is_none() {
            self.positions.remove(key);
            self.events.remove(&place);
        }
    }

    fn pop(&mut self) -> Option<CacheEvent<P>> {
        let mut first = self.events.first_entry()?;
        let (_, pending) = first.get_mut();
        if let Some(object) = pending.deleted.take() {
            pending.was_delivered = false;
            if pending.applied.is_none() {
                let (key, _) = first.remove();
                self.positions.remove(&key);
            }
            return Some(CacheEvent::Deleted(object));
        }
        let (key, pending) = first.remove();
        self.positions.remove(&key);
        pending.applied.map(CacheEvent::Applied)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The version as a number, or its hash.
fn version_number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_else(|| fingerprint(version))
}

fn fingerprint(text: Option<&str>) -> u64 {
    // Keyed per process, so that a client cannot construct a collision.
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(text)
}

fn key(namespace: &str, name: &str) -> ObjectKey {
    format!("{name}/{namespace}").into()
}

#[cfg(test)]
mod tests;
