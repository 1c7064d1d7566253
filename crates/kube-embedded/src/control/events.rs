//! The event recorder and its writer: Kubernetes Events about the work of controllers.
//!
//! Recording never blocks or fails the work. Repeated Events are counted on the existing
//! object. More than [`SIMILAR`] different messages for one reason become one Event. Too many Events of one component about one
//! object are dropped for a while.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::rest::Post;
use super::{Component, Context, Part};
use crate::clock::{rfc3339, rfc3339_micro};
use crate::store::Object;

/// Capacity of the queue; further Events are dropped.
const QUEUE: usize = 10_000;
/// Maximum number of concurrent writes.
const AT_ONCE: usize = 64;
/// Token bucket per component and object: burst, and seconds per further Event.
const BURST: f64 = 25.0;
const REFILL_SECONDS: f64 = 300.0;
/// How many different messages for one reason, within how long, before they are combined into one Event.
const SIMILAR: usize = 10;
const SIMILAR_WITHIN: SignedDuration = SignedDuration::from_mins(10);
const COMBINED: &str = "(combined from similar events): ";
/// Capacity of the correlation cache. The cache is cleared when full.
const REMEMBERED: usize = 4096;

/// The object that an Event regards.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct About {
    api_version: Cow<'static, str>,
    kind: Cow<'static, str>,
    namespace: String,
    name: String,
    uid: String,
    version: u64,
    field: String,
}

impl About {
    pub fn new(api_version: &'static str, kind: &'static str, object: &Object) -> Self {
        Self::typed(api_version.into(), kind.into(), object)
    }

    /// Refers to an object of any kind. Parses it: use [`Self::new`] if the kind is known.
    pub fn of(object: &Object) -> Self {
        let value = object.value();
        let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned().into();
        Self::typed(text("apiVersion"), text("kind"), object)
    }

    fn typed(api_version: Cow<'static, str>, kind: Cow<'static, str>, object: &Object) -> Self {
        Self {
            api_version,
            kind,
            namespace: object.namespace.to_string(),
            name: object.name.to_string(),
            uid: object.uid.to_string(),
            version: object.version,
            field: String::new(),
        }
    }

    /// Refers to a part of the object, such as `spec.containers{web}`.
    #[must_use]
    pub fn field(mut self, path: impl Into<String>) -> Self {
        self.field = path.into();
        self
    }

    fn reference(&self) -> Value {
        let mut reference = json!({
            "kind": self.kind, "name": self.name, "uid": self.uid, "apiVersion": self.api_version,
            "resourceVersion": self.version.to_string(),
        });
        for (key, value) in [("namespace", &self.namespace), ("fieldPath", &self.field)] {
            if !value.is_empty() {
                reference[key] = value.as_str().into();
            }
        }
        reference
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Normal,
    Warning,
}

/// An Event to record.
#[derive(Clone, Debug)]
pub struct Note {
    pub about: About,
    /// The reporting component, such as `deployment-controller`.
    pub component: &'static str,
    pub kind: Kind,
    pub reason: &'static str,
    pub message: String,
    /// The action of the newer form of Events (`Binding`); the scheduler uses it.
    pub action: Option<&'static str>,
    /// The node that the component runs on, if any.
    pub host: String,
}

/// Records Events: the sending side of the queue.
#[derive(Clone, Default)]
pub struct Recorder(Option<Arc<Open>>);

struct Open {
    notes: mpsc::Sender<Note>,
    /// Queued and not written yet.
    pending: AtomicUsize,
    post: Post,
}

/// The receiving side of the queue.
pub(super) struct Notes {
    incoming: mpsc::Receiver<Note>,
    open: Arc<Open>,
}

impl Recorder {
    pub(super) fn open(&mut self, post: Post) -> Notes {
        let (notes, incoming) = mpsc::channel(QUEUE);
        post.rests(u64::MAX, None);
        let open = Arc::new(Open { notes, pending: AtomicUsize::new(0), post });
        self.0 = Some(open.clone());
        Notes { incoming, open }
    }

    pub fn record(&self, note: Note) {
        let Some(open) = &self.0 else { return };
        open.pending.fetch_add(1, Ordering::SeqCst);
        open.post.works();
        if open.notes.try_send(note).is_err() {
            tracing::debug!("too many events wait: one is dropped");
            open.done(1);
        }
    }

    pub fn normal(
        &self,
        component: &'static str,
        about: About,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.say(component, about, Kind::Normal, reason, message.into());
    }

    pub fn warning(
        &self,
        component: &'static str,
        about: About,
        reason: &'static str,
        message: impl Into<String>,
    ) {
        self.say(component, about, Kind::Warning, reason, message.into());
    }

    fn say(&self, component: &'static str, about: About, kind: Kind, reason: &'static str, message: String) {
        self.record(Note { about, component, kind, reason, message, action: None, host: String::new() });
    }
}

impl Open {
    fn done(&self, count: usize) {
        if self.pending.fetch_sub(count, Ordering::SeqCst) == count {
            self.post.rests(u64::MAX, None);
        }
    }
}

/// Counts a batch as done when it is dropped, also by a panic.
struct Batch<'a>(&'a Open, usize);

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        self.0.done(self.1);
    }
}

pub(super) async fn run(context: Arc<Context>, notes: Arc<tokio::sync::Mutex<Notes>>) {
    let mut notes = notes.lock().await;
    let mut memory = Memory::default();
    let mut batch = Vec::with_capacity(AT_ONCE);
    loop {
        let taken = notes.incoming.recv_many(&mut batch, AT_ONCE).await;
        if taken == 0 {
            return;
        }
        let _batch = Batch(&notes.open, taken);
        let now = context.clock.now();
        // In the order of recording; writes of the same Event run one after the other.
        let mut tasks: Vec<Vec<Task>> = Vec::new();
        for task in batch.drain(..).filter_map(|note| memory.decide(note, now)) {
            match tasks.iter_mut().find(|same| same[0].name == task.name) {
                Some(same) => same.push(task),
                None => tasks.push(vec![task]),
            }
        }
        join_all(tasks.into_iter().map(|tasks| write(&context, tasks))).await;
    }
}

/// A write: an Event with this name, seen for the `count`th time.
struct Task {
    name: String,
    note: Note,
    count: u32,
    first: Timestamp,
    now: Timestamp,
}

async fn write(context: &Context, tasks: Vec<Task>) {
    for task in tasks {
        let found = context.store.get("events", task.namespace(), &task.name);
        let written = match found {
            Some(event) if task.count > 1 => {
                let mut event = event.value();
                event["count"] = task.count.into();
                event["lastTimestamp"] = rfc3339(task.now).into();
                event["message"] = task.note.message.as_str().into();
                context.actor.update(Component::ControllerManager, Part::Main, event).await
            }
            _ => context.actor.create(Component::ControllerManager, task.event()).await,
        };
        if let Err(error) = written {
            // The namespace may be terminating, which is expected.
            tracing::debug!(%error, "an event is not written");
        }
    }
}

impl Task {
    /// Events about cluster-scoped objects are in `default`.
    fn namespace(&self) -> &str {
        match self.note.about.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }

    fn event(&self) -> Value {
        let Note { about, component, kind, reason, message, action, host } = &self.note;
        let kind = match kind {
            Kind::Normal => "Normal",
            Kind::Warning => "Warning",
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
type Said = (About, &'static str, Kind, &'static str, String);
/// The same key without the message.
type Why = (About, &'static str, Kind, &'static str);

#[derive(Default)]
struct Memory {
    said: HashMap<Said, (String, u32, Timestamp)>,
    /// The different messages for one reason, and the time of the last one.
    similar: HashMap<Why, (BTreeSet<String>, Timestamp)>,
    /// Remaining tokens per component and object uid, and the time of the calculation.
    buckets: HashMap<(&'static str, String), (f64, Timestamp)>,
    serial: u64,
}

impl Memory {
    /// Returns the write for an Event; `None` if the rate limit is exceeded.
    fn decide(&mut self, mut note: Note, now: Timestamp) -> Option<Task> {
        if self.said.len() > REMEMBERED {
            self.said.clear();
            self.buckets.clear();
            self.similar.clear();
        }
        let bucket = self.buckets.entry((note.component, note.about.uid.clone())).or_insert((BURST, now));
        let refilled = now.duration_since(bucket.1).as_secs_f64() / REFILL_SECONDS;
        *bucket = ((bucket.0 + refilled).min(BURST), now);
        if bucket.0 < 1.0 {
            return None;
        }
        bucket.0 -= 1.0;
        // The resourceVersion of the regarded object is not part of the key.
        let about = About { version: 0, ..note.about.clone() };
        let message = if note.action.is_none() && self.is_one_too_many(&note, &about, now) {
            note.message.insert_str(0, COMBINED);
            String::new()
        } else {
            note.message.clone()
        };
        let said = (about, note.component, note.kind, note.reason, message);
        self.serial += 1;
        let unique = u64::try_from(now.as_nanosecond()).unwrap_or_default().wrapping_add(self.serial);
        let fresh = || (format!("{}.{unique:x}", note.about.name), 0, now);
        // Events of the newer form are not counted.
        let (name, count, first) = match note.action {
            Some(_) => fresh(),
            None => self.said.get(&said).cloned().unwrap_or_else(fresh),
        };
        let count = count + 1;
        if note.action.is_none() {
            self.said.insert(said, (name.clone(), count, first));
        }
        Some(Task { name, note, count, first, now })
    }

    /// Whether too many different messages for the same reason have been recorded recently.
    fn is_one_too_many(&mut self, note: &Note, about: &About, now: Timestamp) -> bool {
        let about = About { field: String::new(), ..about.clone() };
        let why = (about, note.component, note.kind, note.reason);
        let (said, last) = self.similar.entry(why).or_insert((BTreeSet::new(), now));
        if now.duration_since(*last) > SIMILAR_WITHIN {
            said.clear();
        }
        *last = now;
        said.insert(note.message.clone());
        let too_many = said.len() >= SIMILAR;
        if too_many {
            said.pop_first();
        }
        too_many
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(message: &str) -> Note {
        let object = Object::new(json!({"metadata": {"namespace": "n", "name": "a", "uid": "u"}}), 1);
        let about = About::new("v1", "Pod", &object);
        let message = message.to_owned();
        Note {
            about,
            component: "c",
            kind: Kind::Normal,
            reason: "R",
            message,
            action: None,
            host: String::new(),
        }
    }

    #[test]
    fn what_is_said_again_is_counted_and_a_chatterer_is_stopped() {
        let mut memory = Memory::default();
        let now = Timestamp::UNIX_EPOCH;
        let first = memory.decide(note("x"), now).unwrap();
        let second = memory.decide(note("x"), now).unwrap();
        let other = memory.decide(note("y"), now).unwrap();
        assert_eq!((first.count, second.count, other.count), (1, 2, 1));
        assert_eq!(first.name, second.name);
        assert_ne!(first.name, other.name);
        assert_eq!((0..30).filter(|_| memory.decide(note("x"), now).is_some()).count(), 22);
        let later = now + jiff::SignedDuration::from_secs(301);
        assert!(memory.decide(note("x"), later).is_some());
        assert!(memory.decide(note("x"), later).is_none());
    }

    #[test]
    fn ten_ways_to_say_it_become_one() {
        let mut memory = Memory::default();
        let now = Timestamp::UNIX_EPOCH;
        let said: Vec<_> = (0..12).map(|n| memory.decide(note(&n.to_string()), now).unwrap()).collect();
        assert_eq!((said[8].note.message.as_str(), said[8].count), ("8", 1));
        assert_eq!((said[9].note.message.as_str(), said[9].count), ("(combined from similar events): 9", 1));
        assert_eq!(
            (said[11].note.message.as_str(), said[11].count),
            ("(combined from similar events): 11", 3)
        );
        assert_eq!(said[9].name, said[11].name);
        let later = now + SignedDuration::from_secs(601);
        assert_eq!(memory.decide(note("y"), later).unwrap().note.message, "y");
    }
}
