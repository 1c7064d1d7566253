//! Watch-fed cache of provisioned objects: namespaces with their metadata, other objects with their hashes. Nothing more is cached,
//! as there are a dozen objects in each namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::ResourceExt;
use kube::discovery::ApiResource;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube_types::well_known::{PROVISIONED_OBJECT, WORKSPACE};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::namespace::NamespaceMeta;
use super::owned_object::{ObjectHash, OwnedKind};
use super::partial_object::PartialObject;
use crate::paging::PAGE_SIZE;

/// The cache. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct ObjectCache(Arc<CacheShared>);

struct CacheShared {
    state: Mutex<CacheState>,
    /// The number of watches with a complete initial list.
    synced_watches: watch::Sender<usize>,
}

/// The cached objects.
#[derive(Default)]
struct CacheState {
    namespaces: BTreeMap<Arc<str>, NamespaceMeta>,
    /// By namespace; cluster-scoped objects under the empty name.
    objects: BTreeMap<Arc<str>, NamespaceHashes>,
    /// Interned object names: most are the same in every namespace.
    names: BTreeSet<Arc<str>>,
}

/// The objects in one namespace.
pub type ObjectHashes = BTreeMap<(OwnedKind, Arc<str>), ObjectHash>;

/// The cached objects of one namespace as a sorted vector: a tree of a dozen entries takes three times the memory.
#[derive(Default)]
struct NamespaceHashes(Vec<((OwnedKind, Arc<str>), ObjectHash)>);

impl NamespaceHashes {
    fn find(&self, kind: OwnedKind, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|((is, named), _)| (*is, &**named).cmp(&(kind, name)))
    }

    fn get(&self, kind: OwnedKind, name: &str) -> Option<ObjectHash> {
        self.find(kind, name).ok().map(|at| self.0[at].1)
    }

    /// Returns the previous hash.
    fn insert(&mut self, kind: OwnedKind, name: Arc<str>, print: ObjectHash) -> Option<ObjectHash> {
        match self.find(kind, &name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, print)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, ((kind, name), print));
                None
            }
        }
    }

    fn remove(&mut self, kind: OwnedKind, name: &str) -> Option<ObjectHash> {
        self.find(kind, name).ok().map(|at| self.0.remove(at).1)
    }
}

/// A change of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheChange {
    /// A namespace of this workspace.
    Namespace {
        workspace: String,
    },
    Object {
        namespace: Arc<str>,
        name: Arc<str>,
    },
}

/// An object as the watch reported it.
enum CachedObject {
    Namespace(Arc<str>, NamespaceMeta),
    Object(OwnedKind, Arc<str>, Arc<str>, ObjectHash),
}

/// Namespace and name; the namespace is empty for namespaces themselves.
type ObjectPath = (Arc<str>, Arc<str>);

impl CachedObject {
    fn path(&self) -> ObjectPath {
        match self {
            Self::Namespace(name, _) => ("".into(), name.clone()),
            Self::Object(_, namespace, name, _) => (namespace.clone(), name.clone()),
        }
    }
}

/// A watch: `None` for namespaces, otherwise the kind of object.
type WatchSource = Option<OwnedKind>;
const WATCH_COUNT: usize = OwnedKind::ALL.len() + 1;

impl ObjectCache {
    pub fn new() -> Self {
        Self(Arc::new(CacheShared { state: Mutex::default(), synced_watches: watch::Sender::new(0) }))
    }

    /// Resolves when all initial lists are complete.
    pub async fn wait_until_synced(&self) {
        let mut heard = self.0.synced_watches.subscribe();
        // The sender lives as long as this.
        let _ = heard.wait_for(|sources| *sources == WATCH_COUNT).await;
    }

    pub fn namespace(&self, name: &str) -> Option<NamespaceMeta> {
        self.0.state.lock().namespaces.get(name).cloned()
    }

    /// The names of the namespaces with this workspace's label.
    pub fn namespaces_of_workspace(&self, workspace: &str) -> Vec<String> {
        let state = self.0.state.lock();
        let labelled = state.namespaces.iter().filter(|(_, marks)| &*marks.workspace == workspace);
        labelled.map(|(name, _)| name.to_string()).collect()
    }

    pub fn object_hash(&self, namespace: &str, kind: OwnedKind, name: &str) -> Option<ObjectHash> {
        self.0.state.lock().objects.get(namespace)?.get(kind, name)
    }

    /// All objects in one namespace.
    pub fn objects_in(&self, namespace: &str) -> ObjectHashes {
        let state = self.0.state.lock();
        state.objects.get(namespace).into_iter().flat_map(|inside| inside.0.iter().cloned()).collect()
    }

    /// Runs the watches until dropped. Sends each change after the initial list of its watch.
    pub async fn run(&self, client: kube::Client, tell: mpsc::UnboundedSender<CacheChange>) {
        let mut events = stream::select_all(watch_streams(&client));
        let mut hearing = SyncState::default();
        while let Some((source, event)) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(?source, %error, "cannot watch provisioned objects; retrying");
                    continue;
                }
            };
            let changed = hearing.apply_event(&mut self.0.state.lock(), source, event);
            self.0.synced_watches.send_if_modified(|heard| {
                std::mem::replace(heard, hearing.synced.len()) != hearing.synced.len()
            });
            for change in changed {
                // Without a receiver the controllers have ended, and this future ends with them.
                let _ = tell.send(change);
            }
        }
    }
}

/// The progress of each watch. A list is applied object by object and never held whole: with a dozen objects for each namespace it
/// would be the peak of memory use.
#[derive(Default)]
struct SyncState {
    /// Objects that were cached before the current list began and that the list has not named yet.
    unlisted: BTreeMap<WatchSource, BTreeSet<ObjectPath>>,
    /// The watches with a complete initial list.
    synced: BTreeSet<WatchSource>,
}

impl SyncState {
    /// Applies an event. The initial list reports no changes.
    fn apply_event(
        &mut self,
        state: &mut CacheState,
        source: WatchSource,
        event: Event<CachedObject>,
    ) -> Vec<CacheChange> {
        let changed: Vec<CacheChange> = match event {
            Event::Init => {
                self.unlisted.insert(source, state.paths(source));
                Vec::new()
            }
            Event::InitApply(heard) => {
                self.unlisted.entry(source).or_default().remove(&heard.path());
                state.apply(heard).into_iter().collect()
            }
            Event::InitDone => {
                let gone = self.unlisted.remove(&source).unwrap_or_default();
                let changed = gone.into_iter().filter_map(|place| state.delete(source, place)).collect();
                if self.synced.insert(source) { Vec::new() } else { changed }
            }
            Event::Apply(heard) => state.apply(heard).into_iter().collect(),
            Event::Delete(heard) => state.delete(source, heard.path()).into_iter().collect(),
        };
        if self.synced.contains(&source) { changed } else { Vec::new() }
    }
}

type ObjectWatchStream = stream::BoxStream<'static, (WatchSource, watcher::Result<Event<CachedObject>>)>;

/// The watches of namespaces and of all kinds of provisioned objects.
fn watch_streams(client: &kube::Client) -> Vec<ObjectWatchStream> {
    let config = || watcher::Config::default().page_size(PAGE_SIZE);
    let ours = config().labels(WORKSPACE);
    let namespaces =
        watcher(Api::<PartialObject>::all_with(client.clone(), &ApiResource::erase::<Namespace>(&())), ours)
            .default_backoff();
    let namespaces = namespaces.map(|event| {
        (
            None,
            event.map(|event| {
                map_event(event, |namespace| {
                    CachedObject::Namespace(
                        namespace.name_any().into(),
                        NamespaceMeta::from_namespace(&namespace),
                    )
                })
            }),
        )
    });
    let pieces = OwnedKind::ALL.into_iter().map(|kind| {
        let api: Api<PartialObject> = Api::all_with(client.clone(), &kind.resource());
        let events = watcher(api, config().labels(PROVISIONED_OBJECT)).default_backoff();
        let read = move |object: PartialObject| {
            let namespace = object.namespace().unwrap_or_default();
            CachedObject::Object(
                kind,
                namespace.into(),
                object.name_any().into(),
                ObjectHash::from_object(kind, &object),
            )
        };
        events.map(move |event| (Some(kind), event.map(|event| map_event(event, read)))).boxed()
    });
    pieces.chain([namespaces.boxed()]).collect()
}

fn map_event<A, B>(event: Event<A>, change: impl Fn(A) -> B) -> Event<B> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(change(object)),
        Event::Apply(object) => Event::Apply(change(object)),
        Event::Delete(object) => Event::Delete(change(object)),
    }
}

impl CacheState {
    fn apply(&mut self, heard: CachedObject) -> Option<CacheChange> {
        match heard {
            CachedObject::Namespace(name, marks) => {
                let changed = CacheChange::Namespace { workspace: marks.workspace.to_string() };
                let same = self.namespaces.get(&name) == Some(&marks);
                self.namespaces.insert(name, marks);
                (!same).then_some(changed)
            }
            CachedObject::Object(kind, namespace, name, print) => {
                let name = self.names.get(&name).cloned().unwrap_or(name);
                self.names.insert(name.clone());
                let before =
                    self.objects.entry(namespace.clone()).or_default().insert(kind, name.clone(), print);
                (before != Some(print)).then_some(CacheChange::Object { namespace, name })
            }
        }
    }

    fn delete(&mut self, source: WatchSource, (namespace, name): ObjectPath) -> Option<CacheChange> {
        let Some(kind) = source else {
            let marks = self.namespaces.remove(&name)?;
            return Some(CacheChange::Namespace { workspace: marks.workspace.to_string() });
        };
        let inside = self.objects.get_mut(&namespace)?;
        inside.remove(kind, &name)?;
        if inside.0.is_empty() {
            self.objects.remove(&namespace);
        }
        Some(CacheChange::Object { namespace, name })
    }

    /// The cached objects of one watch.
    fn paths(&self, source: WatchSource) -> BTreeSet<ObjectPath> {
        let Some(kind) = source else {
            return self.namespaces.keys().map(|name| ("".into(), name.clone())).collect();
        };
        let of_kind = |(namespace, inside): (&Arc<str>, &NamespaceHashes)| {
            let names = inside.0.iter().filter(|((is, _), _)| *is == kind);
            names.map(|((_, name), _)| (namespace.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.objects.iter().flat_map(of_kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: OwnedKind = OwnedKind::RoleBinding;

    fn cached_object(namespace: &str, print: u64) -> CachedObject {
        CachedObject::Object(KIND, namespace.into(), "longshore-viewer".into(), ObjectHash(print))
    }

    fn changed(namespace: &str) -> CacheChange {
        CacheChange::Object { namespace: namespace.into(), name: "longshore-viewer".into() }
    }

    #[test]
    fn relist_applies_objects_immediately_and_removes_unlisted_ones() {
        let (mut hearing, mut state) = (SyncState::default(), CacheState::default());
        let mut hear = |event| hearing.apply_event(&mut state, Some(KIND), event);
        assert_eq!(hear(Event::Init), []);
        assert_eq!(hear(Event::InitApply(cached_object("a", 1))), []);
        // The list restarts; `a` has been deleted in the meantime.
        assert_eq!(hear(Event::Init), []);
        for namespace in ["b", "c", "d"] {
            assert_eq!(hear(Event::InitApply(cached_object(namespace, 1))), []);
        }
        assert_eq!(hear(Event::InitDone), [], "what there was at the beginning changed nothing");
        assert_eq!(hear(Event::Apply(cached_object("b", 1))), [], "it is the same");
        assert_eq!(hear(Event::Apply(cached_object("b", 2))), [changed("b")]);
        // A later list reports changed, new and deleted objects only.
        assert_eq!(hear(Event::Init), []);
        assert_eq!(hear(Event::InitApply(cached_object("b", 2))), []);
        assert_eq!(hear(Event::InitApply(cached_object("c", 3))), [changed("c")]);
        assert_eq!(hear(Event::InitApply(cached_object("e", 1))), [changed("e")]);
        assert_eq!(hear(Event::InitDone), [changed("d")]);
        let left: Vec<&str> = state.objects.keys().map(|namespace| &**namespace).collect();
        assert_eq!(left, ["b", "c", "e"]);
    }

    #[test]
    fn relist_of_one_kind_keeps_objects_of_other_kinds() {
        let (mut hearing, mut state) = (SyncState::default(), CacheState::default());
        hearing.apply_event(&mut state, Some(KIND), Event::InitApply(cached_object("a", 1)));
        hearing.apply_event(&mut state, Some(KIND), Event::InitDone);
        for event in [Event::Init, Event::InitDone] {
            hearing.apply_event(&mut state, Some(OwnedKind::ResourceQuota), event);
        }
        assert_eq!(state.objects["a"].0.len(), 1);
        assert_eq!(hearing.synced.len(), 2);
    }
}
