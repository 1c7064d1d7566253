//! Following a collection: a stream of events, one JSON document a line.
//!
//! A watch is a cursor into the store's history. What leaves the selection is told as DELETED with its last
//! selected content, what enters it as ADDED. Always true: a stream never skips a change; where history no
//! longer holds the next one, it says so (410) and ends. One of custom resources ends when their CRD changes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep, sleep_until};

use super::Call;
use super::convert::{Shown, show};
use super::read::parse_version;
use super::select::Selection;
use crate::cluster::Cluster;
use crate::error::{ApiError, Result};
use crate::field::{FieldError, Path};
use crate::http::negotiate::{Representation, View};
use crate::http::query::{Query, refuse};
use crate::print;
use crate::schema::resources::Resource;
use crate::store::{Event, EventKind, Object, TooOld, Watch};

const BOOKMARK_EVERY: Duration = Duration::from_secs(55);
/// As long as the longest default of Kubernetes.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);

/// An open watch; ask it for [`WatchStream::next`] until it ends.
pub struct WatchStream {
    cluster: Cluster,
    resource: Arc<Resource>,
    selection: Selection,
    representation: Representation,
    include: print::Include,
    bookmarks: bool,
    cursor: Watch,
    redefinitions: watch::Receiver<()>,
    /// The newest version that the client knows about or need not.
    seen: u64,
    ready: VecDeque<Bytes>,
    /// What may end the stream or fall due is waited for over its whole life: to begin anew after each event would
    /// cost every watcher more than the event.
    stopping: BoxFuture<'static, ()>,
    deadline: Pin<Box<Sleep>>,
    next_bookmark: Pin<Box<Sleep>>,
    columns_sent: bool,
    ended: bool,
}

/// Opens a watch, with the current state first where the request asks for it.
pub fn open(call: &Call) -> Result<WatchStream> {
    check_watch_options(&call.query)?;
    let selection = Selection::of(call)?;
    let store = call.cluster.store();
    let asked = parse_version(&call.query.resource_version).map_err(|error| {
        // Where a list answers 400, a watch of the same answers 500.
        let message = error.message.trim_start_matches("invalid resource version: ").to_owned();
        ApiError::new(500, "", message)
    })?;
    let initial = call.query.send_initial_events.unwrap_or(asked.unwrap_or(0) == 0);
    let lifetime = call.query.timeout_seconds.filter(|&s| s > 0).map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    let snapshot = initial.then(|| store.list(&call.resource.storage, selection.namespace.as_deref()));
    let from = match (&snapshot, asked) {
        (Some(snapshot), _) => snapshot.version,
        (None, Some(version)) if version > 0 => version,
        (None, _) => store.version(),
    };
    let now = Instant::now();
    let redefinitions = call.cluster.redefinitions();
    let (cursor, too_old) = match store.watch(&call.resource.storage, from) {
        Ok(cursor) => (cursor, None),
        // The stream still opens: the refusal is its only event.
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
        ready: VecDeque::new(),
        stopping: call.cluster.stopping().boxed(),
        deadline: Box::pin(sleep_until(now + lifetime)),
        next_bookmark: Box::pin(sleep_until(now + BOOKMARK_EVERY)),
        columns_sent: false,
        ended: false,
    };
    if let Some(old) = too_old {
        stream.expire(old);
    }
    for object in snapshot.into_iter().flat_map(|snapshot| snapshot.objects) {
        if stream.selection.matches(&object) {
            stream.push("ADDED", &object);
        }
    }
    if call.query.send_initial_events == Some(true) && stream.bookmarks {
        let annotations = json!({"k8s.io/initial-events-end": "true"});
        stream.bookmark(Some(annotations));
    }
    Ok(stream)
}

impl WatchStream {
    /// The next line, or the end.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
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
                        // What happened before is still told.
                        if let Some(events) = self.cursor.next().now_or_never() {
                            self.take(events);
                        }
                        self.ended = true;
                    }
                }
            }
        }
    }

    fn take(&mut self, events: Result<Vec<Event>, TooOld>) {
        match events {
            Ok(events) => events.iter().for_each(|event| self.tell(event)),
            Err(old) => self.expire(old),
        }
    }

    /// Whether the CRD still says what it said when the watch was opened.
    fn is_still_served(&self) -> bool {
        let (registry, row) = (self.cluster.registry(), &self.resource);
        let now = registry.get(&row.group, &row.version, &row.name).and_then(|now| now.custom.as_ref());
        now.zip(row.custom.as_ref()).is_some_and(|(now, then)| now.is_defined_as(then))
    }

    fn tell(&mut self, event: &Event) {
        self.seen = event.version;
        let before = event.previous.as_ref().filter(|object| self.selection.matches(object));
        let now = (event.kind != EventKind::Deleted).then_some(&event.object);
        let after = now.filter(|object| self.selection.matches(object));
        match (before, after) {
            (None, Some(object)) => self.push("ADDED", &object.clone()),
            (Some(_), Some(object)) => self.push("MODIFIED", &object.clone()),
            (Some(last), None) => {
                let last = last.at_version(event.version);
                self.push("DELETED", &last);
            }
            (None, None) => {}
        }
    }

    /// One object as a Table; only the first event says what its columns are.
    fn table(&mut self, value: &Value, version: &'static str) -> Shown {
        let form = print::Form { include: self.include, version, headers: !self.columns_sent };
        self.columns_sent = true;
        Shown::Value(print::table_of(&self.resource, value, form, self.cluster.clock().now()))
    }

    fn push(&mut self, kind: &str, object: &Object) {
        let line = match self.representation.view {
            View::Table(version) => {
                let value = super::convert::shown(&self.resource, object);
                frame(kind, &self.table(&value, version))
            }
            View::Metadata(version) | View::MetadataList(version) => {
                let value = print::partial(&super::convert::shown(&self.resource, object), version);
                frame(kind, &Shown::Value(value))
            }
            View::Whole | View::Discovery(_) => frame(kind, &show(&self.resource, object)),
        };
        self.ready.push_back(line);
    }

    fn bookmark(&mut self, annotations: Option<Value>) {
        let mut metadata = json!({"resourceVersion": self.seen.to_string()});
        if let Some(annotations) = annotations {
            metadata["annotations"] = annotations;
        }
        let mut object = json!({"kind": &*self.resource.kind, "apiVersion": self.resource.api_version(), "metadata": metadata});
        let shown = match self.representation.view {
            View::Table(version) => self.table(&object, version),
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
        let status = ApiError::expired(message).status();
        self.ready.push_back(frame("ERROR", &Shown::Value(status)));
        self.ended = true;
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
