//! Observes objects through watches, one per kind and namespace.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, BoxStream, StreamExt};
use kube::core::{DynamicObject, Status};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::discovery::ServedKind;
use crate::target::{ResolvedObject, Target};

/// Up to this many objects of a kind are watched individually by name; more share one watch of the namespace.
const MAX_WATCHES_BY_NAME: usize = 3;

/// Observed change of an object, by its index in the requested list.
#[derive(Debug)]
pub enum ObservedChange {
    Present(usize, Value),
    Absent(usize),
    /// These objects cannot be watched.
    Unwatchable(Vec<usize>, String),
}

/// Stream of changes of these objects, starting with their current state.
pub fn observe(target: &Target, objects: &[ResolvedObject]) -> BoxStream<'static, ObservedChange> {
    let mut groups: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (at, placed) in objects.iter().enumerate() {
        let resource = &placed.kind.resource;
        let key =
            (&resource.api_version, &resource.plural, placed.object.namespace(), target.is_reserved(placed));
        groups.entry(key).or_default().push(at);
    }
    let watches = groups.into_values().flat_map(|places| {
        if places.len() > MAX_WATCHES_BY_NAME {
            vec![places]
        } else {
            places.into_iter().map(|at| vec![at]).collect()
        }
    });
    let watches = watches.map(|places| {
        let names = places.iter().map(|at| (objects[*at].object.name().to_owned(), *at)).collect();
        let first = &objects[places[0]];
        watch(target.client_for(first), first.kind.clone(), first.object.namespace(), names)
    });
    stream::select_all(watches).boxed()
}

/// Watches objects of one kind in one namespace.
fn watch(
    client: &Client,
    kind: ServedKind,
    namespace: Option<&str>,
    names: BTreeMap<String, usize>,
) -> BoxStream<'static, ObservedChange> {
    let api: Api<DynamicObject> = match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind.resource),
        None => Api::all_with(client.clone(), &kind.resource),
    };
    let mut config = watcher::Config::default();
    if let (1, Some(name)) = (names.len(), names.keys().next()) {
        config = config.fields(&format!("metadata.name={name}"));
    }
    let mut watched = WatchGroup { kind, names, unlisted: BTreeSet::new() };
    let events = watcher(api, config).default_backoff();
    events.map(move |event| stream::iter(watched.handle_event(event))).flatten().boxed()
}

/// Objects of one watch.
struct WatchGroup {
    kind: ServedKind,
    names: BTreeMap<String, usize>,
    /// During a list: objects that it has not returned yet.
    unlisted: BTreeSet<usize>,
}

impl WatchGroup {
    fn handle_event(&mut self, event: Result<Event<DynamicObject>, watcher::Error>) -> Vec<ObservedChange> {
        match event {
            Ok(Event::Init) => {
                self.unlisted = self.names.values().copied().collect();
                Vec::new()
            }
            Ok(Event::InitApply(object) | Event::Apply(object)) => self.present(object).into_iter().collect(),
            Ok(Event::InitDone) => {
                std::mem::take(&mut self.unlisted).into_iter().map(ObservedChange::Absent).collect()
            }
            Ok(Event::Delete(object)) => {
                self.index_of(&object).map(ObservedChange::Absent).into_iter().collect()
            }
            Err(error) => {
                tracing::debug!(kind = %self.kind.resource.kind, %error, "watch interrupted");
                let all = || self.names.values().copied();
                match status(&error) {
                    // A kind that is not served has no objects.
                    Some(status) if status.code == 404 => all().map(ObservedChange::Absent).collect(),
                    Some(status) if matches!(status.code, 400..=405) => {
                        vec![ObservedChange::Unwatchable(
                            all().collect(),
                            format!("it cannot be watched: {}", status.message),
                        )]
                    }
                    _ => Vec::new(),
                }
            }
        }
    }

    fn index_of(&self, object: &DynamicObject) -> Option<usize> {
        self.names.get(object.metadata.name.as_deref()?).copied()
    }

    fn present(&mut self, object: DynamicObject) -> Option<ObservedChange> {
        let at = self.index_of(&object)?;
        self.unlisted.remove(&at);
        let mut value = serde_json::to_value(object).ok()?;
        // Items of a list omit their type.
        value["apiVersion"] = json!(self.kind.resource.api_version);
        value["kind"] = json!(self.kind.resource.kind);
        Some(ObservedChange::Present(at, value))
    }
}

/// API status of a failed watch.
fn status(error: &watcher::Error) -> Option<&Status> {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchError(status) => Some(status),
        _ => None,
    }
}
