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

use super::queue::{Controller, Next};
use super::{Context, Failure};
use crate::store::{Change, CommitError, Event, EventKind, Expect, Key, Object, Op, Store};

const EVENTS: &str = "events";
const NAMESPACES: &str = "namespaces";
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);
const KEPT: usize = 10_000;
const KEPT_PER_NAMESPACE: usize = 1_000;
/// Excess over the limit that triggers a reconcile before its interval.
const SLACK: usize = 500;
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Maximum number of deletes in one transaction.
const AT_ONCE: usize = 500;

/// The owner to which the Events of a namespace are charged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Owner {
    Group(String),
    Namespace(String),
}

impl Owner {
    fn of(store: &Store, labels: &[String], namespace: &str) -> Self {
        let object = if labels.is_empty() { None } else { store.get(NAMESPACES, "", namespace) };
        let group = object.and_then(|object| {
            let mut values = labels.iter().filter_map(|label| object.label(label));
            values.find(|value| !value.is_empty()).map(str::to_owned)
        });
        group.map_or_else(|| Self::Namespace(namespace.to_owned()), Self::Group)
    }
}

/// Time of an Event's last write by the server's clock, and its namespace.
type Written<'a> = (Timestamp, &'a str);

/// Returns the indexes in `written` of Events to delete, oldest first: expired ones, the oldest of a namespace above its limit, and then
/// the oldest of the owners with the most.
fn decide(written: &[Written<'_>], now: Timestamp, owner: impl Fn(&str) -> Owner) -> Vec<usize> {
    let mut newest_first: Vec<usize> = (0..written.len()).collect();
    newest_first.sort_by_key(|at| std::cmp::Reverse((written[*at].0, *at)));
    // Index of the owner, and number of Events kept in the namespace.
    let mut namespaces: HashMap<&str, (usize, usize)> = HashMap::new();
    let mut owners: HashMap<Owner, usize> = HashMap::new();
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
        if now.duration_since(time) >= KEPT_FOR || *of_namespace >= KEPT_PER_NAMESPACE {
            unwanted.push(at);
        } else {
            *of_namespace = of_namespace.saturating_add(1);
            counts[*owner] = counts[*owner].saturating_add(1);
            kept.push((at, *owner));
        }
    }
    let mut share = Share::of(&counts, KEPT);
    let mut taken = vec![0_usize; counts.len()];
    for (at, owner) in kept {
        if share.allows(taken[owner]) {
            taken[owner] = taken[owner].saturating_add(1);
        } else {
            unwanted.push(at);
        }
    }
    unwanted.sort_by_key(|at| (written[*at].0, *at));
    unwanted
}

/// Fair share per owner of a total: owners with fewer Events keep all of theirs.
#[derive(Debug, PartialEq, Eq)]
struct Share {
    each: usize,
    /// Number of owners that may keep one more.
    more: usize,
}

impl Share {
    fn of(counts: &[usize], total: usize) -> Self {
        let mut ascending = counts.to_vec();
        ascending.sort_unstable();
        let mut left = total;
        for (at, count) in ascending.iter().enumerate() {
            let owners = ascending.len().saturating_sub(at);
            let each = left.checked_div(owners).unwrap_or(0);
            if *count > each {
                return Self { each, more: left.saturating_sub(each.saturating_mul(owners)) };
            }
            left = left.saturating_sub(*count);
        }
        Self { each: usize::MAX, more: 0 }
    }

    /// Whether an owner that keeps `taken` may keep one more.
    fn allows(&mut self, taken: usize) -> bool {
        if taken == self.each && self.more > 0 {
            self.more = self.more.saturating_sub(1);
            return true;
        }
        taken < self.each
    }
}

/// The controller; records when each version of an Event was first found. The times inside an Event are set by clients: one with a time in
/// the future would never expire, and displace Events of others.
#[derive(Default)]
pub(super) struct Expiry {
    found: Mutex<HashMap<u64, Timestamp>>,
}

impl Expiry {
    fn written<'a>(&self, events: &'a [Arc<Object>], now: Timestamp) -> Vec<Written<'a>> {
        let mut known = self.found.lock();
        let times: HashMap<u64, Timestamp> = events
            .iter()
            .map(|event| {
                (event.version, known.get(&event.version).copied().unwrap_or_else(|| first_found(event, now)))
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
fn first_found(event: &Object, now: Timestamp) -> Timestamp {
    last_seen(&event.value()).unwrap_or(now).min(now)
}

/// Returns the last time inside an Event, in either of its forms.
fn last_seen(event: &Value) -> Option<Timestamp> {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["deprecatedLastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.into_iter().filter_map(Value::as_str).filter_map(|time| time.parse().ok()).max()
}

fn all_events() -> Key {
    Key::new(&EVENTS.into(), "", "")
}

impl Controller for Expiry {
    fn everything(&self, _context: &Context) -> Vec<Key> {
        vec![all_events()]
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        if event.kind != EventKind::Added || storage.as_ref() != EVENTS || !keys.is_empty() {
            return;
        }
        let of_namespace = context.store.count(EVENTS, Some(&event.object.namespace));
        if of_namespace > KEPT_PER_NAMESPACE + SLACK || context.store.count(EVENTS, None) > KEPT + SLACK {
            keys.push(all_events());
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let events = context.store.list(EVENTS, None).objects;
        let now = context.clock.now();
        let owner = |namespace: &str| Owner::of(&context.store, &context.owner_labels, namespace);
        let unwanted = decide(&self.written(&events, now), now, owner);
        for some in unwanted.chunks(AT_ONCE) {
            let changes = some.iter().map(|at| Change {
                key: Key::new(&key.storage, &events[*at].namespace, &events[*at].name),
                expect: Expect::Version(events[*at].version),
                op: Op::Delete,
            });
            match context.store.commit(changes.collect()).await {
                // An Event was updated or deleted concurrently: retry.
                Err(CommitError::Moved(..)) => return Ok(Next::After(Duration::from_secs(1))),
                other => drop(other?),
            }
        }
        Ok(Next::After(LOOK_EVERY))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn alone(namespace: &str) -> Owner {
        Owner::Namespace(namespace.to_owned())
    }

    #[test]
    fn old_events_go_and_then_the_oldest_of_the_largest_owners() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let ago = |minutes: i64| (now - SignedDuration::from_mins(minutes), "n");
        assert_eq!(decide(&[ago(5), ago(60), ago(59), ago(600)], now, alone), [3, 1]);
        let of = |n: i64, namespace| (now - SignedDuration::from_millis(n), namespace);
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let many: Vec<_> =
            (0..10_002).map(|n| of(n, names[usize::try_from(n % 20).unwrap()].as_str())).collect();
        assert_eq!(decide(&many, now, alone), [KEPT + 1, KEPT]);
        // As many owners as the cluster may have Events: each keeps its newest.
        let names: Vec<String> = (0..KEPT + 50).map(|n| format!("n{n}")).collect();
        let many: Vec<_> = (0..).zip(&names).map(|(n, name)| of(n, name.as_str())).collect();
        let expected: Vec<usize> = (KEPT..KEPT + 50).rev().collect();
        assert_eq!(decide(&many, now, alone), expected);
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-02T01:00:00Z"}, "eventTime": null,
            "series": {"lastObservedTime": "2026-01-02T02:00:00.000001Z"}, "lastTimestamp": "2026-01-02T01:30:00Z",
        });
        assert_eq!(last_seen(&event), "2026-01-02T02:00:00.000001Z".parse().ok());
    }

    #[test]
    fn events_from_the_future_do_not_push_out_those_of_others() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let event = |n: u64, namespace: &str, time: &str| {
            let metadata = json!({"name": format!("e{n}"), "namespace": namespace});
            Arc::new(Object::new(json!({"metadata": metadata, "lastTimestamp": time}), n))
        };
        let hostile = (1..=12_000).map(|n| event(n, "hostile", "9999-12-01T00:00:00Z"));
        let events: Vec<_> = hostile.chain([event(20_000, "other", "2026-01-02T02:30:00Z")]).collect();
        let expiry = Expiry::default();
        let unwanted = decide(&expiry.written(&events, now), now, alone);
        assert_eq!(unwanted.len(), 11_000);
        assert!(!unwanted.contains(&12_000), "the Event of another namespace stays");
        let later = now + SignedDuration::from_mins(61);
        let unwanted = decide(&expiry.written(&events, later), later, alone);
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
        let mut events: Vec<Written<'_>> = names
            .iter()
            .flat_map(|name| (0..1_000).map(move |n| (now - SignedDuration::from_millis(n), name.as_str())))
            .collect();
        let fresh = events.len();
        let older = now - SignedDuration::from_mins(50);
        events.extend([(older, "old"); 50]);
        events.extend([(older, "without-object"); 50]);
        let unwanted = decide(&events, now, |namespace| Owner::of(&store, &labels, namespace));
        assert_eq!(unwanted.len(), 1_100, "ten thousand stay");
        assert!(unwanted.iter().all(|at| *at < fresh), "the Events of others stay");
        assert!(
            unwanted.iter().all(|at| events[*at].0 < now - SignedDuration::from_millis(800)),
            "the oldest go"
        );
    }

    #[test]
    fn share_leaves_small_owners_what_they_have() {
        for (counts, total, each, more) in [
            (&[][..], 10, usize::MAX, 0),
            (&[3, 7], 10, usize::MAX, 0),
            (&[11], 10, 10, 0),
            (&[1, 20, 20], 10, 4, 1),
            (&[5, 5, 5], 2, 0, 2),
        ] {
            assert_eq!(Share::of(counts, total), Share { each, more }, "{counts:?}");
        }
    }
}
