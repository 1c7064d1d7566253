//! `GET /clusterEvents`: events, read from the cluster on request.
//!
//! Events of namespaces are read as the caller, so that Kubernetes authorises the request. Events of nodes are in
//! `default`, where tenants have no permissions: the platform reads them and returns the events of the caller's own
//! nodes.
//!
//! Newest first. Memory is bounded by the page size, whatever the number of events.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;

use domain::Actor;
use domain::ids::truncate_for_error;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, Time};
use kube::Resource;
use kube::api::{ListParams, ObjectList};
use kube::core::{ObjectMeta, Request};
use kube_access::verb::declare;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Error, Fleet, Namespaces, Visibility};

/// Default and maximum page size.
pub const DEFAULT_PAGE_SIZE: usize = 100;
pub const MAX_PAGE_SIZE: usize = 500;
/// Page size of list requests to the API server.
const LIST_PAGE_SIZE: u32 = 500;
/// Namespace of node events.
const NODE_EVENTS_NAMESPACE: &str = "default";

/// Filters and page of an event list.
#[derive(Clone, Debug, Default)]
pub struct EventQuery {
    pub limit: Option<usize>,
    /// `Normal` or `Warning`.
    pub event_type: Option<String>,
    /// Kind and name of the involved object.
    pub kind: Option<String>,
    pub name: Option<String>,
    /// Earliest time.
    pub since: Option<Timestamp>,
    /// Continue token of the previous page.
    pub after: Option<EventCursor>,
}

/// Position of an event: last time and identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventCursor(Reverse<i64>, String, String);

impl EventCursor {
    /// Parses [`EventList::more`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Invalid(format!("invalid continue token `{}`", truncate_for_error(text)));
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().filter(|part| part.len() <= 253).ok_or_else(wrong);
        let at = part()?.parse().map_err(|_| wrong())?;
        Ok(Self(Reverse(at), part()?.to_owned(), part()?.to_owned()))
    }

    fn to_token(&self) -> String {
        format!("{}/{}/{}", self.0.0, self.1, self.2)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventList {
    pub items: Vec<EventRow>,
    /// Where the next page begins; empty after the last.
    #[serde(rename = "continue")]
    pub more: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EventRow {
    #[serde(rename = "type")]
    pub event_type: String,
    /// `Pod/web-0`
    pub object: String,
    /// Why, in one word: `BackOff`.
    pub info: String,
    pub content: String,
    pub timestamp: String,
    pub count: i64,
    pub source: String,
    pub namespace: String,
}

/// An event from the API server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventObject {
    metadata: ObjectMeta,
    #[serde(rename = "type")]
    event_type: Option<String>,
    involved_object: InvolvedObject,
    reason: Option<String>,
    message: Option<String>,
    count: Option<i64>,
    first_timestamp: Option<Time>,
    last_timestamp: Option<Time>,
    event_time: Option<MicroTime>,
    series: Option<EventSeries>,
    source: Option<EventSource>,
    reporting_component: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct InvolvedObject {
    kind: String,
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct EventSeries {
    count: Option<i64>,
    last_observed_time: Option<MicroTime>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct EventSource {
    component: Option<String>,
}

impl EventObject {
    /// Last time it was observed.
    fn last_observed(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().and_then(|series| series.last_observed_time.as_ref());
        let once = || self.event_time.as_ref().map(|time| time.0);
        let made =
            || self.metadata.creation_timestamp.as_ref().or(self.first_timestamp.as_ref()).map(|time| time.0);
        let last = || self.last_timestamp.as_ref().map(|time| time.0);
        series.map(|time| time.0).or_else(last).or_else(once).or_else(made)
    }

    fn cursor(&self) -> EventCursor {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let at = self.last_observed().map_or(0, Timestamp::as_microsecond);
        EventCursor(Reverse(at), text(&self.metadata.namespace), text(&self.metadata.name))
    }

    fn row(self) -> EventRow {
        let timestamp = crate::partial_object::format_time(self.last_observed().map(Timestamp::as_second));
        let said = |text: Option<String>| text.filter(|text| !text.is_empty());
        let count = self.series.as_ref().and_then(|series| series.count).or(self.count);
        EventRow {
            event_type: self.event_type.unwrap_or_default(),
            object: format!("{}/{}", self.involved_object.kind, self.involved_object.name),
            info: self.reason.unwrap_or_default(),
            content: self.message.unwrap_or_default(),
            timestamp,
            count: count.filter(|count| *count > 0).unwrap_or(1),
            source: said(self.source.and_then(|source| source.component))
                .or_else(|| said(self.reporting_component))
                .unwrap_or_default(),
            namespace: self.metadata.namespace.unwrap_or_default(),
        }
    }
}

impl EventQuery {
    fn matches(&self, event: &EventObject) -> bool {
        let same =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        same(&self.event_type, event.event_type.as_deref().unwrap_or_default())
            && same(&self.kind, &event.involved_object.kind)
            && same(&self.name, &event.involved_object.name)
            && self.since.is_none_or(|since| event.last_observed().is_some_and(|at| at >= since))
            && self.after.as_ref().is_none_or(|after| event.cursor() > *after)
    }
}

/// The newest matching events, one more than requested in order to detect another page.
struct NewestEvents<'w> {
    query: &'w EventQuery,
    limit: usize,
    found: Vec<(EventCursor, EventObject)>,
}

impl NewestEvents<'_> {
    fn add(&mut self, events: impl IntoIterator<Item = EventObject>) {
        let fitting = events.into_iter().filter(|event| self.query.matches(event));
        self.found.extend(fitting.map(|event| (event.cursor(), event)));
        self.found.sort_by(|one, other| one.0.cmp(&other.0));
        self.found.truncate(self.limit + 1);
    }

    fn into_list(mut self) -> EventList {
        let more = self.found.len() > self.limit;
        self.found.truncate(self.limit);
        let last = self.found.last().filter(|_| more).map(|(place, _)| place.to_token());
        EventList {
            items: self.found.into_iter().map(|(_, event)| event.row()).collect(),
            more: last.unwrap_or_default(),
        }
    }
}

impl Fleet {
    /// Events in the caller's namespaces, and of their nodes.
    pub async fn events(
        &self,
        actor: &Actor,
        visibility: Visibility<'_>,
        query: &EventQuery,
    ) -> Result<EventList, Error> {
        let limit = query.limit.unwrap_or(DEFAULT_PAGE_SIZE).clamp(1, MAX_PAGE_SIZE);
        let mut newest = NewestEvents { query, limit, found: Vec::new() };
        let caller = self.0.clients.impersonating(&actor.impersonation());
        let of_nodes = match visibility.namespaces {
            Namespaces::All => {
                read_pages(&caller, None, "", |events| newest.add(events)).await?;
                None
            }
            Namespaces::Only(names) => {
                for name in names {
                    read_pages(&caller, Some(name), "", |events| newest.add(events)).await?;
                }
                // If the caller reads `default`, the node events are already included.
                visibility.tenant.filter(|_| !names.iter().any(|name| name == NODE_EVENTS_NAMESPACE))
            }
        };
        let own: HashSet<Arc<str>> = {
            let state = self.0.cache.read();
            let nodes = of_nodes.and_then(|tenant| state.tenants.get(tenant));
            nodes.into_iter().flat_map(|nodes| nodes.by_name.keys().cloned()).collect()
        };
        if !own.is_empty() {
            let of_own = |event: &EventObject| {
                event.involved_object.kind == "Node" && own.contains(event.involved_object.name.as_str())
            };
            let take = |events: Vec<EventObject>| newest.add(events.into_iter().filter(of_own));
            read_pages(
                &self.0.clients.platform(),
                Some(NODE_EVENTS_NAMESPACE),
                "involvedObject.kind=Node",
                take,
            )
            .await?;
        }
        Ok(newest.into_list())
    }
}

/// Reads all events in pages.
async fn read_pages(
    client: &kube::Client,
    namespace: Option<&str>,
    fields: &str,
    mut take: impl FnMut(Vec<EventObject>),
) -> Result<(), Error> {
    let request = Request::new(Event::url_path(&(), namespace));
    let mut params = ListParams::default().fields(fields).limit(LIST_PAGE_SIZE);
    loop {
        let call = request.list(&params).map_err(kube::Error::BuildRequest)?;
        let page: ObjectList<EventObject> =
            client.request(declare(call, "list")).await.map_err(|error| match &error {
                kube::Error::Api(status) if status.code == 403 => Error::Forbidden(Box::new(error)),
                _ => error.into(),
            })?;
        take(page.items);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params.continue_token = Some(more),
            None => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
