//! The last warning event about objects that are not ready, or about objects they created.

use std::collections::{BTreeSet, HashMap};

use futures::stream::{self, BoxStream, StreamExt};
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client};

use crate::object::ObjectId;

/// Kinds created by other objects and named after them.
const CREATED_KINDS: &[&str] = &["Job", "PersistentVolumeClaim", "Pod", "ReplicaSet"];

/// Stream of warning events of these namespaces, including existing ones. Empty without permission to read events.
pub fn watch_warnings(client: &Client, namespaces: BTreeSet<String>) -> BoxStream<'static, Event> {
    let watches = namespaces.into_iter().map(|namespace| {
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let config = watcher::Config::default().fields("type=Warning");
        let events = watcher(api, config).default_backoff();
        events
            .filter_map(async |event| match event.ok()? {
                watcher::Event::Apply(event) | watcher::Event::InitApply(event) => Some(event),
                _ => None,
            })
            .boxed()
    });
    stream::select_all(watches).boxed()
}

/// The last warning per object.
#[derive(Default)]
pub struct Warnings(HashMap<ObjectId, (String, String)>);

impl Warnings {
    /// Records a warning. Returns whether it is new for the object.
    pub fn record(&mut self, event: &Event, id: &ObjectId) -> bool {
        let (at, text) = (last_time(event), message(event));
        let last = self.0.get(id);
        let news = is_about(event, id) && last.is_none_or(|last| last.0 <= at && last.1 != text);
        if news {
            self.0.insert(id.clone(), (at, text));
        }
        news
    }

    pub fn get(&self, id: &ObjectId) -> Option<&str> {
        self.0.get(id).map(|(_, text)| text.as_str())
    }
}

/// The last warning about each object, read once. Empty without permission to read events.
pub async fn last_warnings(client: &Client, ids: &[ObjectId]) -> HashMap<ObjectId, String> {
    let namespaces: BTreeSet<&str> = ids.iter().filter_map(|id| id.namespace.as_deref()).collect();
    let mut warnings = Warnings::default();
    for namespace in namespaces {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let Ok(events) = api.list(&ListParams::default().fields("type=Warning")).await else { continue };
        for event in &events.items {
            for id in ids {
                warnings.record(event, id);
            }
        }
    }
    warnings.0.into_iter().map(|(id, (_, text))| (id, text)).collect()
}

fn is_about(event: &Event, id: &ObjectId) -> bool {
    let involved = &event.involved_object;
    let (kind, name) =
        (involved.kind.as_deref().unwrap_or_default(), involved.name.as_deref().unwrap_or_default());
    let itself = kind == id.kind && name == id.name;
    let made = CREATED_KINDS.contains(&kind)
        && name.strip_prefix(&id.name).is_some_and(|rest| rest.starts_with('-'));
    involved.namespace == id.namespace && (itself || made)
}

fn last_time(event: &Event) -> String {
    let series =
        event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    let first = event.event_time.as_ref().map(|time| time.0);
    series.or(last).or(first).map(|time| time.to_string()).unwrap_or_default()
}

fn message(event: &Event) -> String {
    let (reason, message) =
        (event.reason.as_deref().unwrap_or_default(), event.message.as_deref().unwrap_or_default());
    format!("{reason}: {message}")
}
