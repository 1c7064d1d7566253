//! Events do not stay: one hour after they were last seen they go, and beyond ten thousand the oldest do.

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
/// How far above the limit the number may go before it is looked at out of turn.
const SLACK: usize = 500;
const LOOK_EVERY: Duration = Duration::from_mins(1);
/// Removals in one transaction.
const AT_ONCE: usize = 500;

/// The places in `seen` (when each was last seen) that have to go. Pure.
fn decide(seen: &[Timestamp], now: Timestamp) -> Vec<usize> {
    let mut order: Vec<usize> = (0..seen.len()).collect();
    order.sort_by_key(|at| seen[*at]);
    let excess = seen.len().saturating_sub(KEPT);
    let expired = order.partition_point(|at| now.duration_since(seen[*at]) >= KEPT_FOR);
    order.truncate(excess.max(expired));
    order
}

/// When an Event was last seen, in either of its forms.
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

/// Remembers when each version was last seen, so that a look parses only what is new.
#[derive(Default)]
pub(super) struct Expiry {
    seen: Mutex<HashMap<u64, Timestamp>>,
}

impl Expiry {
    fn last_seen(&self, events: &[Arc<Object>], now: Timestamp) -> Vec<Timestamp> {
        let mut known = self.seen.lock();
        let times: Vec<_> = events
            .iter()
            .map(|event| {
                let found = known.get(&event.version).copied();
                found.unwrap_or_else(|| last_seen(&event.value()).unwrap_or(now))
            })
            .collect();
        *known = events.iter().map(|event| event.version).zip(times.iter().copied()).collect();
        times
    }
}

fn all_events() -> Key {
    Key::new(&EVENTS.into(), "", "")
}

impl Controller for Expiry {
    fn everything(&self, _context: &Context) -> Vec<Key> {
        vec![all_events()]
    }

    fn touched(&self, context: &Context, storage: &Arc<str>, event: &Event, keys: &mut Vec<Key>) {
        let added = event.kind == EventKind::Added && storage.as_ref() == EVENTS;
        if added && keys.is_empty() && context.store.count(EVENTS, None) > KEPT + SLACK {
            keys.push(all_events());
        }
    }

    async fn sync(&self, context: &Context, key: &Key) -> Result<Next, Failure> {
        let events = context.store.list(EVENTS, None).objects;
        let now = context.clock.now();
        let unwanted = decide(&self.last_seen(&events, now), now);
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
    fn the_old_go_and_then_the_oldest_beyond_the_limit() {
        let now: Timestamp = "2026-01-02T03:00:00Z".parse().unwrap();
        let ago = |minutes: i64| now - SignedDuration::from_mins(minutes);
        assert_eq!(decide(&[ago(5), ago(60), ago(59), ago(600)], now), [3, 1]);
        let many: Vec<_> = (0..10_002).map(|n| now - SignedDuration::from_millis(n)).collect();
        assert_eq!(decide(&many, now), [KEPT + 1, KEPT]);
        let event = json!({
            "metadata": {"creationTimestamp": "2026-01-02T01:00:00Z"}, "eventTime": null,
            "series": {"lastObservedTime": "2026-01-02T02:00:00.000001Z"}, "lastTimestamp": "2026-01-02T01:30:00Z",
        });
        assert_eq!(last_seen(&event), "2026-01-02T02:00:00.000001Z".parse().ok());
    }
}
