//! Events do not stay: one hour after they were last written they go, and beyond ten thousand the oldest do. A namespace
//! keeps a thousand at most, so that no tenant pushes out the Events of another.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::Value;

use super::queue::{Controller, Next};
use super::{Context, Failure};
use crate::store::{Change, CommitError, Event, EventKind, Expect, Key, Object, Op};

const EVENTS: &str = "events";
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(1);
const KEPT: usize = 10_000;
const KEPT_PER_NAMESPACE: usize = 1_000;
/// How far above the limit the number may go before it is looked at out of turn.
const SLACK: usize = 500;
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Removals in one transaction.
const AT_ONCE: usize = 500;

/// When an Event was last written, by the server's clock, and in which namespace.
type Written<'a> = (Timestamp, &'a str);

/// The places in `written` that have to go: what is too old; of the rest the oldest of a namespace that has more than
/// its share; and at last the oldest of all. Pure.
fn decide(written: &[Written<'_>], now: Timestamp) -> Vec<usize> {
    let mut newest_first: Vec<usize> = (0..written.len()).collect();
    newest_first.sort_by_key(|at| std::cmp::Reverse((written[*at].0, *at)));
    let mut per_namespace: HashMap<&str, usize> = HashMap::new();
    let mut kept = 0_usize;
    let mut unwanted: Vec<usize> = Vec::new();
    for at in newest_first {
        let (time, namespace) = written[at];
        let of_namespace = per_namespace.entry(namespace).or_default();
        let expired = now.duration_since(time) >= KEPT_FOR;
        if expired || *of_namespace >= KEPT_PER_NAMESPACE || kept >= KEPT {
            unwanted.push(at);
        } else {
            *of_namespace = of_namespace.saturating_add(1);
            kept = kept.saturating_add(1);
        }
    }
    unwanted.reverse();
    unwanted
}

/// Remembers when each version of an Event was first found. The times that an Event carries are its author's: one from
/// the future would never expire, and push out those of others.
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

/// For a version that is seen for the first time: after a restart it may be as old as the Event says, but it is not
/// newer than now.
fn first_found(event: &Object, now: Timestamp) -> Timestamp {
    last_seen(&event.value()).unwrap_or(now).min(now)
}

/// When an Event was last seen, in either of its forms, by its author.
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
        let unwanted = decide(&self.written(&events, now), now);
        for some in unwanted.chunks(AT_ONCE) {
            let changes = some.iter().map(|at| Change {
                key: Key::new(&key.storage, &events[*at].namespace, &events[*at].name),
                expect: Expect::Version(events[*at].version),
                op: Op::Delete,
            });
            match context.store.commit(changes.collect()).await {
                // One was seen again meanwhile, or is gone: the next look finds out.
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

    #[test]
    fn the_old_go_and_then_the_oldest_beyond_the_limits() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let ago = |minutes: i64| (now - SignedDuration::from_mins(minutes), "n");
        assert_eq!(decide(&[ago(5), ago(60), ago(59), ago(600)], now), [3, 1]);
        let of = |n: i64, namespace| (now - SignedDuration::from_millis(n), namespace);
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        let many: Vec<_> =
            (0..10_002).map(|n| of(n, names[usize::try_from(n % 20).unwrap()].as_str())).collect();
        assert_eq!(decide(&many, now), [KEPT + 1, KEPT]);
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
        let unwanted = decide(&expiry.written(&events, now), now);
        assert_eq!(unwanted.len(), 11_000);
        assert!(!unwanted.contains(&12_000), "the Event of another namespace stays");
        let later = now + SignedDuration::from_mins(61);
        assert_eq!(
            decide(&expiry.written(&events, later), later).len(),
            12_001,
            "the server's clock decides"
        );
    }
}
