//! The event recorder and its writer: Kubernetes Events about the work of controllers.
//!
//! Recording never blocks or fails the work. Repeated Events are counted on the existing
//! object. More than [`SIMILAR_LIMIT`] different messages for one reason become one Event. Too many Events of one component about one
//! object are dropped for a while.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::idle::IdleHandle;
use super::{Component, Context, ObjectPart};
use crate::clock::{rfc3339, rfc3339_micro};
use crate::store::Object;

/// Capacity of the queue; further Events are dropped.
const QUEUE_CAPACITY: usize = 10_000;
/// Maximum number of concurrent writes.
const MAX_CONCURRENT_WRITES: usize = 64;
/// Token bucket per component and object: burst, and seconds per further Event.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// How many different messages for one reason, within how long, before they are combined into one Event.
const SIMILAR_LIMIT: usize = 10;
const SIMILAR_WINDOW: SignedDuration = SignedDuration::from_mins(10);
const COMBINED_PREFIX: &str = "(combined from similar events): ";
/// Capacity of the correlation cache. The cache is cleared when full.
const CACHE_CAPACITY: usize = 4096;

/// The object that an Event regards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InvolvedObject {
    api_version: Cow<'static, str>,
    kind: Cow<'static, str>,
    namespace: String,
    name: String,
    uid: String,
    resource_version: u64,
    field_path: String,
}

impl InvolvedObject {
    pub fn new(api_version: &'static str, kind: &'static str, object: &Object) -> Self {
        Self::from_parts(api_version.into(), kind.into(), object)
    }

    /// Refers to an object of any kind. Parses it: use [`Self::new`] if the kind is known.
    pub fn from_object(object: &Object) -> Self {
        let value = object.value();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned().into();
        Self::from_parts(text("apiVersion"), text("kind"), object)
    }

    fn from_parts(api_version: Cow<'static, str>, kind: Cow<'static, str>, object: &Object) -> Self {
        Self {
            api_version,
            kind,
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
            uid: object.uid.to_string(),
            resource_version: object.version,
            field_path: String::new(),
        }
    }

    /// Refers to a part of the object, such as `spec.containers{web}`.
    #[must_use]
    pub fn with_field_path(mut self, path: impl Into<String>) -> Self {
        self.field_path = path.into();
        self
    }

    fn reference(&self) -> Value {
        let mut reference = json!({
            "kind": self.kind, "name": self.name, "uid": self.uid, "apiVersion": self.api_version,
            "resourceVersion": self.resource_version.to_string(),
        });
        for (key, value) in [("namespace", &self.namespace), ("fieldPath", &self.field_path)] {
            if !value.is_empty() {
                reference[key] = value.as_str().into();
            }
        }
        reference
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    Normal,
    Warning,
}

/// An Event to record.
#[derive(Clone, Debug)]
pub struct EventRecord {
    pub involved_object: InvolvedObject,
    /// The reporting component, such as `deployment-controller`.
    pub component: &'static str,
    pub event_type: EventType,
    pub reason: &'static str,
    pub message: String,
    /// The action of the newer form of Events (`Binding`); the scheduler uses it.
    pub action: Option<&'static str>,
    /// The node that the component runs on, if any.
    pub host: String,
}

/// Records Events: the sending side of the queue.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<RecorderInner>>);

struct RecorderInner {
    sender: mpsc::Sender<EventRecord>,
    /// Queued and not written yet.
    pending: AtomicUsize,
    idle_handle: IdleHandle,
}

/// The receiving side of the queue.
pub(super) struct EventReceiver {
    incoming: mpsc::Receiver<EventRecord>,
    recorder: Arc<RecorderInner>,
}

impl Recorder {
    pub(super) fn open(&mut self, post: IdleHandle) -> EventReceiver {
        let (notes, incoming) = mpsc::channel(QUEUE_CAPACITY);
        post.set_idle(u64::MAX, None);
        let open = Arc::new(RecorderInner { sender: notes, pending: AtomicUsize::new(0), idle_handle: post });
        self.0 = Some(open.clone());
        EventReceiver { incoming, recorder: open }
    }

    pub fn record(&self, note: EventRecord) {
        let Some(open) = &self.0 else { return };
        open.pending.fetch_add(1, Ordering::SeqCst);
        open.idle_handle.set_busy();
        if open.sender.try_send(note).is_err() {
            tracing::debug!("too many events wait: one is dropped");
            open.mark_written(1);
        }
    }

    pub fn normal(
        &self,
        component: &'static str,
        about: InvolvedObject,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.record_event(component, about, EventType::Normal, reason, message.into());
    }

    pub fn warning(
        &self,
        component: &'static str,
        about: InvolvedObject,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.record_event(component, about, EventType::Warning, reason, message.into());
    }

    fn record_event(
        &self,
        component: &'static str,
        about: InvolvedObject,
        kind: EventType,
        reason: &'static str,
        message: String,
    ) {
        self.record(EventRecord {
            involved_object: about,
            component,
            event_type: kind,
            reason,
            message,
            action: None,
            host: String::new(),
        });
    }
}

impl RecorderInner {
    fn mark_written(&self, count: usize) {
        if self.pending.fetch_sub(count, Ordering::SeqCst) == count {
            self.idle_handle.set_idle(u64::MAX, None);
        }
    }
}

/// Counts a batch as done when it is dropped, also by a panic.
struct PendingBatch<'a>(&'a RecorderInner, usize);

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        self.0.mark_written(self.1);
    }
}

pub(super) async fn run(context: Arc<Context>, notes: Arc<tokio::sync::Mutex<EventReceiver>>) {
    let mut notes = notes.lock().await;
    let mut memory = EventCorrelator::default();
    let mut batch = Vec::with_capacity(MAX_CONCURRENT_WRITES);
    loop {
        let taken = notes.incoming.recv_many(&mut batch, MAX_CONCURRENT_WRITES).await;
        if taken == 0 {
            return;
        }
        let _batch = PendingBatch(&notes.recorder, taken);
        let now = context.clock.now();
        // In the order of recording; writes of the same Event run one after the other.
        let mut tasks: Vec<Vec<EventWrite>> = Vec::new();
        for task in batch.drain(..).filter_map(|note| memory.correlate(note, now)) {
            match tasks.iter_mut().find(|same| same[0].name == task.name) {
                Some(same) => same.push(task),
                None => tasks.push(vec![task]),
            }
        }
        join_all(tasks.into_iter().map(|tasks| write(&context, tasks))).await;
    }
}

/// A write: an Event with this name, seen for the `count`th time.
struct EventWrite {
    name: String,
    record: EventRecord,
    count: u32,
    first: Timestamp,
    now: Timestamp,
}

async fn write(context: &Context, tasks: Vec<EventWrite>) {
    for task in tasks {
        let found = context.store.get("events", task.namespace(), &task.name);
        let written = match found {
            Some(event) if task.count > 1 => {
                let mut event = event.value();
                event["count"] = task.count.into();
                event["lastTimestamp"] = rfc3339(task.now).into();
                event["message"] = task.record.message.as_str().into();
                context.client.update(Component::ControllerManager, ObjectPart::Main, event).await
            }
            _ => context.client.create(Component::ControllerManager, task.event()).await,
        };
        if let Err(error) = written {
            // The namespace may be terminating, which is expected.
            tracing::debug!(%error, "an event is not written");
        }
    }
}

impl EventWrite {
    /// Events about cluster-scoped objects are in `default`.
    fn namespace(&self) -> &str {
        match self.record.involved_object.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }

    fn event(&self) -> Value {
        let EventRecord {
            involved_object: about,
            component,
            event_type: kind,
            reason,
            message,
            action,
            host,
        } = &self.record;
        let kind = match kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        };
        let mut event = json!({
            "kind": "Event", "apiVersion": "v1",
            "metadata": {"name": self.name, "namespace": self.namespace()},
            "involvedObject": about.reference(), "reason": reason, "message": message, "type": kind,
            "reportingComponent": component, "reportingInstance": host,
        });
        let more = match action {
            Some(action) => json!({
                "eventTime": rfc3339_micro(self.now), "action": action, "source": {},
                "reportingInstance": format!("{component}-longshore"),
            }),
            None => json!({
                "source": {"component": component}, "count": self.count,
                "firstTimestamp": rfc3339(self.first), "lastTimestamp": rfc3339(self.now),
            }),
        };
        for (key, value) in more.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        if !host.is_empty() && action.is_none() {
            event["source"]["host"] = host.as_str().into();
        }
        event
    }
}

/// The key by which Events are equal.
type EventKey = (InvolvedObject, &'static str, EventType, &'static str, String);
/// The same key without the message.
type ReasonKey = (InvolvedObject, &'static str, EventType, &'static str);

#[derive(Default)]
struct EventCorrelator {
    counts: HashMap<EventKey, (String, u32, Timestamp)>,
    /// The different messages for one reason, and the time of the last one.
    messages: HashMap<ReasonKey, (BTreeSet<String>, Timestamp)>,
    /// Remaining tokens per component and object uid, and the time of the calculation.
    buckets: HashMap<(&'static str, String), (f64, Timestamp)>,
    serial: u64,
}

impl EventCorrelator {
    /// Returns the write for an Event; `None` if the rate limit is exceeded.
    fn correlate(&mut self, mut note: EventRecord, now: Timestamp) -> Option<EventWrite> {
        if self.counts.len() > CACHE_CAPACITY {
            self.counts.clear();
            self.buckets.clear();
            self.messages.clear();
        }
        let bucket =
            self.buckets.entry((note.component, note.involved_object.uid.clone())).or_insert((BURST, now));
        let refilled = now.duration_since(bucket.1).as_secs_f64() / REFILL_SECONDS;
        *bucket = ((bucket.0 + refilled).min(BURST), now);
        if bucket.0 < 1.0 {
            return None;
        }
        bucket.0 -= 1.0;
        // The resourceVersion of the regarded object is not part of the key.
        let about = InvolvedObject { resource_version: 0, ..note.involved_object.clone() };
        let message = if note.action.is_none() && self.exceeds_similar_limit(&note, &about, now) {
            note.message.insert_str(0, COMBINED_PREFIX);
            String::new()
        } else {
            note.message.clone()
        };
        let count_key = (about, note.component, note.event_type, note.reason, message);
        self.serial += 1;
        let unique = u64::try_from(now.as_nanosecond()).unwrap_or_default().wrapping_add(self.serial);
        let fresh = || (format!("{}.{unique:x}", note.involved_object.name), 0, now);
        // Events of the newer form are not counted.
        let (name, count, first) = match note.action {
            Some(_) => fresh(),
            None => self.counts.get(&count_key).cloned().unwrap_or_else(fresh),
        };
        let count = count + 1;
        if note.action.is_none() {
            self.counts.insert(count_key, (name.clone(), count, first));
        }
        Some(EventWrite { name, record: note, count, first, now })
    }

    /// Whether too many different messages for the same reason have been recorded recently.
    fn exceeds_similar_limit(&mut self, note: &EventRecord, about: &InvolvedObject, now: Timestamp) -> bool {
        let about = InvolvedObject { field_path: String::new(), ..about.clone() };
        let why = (about, note.component, note.event_type, note.reason);
        let (said, last) = self.messages.entry(why).or_insert((BTreeSet::new(), now));
        if now.duration_since(*last) > SIMILAR_WINDOW {
            said.clear();
        }
        *last = now;
        said.insert(note.message.clone());
        let too_many = said.len() >= SIMILAR_LIMIT;
        if too_many {
            said.pop_first();
        }
        too_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> EventRecord {
        let object = Object::new(json!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}}), 1);
        let about = InvolvedObject::new("v1", "Pod", &object);
        let message = message.to_owned();
        EventRecord {
            involved_object: about,
            component: "c",
            event_type: EventType::Normal,
            reason: "R",
            message,
            action: None,
            host: String::new(),
        }
    }

    #[test]
    fn repeated_events_are_counted_and_rate_limited() {
        let mut memory = EventCorrelator::default();
        let now = Timestamp::UNIX_EPOCH;
        let first = memory.correlate(note("x"), now).unwrap();
        let second = memory.correlate(note("x"), now).unwrap();
        let other = memory.correlate(note("y"), now).unwrap();
        assert_eq!((first.count, second.count, other.count), (1, 2, 1));
        assert_eq!(first.name, second.name);
        assert_ne!(first.name, other.name);
        assert_eq!((0..30).filter(|_| memory.correlate(note("x"), now).is_some()).count(), 22);
        let later = now + jiff::SignedDuration::from_secs(301);
        assert!(memory.correlate(note("x"), later).is_some());
        assert!(memory.correlate(note("x"), later).is_none());
    }

    #[test]
    fn similar_events_are_combined() {
        let mut memory = EventCorrelator::default();
        let now = Timestamp::UNIX_EPOCH;
        let said: Vec<_> = (0..12).map(|n| memory.correlate(note(&n.to_string()), now).unwrap()).collect();
        assert_eq!((said[8].record.message.as_str(), said[8].count), ("8", 1));
        assert_eq!(
            (said[9].record.message.as_str(), said[9].count),
            ("(combined from similar events): 9", 1)
        );
        assert_eq!(
            (said[11].record.message.as_str(), said[11].count),
            ("(combined from similar events): 11", 3)
        );
        assert_eq!(said[9].name, said[11].name);
        let later = now + SignedDuration::from_secs(601);
        assert_eq!(memory.correlate(note("y"), later).unwrap().record.message, "y");
    }
}
