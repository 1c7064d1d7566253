//! Everything that was provisioned, as the cluster has it now: of each object its name and its print, and nothing more, as
//! there are a dozen for each namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{SelectAll, StreamExt};
use kube::core::DynamicObject;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, ResourceExt};
use kube_types::marks::PROVISIONED;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::pieces::{PieceKind, Print};

/// Where an object is: namespace (empty for those of the whole cluster), kind, name.
type Place = (Arc<str>, PieceKind, Arc<str>);

/// What there is. Clones are the same.
#[derive(Clone)]
pub struct Seen(Arc<Shared>);

struct Shared {
    prints: Mutex<BTreeMap<Place, Print>>,
    /// Of which kinds everything has been heard once.
    heard: watch::Sender<usize>,
}

/// Something that was provisioned changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Seen {
    pub fn new() -> Self {
        Self(Arc::new(Shared { prints: Mutex::default(), heard: watch::Sender::new(0) }))
    }

    /// Resolves when all that there was has been heard once.
    pub async fn synced(&self) {
        let mut heard = self.0.heard.subscribe();
        // The sender lives as long as this.
        let _ = heard.wait_for(|kinds| *kinds == PieceKind::ALL.len()).await;
    }

    pub fn print(&self, namespace: &str, kind: PieceKind, name: &str) -> Option<Print> {
        self.0.prints.lock().get(&(namespace.into(), kind, name.into())).copied()
    }

    /// All that is in one namespace.
    pub fn inside(&self, namespace: &str) -> Vec<(PieceKind, Arc<str>, Print)> {
        let namespace: Arc<str> = namespace.into();
        let first = (namespace.clone(), PieceKind::ALL[0], "".into());
        let prints = self.0.prints.lock();
        let inside = prints.range(first..).take_while(|((place, ..), _)| *place == namespace);
        inside.map(|((_, kind, name), print)| (*kind, name.clone(), *print)).collect()
    }

    /// Follows what the cluster says, for ever, and tells of each change after all was heard once.
    pub async fn follow(&self, client: kube::Client, changes: mpsc::UnboundedSender<Changed>) {
        let mut events: SelectAll<_> = PieceKind::ALL
            .into_iter()
            .map(|kind| {
                let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind.resource());
                let config = watcher::Config::default().labels(PROVISIONED);
                watcher(api, config).default_backoff().map(move |event| (kind, event)).boxed()
            })
            .collect();
        let mut relisted: BTreeMap<PieceKind, BTreeMap<Place, Print>> = BTreeMap::new();
        let mut known: Vec<PieceKind> = Vec::new();
        while let Some((kind, event)) = events.next().await {
            let changed = match event {
                Ok(Event::Init) => {
                    relisted.insert(kind, BTreeMap::new());
                    continue;
                }
                Ok(Event::InitApply(object)) => {
                    let (place, print) = read(kind, &object);
                    relisted.entry(kind).or_default().insert(place, print);
                    continue;
                }
                Ok(Event::InitDone) => {
                    let changed = self.replace(kind, relisted.remove(&kind).unwrap_or_default());
                    if !known.contains(&kind) {
                        known.push(kind);
                        self.0.heard.send_replace(known.len());
                        continue;
                    }
                    changed
                }
                Ok(Event::Apply(object)) => {
                    let (place, print) = read(kind, &object);
                    let before = self.0.prints.lock().insert(place.clone(), print);
                    if before == Some(print) { Vec::new() } else { vec![place] }
                }
                Ok(Event::Delete(object)) => {
                    let (place, _) = read(kind, &object);
                    self.0.prints.lock().remove(&place).map(|_| place).into_iter().collect()
                }
                Err(error) => {
                    tracing::warn!(?kind, %error, "cannot watch what was provisioned; will try again");
                    continue;
                }
            };
            for (namespace, _, name) in changed {
                // Nobody listens any more when the controllers have ended, and then this has too.
                let _ = changes.send(Changed { namespace, name });
            }
        }
    }

    /// Puts what a new list says in place of the old, and says where they differ.
    fn replace(&self, kind: PieceKind, new: BTreeMap<Place, Print>) -> Vec<Place> {
        let mut prints = self.0.prints.lock();
        let gone: Vec<Place> =
            prints.keys().filter(|place| place.1 == kind && !new.contains_key(*place)).cloned().collect();
        for place in &gone {
            prints.remove(place);
        }
        let differ = new.into_iter().filter_map(|(place, print)| {
            let before = prints.insert(place.clone(), print);
            (before != Some(print)).then_some(place)
        });
        let differ: Vec<Place> = differ.collect();
        gone.into_iter().chain(differ).collect()
    }
}

fn read(kind: PieceKind, object: &DynamicObject) -> (Place, Print) {
    let namespace = object.namespace().unwrap_or_default();
    ((namespace.into(), kind, object.name_any().into()), Print::of(kind, object))
}
