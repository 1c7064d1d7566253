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
use governor::bytes::Reserved;
use governor::{Flow, Level, Rejected};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Call;
use super::convert::{Shown, differs, show};
use super::read::parse_version;
use super::select::{MOST_COMPARISONS, Selection};
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::http::negotiate::{Representation, View};
use crate::http::query::{Query, refuse};
use crate::print;
use crate::schema::resources::Resource;
use crate::store::{Event, EventKind, ListPage, ListStart, Object, TooOld, Watch};

const BOOKMARK_EVERY: Duration = Duration::from_secs(55);
/// The longest default of Kubernetes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
/// Upper bound of the requested timeout.
const MAX_TIMEOUT: Duration = Duration::from_hours(1);
/// Maximum size of a page of the initial state in objects and bytes; a page has at least one object.
const PAGE_OBJECTS: usize = 500;
const PAGE_BYTES: usize = 1 << 20;
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
    include: print::Include,
    bookmarks: bool,
    cursor: Watch,
    redefinitions: watch::Receiver<()>,
    /// The newest version that the client has received or need not receive.
    seen: u64,
    initial: Initial,
    /// Whether a bookmark marks the end of the initial events.
    announces_end: bool,
    /// Versions of the pages of the initial state, until the stream has caught up with the last page.
    pages: Pages,
    /// Changes to be encoded next.
    pending: VecDeque<Pending>,
    /// Reservation for `pending` beyond [`BASE_BYTES`].
    reserved: Option<Reserved>,
    /// Reservation for `selection`.
    reserved_for_selection: Option<Reserved>,
    /// Comparisons since the stream yielded.
    compared: usize,
    payer: Option<(Level, Flow)>,
    ready: VecDeque<Bytes>,
    /// These futures live as long as the stream: creating them again for each event would cost every watcher more than the event.
    stopping: BoxFuture<'static, ()>,
    deadline: Pin<Box<Sleep>>,
    next_bookmark: Pin<Box<Sleep>>,
    columns_sent: bool,
    ended: bool,
}

/// Progress of the initial state.
enum Initial {
    /// The next page starts here.
    Page(Option<ListStart>),
    /// All pages are sent; events up to this version, that of the last page, are not.
    CatchUp(u64),
    Done,
}

/// A change to be encoded.
enum Pending {
    Added(Arc<Object>),
    Event(Event),
}

/// The end of each page of the initial state, and its version.
#[derive(Default)]
struct Pages(Vec<(Option<ObjectKey>, u64)>);

/// Namespace and name.
type ObjectKey = (Box<str>, Box<str>);

impl Pages {
    /// Adds a page that ends with the object `last`, or with the collection.
    fn push(&mut self, last: Option<&Object>, version: u64) {
        let end = last.map(|last| (last.namespace.clone(), last.name.clone()));
        match self.0.last_mut() {
            Some(previous) if previous.1 == version => previous.0 = end,
            _ => self.0.push((end, version)),
        }
    }

    /// Whether the page that covers the object includes its state at `version` or later.
    fn show(&self, object: &Object, version: u64) -> bool {
        let at = (&object.namespace, &object.name);
        let is_before =
            |end: &Option<(Box<str>, Box<str>)>| end.as_ref().is_some_and(|(ns, name)| (ns, name) < at);
        let page = self.0.partition_point(|(end, _)| is_before(end));
        self.0.get(page).is_some_and(|(_, shown)| *shown >= version)
    }
}

/// Opens a watch, with the current state first if the request asks for it.
pub fn open(call: &Call) -> Result<WatchStream> {
    check_watch_options(&call.query)?;
    let selection = Selection::of(call)?;
    let store = call.cluster.store();
    let asked = parse_version(&call.query.resource_version).map_err(|error| {
        // Unlike a list, which returns 400, a watch returns 500.
        let message = error.message.trim_start_matches("invalid resource version: ").to_owned();
        ApiError::new(500, "", message)
    })?;
    let initial = call.query.send_initial_events.unwrap_or(asked.unwrap_or(0) == 0);
    let lifetime = call.query.timeout_seconds.filter(|&s| s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let from = match asked {
        Some(version) if version > 0 && !initial => version,
        _ => store.version(),
    };
    let now = Instant::now();
    let redefinitions = call.cluster.redefinitions();
    let (cursor, too_old) = match store.watch(&call.resource.storage, from) {
        Ok(cursor) => (cursor, None),
        // The stream still opens: the error is its only event.
        Err(old) => (store.follow(&call.resource.storage, Some("")).1, Some(old)),
    };
    let mut stream = WatchStream {
        cluster: call.cluster.clone(),
        resource: call.resource.clone(),
        selection,
        representation: call.representation,
        include: call.include()?,
        bookmarks: call.query.allow_bookmarks,
        cursor,
        redefinitions,
        seen: from,
        initial: if initial { Initial::Page(None) } else { Initial::Done },
        announces_end: call.query.send_initial_events == Some(true) && call.query.allow_bookmarks,
        pages: Pages::default(),
        pending: VecDeque::new(),
        reserved: None,
        reserved_for_selection: None,
        compared: 0,
        payer: None,
        ready: VecDeque::new(),
        stopping: call.cluster.stopping().boxed(),
        deadline: Box::pin(sleep_until(now + lifetime.min(MAX_TIMEOUT))),
        next_bookmark: Box::pin(sleep_until(now + BOOKMARK_EVERY)),
        columns_sent: false,
        ended: false,
    };
    if let Some(old) = too_old {
        stream.expire(old);
    } else if initial {
        stream.take_page();
    }
    Ok(stream)
}

impl WatchStream {
    /// Charges the memory of the stream to a flow, from the first page on.
    pub fn charge(&mut self, level: Level, flow: Flow) -> Result<(), Rejected> {
        self.payer = Some((level, flow));
        let of_selection = (self.selection.size() as u64).saturating_mul(REQUIREMENT_BYTES);
        if of_selection > 0 {
            self.reserved_for_selection = Some(self.cluster.governor().reserve(level, flow, of_selection)?);
        }
        let size = |pending: &Pending| match pending {
            Pending::Added(object) => object.bytes.len() as u64,
            Pending::Event(event) => event.object.bytes.len() as u64,
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
            if self.compared > MOST_COMPARISONS {
                self.compared = 0;
                tokio::task::yield_now().await;
            }
            if let Some(pending) = self.pending.pop_front() {
                if let Some((kind, object)) = self.change(pending) {
                    self.push(kind, object).await;
                }
                continue;
            }
            self.reserved = None;
            if self.ended {
                return None;
            }
            if !matches!(self.initial, Initial::Done) {
                if self.is_over() {
                    self.ended = true;
                } else if let Initial::CatchUp(version) = self.initial {
                    self.catch_up(version);
                } else {
                    self.take_page();
                    // A selector may exclude page after page.
                    self.compared = 0;
                    tokio::task::yield_now().await;
                }
                continue;
            }
            tokio::select! {
                () = &mut self.stopping => self.ended = true,
                () = &mut self.deadline => {
                    if self.bookmarks {
                        self.bookmark(None);
                    }
                    self.ended = true;
                }
                () = &mut self.next_bookmark, if self.bookmarks => {
                    self.seen = self.seen.max(self.cursor.position());
                    self.bookmark(None);
                    self.next_bookmark.as_mut().reset(Instant::now() + BOOKMARK_EVERY);
                }
                events = self.cursor.next() => self.take(events),
                Ok(()) = self.redefinitions.changed(), if self.resource.is_custom() => {
                    if !self.is_still_served() {
                        // Earlier changes are still sent.
                        if let Some(events) = self.cursor.next().now_or_never() {
                            self.take(events);
                        }
                        self.ended = true;
                    }
                }
            }
        }
    }

    /// Whether the timeout has passed or the server stops, for a client that still reads the initial state.
    fn is_over(&mut self) -> bool {
        self.deadline.deadline() <= Instant::now() || (&mut self.stopping).now_or_never().is_some()
    }

    fn take_page(&mut self) {
        let Initial::Page(start) = &self.initial else { return };
        let (storage, namespace) = (&self.resource.storage, self.selection.namespace.as_deref());
        let store = self.cluster.store();
        // All objects of a page are compared without yielding.
        let most = (MOST_COMPARISONS / self.selection.size().max(1)).clamp(1, PAGE_OBJECTS);
        let part = store.part(storage, namespace, None, start.as_ref(), Some(most));
        let ListPage { version, mut objects, remaining } = match part {
            Ok(part) => part,
            Err(old) => return self.expire(old),
        };
        if self.pages.0.is_empty()
            && let Ok(cursor) = store.watch(storage, version)
        {
            // Nothing has been sent yet: the events start after the first page.
            (self.cursor, self.seen) = (cursor, version);
        }
        let mut bytes = 0;
        let fitting = objects.iter().take_while(|object| {
            let is_first = bytes == 0;
            bytes += object.bytes.len();
            is_first || bytes <= PAGE_BYTES
        });
        let fitting = fitting.count();
        let is_last = remaining == 0 && fitting == objects.len();
        objects.truncate(fitting);
        let last = objects.last().filter(|_| !is_last);
        self.pages.push(last.map(AsRef::as_ref), version);
        self.initial = match last {
            Some(last) => Initial::Page(Some(ListStart::after(last))),
            None => Initial::CatchUp(version),
        };
        objects.retain(|object| self.selection.matches(object));
        let bytes = objects.iter().map(|object| object.bytes.len()).sum();
        if self.reserve(bytes) {
            self.pending = objects.into_iter().map(Pending::Added).collect();
        }
    }

    /// Sends changes of pages before the last one, then the end of the initial events.
    fn catch_up(&mut self, version: u64) {
        if self.seen < version
            && let Some(events) = self.cursor.next().now_or_never()
        {
            return self.take(events);
        }
        self.seen = self.seen.max(version);
        self.initial = Initial::Done;
        self.pages = Pages::default();
        if self.announces_end {
            let annotations = json!({"k8s.io/initial-events-end": "true"});
            self.bookmark(Some(annotations));
        }
    }

    fn take(&mut self, events: Result<Vec<Event>, TooOld>) {
        let events = match events {
            Ok(events) => events,
            Err(old) => return self.expire(old),
        };
        let size = |event: &Event| event.object.bytes.len();
        if self.reserve(events.iter().map(size).sum()) {
            self.pending = events.into_iter().map(Pending::Event).collect();
        }
    }

    /// Reserves the memory of the next pending changes; if refused, the watch ends with an error.
    fn reserve(&mut self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        let Some((level, flow)) = self.payer.filter(|_| bytes > BASE_BYTES) else { return true };
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
        now.zip(row.custom.as_ref()).is_some_and(|(now, then)| now.is_defined_as(then))
    }

    /// Returns the event type and object to send, if any.
    fn change(&mut self, pending: Pending) -> Option<(&'static str, Arc<Object>)> {
        let event = match pending {
            Pending::Added(object) => return Some(("ADDED", object)),
            Pending::Event(event) => event,
        };
        self.seen = event.version;
        if self.pages.show(&event.object, event.version) {
            return None;
        }
        let now = (event.kind != EventKind::Deleted).then_some(&event.object);
        let compared = event.previous.iter().chain(now).map(|object| self.selection.cost_of(object));
        self.compared = compared.fold(self.compared, usize::saturating_add);
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
    fn printer(&mut self) -> EventPrinter {
        let headers = !std::mem::replace(&mut self.columns_sent, true);
        EventPrinter {
            resource: self.resource.clone(),
            view: self.representation.view,
            include: self.include,
            headers,
            now: self.cluster.clock().now(),
        }
    }

    /// Encodes an event. A large event that is not sent as stored is encoded on the pool.
    async fn push(&mut self, kind: &'static str, object: Arc<Object>) {
        let (printer, bytes) = (self.printer(), object.bytes.len());
        let Some((_, flow)) =
            self.payer.filter(|_| bytes > self.cluster.inline_bytes() && !printer.is_copied(&object))
        else {
            return self.ready.push_back(printer.line(kind, &object));
        };
        let flow = self.cluster.pool().flow(flow);
        let expanded = (bytes as u64).saturating_mul(super::EXPANSION);
        let work = move |_: &governor::work::Ticket| printer.line(kind, &object);
        match self.cluster.pool().run(flow, expanded, super::DEADLINE, work).await {
            Ok(line) => self.ready.push_back(line),
            Err(error) => {
                // No event may follow one that was lost.
                self.pending.clear();
                self.fail(&ApiError::from_work(&error));
            }
        }
    }

    fn bookmark(&mut self, annotations: Option<Value>) {
        let mut metadata = json!({"resourceVersion": self.seen.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let mut object = json!({"kind": &*self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let shown = match self.representation.view {
            View::Table(version) => self.printer().table(&object, version),
            View::Metadata(version) | View::MetadataList(version) => {
                object["kind"] = "PartialObjectMetadata".into();
                object["apiVersion"] = format!("meta.k8s.io/{version}").into();
                Shown::Value(object)
            }
            View::Whole | View::Discovery(_) => Shown::Value(object),
        };
        self.ready.push_back(frame("BOOKMARK", &shown));
    }

    fn expire(&mut self, old: TooOld) {
        let message = format!("too old resource version: {} ({})", self.seen, old.oldest);
        self.fail(&ApiError::expired(message));
    }

    /// Ends the stream with an error event.
    fn fail(&mut self, error: &ApiError) {
        self.ready.push_back(frame("ERROR", &Shown::Value(error.status())));
        self.ended = true;
    }
}

/// Encoder of one event, usable from any thread.
struct EventPrinter {
    resource: Arc<Resource>,
    view: View,
    include: print::Include,
    /// Whether a Table includes its column definitions.
    headers: bool,
    now: jiff::Timestamp,
}

impl EventPrinter {
    /// Whether the object is sent as stored.
    fn is_copied(&self, object: &Object) -> bool {
        let is_whole = matches!(self.view, View::Whole | View::Discovery(_));
        is_whole && !differs(&self.resource, object)
    }

    fn table(&self, value: &Value, version: &'static str) -> Shown {
        let form = print::Form { include: self.include, version, headers: self.headers };
        Shown::Value(print::table_of(&self.resource, value, form, self.now))
    }

    fn line(&self, kind: &str, object: &Object) -> Bytes {
        let shown = match self.view {
            View::Table(version) => self.table(&super::convert::shown(&self.resource, object), version),
            View::Metadata(version) | View::MetadataList(version) => {
                Shown::Value(print::partial(&super::convert::shown(&self.resource, object), version))
            }
            View::Whole | View::Discovery(_) => show(&self.resource, object),
        };
        frame(kind, &shown)
    }
}

fn frame(kind: &str, object: &Shown) -> Bytes {
    let object: &[u8] = match object {
        Shown::Bytes(bytes) => bytes,
        Shown::Value(value) => &serde_json::to_vec(value).expect("a JSON value serialises"),
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
    query.bad_list.clone().map_or(Ok(()), Err)?;
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
    refuse("ListOptions", &errors)
}

#[cfg(test)]
mod tests;
