//! What a feed knows, and what each subscriber has yet to be told. Pure: no client, no clock.
//!
//! What waits for a subscriber is one entry per object, at the place where it began to wait. An entry says how to get from
//! what the subscriber knows of the object to what there is: nothing of an object that came and went
//! unheard, and of one that was replaced by another of the same name first that it is gone.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, Waker};

use kube::Resource;

use super::Change;

/// `name/namespace`, so that a name alone finds it. No name in Kubernetes has a slash in it.
type Key = Arc<str>;

pub(super) struct Store<P> {
    objects: BTreeMap<Key, Known<P>>,
    subscribers: BTreeMap<u64, Waiting<P>>,
    next: u64,
    ended: bool,
}

/// An object as it is heard of: what is kept of it, and which one it is.
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

/// What is said of an object, beside what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing is known under its name.
    Unknown,
    /// It is newer than what is known.
    New,
    /// It is not.
    Old,
}

/// What is kept of an object. Of its UID and its version enough to tell them from others, which eight bytes are; of a version
/// that is a number, the number.
struct Known<P> {
    uid: u64,
    version: u64,
    object: Arc<P>,
}

/// What one subscriber has yet to be told.
struct Waiting<P> {
    /// The one object that is meant; none: all.
    only: Option<Key>,
    places: BTreeMap<Key, u64>,
    entries: BTreeMap<u64, (Key, Pending<P>)>,
    next: u64,
    waker: Option<Waker>,
}

/// What is to be told of one object.
struct Pending<P> {
    /// The subscriber knows of an object under this name.
    known: bool,
    /// To be told first.
    deleted: Option<Arc<P>>,
    /// To be told then.
    applied: Option<Arc<P>>,
}

impl<P> Default for Store<P> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), subscribers: BTreeMap::new(), next: 0, ended: false }
    }
}

impl<P> Store<P> {
    /// An object is there, as it is now.
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

    /// Whether it is newer than what is known, where versions are numbers.
    pub(super) fn is_news(&self, heard: &Heard<P>) -> News {
        match self.objects.get(&heard.key) {
            None => News::Unknown,
            Some(known) if known.version < place(heard.version.as_deref()) => News::New,
            Some(_) => News::Old,
        }
    }

    /// Whether something newer is known under that name, where versions are numbers.
    pub(super) fn is_newer(&self, namespace: Option<&str>, name: &str, version: Option<&str>) -> bool {
        let known = self.objects.get(&*key(namespace.unwrap_or_default(), name));
        known.is_some_and(|known| known.version > place(version))
    }

    /// An object is not there.
    pub(super) fn remove(&mut self, namespace: Option<&str>, name: &str) {
        let key = key(namespace.unwrap_or_default(), name);
        if let Some(before) = self.objects.remove(&*key) {
            self.tell(&key, true, &Change::Deleted(before.object));
        }
    }

    /// Whatever is known, for whoever is about to hear of all that there is.
    pub(super) fn names(&self) -> BTreeSet<Key> {
        self.objects.keys().cloned().collect()
    }

    /// An object is there, as it is now, and among those that there are.
    pub(super) fn hear(&mut self, heard: Heard<P>, unheard: &mut BTreeSet<Key>) {
        unheard.remove(&heard.key);
        self.apply(heard);
    }

    /// Of these nothing was heard any more.
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

    /// A subscriber who is to be told all that there is.
    pub(super) fn subscribe(&mut self) -> u64 {
        let mut waiting = Waiting::new(None);
        for (key, known) in &self.objects {
            waiting.add(key, false, &Change::Applied(known.object.clone()));
        }
        self.enter(waiting)
    }

    /// A subscriber who is to be told of one object.
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

    /// The next thing to tell a subscriber.
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

    /// There will be no more.
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

    /// `known`: an object was there under this name before the change. For whom nothing waits, what was there is known.
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

/// The number that a version is, or its print.
fn place(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_else(|| print(version))
}

fn print(text: Option<&str>) -> u64 {
    // Keyed anew in each process, so that nobody can make two of the same print.
    static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    KEYS.hash_one(text)
}

fn key(namespace: &str, name: &str) -> Key {
    format!("{name}/{namespace}").into()
}

#[cfg(test)]
mod tests;
