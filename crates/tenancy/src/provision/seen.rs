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
use kube_types::marks::{PROVISIONED, WORKSPACE};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::bare::Bare;
use super::namespace::Marks;
use super::pieces::{PieceKind, Print};
use crate::pages::PAGE;

/// The cache. Cheap to clone; clones share state.
#[derive(Clone)]
pub struct Seen(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// The number of watches with a complete initial list.
    heard: watch::Sender<usize>,
}

/// The cached objects.
#[derive(Default)]
struct State {
    namespaces: BTreeMap<Arc<str>, Marks>,
    /// By namespace; cluster-scoped objects under the empty name.
    pieces: BTreeMap<Arc<str>, Inside>,
    /// Interned object names: most are the same in every namespace.
    names: BTreeSet<Arc<str>>,
}

/// The objects in one namespace.
pub type Pieces = BTreeMap<(PieceKind, Arc<str>), Print>;

/// The cached objects of one namespace as a sorted vector: a tree of a dozen entries takes three times the memory.
#[derive(Default)]
struct Inside(Vec<((PieceKind, Arc<str>), Print)>);

impl Inside {
    fn find(&self, kind: PieceKind, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|((is, named), _)| (*is, &**named).cmp(&(kind, name)))
    }

    fn get(&self, kind: PieceKind, name: &str) -> Option<Print> {
        self.find(kind, name).ok().map(|at| self.0[at].1)
    }

    /// Returns the previous hash.
    fn insert(&mut self, kind: PieceKind, name: Arc<str>, print: Print) -> Option<Print> {
        match self.find(kind, &name) {
            Ok(at) => Some(std::mem::replace(&mut self.0[at].1, print)),
            Err(at) => {
                self.0.reserve_exact(1);
                self.0.insert(at, ((kind, name), print));
                None
            }
        }
    }

    fn remove(&mut self, kind: PieceKind, name: &str) -> Option<Print> {
        self.find(kind, name).ok().map(|at| self.0.remove(at).1)
    }
}

/// A change of the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// A namespace of this workspace.
    Namespace {
        workspace: String,
    },
    Piece {
        namespace: Arc<str>,
        name: Arc<str>,
    },
}

/// An object as the watch reported it.
enum Heard {
    Namespace(Arc<str>, Marks),
    Piece(PieceKind, Arc<str>, Arc<str>, Print),
}

/// Namespace and name; the namespace is empty for namespaces themselves.
type Place = (Arc<str>, Arc<str>);

impl Heard {
    fn place(&self) -> Place {
        match self {
            Self::Namespace(name, _) => ("".into(), name.clone()),
            Self::Piece(_, namespace, name, _) => (namespace.clone(), name.clone()),
        }
    }
}

/// A watch: `None` for namespaces, otherwise the kind of object.
type Source = Option<PieceKind>;
const SOURCES: usize = PieceKind::ALL.len() + 1;

impl Seen {
    pub fn new() -> Self {
        Self(Arc::new(Shared { state: Mutex::default(), heard: watch::Sender::new(0) }))
    }

    /// Resolves when all initial lists are complete.
    pub async fn synced(&self) {
        let mut heard = self.0.heard.subscribe();
        // The sender lives as long as this.
        let _ = heard.wait_for(|sources| *sources == SOURCES).await;
    }

    pub fn namespace(&self, name: &str) -> Option<Marks> {
        self.0.state.lock().namespaces.get(name).cloned()
    }

    /// The names of the namespaces with this workspace's label.
    pub fn labelled(&self, workspace: &str) -> Vec<String> {
        let state = self.0.state.lock();
        let labelled = state.namespaces.iter().filter(|(_, marks)| &*marks.workspace == workspace);
        labelled.map(|(name, _)| name.to_string()).collect()
    }

    pub fn print(&self, namespace: &str, kind: PieceKind, name: &str) -> Option<Print> {
        self.0.state.lock().pieces.get(namespace)?.get(kind, name)
    }

    /// All objects in one namespace.
    pub fn inside(&self, namespace: &str) -> Pieces {
        let state = self.0.state.lock();
        state.pieces.get(namespace).into_iter().flat_map(|inside| inside.0.iter().cloned()).collect()
    }

    /// Runs the watches until dropped. Sends each change after the initial list of its watch.
    pub async fn follow(&self, client: kube::Client, tell: mpsc::UnboundedSender<Changed>) {
        let mut events = stream::select_all(sources(&client));
        let mut hearing = Hearing::default();
        while let Some((source, event)) = events.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => {
                    tracing::warn!(?source, %error, "cannot watch what was provisioned; will try again");
                    continue;
                }
            };
            let changed = hearing.hear(&mut self.0.state.lock(), source, event);
            self.0.heard.send_if_modified(|heard| {
                std::mem::replace(heard, hearing.known.len()) != hearing.known.len()
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
struct Hearing {
    /// Objects that were cached before the current list began and that the list has not named yet.
    unheard: BTreeMap<Source, BTreeSet<Place>>,
    /// The watches with a complete initial list.
    known: BTreeSet<Source>,
}

impl Hearing {
    /// Applies an event. The initial list reports no changes.
    fn hear(&mut self, state: &mut State, source: Source, event: Event<Heard>) -> Vec<Changed> {
        let changed: Vec<Changed> = match event {
            Event::Init => {
                self.unheard.insert(source, state.places(source));
                Vec::new()
            }
            Event::InitApply(heard) => {
                self.unheard.entry(source).or_default().remove(&heard.place());
                state.apply(heard).into_iter().collect()
            }
            Event::InitDone => {
                let gone = self.unheard.remove(&source).unwrap_or_default();
                let changed = gone.into_iter().filter_map(|place| state.delete(source, place)).collect();
                if self.known.insert(source) { Vec::new() } else { changed }
            }
            Event::Apply(heard) => state.apply(heard).into_iter().collect(),
            Event::Delete(heard) => state.delete(source, heard.place()).into_iter().collect(),
        };
        if self.known.contains(&source) { changed } else { Vec::new() }
    }
}

type Events = stream::BoxStream<'static, (Source, watcher::Result<Event<Heard>>)>;

/// The watches of namespaces and of all kinds of provisioned objects.
fn sources(client: &kube::Client) -> Vec<Events> {
    let config = || watcher::Config::default().page_size(PAGE);
    let ours = config().labels(WORKSPACE);
    let namespaces =
        watcher(Api::<Bare>::all_with(client.clone(), &ApiResource::erase::<Namespace>(&())), ours)
            .default_backoff();
    let namespaces = namespaces.map(|event| {
        (
            None,
            event.map(|event| {
                map(event, |namespace| Heard::Namespace(namespace.name_any().into(), Marks::of(&namespace)))
            }),
        )
    });
    let pieces = PieceKind::ALL.into_iter().map(|kind| {
        let api: Api<Bare> = Api::all_with(client.clone(), &kind.resource());
        let events = watcher(api, config().labels(PROVISIONED)).default_backoff();
        let read = move |object: Bare| {
            let namespace = object.namespace().unwrap_or_default();
            Heard::Piece(kind, namespace.into(), object.name_any().into(), Print::of(kind, &object))
        };
        events.map(move |event| (Some(kind), event.map(|event| map(event, read)))).boxed()
    });
    pieces.chain([namespaces.boxed()]).collect()
}

fn map<A, B>(event: Event<A>, change: impl Fn(A) -> B) -> Event<B> {
    match event {
        Event::Init => Event::Init,
        Event::InitDone => Event::InitDone,
        Event::InitApply(object) => Event::InitApply(change(object)),
        Event::Apply(object) => Event::Apply(change(object)),
        Event::Delete(object) => Event::Delete(change(object)),
    }
}

impl State {
    fn apply(&mut self, heard: Heard) -> Option<Changed> {
        match heard {
            Heard::Namespace(name, marks) => {
                let changed = Changed::Namespace { workspace: marks.workspace.to_string() };
                let same = self.namespaces.get(&name) == Some(&marks);
                self.namespaces.insert(name, marks);
                (!same).then_some(changed)
            }
            Heard::Piece(kind, namespace, name, print) => {
                let name = self.names.get(&name).cloned().unwrap_or(name);
                self.names.insert(name.clone());
                let before =
                    self.pieces.entry(namespace.clone()).or_default().insert(kind, name.clone(), print);
                (before != Some(print)).then_some(Changed::Piece { namespace, name })
            }
        }
    }

    fn delete(&mut self, source: Source, (namespace, name): Place) -> Option<Changed> {
        let Some(kind) = source else {
            let marks = self.namespaces.remove(&name)?;
            return Some(Changed::Namespace { workspace: marks.workspace.to_string() });
        };
        let inside = self.pieces.get_mut(&namespace)?;
        inside.remove(kind, &name)?;
        if inside.0.is_empty() {
            self.pieces.remove(&namespace);
        }
        Some(Changed::Piece { namespace, name })
    }

    /// The cached objects of one watch.
    fn places(&self, source: Source) -> BTreeSet<Place> {
        let Some(kind) = source else {
            return self.namespaces.keys().map(|name| ("".into(), name.clone())).collect();
        };
        let of_kind = |(namespace, inside): (&Arc<str>, &Inside)| {
            let names = inside.0.iter().filter(|((is, _), _)| *is == kind);
            names.map(|((_, name), _)| (namespace.clone(), name.clone())).collect::<Vec<_>>()
        };
        self.pieces.iter().flat_map(of_kind).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: PieceKind = PieceKind::RoleBinding;

    fn piece(namespace: &str, print: u64) -> Heard {
        Heard::Piece(KIND, namespace.into(), "longshore-viewer".into(), Print(print))
    }

    fn changed(namespace: &str) -> Changed {
        Changed::Piece { namespace: namespace.into(), name: "longshore-viewer".into() }
    }

    #[test]
    fn a_list_is_entered_as_it_comes_and_what_it_does_not_name_is_gone() {
        let (mut hearing, mut state) = (Hearing::default(), State::default());
        let mut hear = |event| hearing.hear(&mut state, Some(KIND), event);
        assert_eq!(hear(Event::Init), []);
        assert_eq!(hear(Event::InitApply(piece("a", 1))), []);
        // The list restarts; `a` has been deleted in the meantime.
        assert_eq!(hear(Event::Init), []);
        for namespace in ["b", "c", "d"] {
            assert_eq!(hear(Event::InitApply(piece(namespace, 1))), []);
        }
        assert_eq!(hear(Event::InitDone), [], "what there was at the beginning changed nothing");
        assert_eq!(hear(Event::Apply(piece("b", 1))), [], "it is the same");
        assert_eq!(hear(Event::Apply(piece("b", 2))), [changed("b")]);
        // A later list reports changed, new and deleted objects only.
        assert_eq!(hear(Event::Init), []);
        assert_eq!(hear(Event::InitApply(piece("b", 2))), []);
        assert_eq!(hear(Event::InitApply(piece("c", 3))), [changed("c")]);
        assert_eq!(hear(Event::InitApply(piece("e", 1))), [changed("e")]);
        assert_eq!(hear(Event::InitDone), [changed("d")]);
        let left: Vec<&str> = state.pieces.keys().map(|namespace| &**namespace).collect();
        assert_eq!(left, ["b", "c", "e"]);
    }

    #[test]
    fn one_kind_is_not_gone_because_another_is_listed() {
        let (mut hearing, mut state) = (Hearing::default(), State::default());
        hearing.hear(&mut state, Some(KIND), Event::InitApply(piece("a", 1)));
        hearing.hear(&mut state, Some(KIND), Event::InitDone);
        for event in [Event::Init, Event::InitDone] {
            hearing.hear(&mut state, Some(PieceKind::ResourceQuota), event);
        }
        assert_eq!(state.pieces["a"].0.len(), 1);
        assert_eq!(hearing.known.len(), 2);
    }
}
