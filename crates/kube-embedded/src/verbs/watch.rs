//! The verb `watch`: a stream of events, one JSON document per line.
//!
//! A watch is a cursor into the store's history. An object that leaves the selection is sent as DELETED with its last selected content, one
//! that enters it as ADDED. A watch of custom resources ends when their CRD changes.
//!
//! Invariant: a stream never skips a change. If history no longer contains the next change, the stream sends the error 410 and ends.
//!
//! The initial state is read page by page as the client takes it, and events are encoded one at a time: a watch whose client does not read
//! uses the memory of one page, which is charged to the user's share. Pages may have different versions. Events that a page already
//! includes are left out, and the bookmark that ends the initial events is sent after the stream has caught up with the last page.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use governor::bytes::ByteReservation;
use governor::{AdmissionError, Flow, PriorityLevel};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::ResourceRequest;
use super::convert::{ServedObject, needs_conversion, served_object};
use super::read::parse_version;
use super::selection::{MAX_COMPARISONS, Selection};
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::http::negotiate::{Representation, View};
use crate::http::query::{Query, check_errors};
use crate::print;
use crate::schema::resources::Resource;
use crate::store::{Event, EventKind, ListPage, ListStart, Object, TooOld, Watch};

const BOOKMARK_INTERVAL: Duration = Duration::from_secs(55);
/// The longest default of Kubernetes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
/// Upper bound of the requested timeout.
const MAX_TIMEOUT: Duration = Duration::from_hours(1);
/// Maximum size of a page of the initial state in objects and bytes; a page has at least one object.
const MAX_PAGE_OBJECTS: usize = 500;
const MAX_PAGE_BYTES: usize = 1 << 20;
/// Memory that every watch reserves when it is opened.
pub const BASE_BYTES: u64 = 64 << 10;
/// Memory reserved per selector requirement. This also bounds the comparisons of all watches of a user per event.
const REQUIREMENT_BYTES: u64 = 1 << 10;

/// An open watch; call [`WatchStream::next`] until it ends.
#[expect(clippy::struct_excessive_bools, reason = "independent options and states of one watch")]
pub struct WatchStream {
    cluster: Cluster,
    resource: Arc<Resource>,
    selection: Selection,
    representation: Representation,
    include: print::IncludeObject,
    bookmarks: bool,
    cursor: Watch,
    crd_changes: watch::Receiver<()>,
    /// The newest version that the client has received or need not receive.
    sent_version: u64,
    initial: InitialState,
    /// Whether a bookmark marks the end of the initial events.
    sends_initial_events_end: bool,
    /// Versions of the pages of the initial state, until the stream has caught up with the last page.
    pages: SentPages,
    /// Changes to be encoded next.
    pending: VecDeque<PendingWatchEvent>,
    /// Reservation for `pending` beyond [`BASE_BYTES`].
    reserved: Option<ByteReservation>,
    /// Reservation for `selection`.
    reserved_for_selection: Option<ByteReservation>,
    /// Comparisons since the stream yielded.
    comparisons: usize,
    charged_flow: Option<(PriorityLevel, Flow)>,
    ready: VecDeque<Bytes>,
    /// These futures live as long as the stream: creating them again for each event would cost every watcher more than the event.
    server_stopping: BoxFuture<'static, ()>,
    deadline: Pin<Box<Sleep>>,
    next_bookmark: Pin<Box<Sleep>>,
    columns_sent: bool,
    ended: bool,
}

/// Progress of the initial state.
enum InitialState {
    /// The next page starts here.
    Page(Option<ListStart>),
    /// All pages are sent; events up to this version, that of the last page, are not.
    CatchUp(u64),
    Done,
}

/// A change to be encoded.
enum PendingWatchEvent {
    Added(Arc<Object>),
    Event(Event),
}

/// The end of each page of the initial state, and its version.
#[derive(Default)]
struct SentPages(Vec<(Option<ObjectKey>, u64)>);

/// Namespace and name.
type ObjectKey = (Box<str>, Box<str>);

impl SentPages {
    /// Adds a page that ends with the object `last`, or with the collection.
    fn push(&mut self, last: Option<&Object>, version: u64) {
        let end = last.map(|last| (last.namespace.clone(), last.name.clone()));
        match self.0.last_mut() {
            Some(previous) if previous.1 == version => previous.0 = end,
            _ => self.0.push((end, version)),
        }
    }

    /// Whether the page that covers the object includes its state at `version` or later.
    fn includes(&self, object: &Object, version: u64) -> bool {
        let at = (&object.namespace, &object.name);
        let is_before =
            |end: &Option<(Box<str>, Box<str>)>| end.as_ref().is_some_and(|(ns, name)| (ns, name) < at);
        let page = self.0.partition_point(|(end, _)| is_before(end));
        self.0.get(page).is_some_and(|(_, shown)| *shown >= version)
    }
}

/// Opens a watch, with the current state first if the request asks for it.
pub fn open(call: &ResourceRequest) -> Result<WatchStream> {
    check_watch_options(&call.query)?;
    let selection = Selection::from_request(call)?;
    let store = call.cluster.store();
    let requested_version = parse_version(&call.query.resource_version).map_err(|error| {
        // Unlike a list, which returns 400, a watch returns 500.
        let message = error.message.trim_start_matches("invalid resource version: ").to_owned();
        ApiError::new(500, "", message)
    })?;
    let initial = call.query.send_initial_events.unwrap_or(requested_version.unwrap_or(0) == 0);
    let lifetime = call.query.timeout_seconds.filter(|&s| s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let from = match requested_version {
        Some(version) if version > 0 && !initial => version,
        _ => store.version(),
    };
    let now = Instant::now();
    let redefinitions = call.cluster.registry_changes();
    let (cursor, too_old) = match store.watch(&call.resource.storage, from) {
        Ok(cursor) => (cursor, None),
        // The stream still opens: the error is its only event.
        Err(old) => (store.list_and_watch(&call.resource.storage, Some("")).1, Some(old)),
    };
    let mut stream = WatchStream {
        cluster: call.cluster.clone(),
        resource: call.resource.clone(),
        selection,
        representation: call.representation,
        include: call.include()?,
        bookmarks: call.query.allow_bookmarks,
        cursor,
        crd_changes: redefinitions,
        sent_version: from,
        initial: if initial { InitialState::Page(None) } else { InitialState::Done },
        sends_initial_events_end: call.query.send_initial_events == Some(true) && call.query.allow_bookmarks,
        pages: SentPages::default(),
        pending: VecDeque::new(),
        reserved: None,
        reserved_for_selection: None,
        comparisons: 0,
        charged_flow: None,
        ready: VecDeque::new(),
        server_stopping: call.cluster.wait_until_stopped().boxed(),
        deadline: Box::pin(sleep_until(now + lifetime.min(MAX_TIMEOUT))),
        next_bookmark: Box::pin(sleep_until(now + BOOKMARK_INTERVAL)),
        columns_sent: false,
        ended: false,
    };
    if let Some(old) = too_old {
        stream.fail_expired(old);
    } else if initial {
        stream.read_page();
    }
    Ok(stream)
}

impl WatchStream {
    /// Charges the memory of the stream to a flow, from the first page on.
    pub fn charge(&mut self, level: PriorityLevel, flow: Flow) -> Result<(), AdmissionError> {
        self.charged_flow = Some((level, flow));
        let of_selection = (self.selection.requirement_count() as u64).saturating_mul(REQUIREMENT_BYTES);
        if of_selection > 0 {
            self.reserved_for_selection = Some(self.cluster.governor().reserve(level, flow, of_selection)?);
        }
        let size = |pending: &PendingWatchEvent| match pending {
            PendingWatchEvent::Added(object) => object.bytes.len() as u64,
            PendingWatchEvent::Event(event) => event.object.bytes.len() as u64,
        };
        let bytes = self.pending.iter().map(size).sum();
        if bytes > BASE_BYTES {
            self.reserved = Some(self.cluster.governor().reserve(level, flow, bytes)?);
        }
        Ok(())
    }

    /// Returns the next line; `None` at the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.comparisons > MAX_COMPARISONS {
                self.comparisons = 0;
                tokio::task::yield_now().await;
            }
            if let Some(pending) = self.pending.pop_front() {
                if let Some((kind, object)) = self.next_change(pending) {
                    self.encode(kind, object).await;
                }
                continue;
            }
            self.reserved = None;
            if self.ended {
                return None;
            }
            if !matches!(self.initial, InitialState::Done) {
                if self.has_ended() {
                    self.ended = true;
                } else if let InitialState::CatchUp(version) = self.initial {
                    self.catch_up(version);
                } else {
                    self.read_page();
                    // A selector may exclude page after page.
                    self.comparisons = 0;
                    tokio::task::yield_now().await;
                }
                continue;
            }
            tokio::select! {
                () = &mut self.server_stopping => self.ended = true,
                () = &mut self.deadline => {
                    if self.bookmarks {
                        self.bookmark(None);
                    }
                    self.ended = true;
                }
                () = &mut self.next_bookmark, if self.bookmarks => {
                    self.sent_version = self.sent_version.max(self.cursor.position());
                    self.bookmark(None);
                    self.next_bookmark.as_mut().reset(Instant::now() + BOOKMARK_INTERVAL);
                }
                events = self.cursor.next() => self.enqueue(events),
                Ok(()) = self.crd_changes.changed(), if self.resource.is_custom() => {
                    if !self.is_still_served() {
                        // Earlier changes are still sent.
                        if let Some(events) = self.cursor.next().now_or_never() {
                            self.enqueue(events);
                        }
                        self.ended = true;
                    }
                }
            }
        }
    }

    /// Whether the timeout has passed or the server stops, for a client that still reads the initial state.
    fn has_ended(&mut self) -> bool {
        self.deadline.deadline() <= Instant::now() || (&mut self.server_stopping).now_or_never().is_some()
    }

    fn read_page(&mut self) {
        let InitialState::Page(start) = &self.initial else { return };
        let (storage, namespace) = (&self.resource.storage, self.selection.namespace.as_deref());
        let store = self.cluster.store();
        // All objects of a page are compared without yielding.
        let most = (MAX_COMPARISONS / self.selection.requirement_count().max(1)).clamp(1, MAX_PAGE_OBJECTS);
        let part = store.page(storage, namespace, None, start.as_ref(), Some(most));
        let ListPage { version, mut objects, remaining } = match part {
            Ok(part) => part,
            Err(old) => return self.fail_expired(old),
        };
        if self.pages.0.is_empty()
            && let Ok(cursor) = store.watch(storage, version)
        {
            // Nothing has been sent yet: the events start after the first page.
            (self.cursor, self.sent_version) = (cursor, version);
        }
        let mut bytes = 0;
        let fitting = objects.iter().take_while(|object| {
            let is_first = bytes == 0;
            bytes += object.bytes.len();
            is_first || bytes <= MAX_PAGE_BYTES
        });
        let fitting = fitting.count();
        let is_last = remaining == 0 && fitting == objects.len();
        objects.truncate(fitting);
        let last = objects.last().filter(|_| !is_last);
        self.pages.push(last.map(AsRef::as_ref), version);
        self.initial = match last {
            Some(last) => InitialState::Page(Some(ListStart::after(last))),
            None => InitialState::CatchUp(version),
        };
        objects.retain(|object| self.selection.matches(object));
        let bytes = objects.iter().map(|object| object.bytes.len()).sum();
        if self.reserve(bytes) {
            self.pending = objects.into_iter().map(PendingWatchEvent::Added).collect();
        }
    }

    /// Sends changes of pages before the last one, then the end of the initial events.
    fn catch_up(&mut self, version: u64) {
        if self.sent_version < version
            && let Some(events) = self.cursor.next().now_or_never()
        {
            return self.enqueue(events);
        }
        self.sent_version = self.sent_version.max(version);
        self.initial = InitialState::Done;
        self.pages = SentPages::default();
        if self.sends_initial_events_end {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            self.bookmark(Some(annotations));
        }
    }

    fn enqueue(&mut self, events: Result<Vec<Event>, TooOld>) {
        let events = match events {
            Ok(events) => events,
            Err(old) => return self.fail_expired(old),
        };
        let size = |event: &Event| event.object.bytes.len();
        if self.reserve(events.iter().map(size).sum()) {
            self.pending = events.into_iter().map(PendingWatchEvent::Event).collect();
        }
    }

    /// Reserves the memory of the next pending changes; if refused, the watch ends with an error.
    fn reserve(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let Some((level, flow)) = self.charged_flow.filter(|_| bytes > BASE_BYTES) else { return true };
        match self.cluster.governor().reserve(level, flow, bytes) {
            Ok(reserved) => {
                self.reserved = Some(reserved);
                true
            }
            Err(rejected) => {
                self.fail(&ApiError::rejected(&rejected));
                false
            }
        }
    }

    /// Whether the CRD still defines the resource as it did when the watch was opened.
    fn is_still_served(&self) -> bool {
        let (registry, row) = (self.cluster.registry(), &self.resource);
        let now = registry.get(&row.group, &row.version, &row.name).and_then(|now| now.custom.as_ref());
        now.zip(row.custom.as_ref()).is_some_and(|(now, then)| now.has_same_definition(then))
    }

    /// Returns the event type and object to send, if any.
    fn next_change(&mut self, pending: PendingWatchEvent) -> Option<(&'static str, Arc<Object>)> {
        let event = match pending {
            PendingWatchEvent::Added(object) => return Some(("ADDED", object)),
            PendingWatchEvent::Event(event) => event,
        };
        self.sent_version = event.version;
        if self.pages.includes(&event.object, event.version) {
            return None;
        }
        let now = (event.kind != EventKind::Deleted).then_some(&event.object);
        let compared = event.previous.iter().chain(now).map(|object| self.selection.cost_of(object));
        self.comparisons = compared.fold(self.comparisons, usize::saturating_add);
        let before = event.previous.as_ref().filter(|object| self.selection.matches(object));
        let after = now.filter(|object| self.selection.matches(object));
        match (before, after) {
            (None, Some(object)) => Some(("ADDED", object.clone())),
            (Some(_), Some(object)) => Some(("MODIFIED", object.clone())),
            (Some(last), None) => Some(("DELETED", Arc::new(last.at_version(event.version)))),
            (None, None) => None,
        }
    }

    /// Returns the printer of the next event. Only the first one includes the columns of a Table.
    fn encoder(&mut self) -> EventEncoder {
        let headers = !std::mem::replace(&mut self.columns_sent, true);
        EventEncoder {
            resource: self.resource.clone(),
            view: self.representation.view,
            include: self.include,
            headers,
            now: self.cluster.clock().now(),
        }
    }

    /// Encodes an event. A large event that is not sent as stored is encoded on the pool.
    async fn encode(&mut self, kind: &'static str, object: Arc<Object>) {
        let (printer, bytes) = (self.encoder(), object.bytes.len());
        let Some((_, flow)) = self
            .charged_flow
            .filter(|_| bytes > self.cluster.inline_bytes() && !printer.is_sent_as_stored(&object))
        else {
            return self.ready.push_back(printer.line(kind, &object));
        };
        let flow = self.cluster.pool().flow(flow);
        let expanded = (bytes as u64).saturating_mul(super::MEMORY_EXPANSION);
        let work = move |_: &governor::work::WorkContext| printer.line(kind, &object);
        match self.cluster.pool().run(flow, expanded, super::REQUEST_TIMEOUT, work).await {
            Ok(line) => self.ready.push_back(line),
            Err(error) => {
                // No event may follow one that was lost.
                self.pending.clear();
                self.fail(&ApiError::from_work(&error));
            }
        }
    }

    fn bookmark(&mut self, annotations: Option<Value>) {
        let mut metadata = json!({"resourceVersion": self.sent_version.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let mut object = json!({"kind": &*self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let shown = match self.representation.view {
            View::Table(version) => self.encoder().table(&object, version),
            View::Metadata(version) | View::MetadataList(version) => {
                object["kind"] = "PartialObjectMetadata".into();
                object["apiVersion"] = format!("meta.k8s.io/{version}").into();
                ServedObject::Value(object)
            }
            View::Object | View::Discovery(_) => ServedObject::Value(object),
        };
        self.ready.push_back(encode_line("BOOKMARK", &shown));
    }

    fn fail_expired(&mut self, old: TooOld) {
        let message = format!("too old resource version: {} ({})", self.sent_version, old.oldest);
        self.fail(&ApiError::expired(message));
    }

    /// Ends the stream with an error event.
    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(encode_line("ERROR", &ServedObject::Value(error.status())));
        self.ended = true;
    }
}

/// Encoder of one event, usable from any thread.
struct EventEncoder {
    resource: Arc<Resource>,
    view: View,
    include: print::IncludeObject,
    /// Whether a Table includes its column definitions.
    headers: bool,
    now: jiff::Timestamp,
}

impl EventEncoder {
    /// Whether the object is sent as stored.
    fn is_sent_as_stored(&self, object: &Object) -> bool {
        let is_whole = matches!(self.view, View::Object | View::Discovery(_));
        is_whole && !needs_conversion(&self.resource, object)
    }

    fn table(&self, value: &Value, version: &'static str) -> ServedObject {
        let form = print::TableOptions { include: self.include, version, headers: self.headers };
        ServedObject::Value(print::single_object_table(&self.resource, value, form, self.now))
    }

    fn line(&self, kind: &str, object: &Object) -> Bytes {
        let shown = match self.view {
            View::Table(version) => {
                self.table(&super::convert::served_value(&self.resource, object), version)
            }
            View::Metadata(version) | View::MetadataList(version) => {
                ServedObject::Value(print::partial_object_metadata(
                    &super::convert::served_value(&self.resource, object),
                    version,
                ))
            }
            View::Object | View::Discovery(_) => served_object(&self.resource, object),
        };
        encode_line(kind, &shown)
    }
}

fn encode_line(kind: &str, object: &ServedObject) -> Bytes {
    let object: &[u8] = match object {
        ServedObject::Bytes(bytes) => bytes,
        ServedObject::Value(value) => &serde_json::to_vec(value).expect("a JSON value serialises"),
    };
    let mut line = Vec::with_capacity(object.len() + 40);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(object);
    line.extend_from_slice(b"}\n");
    line.into()
}

fn check_watch_options(query: &Query) -> Result<()> {
    query.list_error.clone().map_or(Ok(()), Err)?;
    let mut errors = Vec::new();
    let path = Path::new("resourceVersionMatch");
    let asked = query.resource_version_match.as_str();
    if query.send_initial_events.is_some() && asked != "NotOlderThan" {
        let why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";
        errors.push(FieldError::forbidden(&path, why));
    }
    if !asked.is_empty() {
        if query.send_initial_events.is_none() {
            let why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
            errors.push(FieldError::forbidden(&path, why));
        }
        if asked != "NotOlderThan" {
            errors.push(FieldError::unsupported(&path, asked, &["NotOlderThan"]));
        }
    }
    if !query.continue_token.is_empty() {
        let why = "resourceVersionMatch is forbidden when continue is provided";
        errors.push(FieldError::forbidden(&path, why));
    }
    check_errors("ListOptions", &errors)
}

#[cfg(test)]
mod tests;
