//! Event expiry: deletes Events one hour after their last write.
//!
//! A namespace keeps at most a thousand Events, and the cluster ten thousand. Above that the oldest Events of the owner with the most are
//! deleted, so that no tenant displaces Events of others. All namespaces with the same value of the first label in
//! [`Context::owner_labels`] have one owner.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use super::queue::{Action, Controller};
use super::{Context, ReconcileError};
use crate::store::{Change, CommitError, Event, EventKind, Expect, Key, Object, Op, Store};

const EVENTS: &str = "events";
const NAMESPACES: &str = "namespaces";
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
const MAX_EVENTS: usize = 10_000;
const MAX_EVENTS_PER_NAMESPACE: usize = 1_000;
/// Excess over the limit that triggers a reconcile before its interval.
const EXCESS_BEFORE_RECONCILE: usize = 500;
const CHECK_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of deletes in one transaction.
const MAX_DELETES_PER_TRANSACTION: usize = 500;

/// The owner to which the Events of a namespace are charged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum EventOwner {
    Group(String),
    Namespace(String),
}

impl EventOwner {
    fn for_namespace(store: &Store, labels: &[String], namespace: &str) -> Self {
        let object = if labels.is_empty() { None } else { store.get(NAMESPACES, "", namespace) };
        let group = object.and_then(|object| {
            let mut values = labels.iter().filter_map(|label| object.label(label));
            values.find(|value| !value.is_empty()).map(str::to_owned)
        });
        group.map_or_else(|| Self::Namespace(namespace.to_owned()), Self::Group)
    }
}

/// Time of an Event's last write by the server's clock, and its namespace.
type WrittenEvent<'a> = (Timestamp, &'a str);

/// Returns the indexes in `written` of Events to delete, oldest first: expired ones, the oldest of a namespace above its limit, and then
/// the oldest of the owners with the most.
fn events_to_delete(
    written: &[WrittenEvent<'_>],
    now: Timestamp,
    owner: impl Fn(&str) -> EventOwner,
) -> Vec<usize> {
    let mut newest_first: Vec<usize> = (0..written.len()).collect();
    newest_first.sort_by_key(|at| std::cmp::Reverse((written[*at].0, *at)));
    // Index of the owner, and number of Events kept in the namespace.
    let mut namespaces: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut owners: HashMap<EventOwner, usize> = HashMap::new();
    let mut counts: Vec<usize> = Vec::new();
    let (mut kept, mut unwanted) = (Vec::new(), Vec::new());
    for at in newest_first {
        let (time, namespace) = written[at];
        let (owner, of_namespace) = namespaces.entry(namespace).or_insert_with(|| {
            let next = owners.len();
            let number = *owners.entry(owner(namespace)).or_insert(next);
            counts.resize(owners.len(), 0);
            (number, 0)
        });
        if now.duration_since(time) >= EVENT_TTL || *of_namespace >= MAX_EVENTS_PER_NAMESPACE {
            unwanted.push(at);
        } else {
            *of_namespace = of_namespace.saturating_add(1);
            counts[*owner] = counts[*owner].saturating_add(1);
            kept.push((at, *owner));
        }
    }
    let mut share = FairShare::new(&counts, MAX_EVENTS);
    let mut taken = vec![0_usize; counts.len()];
    for (at, owner) in kept {
        if share.take(taken[owner]) {
            taken[owner] = taken[owner].saturating_add(1);
        } else {
            unwanted.push(at);
        }
    }
    unwanted.sort_by_key(|at| (written[*at].0, *at));
    unwanted
}

/// Fair share per owner of a total: owners with fewer Events keep all of them.
#[derive(Debug, PartialEq, Eq)]
struct FairShare {
    per_owner: usize,
    /// Number of owners that may keep one more.
    remainder: usize,
}

impl FairShare {
    fn new(counts: &[usize], total: usize) -> Self {
        let mut ascending = counts.to_vec();
        ascending.sort_unstable();
        let mut left = total;
        for (at, count) in ascending.iter().enumerate() {
            let owners = ascending.len().saturating_sub(at);
            let each = left.checked_div(owners).unwrap_or(0);
            if *count > each {
                return Self { per_owner: each, remainder: left.saturating_sub(each.saturating_mul(owners)) };
            }
            left = left.saturating_sub(*count);
        }
        Self { per_owner: usize::MAX, remainder: 0 }
    }

    /// Whether an owner that keeps `taken` may keep one more.
    fn take(&mut self, taken: usize) -> bool {
        if taken == self.per_owner && self.remainder > 0 {
            self.remainder = self.remainder.saturating_sub(1);
            return true;
        }
        taken < self.per_owner
    }
}

/// The controller; records when each version of an Event was first found. The times inside an Event are set by clients: one with a time in
/// the future would never expire, and displace Events of others.
#[derive(Default)]
pub(super) struct EventTtl {
    first_seen: Mutex<HashMap<u64, Timestamp>>,
}

impl EventTtl {
    fn written_events<'a>(&self, events: &'a [Arc<Object>], now: Timestamp) -> Vec<WrittenEvent<'a>> {
        let mut known = self.first_seen.lock();
        let times: HashMap<u64, Timestamp> = events
            .iter()
            .map(|event| {
                (
                    event.version,
                    known.get(&event.version).copied().unwrap_or_else(|| initial_time(event, now)),
                )
            })
            .collect();
        *known = times;
        events
            .iter()
            .map(|event| (known.get(&event.version).copied().unwrap_or(now), event.namespace.as_ref()))
            .collect()
    }
}

/// Returns the time for a version found for the first time: after a restart the Event's own time, but never a future one.
fn initial_time(event: &Object, now: Timestamp) -> Timestamp {
    last_timestamp(&event.value()).unwrap_or(now).min(now)
}

/// Returns the last time inside an Event, in either of its forms.
fn last_timestamp(event: &Value) -> Option<Timestamp> {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().filter_map(Value::as_str).filter_map(|time| time.parse().ok()).max()
}

fn all_events_key() -> Key {
    Key::new(&EVENTS.into(), "", "")
}

impl Controller for EventTtl {
    fn initial_keys(&self, _context: &Context) -> Vec<Key> {
        vec![all_events_key()]
    }

    fn keys_for_event(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if event.kind != EventKind::Added || storage.as_ref() != EVENTS || !keys.is_empty() {
            return;
        }
        let of_namespace = context.store.count(EVENTS, Some(&event.object.namespace));
        if of_namespace > MAX_EVENTS_PER_NAMESPACE + EXCESS_BEFORE_RECONCILE
            || context.store.count(EVENTS, None) > MAX_EVENTS + EXCESS_BEFORE_RECONCILE
        {
            keys.push(all_events_key());
        }
    }

    async fn reconcile(&self, context: &Context, key: &Key) -> Result<Action, ReconcileError> {
        let events = context.store.list(EVENTS, None).objects;
        let now = context.clock.now();
        let owner =
            |namespace: &str| EventOwner::for_namespace(&context.store, &context.owner_labels, namespace);
        let unwanted = events_to_delete(&self.written_events(&events, now), now, owner);
        for some in unwanted.chunks(MAX_DELETES_PER_TRANSACTION) {
            let changes = some.iter().map(|at| Change {
                key: Key::new(&key.storage, &events[*at].namespace, &events[*at].name),
                expect: Expect::Version(events[*at].version),
                op: Op::Delete,
            });
            match context.store.commit(changes.collect()).await {
                // An Event was updated or deleted concurrently: retry.
                Err(CommitError::Conflict(..)) => return Ok(Action::RequeueAfter(Duration::from_secs(1))),
                other => drop(other?),
            }
        }
        Ok(Action::RequeueAfter(CHECK_INTERVAL))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn namespace_owner(namespace: &str) -> EventOwner {
        EventOwner::Namespace(namespace.to_owned())
    }

    #[test]
    fn events_expire_by_age_then_oldest_of_the_largest_owners() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let ago = |minutes: i64| (now - SignedDuration::from_mins(minutes), "n");
        assert_eq!(events_to_delete(&[ago(5), ago(60), ago(59), ago(600)], now, namespace_owner), [3, 1]);
        let of = |n: i64, namespace| (now - SignedDuration::from_millis(n), namespace);
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let many: Vec<_> =
            (0..10_002).map(|n| of(n, names[usize::try_from(n % 20).unwrap()].as_str())).collect();
        assert_eq!(events_to_delete(&many, now, namespace_owner), [MAX_EVENTS + 1, MAX_EVENTS]);
        // As many owners as the cluster may have Events: each keeps its newest.
        let names: Vec<String> = (0..MAX_EVENTS + 50).map(|n| format!("n{n}")).collect();
        let many: Vec<_> = (0..).zip(&names).map(|(n, name)| of(n, name.as_str())).collect();
        let expected: Vec<usize> = (MAX_EVENTS..MAX_EVENTS + 50).rev().collect();
        assert_eq!(events_to_delete(&many, now, namespace_owner), expected);
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-02T01:00:00Z"}, "eventTime": null,
            "series": {"lastObservedTime": "2026-01-02T02:00:00.000001Z"}, "lastTimestamp": "2026-01-02T01:30:00Z",
        });
        assert_eq!(last_timestamp(&event), "2026-01-02T02:00:00.000001Z".parse().ok());
    }

    #[test]
    fn events_with_future_times_do_not_displace_those_of_others() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let event = |n: u64, namespace: &str, time: &str| {
            let metadata = json!({"name": format!("e{n}"), "namespace": namespace});
            Arc::new(Object::new(json!({"metadata": metadata, "lastTimestamp": time}), n))
        };
        let hostile = (1..=12_000).map(|n| event(n, "hostile", "9999-12-01T00:00:00Z"));
        let events: Vec<_> = hostile.chain([event(20_000, "other", "2026-01-02T02:30:00Z")]).collect();
        let expiry = EventTtl::default();
        let unwanted = events_to_delete(&expiry.written_events(&events, now), now, namespace_owner);
        assert_eq!(unwanted.len(), 11_000);
        assert!(!unwanted.contains(&12_000), "the Event of another namespace stays");
        let later = now + SignedDuration::from_mins(61);
        let unwanted = events_to_delete(&expiry.written_events(&events, later), later, namespace_owner);
        assert_eq!(unwanted.len(), 12_001, "the server's clock decides");
    }

    #[tokio::test]
    async fn fresh_events_in_many_namespaces_of_an_account_do_not_push_out_older_ones_of_another() {
        let store = Store::in_memory();
        let labels = ["account".to_owned(), "workspace".to_owned()];
        let namespace = |name: String, labels: Value| {
            let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
            Change {
                key: Key::new(&NAMESPACES.into(), "", &name),
                expect: Expect::Absent,
                op: Op::Put(object),
            }
        };
        let hostile = (0..11)
            .map(|n| namespace(format!("h{n}"), json!({"account": "h", "workspace": format!("w{n}")})));
        let old = namespace("old".to_owned(), json!({"workspace": "old"}));
        store.commit(hostile.chain([old]).collect()).await.unwrap();

        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let names: Vec<String> = (0..11).map(|n| format!("h{n}")).collect();
        let mut events: Vec<WrittenEvent<'_>> = names
            .iter()
            .flat_map(|name| (0..1_000).map(move |n| (now - SignedDuration::from_millis(n), name.as_str())))
            .collect();
        let fresh = events.len();
        let older = now - SignedDuration::from_mins(50);
        events.extend([(older, "old"); 50]);
        events.extend([(older, "without-object"); 50]);
        let unwanted =
            events_to_delete(&events, now, |namespace| EventOwner::for_namespace(&store, &labels, namespace));
        assert_eq!(unwanted.len(), 1_100, "ten thousand stay");
        assert!(unwanted.iter().all(|at| *at < fresh), "the Events of others stay");
        assert!(
            unwanted.iter().all(|at| events[*at].0 < now - SignedDuration::from_millis(800)),
            "the oldest go"
        );
    }

    #[test]
    fn fair_share_keeps_all_events_of_small_owners() {
        for (counts, total, each, more) in [
            (&[][..], 10, usize::MAX, 0),
            (&[3, 7], 10, usize::MAX, 0),
            (&[11], 10, 10, 0),
            (&[1, 20, 20], 10, 4, 1),
            (&[5, 5, 5], 2, 0, 2),
        ] {
            assert_eq!(
                FairShare::new(counts, total),
                FairShare { per_owner: each, remainder: more },
                "{counts:?}"
            );
        }
    }
}
